//! Which device, and what planners may know of it.
//!
//! What enters: [`Options`]. What leaves: an open wgpu device, its [`DeviceInfo`] and [`Caps`]. Decided: a discrete GPU
//! comes before an integrated one and that before any other; a graphics API run by the CPU is taken only when asked
//! for, by name or by [`Options::allow_software`]. The device gets all the limits that its adapter has, and of its
//! features those that keep compiled kernels and read in place; no kernel needs one.

use std::sync::Mutex;

use kiln_array::{Caps, DeviceInfo, DeviceKind, Dtype, ErrorKind, Result};

use crate::batch::MAX_GROUPS;
#[cfg(not(target_arch = "wasm32"))]
use crate::cache::CacheOptions;
use crate::compile::Source;
#[cfg(not(target_arch = "wasm32"))]
use crate::controls;
use crate::error::lock;
use crate::params::CHUNK;
use crate::times::{OpenTimes, Stopwatch};

/// Which device to open.
#[derive(Clone, Debug)]
pub struct Options {
    /// The graphics APIs to look at.
    pub backends: wgpu::Backends,
    /// A part of the adapter's name, in any case, or its number in [`devices`].
    pub adapter: Option<String>,
    /// Whether a graphics API run by the CPU will do where there is no GPU.
    pub allow_software: bool,
    /// Whether kernels go to Metal as Kiln's own text, past wgpu's translation; see
    /// [`metal_passthrough`](Self::metal_passthrough).
    pub metal_passthrough: bool,
    /// Threads that compile behind the program what it used before, from the moment the device is open; half of the
    /// machine's cores, and none on a single one, if `None`.
    pub warm_up_threads: Option<usize>,
    /// Where and whether compiled kernels are kept.
    #[cfg(not(target_arch = "wasm32"))]
    pub cache: CacheOptions,
}

impl Default for Options {
    /// Any GPU, no warm-up, nothing kept: what is warmed and kept is the choice of whoever opens the device.
    fn default() -> Self {
        Self {
            backends: wgpu::Backends::all(),
            adapter: None,
            allow_software: false,
            metal_passthrough: false,
            warm_up_threads: Some(0),
            #[cfg(not(target_arch = "wasm32"))]
            cache: CacheOptions::off(),
        }
    }
}

impl Options {
    /// Any GPU.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only these graphics APIs.
    #[must_use]
    pub fn backends(mut self, backends: wgpu::Backends) -> Self {
        self.backends = backends;
        self
    }

    /// The adapter whose name contains `adapter`, in any case, or that has this number in [`devices`].
    #[must_use]
    pub fn adapter(mut self, adapter: impl Into<String>) -> Self {
        self.adapter = Some(adapter.into());
        self
    }

    /// A graphics API run by the CPU will do where there is no GPU.
    #[must_use]
    pub fn allow_software(mut self, allow: bool) -> Self {
        self.allow_software = allow;
        self
    }

    /// On Metal, kernels are handed over as text that asks for safe math and declares its threadgroup memory, where
    /// wgpu would compile with fast math. Nothing changes on other backends. Opening fails on a Metal device that does not
    /// take such text.
    #[must_use]
    pub fn metal_passthrough(mut self, passthrough: bool) -> Self {
        self.metal_passthrough = passthrough;
        self
    }
}

/// An open device and how it came to be.
pub(crate) struct Opened {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) info: wgpu::AdapterInfo,
    /// The language in which kernels are handed over.
    pub(crate) source: Source,
    pub(crate) times: OpenTimes,
}

/// The adapters of this machine: GPUs and graphics APIs run by the CPU. [`Options::adapter`] takes their numbers.
pub async fn devices() -> Vec<DeviceInfo> {
    let adapters = adapters(&instance(wgpu::Backends::all()), wgpu::Backends::all()).await;
    adapters.iter().map(|adapter| device_info(&adapter.get_info())).collect()
}

/// The instance of these graphics APIs: made once and never dropped. Making one loads drivers, which takes longer than
/// everything else together, and some drivers deadlock when threads make and drop instances at the same time.
#[cfg(not(target_arch = "wasm32"))]
fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    static INSTANCES: Mutex<Vec<(wgpu::Backends, wgpu::Instance)>> = Mutex::new(Vec::new());
    let mut instances = lock(&INSTANCES);
    if let Some((_, instance)) = instances.iter().find(|(of, _)| *of == backends) {
        return instance.clone();
    }
    let instance = new_instance(backends);
    instances.push((backends, instance.clone()));
    instance
}

#[cfg(target_arch = "wasm32")]
use new_instance as instance;

fn new_instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    // No debugging layers in release builds; never the check of indirect calls, which lowers the limit of buffers.
    descriptor.flags = wgpu::InstanceFlags::from_build_config() - wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL;
    wgpu::Instance::new(descriptor)
}

/// Held while adapters are listed and a device is opened, which native wgpu does before it returns the future: some
/// drivers deadlock when several threads open devices.
static OPENING: Mutex<()> = Mutex::new(());

/// Adapters in the order in which wgpu lists them, each once.
async fn adapters(instance: &wgpu::Instance, backends: wgpu::Backends) -> Vec<wgpu::Adapter> {
    let opening = lock(&OPENING);
    let listing = instance.enumerate_adapters(backends);
    drop(opening);
    let mut adapters = listing.await;
    let mut seen = Vec::new();
    adapters.retain(|adapter| {
        let info = adapter.get_info();
        let known = seen.contains(&info);
        // Two equal cards differ by their place on the bus; without one, they cannot be told from a double entry.
        let twin = known && info.device_pci_bus_id.is_empty() && info.device_type != wgpu::DeviceType::Cpu;
        seen.push(info);
        !known || twin
    });
    adapters
}

/// Opens the device that the options ask for.
pub(crate) async fn open(options: &Options) -> Result<Opened> {
    let mut watch = Stopwatch::start();
    let mut times = OpenTimes::default();
    let (mut found, mut infos) = (Vec::new(), Vec::new());
    for backends in turns(options.backends, options.adapter.is_some(), cfg!(windows)) {
        let instance = instance(backends);
        times.instance += watch.lap();
        found.extend(adapters(&instance, backends).await);
        infos = found.iter().map(wgpu::Adapter::get_info).collect::<Vec<_>>();
        let best = choose(&infos, options, &mut Vec::new()).first().map(|&at| infos[at].device_type);
        times.adapter += watch.lap();
        if best == Some(wgpu::DeviceType::DiscreteGpu) {
            break;
        }
    }
    let mut reasons = Vec::new();
    for at in choose(&infos, options, &mut reasons) {
        times.adapter += watch.lap();
        let adapter = &found[at];
        let about = device_info(&infos[at]);
        let there = adapter.features();
        let source = match source(&infos[at], there, options) {
            Ok(source) => source,
            Err(error) => {
                reasons.push(error.to_string());
                continue;
            }
        };
        let mut features = there & wgpu::Features::PIPELINE_CACHE;
        features.set(wgpu::Features::PASSTHROUGH_SHADERS, source != Source::Wgsl);
        features.set(IN_PLACE, shares_memory(&about) && there.contains(IN_PLACE));
        let opening = lock(&OPENING);
        let request = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("kiln"),
            required_features: features,
            required_limits: adapter.limits(),
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: memory_hints(&about),
            trace: wgpu::Trace::Off,
        });
        drop(opening);
        match request.await {
            Ok((device, queue)) => {
                times.device = watch.lap();
                return Ok(Opened { device, queue, info: infos[at].clone(), source, times });
            }
            Err(error) => reasons.push(format!("{about}: {error}")),
        }
    }
    let reason = if infos.is_empty() { "there is no adapter".to_owned() } else { reasons.join("; ") };
    Err(ErrorKind::NoDevice { wanted: wanted(options), reason }.into())
}

/// Bytes of the first block of memory that host and device both see, on a device with memory of its own that Kiln opened.
/// Elsewhere, wgpu's usual size or its owner's choice.
pub(crate) const FIRST_BLOCK: u64 = 16 << 20;

/// How large the blocks are in which wgpu takes memory from the driver. Some drivers pin what host and device both see when it
/// is taken, a quarter of a millisecond for each MiB, and the first read waits for that: wgpu's usual 64 MiB are most of a
/// first call. Where the device has no memory of its own, such blocks hold arrays, too.
fn memory_hints(info: &DeviceInfo) -> wgpu::MemoryHints {
    if !has_host_blocks(info) {
        return wgpu::MemoryHints::Performance;
    }
    // Of the device's own memory; blocks that both see are half as large.
    wgpu::MemoryHints::Manual { suballocated_device_memory_block_size: 2 * FIRST_BLOCK..256 << 20 }
}

/// Whether wgpu cuts what host and device both see from blocks that hold no arrays: the device has memory of its own, and
/// the API leaves memory to wgpu.
pub(crate) fn has_host_blocks(info: &DeviceInfo) -> bool {
    matches!(info.kind, DeviceKind::DiscreteGpu | DeviceKind::OtherGpu) && matches!(info.backend, "vulkan" | "dx12")
}

/// The language in which kernels are handed to a device with these features.
pub(crate) fn source(info: &wgpu::AdapterInfo, features: wgpu::Features, options: &Options) -> Result<Source> {
    let passthrough = features.contains(wgpu::Features::PASSTHROUGH_SHADERS);
    match info.backend {
        wgpu::Backend::Metal if options.metal_passthrough && !passthrough => {
            let reason = format!("{} takes no text of our own: PASSTHROUGH_SHADERS is off", device_info(info));
            Err(ErrorKind::NoDevice { wanted: "Metal passthrough".to_owned(), reason }.into())
        }
        wgpu::Backend::Metal if options.metal_passthrough => Ok(Source::Msl),
        // SPIR-V 1.3 is taken by Vulkan 1.1 and later, which those that have subgroup operations are.
        wgpu::Backend::Vulkan if passthrough && features.contains(wgpu::Features::SUBGROUP) => Ok(Source::Spirv),
        _ => Ok(Source::Wgsl),
    }
}

/// The graphics APIs to load, in turn: on a platform with two, the second cannot win over a discrete GPU of the first, and
/// loading it takes as long as everything else. A number counts the adapters of all.
fn turns(wanted: wgpu::Backends, named: bool, has_two: bool) -> Vec<wgpu::Backends> {
    let first = wgpu::Backends::VULKAN;
    if named || !has_two || !wanted.contains(first) || wanted == first {
        vec![wanted]
    } else {
        vec![first, wanted - first]
    }
}

/// The adapters to try, best first, by their place in the list; why not the others.
fn choose(infos: &[wgpu::AdapterInfo], options: &Options, reasons: &mut Vec<String>) -> Vec<usize> {
    // Longer numbers are parts of names, as in "RTX 4090".
    let number =
        options.adapter.as_ref().filter(|adapter| adapter.len() <= 2).and_then(|text| text.parse::<usize>().ok());
    let mut chosen = Vec::new();
    for (at, info) in infos.iter().enumerate() {
        let device = device_info(info);
        let named = match (&options.adapter, number) {
            (None, _) => None,
            (Some(_), Some(number)) => Some(number == at),
            (Some(name), None) => Some(device.name.to_lowercase().contains(&name.to_lowercase())),
        };
        let software = device.kind == DeviceKind::SoftwareGpu;
        match named {
            Some(false) => reasons.push(format!("{at}: {device} has another name or number")),
            None if software && !options.allow_software => {
                reasons.push(format!("{at}: {device} is run by the CPU; ask for it by name or allow software"));
            }
            _ => chosen.push((rank(device.kind), at)),
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|(_, at)| at).collect()
}

fn rank(kind: DeviceKind) -> u8 {
    match kind {
        DeviceKind::DiscreteGpu => 0,
        DeviceKind::IntegratedGpu => 1,
        DeviceKind::OtherGpu => 2,
        _ => 3,
    }
}

fn wanted(options: &Options) -> String {
    let what = match &options.adapter {
        Some(adapter) => format!("adapter {adapter:?}"),
        None if options.allow_software => "any adapter".into(),
        None => "a GPU".into(),
    };
    if options.backends == wgpu::Backends::all() { what } else { format!("{what} of {:?}", options.backends) }
}

/// All of a device that decides what its driver makes of a kernel, a line for each fact.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn environment(info: &wgpu::AdapterInfo, device: &wgpu::Device) -> String {
    let features = device.features();
    format!(
        "kiln: {}\nsystem: {} {} {} bits\nbackend: {:?}\nadapter: {} {:04x}:{:04x}\ndriver: {} {}\nfeatures: {features:?}\nfloats: {:?}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        usize::BITS,
        info.backend,
        info.name,
        info.vendor,
        info.device,
        info.driver,
        info.driver_info,
        controls::of(device),
    )
}

/// Lets arrays' buffers be mapped.
pub(crate) const IN_PLACE: wgpu::Features = wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;

/// Whether arrays lie in memory that host and device reach equally well, so that nothing is gained by copying before a
/// read. Other GPUs without memory of their own may be slower on memory that the host can map.
pub(crate) fn shares_memory(info: &DeviceInfo) -> bool {
    match info.kind {
        DeviceKind::IntegratedGpu => info.backend == "metal",
        DeviceKind::SoftwareGpu => info.backend != "webgpu",
        _ => false,
    }
}

/// Kiln's words for an adapter.
pub(crate) fn device_info(info: &wgpu::AdapterInfo) -> DeviceInfo {
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        wgpu::DeviceType::Cpu => DeviceKind::SoftwareGpu,
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => DeviceKind::OtherGpu,
    };
    let backend = match info.backend {
        wgpu::Backend::Vulkan => "vulkan",
        wgpu::Backend::Metal => "metal",
        wgpu::Backend::Dx12 => "dx12",
        wgpu::Backend::Gl => "gl",
        wgpu::Backend::BrowserWebGpu => "webgpu",
        wgpu::Backend::Noop => "noop",
    };
    let name = if info.name.is_empty() { format!("{backend} adapter") } else { info.name.clone() };
    let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
    DeviceInfo { name, backend, kind, driver }
}

/// How many arrays one kernel can have.
pub(crate) fn max_arrays(limits: &wgpu::Limits) -> u32 {
    limits.max_storage_buffers_per_shader_stage.min(limits.max_bindings_per_bind_group)
}

/// What every kernel needs of a device, whatever its arrays: an error where there is less.
pub(crate) fn check(limits: &wgpu::Limits, device: &str) -> Result<()> {
    let invocations = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
    let needed = [
        ("invocations of a workgroup", invocations.into(), kiln_shaders::GROUP_SIZE.into()),
        ("workgroups in one dimension", limits.max_compute_workgroups_per_dimension.into(), MAX_GROUPS),
        // A pass of a scan: what is read and written, the totals to its left, and its own.
        ("storage buffers of one kernel", max_arrays(limits).into(), 4),
        ("bind groups", limits.max_bind_groups.into(), 2),
        ("uniform buffers of one kernel", limits.max_uniform_buffers_per_shader_stage.into(), 1),
        ("dynamic uniform buffers", limits.max_dynamic_uniform_buffers_per_pipeline_layout.into(), 1),
        ("bytes of a buffer", limits.max_buffer_size, CHUNK.into()),
    ];
    for (what, limit, needed) in needed {
        if limit < needed {
            return Err(ErrorKind::Limit { op: "open", what, needed, limit, device: device.to_owned() }.into());
        }
    }
    Ok(())
}

/// What planners may know of a device with these limits.
pub(crate) fn caps(limits: &wgpu::Limits, kind: DeviceKind) -> Caps {
    let busy_groups = match kind {
        DeviceKind::DiscreteGpu => 528,
        DeviceKind::SoftwareGpu => std::thread::available_parallelism().map_or(4, |cores| cores.get() * 4),
        _ => 128,
    };
    Caps {
        dtypes: vec![Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F32],
        // Metal's table of lengths has 32 bits, as have many drivers' offsets.
        max_array_bytes: limits.max_buffer_size.min(limits.max_storage_buffer_binding_size).min(u32::MAX.into()) & !15,
        // Some drivers name half a million and fail at hundreds (seen on an H200).
        max_operands: max_arrays(limits).min(32) as usize,
        max_groups: MAX_GROUPS * MAX_GROUPS,
        log_slots: (limits.max_compute_workgroup_storage_size / 4).max(1).ilog2().min(12),
        busy_groups,
        serial_groups: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, device_type: wgpu::DeviceType) -> wgpu::AdapterInfo {
        wgpu::AdapterInfo { name: name.into(), ..wgpu::AdapterInfo::new(device_type, wgpu::Backend::Vulkan) }
    }

    fn machine() -> Vec<wgpu::AdapterInfo> {
        vec![
            info("llvmpipe", wgpu::DeviceType::Cpu),
            info("Radeon iGPU", wgpu::DeviceType::IntegratedGpu),
            info("Radeon RX", wgpu::DeviceType::DiscreteGpu),
            info("virtio", wgpu::DeviceType::VirtualGpu),
        ]
    }

    fn chosen(options: &Options) -> Vec<usize> {
        choose(&machine(), options, &mut Vec::new())
    }

    #[test]
    fn apis_are_loaded_in_turn_where_there_are_two() {
        let (all, vulkan, dx12) = (wgpu::Backends::all(), wgpu::Backends::VULKAN, wgpu::Backends::DX12);
        assert_eq!(turns(all, false, false), [all]);
        assert_eq!(turns(all, true, true), [all]);
        assert_eq!(turns(dx12, false, true), [dx12]);
        assert_eq!(turns(vulkan, false, true), [vulkan]);
        assert_eq!(turns(vulkan | dx12, false, true), [vulkan, dx12]);
    }

    #[test]
    fn discrete_comes_before_integrated_and_software_only_when_asked() {
        assert_eq!(chosen(&Options::new()), [2, 1, 3]);
        assert_eq!(chosen(&Options::new().allow_software(true)), [2, 1, 3, 0]);
    }

    #[test]
    fn names_and_numbers_are_honoured_exactly() {
        assert_eq!(chosen(&Options::new().adapter("radeon")), [2, 1]);
        assert_eq!(chosen(&Options::new().adapter("LLVM")), [0]);
        assert_eq!(chosen(&Options::new().adapter("1")), [1]);
        assert_eq!(chosen(&Options::new().adapter("nvidia")), [0usize; 0]);
    }

    #[test]
    fn a_refusal_lists_what_there_is() {
        let mut reasons = Vec::new();
        choose(&machine(), &Options::new().adapter("nvidia"), &mut reasons);
        assert_eq!(reasons.len(), 4);
        assert!(reasons[2].contains("Radeon RX (vulkan, discrete GPU)"), "{reasons:?}");
    }
}
