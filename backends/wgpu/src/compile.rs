//! One kernel: from its specification to a pipeline.
//!
//! ```text
//! specification ─ render ─▶ WGSL ─ naga ─▶ SPIR-V or MSL ─ driver ─▶ pipeline
//!                             └─ key ─▶ cache: the lowered text, the driver's own form
//! ```
//! What enters: a specification. What leaves: a kernel that can be dispatched. Decided: on Vulkan, and on Metal with
//! passthrough, text is lowered here and handed over as it is, so that a cached one skips naga; elsewhere wgpu translates
//! the WGSL. What the driver made of a kernel is kept where wgpu can ask for it, which is on Vulkan; a driver that refuses
//! its own blob is asked again without.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kiln_array::kernel::KernelSpec;
use kiln_array::warm::Origin;
use kiln_array::{Error, ErrorKind, Result};
use kiln_shaders::{Binding, ENTRY, GROUP_SIZE, Msl, Target};

use crate::adapter;
use crate::cache::{Cache, Entry, hash};
use crate::error::{Gpu, lock};
use crate::hash::FastHash;
use crate::params::{ParamLayouts, ParamSize};
use crate::times::{KernelTimes, Stopwatch};

/// Makes WGSL of a specification: `kiln_shaders::render`, and where tests put something else.
pub(crate) type Render = fn(&KernelSpec, Target) -> Result<String, kiln_shaders::Error>;

/// The language in which kernels are handed to wgpu.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// WGSL, which wgpu translates for the driver.
    Wgsl,
    /// SPIR-V for Vulkan, past wgpu's translation.
    Spirv,
    /// MSL for Metal, past wgpu's translation.
    Msl,
}

/// Which storage bindings a kernel has: bit I is set where binding I is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bindings {
    pub(crate) count: u32,
    written: u64,
}

impl Bindings {
    fn of(spec: &KernelSpec) -> Self {
        let mut bindings = Self { count: 0, written: 0 };
        for binding in kiln_shaders::bindings(spec) {
            bindings.written |= u64::from(binding == Binding::Write) << bindings.count;
            bindings.count += 1;
        }
        bindings
    }

    /// Whether a binding is written.
    pub(crate) fn is_written(self, binding: u32) -> bool {
        self.written >> binding & 1 == 1
    }
}

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) bindings: Bindings,
    pub(crate) param_size: ParamSize,
    /// Where it came from.
    pub(crate) origin: Origin,
    /// The key of its text in the cache.
    pub(crate) key: u128,
    /// Whether the program has used it.
    pub(crate) used: AtomicBool,
}

/// Why a kernel could not be made.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether it can never be made: naga refuses its text. Anything else may pass.
    pub(crate) stays: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, stays: false }
    }
}

/// Makes kernels on one device.
pub(crate) struct Compiler {
    render: Render,
    target: Target,
    source: Source,
    layouts: Mutex<HashMap<Bindings, wgpu::BindGroupLayout, FastHash>>,
    pub(crate) param_layouts: ParamLayouts,
    pub(crate) cache: Option<Arc<Cache>>,
}

impl Compiler {
    pub(crate) fn new(render: Render, target: Target, source: Source, cache: Option<Arc<Cache>>) -> Self {
        Self { render, target, source, layouts: Mutex::default(), param_layouts: ParamLayouts::default(), cache }
    }

    /// Text, module, pipeline.
    pub(crate) fn build(&self, gpu: &Gpu, spec: &KernelSpec, label: &str) -> Result<(Kernel, KernelTimes), Failure> {
        let watch = Stopwatch::start();
        let wgsl = (self.render)(spec, self.target).map_err(|error| refusal(label, error.to_string()))?;
        self.build_text(gpu, spec, label, &wgsl, watch).map_err(|error| {
            // wgpu tells of a text that naga refuses and of a driver at its limit in the same way.
            let stays = matches!(error.kind(), ErrorKind::Kernel { .. }) && kiln_shaders::check(&wgsl).is_err();
            Failure { error, stays }
        })
    }

    /// Module and pipeline of a text that was begun when `watch` was started.
    fn build_text(
        &self,
        gpu: &Gpu,
        spec: &KernelSpec,
        label: &str,
        wgsl: &str,
        mut watch: Stopwatch,
    ) -> Result<(Kernel, KernelTimes)> {
        let words = spec.param_names().len();
        let param_size = ParamSize::of(words)
            .ok_or_else(|| refusal(label, format!("its {words} words of parameters do not fit a uniform binding")))?;
        let bindings = Bindings::of(spec);
        let limit = adapter::max_arrays(&gpu.device.limits());
        if bindings.count > limit.min(u64::BITS) {
            let message = format!("it has {} storage buffers, the device's limit is {limit}", bindings.count);
            return Err(refusal(label, message));
        }
        let refused = |error: Error| match error.kind() {
            ErrorKind::Backend { message, .. } => refusal(label, message.clone()),
            _ => error,
        };
        let layout = self.layout(gpu, bindings).map_err(refused)?;
        let key = self.cache.as_ref().map_or(0, |_| hash(wgsl.as_bytes()));
        let known = self.cache.as_ref().and_then(|cache| cache.get(key)).unwrap_or_default();
        let render = watch.lap();

        let lowered = self.lower(gpu, spec, label, wgsl, &known).map_err(refused)?;
        let module_time = watch.lap();

        let create = |cache: Option<&wgpu::PipelineCache>| {
            let params = self.param_layouts.get(gpu, param_size)?;
            gpu.scoped("compile", || {
                let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: Some(label),
                    bind_group_layouts: &[Some(&params), Some(&layout)],
                    immediate_size: 0,
                });
                gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some(label),
                    layout: Some(&pipeline_layout),
                    module: &lowered.module,
                    entry_point: Some(&lowered.entry),
                    compilation_options: wgpu::PipelineCompilationOptions {
                        // Our kernels write workgroup memory before they read it.
                        zero_initialize_workgroup_memory: false,
                        ..Default::default()
                    },
                    cache,
                })
            })
        };
        let mut driver_hit = false;
        let mut blob = Vec::new();
        let keeps_blobs = self.cache.is_some() && gpu.device.features().contains(wgpu::Features::PIPELINE_CACHE);
        let pipeline = if keeps_blobs {
            let fill = |data: Option<&[u8]>| pipeline_cache(gpu, data);
            let (pipeline, fresh) = by_blob(&known.blob, fill, |cache| create(Some(cache))).map_err(refused)?;
            driver_hit = fresh.is_none();
            blob = fresh.and_then(|cache| cache.get_data()).unwrap_or_default();
            pipeline
        } else {
            create(None).map_err(refused)?
        };
        if let Some(cache) = &self.cache {
            let counters = cache.counters();
            let text = self.source != Source::Wgsl;
            count(text && lowered.cached, text, &counters.text_hits, &counters.text_misses);
            count(driver_hit, keeps_blobs, &counters.driver_hits, &counters.driver_misses);
            let blob = if driver_hit { known.blob } else { blob };
            if (text && !lowered.cached) || (keeps_blobs && !driver_hit && !blob.is_empty()) {
                let text = if lowered.cached { known.text } else { lowered.text };
                cache.put(key, Entry { text, blob });
                Cache::save_soon(cache);
            }
        }
        let origin = match (lowered.cached, driver_hit) {
            (_, true) => Origin::CachedDriver,
            (true, false) => Origin::CachedText,
            (false, false) => Origin::Compiled,
        };
        let pipeline_time = watch.lap();
        log::debug!("kiln: {label}: {origin}; text {render:?}, naga {module_time:?}, driver {pipeline_time:?}");
        let times =
            KernelTimes { kernel: label.to_owned(), origin, render, module: module_time, pipeline: pipeline_time };
        let used = AtomicBool::new(false);
        Ok((Kernel { pipeline, layout, bindings, param_size, origin, key, used }, times))
    }

    /// The module, from the cache's text if it has one.
    fn lower(&self, gpu: &Gpu, spec: &KernelSpec, label: &str, wgsl: &str, known: &Entry) -> Result<Lowered> {
        let refuse = |error: kiln_shaders::Error| refusal(label, error.to_string());
        match self.source {
            Source::Wgsl => {
                let module = gpu.scoped("compile", || create_module(&gpu.device, label, wgsl.to_owned()))?;
                Ok(Lowered { module, entry: ENTRY.to_owned(), text: Vec::new(), cached: false })
            }
            Source::Spirv => {
                let kept = words(&known.text);
                let cached = kept.is_some();
                let spirv = kept.map_or_else(|| kiln_shaders::spirv(wgsl, self.target).map_err(refuse), Ok)?;
                let text = if cached || self.cache.is_none() { Vec::new() } else { bytes(&spirv) };
                let add = |module: &mut wgpu::ShaderModuleDescriptorPassthrough<'_>| module.spirv = Some(spirv.into());
                let module = gpu.scoped("compile", || create_lowered_module(&gpu.device, label, ENTRY, add))?;
                Ok(Lowered { module, entry: ENTRY.to_owned(), text, cached })
            }
            Source::Msl => {
                // The entry point's name stands before the text.
                let kept = str::from_utf8(&known.text).ok().and_then(|text| text.split_once('\n'));
                let kept = kept.map(|(entry, text)| Msl { entry: entry.to_owned(), text: text.to_owned() });
                let cached = kept.is_some();
                let Msl { text, entry } =
                    kept.map_or_else(|| kiln_shaders::metal_passthrough(spec, wgsl).map_err(refuse), Ok)?;
                let kept = if cached { Vec::new() } else { format!("{entry}\n{text}").into_bytes() };
                let add = |module: &mut wgpu::ShaderModuleDescriptorPassthrough<'_>| module.msl = Some(text.into());
                let module = gpu.scoped("compile", || create_lowered_module(&gpu.device, label, &entry, add))?;
                Ok(Lowered { module, entry, text: kept, cached })
            }
        }
    }

    /// The layout of storage bindings, shared by all kernels with the same ones.
    fn layout(&self, gpu: &Gpu, bindings: Bindings) -> Result<wgpu::BindGroupLayout> {
        let mut layouts = lock(&self.layouts);
        if let Some(layout) = layouts.get(&bindings) {
            return Ok(layout.clone());
        }
        let layout = gpu.scoped("compile", || {
            let entries: Vec<_> = (0..bindings.count)
                .map(|binding| wgpu::BindGroupLayoutEntry {
                    binding,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer {
                        ty: wgpu::BufferBindingType::Storage { read_only: !bindings.is_written(binding) },
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                })
                .collect();
            let descriptor = wgpu::BindGroupLayoutDescriptor { label: Some("kiln.arrays"), entries: &entries };
            gpu.device.create_bind_group_layout(&descriptor)
        })?;
        layouts.insert(bindings, layout.clone());
        Ok(layout)
    }
}

/// A kernel as wgpu takes it.
struct Lowered {
    module: wgpu::ShaderModule,
    entry: String,
    /// The lowered text, if the cache does not have it.
    text: Vec<u8>,
    cached: bool,
}

/// A pipeline by way of what the driver made of it before, if there is something; else, or where the driver does not want
/// that, by way of an empty cache, which then holds what is to be kept.
fn by_blob<C, P>(
    blob: &[u8],
    fill: impl Fn(Option<&[u8]>) -> Result<C>,
    create: impl Fn(&C) -> Result<P>,
) -> Result<(P, Option<C>)> {
    if !blob.is_empty()
        && let Ok(pipeline) = fill(Some(blob)).and_then(|cache| create(&cache))
    {
        return Ok((pipeline, None));
    }
    let empty = fill(None)?;
    create(&empty).map(|pipeline| (pipeline, Some(empty)))
}

fn count(hit: bool, asked: bool, hits: &std::sync::atomic::AtomicU64, misses: &std::sync::atomic::AtomicU64) {
    if asked {
        if hit { hits } else { misses }.fetch_add(1, Ordering::Relaxed);
    }
}

/// SPIR-V as it is kept.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The words of SPIR-V that was kept; `None` for what is none.
fn words(bytes: &[u8]) -> Option<Vec<u32>> {
    const MAGIC: u32 = 0x0723_0203;
    let words: Vec<u32> = bytes.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes)).collect();
    (bytes.len().is_multiple_of(4) && words.first() == Some(&MAGIC)).then_some(words)
}

/// The error of a kernel that does not compile.
pub(crate) fn refusal(label: &str, message: String) -> Error {
    ErrorKind::Kernel { kernel: label.to_owned(), message }.into()
}

fn create_module(device: &wgpu::Device, label: &str, wgsl: String) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor { label: Some(label), source: wgpu::ShaderSource::Wgsl(wgsl.into()) };
    // SAFETY: the text comes from `kiln_shaders::render` alone, whose kernels keep these rules: every index into a
    // storage or workgroup array is guarded by the lengths in the parameters, which planners keep within the buffers
    // bound; every loop is finite; integer divisors are guarded; workgroup memory is written before it is read.
    unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) }
}

/// A module of text that wgpu hands to the driver as it is; `add` puts the text in.
fn create_lowered_module<'a>(
    device: &wgpu::Device,
    label: &'a str,
    entry: &'a str,
    add: impl FnOnce(&mut wgpu::ShaderModuleDescriptorPassthrough<'a>),
) -> wgpu::ShaderModule {
    let entry_points =
        vec![wgpu::PassthroughShaderEntryPoint { name: entry.into(), workgroup_size: (GROUP_SIZE, 1, 1) }];
    let mut descriptor = wgpu::ShaderModuleDescriptorPassthrough {
        label: Some(label),
        entry_points: entry_points.into(),
        ..Default::default()
    };
    add(&mut descriptor);
    // SAFETY: naga's translation of WGSL that keeps the rules above, with decorations and execution modes alone added, made
    // by this process or, under a checksum, by one of
    // the same Kiln, naga, device and driver. SPIR-V's bindings are numbered from 0 without a gap, as wgpu expects them;
    // MSL's buffer slots are those of the layout, and `metal_passthrough` changed where threadgroup variables are declared.
    unsafe { device.create_shader_module_passthrough(descriptor) }
}

fn pipeline_cache(gpu: &Gpu, data: Option<&[u8]>) -> Result<wgpu::PipelineCache> {
    gpu.scoped("compile", || {
        // A blob that wgpu or the driver refuses is an error here, so that it is made again.
        let descriptor = wgpu::PipelineCacheDescriptor { label: Some("kiln"), data, fallback: data.is_none() };
        // SAFETY: the data are what `get_data` gave for this kernel on this adapter and driver: the cache's checksum and
        // environment say so before they come here.
        unsafe { gpu.device.create_pipeline_cache(&descriptor) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data by which a pipeline came about, and those of the cache that is to be kept.
    type Made = (Vec<u8>, Option<Vec<u8>>);

    /// What comes of a blob with a driver that refuses some at once, and others with the pipeline; how often it was asked.
    fn attempt(blob: &[u8], unfilled: &[&[u8]], uncreated: &[&[u8]]) -> (Option<Made>, usize) {
        let attempts = std::cell::Cell::new(0);
        let no = || refusal("map", "no".to_owned());
        let fill = |data: Option<&[u8]>| {
            attempts.set(attempts.get() + 1);
            let data = data.unwrap_or_default();
            if unfilled.contains(&data) { Err(no()) } else { Ok(data.to_vec()) }
        };
        let create = |cache: &Vec<u8>| if uncreated.contains(&&cache[..]) { Err(no()) } else { Ok(cache.clone()) };
        (by_blob(blob, fill, create).ok(), attempts.get())
    }

    #[test]
    fn h05_what_a_driver_does_not_want_is_left_out() {
        let (good, bad, empty): (&[u8], &[u8], &[u8]) = (b"good", b"bad", b"");
        let anew = Some((Vec::new(), Some(Vec::new())));
        assert_eq!(attempt(good, &[bad], &[bad]), (Some((good.to_vec(), None)), 1));
        assert_eq!(attempt(bad, &[bad], &[]), (anew.clone(), 2), "refused at once");
        assert_eq!(attempt(bad, &[], &[bad]), (anew.clone(), 2), "refused with the pipeline");
        assert_eq!(attempt(empty, &[bad], &[bad]), (anew, 1), "nothing was kept");
        // A kernel that cannot be made at all is an error, and a driver without caches, too.
        assert_eq!(attempt(good, &[], &[good, empty]), (None, 2));
        assert_eq!(attempt(bad, &[bad, empty], &[]), (None, 2));
    }
}
