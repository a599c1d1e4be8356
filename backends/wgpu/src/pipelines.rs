//! Kernels, compiled once each. The one file with `unsafe`.
//!
//! What enters: kernel specifications. What leaves: pipelines. Decided: a specification maps to a cell that is filled
//! by whoever comes first; others that need it wait for that compile and no lock is held meanwhile. Modules are made
//! without wgpu's run-time checks, since our own kernels carry theirs. A kernel that does not compile stays failed,
//! with the compiler's words.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use kiln_array::kernel::KernelSpec;
use kiln_array::{Error, ErrorKind, Result};
use kiln_shaders::{Binding, ENTRY, GROUP_SIZE, Msl, Target};

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
}

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) bindings: Bindings,
    pub(crate) param_size: ParamSize,
}

type Cell = Arc<OnceLock<Result<Arc<Kernel>>>>;

/// All kernels of a device.
pub(crate) struct Pipelines {
    render: Render,
    target: Target,
    source: Source,
    cells: RwLock<HashMap<Arc<KernelSpec>, Cell, FastHash>>,
    layouts: Mutex<HashMap<Bindings, wgpu::BindGroupLayout, FastHash>>,
    pub(crate) param_layouts: ParamLayouts,
    compiled: AtomicU64,
    log: Mutex<Vec<KernelTimes>>,
}

impl Pipelines {
    pub(crate) fn new(render: Render, target: Target, source: Source) -> Self {
        Self {
            render,
            target,
            source,
            cells: RwLock::default(),
            layouts: Mutex::default(),
            param_layouts: ParamLayouts::default(),
            compiled: AtomicU64::new(0),
            log: Mutex::default(),
        }
    }

    /// The kernel of a specification, compiled by this call if by none before.
    pub(crate) fn get(&self, gpu: &Gpu, spec: &Arc<KernelSpec>) -> Result<Arc<Kernel>> {
        let known = self.cells.read().unwrap_or_else(PoisonError::into_inner).get(spec).cloned();
        let cell = known.unwrap_or_else(|| {
            let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
            cells.entry(spec.clone()).or_default().clone()
        });
        let kernel = cell.get_or_init(|| self.compile(gpu, spec));
        if let Err(error) = kernel
            && !matches!(error.kind(), ErrorKind::Kernel { .. })
        {
            // Out of memory, or a lost device: not the kernel's fault, so the next call may try again.
            let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
            if cells.get(spec).is_some_and(|current| Arc::ptr_eq(current, &cell)) {
                cells.remove(spec);
            }
        }
        kernel.clone()
    }

    /// How many kernels were compiled, failed ones included.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }

    /// The phases of each compile, in order of completion.
    pub(crate) fn log(&self) -> Vec<KernelTimes> {
        lock(&self.log).clone()
    }

    fn compile(&self, gpu: &Gpu, spec: &KernelSpec) -> Result<Arc<Kernel>> {
        gpu.health.check()?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let label = spec.label();
        // naga and drivers' compilers have panicked on valid text before; a panic must not take the program along.
        let built = catch_unwind(AssertUnwindSafe(|| self.build(gpu, spec, &label)))
            .unwrap_or_else(|panic| Err(refusal(&label, panic_message(panic.as_ref()))));
        let (kernel, times) = built?;
        lock(&self.log).push(times);
        Ok(Arc::new(kernel))
    }

    /// Text, module, pipeline.
    fn build(&self, gpu: &Gpu, spec: &KernelSpec, label: &str) -> Result<(Kernel, KernelTimes)> {
        let mut watch = Stopwatch::start();
        let wgsl = (self.render)(spec, self.target).map_err(|error| refusal(label, error.to_string()))?;
        let render = watch.lap();

        let words = spec.param_names().len();
        let param_size = ParamSize::of(words)
            .ok_or_else(|| refusal(label, format!("its {words} words of parameters do not fit a uniform binding")))?;
        let bindings = Bindings::of(spec);
        let limit = gpu.device.limits().max_storage_buffers_per_shader_stage;
        if bindings.count > limit.min(u64::BITS) {
            let message = format!("it has {} storage buffers, the device's limit is {limit}", bindings.count);
            return Err(refusal(label, message));
        }
        let layout = self.layout(gpu, bindings);

        let refused = |error: Error| match error.kind() {
            ErrorKind::Backend { message, .. } => refusal(label, message.clone()),
            _ => error,
        };
        let (module, entry) = match self.source {
            Source::Wgsl => {
                let module = gpu.scoped("compile", || create_module(&gpu.device, label, wgsl)).map_err(refused)?;
                (module, ENTRY.to_owned())
            }
            Source::Msl => {
                let msl = kiln_shaders::metal_passthrough(spec, &wgsl);
                let Msl { text, entry } = msl.map_err(|error| refusal(label, error.to_string()))?;
                let module = gpu.scoped("compile", || create_msl_module(&gpu.device, label, text, &entry));
                (module.map_err(refused)?, entry)
            }
        };
        let module_time = watch.lap();

        let pipeline = gpu
            .scoped("compile", || {
                let params = self.param_layouts.get(&gpu.device, param_size);
                let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: Some(label),
                    bind_group_layouts: &[Some(&params), Some(&layout)],
                    immediate_size: 0,
                });
                gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some(label),
                    layout: Some(&pipeline_layout),
                    module: &module,
                    entry_point: Some(&entry),
                    compilation_options: wgpu::PipelineCompilationOptions {
                        // Our kernels write workgroup memory before they read it.
                        zero_initialize_workgroup_memory: false,
                        ..Default::default()
                    },
                    cache: None,
                })
            })
            .map_err(refused)?;
        let times = KernelTimes { kernel: label.to_owned(), render, module: module_time, pipeline: watch.lap() };
        Ok((Kernel { pipeline, layout, bindings, param_size }, times))
    }

    /// The layout of storage bindings, shared by all kernels with the same ones.
    fn layout(&self, gpu: &Gpu, bindings: Bindings) -> wgpu::BindGroupLayout {
        let mut layouts = lock(&self.layouts);
        let create = || {
            let entries: Vec<_> = (0..bindings.count)
                .map(|binding| wgpu::BindGroupLayoutEntry {
                    binding,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer {
                        ty: wgpu::BufferBindingType::Storage { read_only: bindings.written >> binding & 1 == 0 },
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                })
                .collect();
            let descriptor = wgpu::BindGroupLayoutDescriptor { label: Some("kiln.arrays"), entries: &entries };
            gpu.device.create_bind_group_layout(&descriptor)
        };
        layouts.entry(bindings).or_insert_with(create).clone()
    }
}

/// The error of a kernel that does not compile.
fn refusal(label: &str, message: String) -> Error {
    ErrorKind::Kernel { kernel: label.to_owned(), message }.into()
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the compiler panicked: {}", message.unwrap_or("no message"))
}

fn create_module(device: &wgpu::Device, label: &str, wgsl: String) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor { label: Some(label), source: wgpu::ShaderSource::Wgsl(wgsl.into()) };
    // SAFETY: the text comes from `kiln_shaders::render` alone, whose kernels keep these rules: every index into a
    // storage or workgroup array is guarded by the lengths in the parameters, which planners keep within the buffers
    // bound; every loop is finite; integer divisors are guarded; workgroup memory is written before it is read.
    unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) }
}

fn create_msl_module(device: &wgpu::Device, label: &str, text: String, entry: &str) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
        label: Some(label),
        entry_points: vec![wgpu::PassthroughShaderEntryPoint {
            name: entry.into(),
            workgroup_size: (GROUP_SIZE, 1, 1),
        }]
        .into(),
        msl: Some(text.into()),
        ..Default::default()
    };
    // SAFETY: the text is naga's translation of the WGSL above, whose rules it keeps; `metal_passthrough` changes where
    // threadgroup variables are declared, and its buffer slots are those of the pipeline's layout.
    unsafe { device.create_shader_module_passthrough(descriptor) }
}
