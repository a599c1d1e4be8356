//! Runs Kiln's recordings on any GPU that wgpu reaches: Metal, Vulkan, DX12 and WebGPU.
//!
//! The modules in the order in which work passes through them:
//!
//! | module | what it holds |
//! | --- | --- |
//! | `adapter` | which device, and what planners may know of it |
//! | `engine`, `batch` | recordings become batches, and batches submissions |
//! | `bind`, `params` | bind groups of arrays, parameters of dispatches |
//! | `memory`, `buffers` | allocation and upload; the pool of device memory |
//! | `pipelines` | kernels, compiled once each; the one file with `unsafe` |
//! | `readback`, `inplace`, `worker` | results on their way to the host, by way of staging or in shared memory; the thread that waits for futures |
//! | `error`, `late` | error scopes and the device's health; when errors are known |
//! | `times`, `hash` | how long opening and compiling took; a quick hash |

#![deny(unsafe_code)]

mod adapter;
mod batch;
mod bind;
mod buffers;
mod engine;
mod error;
mod hash;
#[cfg(not(target_arch = "wasm32"))]
mod inplace;
mod late;
mod memory;
mod params;
#[expect(unsafe_code, reason = "modules without wgpu's run-time checks; see the SAFETY comment")]
mod pipelines;
mod readback;
mod times;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kiln_array::kernel::KernelSpec;
use kiln_array::recording::{BufferId, Recording};
use kiln_array::{Backend, Caps, DeviceInfo, DeviceKind, ErrorKind, Pending, Result};

pub use adapter::{Options, devices};
pub use times::{KernelTimes, OpenTimes};
pub use wgpu;

use engine::Engine;
use error::Gpu;
use pipelines::{Pipelines, Source};

/// How long a waiting thread polls before it blocks. Polling halves the latency of short work on a GPU.
const SPIN: Duration = Duration::from_micros(100);

/// An open device. Clones are the same device.
#[derive(Clone)]
pub struct Wgpu {
    engine: Arc<Engine>,
    open_times: OpenTimes,
}

/// What a device did so far, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Kernels compiled, those that failed included.
    pub kernels_compiled: u64,
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
    /// Reads that mapped the array's own memory, tries that had to wait for newer work included.
    pub reads_in_place: u64,
}

/// Opens the device that the options ask for.
///
/// # Errors
/// There is none, or it does not open; the error lists what there is.
pub async fn open(options: &Options) -> Result<Wgpu> {
    let adapter::Opened { device, queue, info, passthrough, times } = adapter::open(options).await?;
    let source = if passthrough { Source::Msl } else { Source::Wgsl };
    let mut wgpu = Wgpu::new(device, queue, &info, source, kiln_shaders::render)?;
    wgpu.open_times = times;

    // The device is ours, and so are its callbacks.
    let gpu = &wgpu.engine.gpu;
    let health = gpu.health.clone();
    gpu.device.on_uncaptured_error(Arc::new(move |error| health.uncaptured(&error)));
    let health = gpu.health.clone();
    gpu.device.set_device_lost_callback(move |_, reason| drop(health.lose(&reason)));
    Ok(wgpu)
}

/// Computes on somebody else's wgpu device.
///
/// Its owner keeps it: the handler of uncaptured errors and the device-lost callback are not touched, and dropping
/// the result leaves the device as it is. Kiln needs no feature, and works within whatever limits the device has.
///
/// # Errors
/// The device's limits are below those of every WebGPU device.
pub fn from_device(device: wgpu::Device, queue: wgpu::Queue) -> Result<Wgpu> {
    let info = device.adapter_info();
    Wgpu::new(device, queue, &info, Source::Wgsl, kiln_shaders::render)
}

impl Wgpu {
    fn new(
        device: wgpu::Device,
        queue: wgpu::Queue,
        info: &wgpu::AdapterInfo,
        source: Source,
        render: pipelines::Render,
    ) -> Result<Self> {
        let info = adapter::device_info(info);
        let limits = device.limits();
        let invocations = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
        if invocations < kiln_shaders::GROUP_SIZE {
            return Err(ErrorKind::Limit {
                op: "open",
                what: "invocations of a workgroup",
                needed: kiln_shaders::GROUP_SIZE.into(),
                limit: invocations.into(),
                device: info.name,
            }
            .into());
        }
        let groups = limits.max_compute_workgroups_per_dimension;
        if u64::from(groups) < batch::MAX_GROUPS {
            return Err(ErrorKind::Limit {
                op: "open",
                what: "workgroups in one dimension",
                needed: batch::MAX_GROUPS,
                limit: groups.into(),
                device: info.name,
            }
            .into());
        }
        let caps = adapter::caps(&limits, info.kind);
        // A thread that polls would take a core from a device that is made of them.
        let spin = if info.kind == DeviceKind::SoftwareGpu { Duration::ZERO } else { SPIN };
        let target = kiln_shaders::Target { log_slots: caps.log_slots };
        let gpu = Gpu::new(device, queue, info.name.clone());
        let in_place = adapter::shares_memory(&info) && gpu.device.features().contains(adapter::IN_PLACE);
        let pipelines = Pipelines::new(render, target, source);
        let engine = Arc::new(Engine::new(gpu, info, caps, spin, in_place, pipelines));
        Ok(Self { engine, open_times: OpenTimes::default() })
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
            dispatches: state.dispatches,
            submissions: state.submissions,
            bind_groups: state.bind_groups.created(),
            buffers,
            bytes_used,
            bytes_free,
            reads_in_place: state.reads_in_place,
        }
    }

    /// Hands recorded work to the device now, rather than with the next read or when there is more of it.
    ///
    /// # Errors
    /// Work recorded before failed.
    pub fn submit(&self) -> Result<()> {
        self.engine.submit_awaited(&mut self.engine.state())
    }

    /// The wgpu device.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        &self.engine.gpu.device
    }

    /// The wgpu queue.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.engine.gpu.queue
    }
}

impl Backend for Wgpu {
    fn info(&self) -> &DeviceInfo {
        &self.engine.info
    }

    fn caps(&self) -> &Caps {
        &self.engine.caps
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.engine.allocate(bytes)
    }

    fn upload(&self, data: &[u8]) -> Result<BufferId> {
        self.engine.upload(data)
    }

    fn release(&self, buffer: BufferId) {
        self.engine.release(buffer);
    }

    fn run(&self, recording: &Recording) -> Result<()> {
        self.engine.run(recording)
    }

    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<Vec<u8>> {
        self.engine.read(buffer, bytes)
    }

    fn synchronize(&self) -> Pending<()> {
        self.engine.synchronize()
    }

    fn warm(&self, kernels: &[KernelSpec]) -> Result<()> {
        kernels
            .iter()
            .try_for_each(|spec| self.engine.pipelines.get(&self.engine.gpu, &Arc::new(spec.clone())).map(drop))
    }
}

impl fmt::Debug for Wgpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wgpu").field("info", &self.engine.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
