//! Runs Kiln's recordings on any GPU that wgpu reaches: Metal, Vulkan, DX12 and WebGPU.
//!
//! The modules in the order in which work passes through them:
//!
//! | module | what it holds |
//! | --- | --- |
//! | `adapter`, `controls` | which device, and what planners may know of it; its float controls |
//! | `engine`, `batch` | recordings become batches, and batches submissions |
//! | `bind`, `params` | bind groups of arrays, parameters of dispatches |
//! | `memory`, `uploads`, `buffers` | allocation; host data on its way to the device; the pool of device memory |
//! | `pipelines`, `compile` | kernels, compiled once each; how one is made |
//! | `prewarm`, `touch`, `steps` | kernels compiled before they are needed; first dispatches, with no work; a first small program |
//! | [`cache`] | what was compiled, kept on disk |
//! | `readback`, `inplace`, `worker` | results on their way to the host, by way of staging or in shared memory; the thread that waits for futures |
//! | `error`, `late` | error scopes and the device's health; when errors are known |
//! | `exit`, `locals`, `idle` | the end of the process; calls while a thread's variables go; threads that wait for more work |
//! | `times`, `hash` | how long opening and compiling took; a quick hash |

#![deny(unsafe_code)]

mod adapter;
mod batch;
mod bind;
mod buffers;
#[cfg(not(target_arch = "wasm32"))]
pub mod cache;
#[cfg(target_arch = "wasm32")]
#[path = "nocache.rs"]
mod cache;
#[expect(unsafe_code, reason = "modules and caches that wgpu does not check; see the SAFETY comments")]
mod compile;
#[allow(unsafe_code, reason = "a question to the Vulkan driver, on platforms that have one; see the SAFETY comments")]
mod controls;
mod engine;
mod error;
#[cfg(not(target_arch = "wasm32"))]
#[expect(unsafe_code, reason = "a function for the end of the process; see the SAFETY comment")]
mod exit;
mod hash;
#[cfg(not(target_arch = "wasm32"))]
mod idle;
#[cfg(not(target_arch = "wasm32"))]
mod inplace;
mod late;
mod locals;
mod memory;
mod params;
mod pipelines;
#[cfg(not(target_arch = "wasm32"))]
mod prewarm;
mod readback;
#[cfg(not(target_arch = "wasm32"))]
mod steps;
mod times;
#[cfg(not(target_arch = "wasm32"))]
mod touch;
mod uploads;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kiln_array::kernel::KernelSpec;
use kiln_array::recording::{BufferId, Recording};
#[cfg(target_arch = "wasm32")]
use kiln_array::warm::Report;
use kiln_array::warm::WarmUp;
use kiln_array::{Backend, Caps, DeviceInfo, DeviceKind, HostBytes, Pending, Result};

pub use adapter::{Options, devices};
pub use times::{KernelTimes, OpenTimes};
pub use wgpu;

use compile::{Compiler, Render, Source};
use engine::Engine;
use error::Gpu;
use locals::{Anywhere, Shared, safely};
use pipelines::Pipelines;
#[cfg(not(target_arch = "wasm32"))]
use prewarm::Warming;

/// How long a waiting thread polls before it blocks. Polling halves the latency of short work on a GPU.
const SPIN: Duration = Duration::from_micros(100);

/// An open device. Clones are the same device.
#[derive(Clone)]
pub struct Wgpu {
    engine: Shared,
    open_times: OpenTimes,
    #[cfg(not(target_arch = "wasm32"))]
    warm_up_threads: usize,
    /// Dropped after the last handle: nothing of this backend is in the driver any more.
    #[cfg(not(target_arch = "wasm32"))]
    _last: Arc<Last>,
}

/// Ends warm-ups with the last handle on a device.
#[cfg(not(target_arch = "wasm32"))]
struct Last(std::sync::Weak<Engine>);

#[cfg(not(target_arch = "wasm32"))]
impl Drop for Last {
    fn drop(&mut self) {
        let Some(engine) = self.0.upgrade().map(Shared::new) else { return };
        // A waker that drops the last handle may run on a thread of the warm-up itself, which cannot wait for its own end.
        if worker::is_own() { engine.warming.cancel() } else { engine.warming.end() }
    }
}

/// What a device did so far, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Kernels compiled, those that failed included.
    pub kernels_compiled: u64,
    /// Calls that waited for a compile which somebody else had begun.
    pub kernels_joined: u64,
    /// Dispatches recorded.
    pub dispatches: u64,
    /// Submissions made.
    pub submissions: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Buffers in use.
    pub buffers: usize,
    /// Bytes of the buffers in use.
    pub bytes_used: u64,
    /// Bytes kept for later buffers.
    pub bytes_free: u64,
    /// Reads that mapped the array's own memory.
    pub reads_in_place: u64,
}

/// Opens the device that the options ask for.
///
/// # Errors
/// There is none, or it does not open; the error lists what there is.
pub async fn open(options: &Options) -> Result<Wgpu> {
    #[cfg(not(target_arch = "wasm32"))]
    let ahead = worker::Ahead::start(&options.cache);
    let adapter::Opened { device, queue, info, source, times } = adapter::open(options).await?;
    #[cfg(not(target_arch = "wasm32"))]
    let cache = ahead.open(&adapter::environment(&info, &device));
    #[cfg(target_arch = "wasm32")]
    let cache = None;
    let mut wgpu = Wgpu::new(device, queue, &info, source, cache, kiln_shaders::render)?;
    wgpu.open_times = times;

    // The device is ours, and so are its callbacks.
    let gpu = &wgpu.engine.gpu;
    let health = gpu.health.clone();
    gpu.device.on_uncaptured_error(Arc::new(move |error| health.uncaptured(&error)));
    let health = gpu.health.clone();
    gpu.device.set_device_lost_callback(move |_, reason| drop(health.lose(&reason)));
    #[cfg(not(target_arch = "wasm32"))]
    wgpu.begin(options.warm_up_threads);
    Ok(wgpu)
}

/// Runs `work` on a thread of its own which the end of the process waits for; `false` where there is none. For opening
/// a device behind a program: drivers crash when the process ends while a thread is in them.
#[cfg(not(target_arch = "wasm32"))]
pub fn background(work: impl FnOnce() + Send + 'static) -> bool {
    let alive = Arc::new(());
    let watched = Arc::downgrade(&alive);
    let body = move || {
        let _alive = alive;
        work();
    };
    let started = worker::detached("kiln-open", body);
    if started {
        // A driver and the compiler in it register what undoes them while they load, which is here.
        worker::detached("kiln-exit", move || exit::stay_first(|| watched.strong_count() == 0));
    }
    started
}

/// Computes on somebody else's wgpu device.
///
/// The device may be lost, or its owner may destroy it: from then on every call is an
/// [`ErrorKind::DeviceLost`](kiln_array::ErrorKind::DeviceLost), reads that are pending included. wgpu tells its owner
/// alone of a loss, so each call asks first, which takes about a microsecond.
///
/// Its owner keeps it: the handler of uncaptured errors and the device-lost callback are not touched, and dropping
/// the result leaves the device as it is. Kiln needs no feature, and works within whatever limits the device has; on
/// Vulkan it makes use of `PASSTHROUGH_SHADERS` with `SUBGROUP`, see [`open_on`]. Nothing is kept and nothing starts by
/// itself. wgpu runs callbacks on whatever thread polls the device, Kiln's threads included:
/// a callback may drop arrays, and must do nothing else with Kiln.
///
/// # Errors
/// The device's limits are below those of every WebGPU device.
pub fn from_device(device: wgpu::Device, queue: wgpu::Queue) -> Result<Wgpu> {
    open_on(device, queue, &Options::new())
}

/// As [`from_device`], with the warm-up and the cache that the options ask for; reads the cache's list before it returns.
/// On Vulkan, floats have the bits that Kiln promises, and the text of kernels can be kept, where the device has the
/// features `PASSTHROUGH_SHADERS` and `SUBGROUP`; what the driver makes of kernels can be kept with `PIPELINE_CACHE`.
///
/// # Errors
/// As [`from_device`], or [`Options::metal_passthrough`] is set and the device is a Metal device without
/// `PASSTHROUGH_SHADERS`.
pub fn open_on(device: wgpu::Device, queue: wgpu::Queue, options: &Options) -> Result<Wgpu> {
    let info = device.adapter_info();
    #[cfg(not(target_arch = "wasm32"))]
    let cache = worker::Ahead::start(&options.cache).open(&adapter::environment(&info, &device));
    #[cfg(target_arch = "wasm32")]
    let cache = None;
    let source = adapter::source(&info, device.features(), options)?;
    #[cfg_attr(target_arch = "wasm32", expect(unused_mut, reason = "nothing is begun in a browser"))]
    let mut wgpu = Wgpu::new(device, queue, &info, source, cache, kiln_shaders::render)?;
    wgpu.engine.gpu.health.share();
    #[cfg(not(target_arch = "wasm32"))]
    wgpu.begin(options.warm_up_threads);
    Ok(wgpu)
}

impl Wgpu {
    fn new(
        device: wgpu::Device,
        queue: wgpu::Queue,
        info: &wgpu::AdapterInfo,
        source: Source,
        cache: Option<Arc<cache::Cache>>,
        render: Render,
    ) -> Result<Self> {
        let info = adapter::device_info(info);
        let limits = device.limits();
        adapter::check(&limits, &info.name)?;
        let caps = adapter::caps(&limits, info.kind);
        // A thread that polls would take a core from a device that is made of them.
        let spin = if info.kind == DeviceKind::SoftwareGpu { Duration::ZERO } else { SPIN };
        let target = kiln_shaders::Target { log_slots: caps.log_slots, float_controls: controls::of(&device) };
        let gpu = Gpu::new(device, queue, info.name.clone());
        // This thread may have met wgpu's variable already, see `locals`. A lost device tells of it later.
        #[cfg(not(target_arch = "wasm32"))]
        let _ = readback::poll(&gpu, wgpu::PollType::Poll);
        let in_place = adapter::shares_memory(&info) && gpu.device.features().contains(adapter::IN_PLACE);
        let pipelines = Pipelines::new(Compiler::new(render, target, source, cache));
        let engine = Arc::new(Engine::new(gpu, info, caps, spin, in_place, pipelines));
        #[cfg(not(target_arch = "wasm32"))]
        let last = Arc::new(Last(Arc::downgrade(&engine)));
        Ok(Self {
            engine: Shared::new(engine),
            open_times: OpenTimes::default(),
            #[cfg(not(target_arch = "wasm32"))]
            _last: last,
            #[cfg(not(target_arch = "wasm32"))]
            warm_up_threads: prewarm::default_threads(),
        })
    }

    /// Warms up behind the program on so many threads, unless there are none; sees to it that the process's end is
    /// waited for.
    #[cfg(not(target_arch = "wasm32"))]
    fn begin(&mut self, threads: Option<usize>) {
        exit::remember(Arc::downgrade(&self.engine));
        let threads = threads.unwrap_or_else(prewarm::default_threads);
        if threads > 0 {
            // As many for what is asked for later.
            self.warm_up_threads = threads;
            Warming::usual(&self.engine, threads);
        }
    }

    /// How long opening took; zero for a device that somebody else opened.
    #[must_use]
    pub fn open_times(&self) -> OpenTimes {
        self.open_times
    }

    /// The phases of each compile so far.
    #[must_use]
    pub fn compile_log(&self) -> Vec<KernelTimes> {
        self.engine.pipelines.log()
    }

    /// What the device did so far, and what it holds.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let state = self.engine.state();
        let (buffers, bytes_used, bytes_free) = state.memory.usage();
        Counters {
            kernels_compiled: self.engine.pipelines.compiled(),
            kernels_joined: self.engine.pipelines.joined(),
            dispatches: state.dispatches,
            submissions: state.submissions,
            bind_groups: state.bind_groups.created(),
            buffers,
            bytes_used,
            bytes_free,
            reads_in_place: state.reads_in_place,
        }
    }

    /// What the cache of compiled kernels did so far; `None` where nothing is kept.
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    pub fn cache_counters(&self) -> Option<cache::Counters> {
        self.engine.pipelines.compiler.cache.as_ref().map(|cache| cache.counters().now())
    }

    /// Writes every compiled kernel of this device, and the list of those that the program used, to one file, to ship it
    /// with the program. Returns the number of kernels.
    ///
    /// # Errors
    /// Nothing is kept, or the file cannot be written.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn export_cache(&self, path: impl AsRef<std::path::Path>) -> Result<usize> {
        self.cache("export").and_then(|cache| cache.export(path.as_ref()).map_err(|error| cache_error("export", error)))
    }

    /// Takes over the kernels of a file that [`export_cache`](Self::export_cache) wrote on the same adapter, driver and
    /// version of Kiln. Whoever made the file decides what the driver runs: import only what you trust. Returns the number of
    /// kernels; they are used by devices that are opened from now on, and by this one for kernels not yet compiled.
    ///
    /// # Errors
    /// Nothing is kept, or the file is damaged, of another device, driver or version, or no export.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn import_cache(&self, path: impl AsRef<std::path::Path>) -> Result<usize> {
        self.cache("import").and_then(|cache| cache.import(path.as_ref()).map_err(|error| cache_error("import", error)))
    }

    /// The engine, for the program's own work.
    fn engine_for_work(&self) -> &Engine {
        #[cfg(not(target_arch = "wasm32"))]
        self.engine.warming.note_use();
        &self.engine
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn cache(&self, op: &'static str) -> Result<&Arc<cache::Cache>> {
        let none = || cache_error(op, "compiled kernels are not kept".to_owned());
        self.engine.pipelines.compiler.cache.as_ref().ok_or_else(none)
    }

    /// Hands recorded work to the device now, rather than with the next read or when there is more of it.
    ///
    /// # Errors
    /// Work recorded before failed, or the device is lost.
    pub fn submit(&self) -> Result<()> {
        safely(|| {
            self.engine.gpu.check()?;
            self.engine.submit_awaited(&mut self.engine.state())
        })
    }

    /// The wgpu device. Whoever has it may destroy it, so that from now on each call asks wgpu whether it still works,
    /// which takes about a microsecond.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        self.engine.gpu.health.share();
        &self.engine.gpu.device
    }

    /// The wgpu queue.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.engine.gpu.queue
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn cache_error(op: &'static str, message: String) -> kiln_array::Error {
    kiln_array::ErrorKind::Backend { op, message }.into()
}

impl Backend for Wgpu {
    fn info(&self) -> &DeviceInfo {
        &self.engine.info
    }

    fn caps(&self) -> &Caps {
        &self.engine.caps
    }

    fn is_lost(&self) -> bool {
        self.engine.gpu.check().is_err()
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        safely(|| self.engine_for_work().allocate(bytes))
    }

    fn upload(&self, data: &[u8]) -> Result<BufferId> {
        safely(|| self.engine_for_work().upload(data))
    }

    fn release(&self, buffer: BufferId) {
        safely(|| self.engine.release(buffer));
    }

    fn run(&self, recording: &Recording) -> Result<()> {
        safely(|| self.engine_for_work().run(recording))
    }

    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes> {
        Anywhere::pending(safely(|| self.engine.read(buffer, bytes)))
    }

    fn synchronize(&self) -> Pending<()> {
        Anywhere::pending(safely(|| self.engine.synchronize()))
    }

    fn trim(&self) -> Result<()> {
        safely(|| self.engine.give_free_memory_back())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn warm_up(&self) -> WarmUp {
        Warming::usual(&self.engine, self.warm_up_threads).handle()
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn warm(&self, kernels: Vec<Arc<KernelSpec>>) -> WarmUp {
        prewarm::Task::start(&self.engine, self.warm_up_threads, false, kernels).handle()
    }

    /// Nothing: a browser keeps no list.
    #[cfg(target_arch = "wasm32")]
    fn warm_up(&self) -> WarmUp {
        WarmUp::done(Report::default())
    }

    /// Asks the browser for the kernels, which compiles them behind the page.
    #[cfg(target_arch = "wasm32")]
    fn warm(&self, kernels: Vec<Arc<KernelSpec>>) -> WarmUp {
        let warmed = kernels.iter().map(|spec| self.engine.pipelines.warm(&self.engine.gpu, spec));
        WarmUp::done(Report { kernels: warmed.collect(), ..Report::default() })
    }
}

impl fmt::Debug for Wgpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wgpu").field("info", &self.engine.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
