//! The device's first steps: a small program that nobody asked for, so that the program's own finds memory, bind groups,
//! parameters, command buffers and the way back at hand. Before it, the memory that uploads go through is written to once.
//!
//! What enters: a device that the program has not used yet. What leaves: free memory in the pools. Decided: the steps take
//! the way of any program, through arrays and plans, on a backend that does not count as the program's use, and fails as soon
//! as the program itself begins: its first steps are its own then, and must not wait for ours.

use std::sync::Arc;

use kiln_array::kernel::KernelSpec;
use kiln_array::recording::{BufferId, Recording};
use kiln_array::reduce::Reduce;
use kiln_array::scan::Scan;
use kiln_array::warm::{Report, WarmUp};
use kiln_array::{ArrayOps, Backend, Caps, Device, DeviceInfo, Error, ErrorKind, HostBytes, Pending, Result, s};

use crate::adapter::has_host_blocks;
use crate::engine::Engine;
use crate::prewarm::Warming;

/// Elements along each axis of the arrays: those of the common kernels.
const SIDE: usize = 1000;

impl Engine {
    /// Touches memory, uploads, computes, waits and reads, as long as that is `wanted`.
    pub(crate) fn first_steps(
        self: &Arc<Self>,
        wanted: impl Fn(&Warming) -> bool + Send + Sync + 'static,
    ) -> Result<()> {
        // If the device has copied the first upload before the third begins, both go through the same memory, so the steps
        // alone would leave some of it unwritten.
        let touched = if has_host_blocks(&self.info) { self.touch_room(|| wanted(&self.warming)) } else { Ok(()) };
        if let Err(error) = touched {
            log::debug!("kiln: the memory of uploads: {error}");
        }
        let device = Device::new(Arc::new(QuietBackend { engine: Arc::clone(self), wanted: Box::new(wanted) }));
        let outcome = steps(&device).inspect_err(|error| self.gpu.health.tell_again(error));
        // Where they ended early, what they submitted may still run, in the driver's threads where the GPU is software: then
        // nobody else knows of it.
        self.wait_until_idle().and(outcome)
    }
}

#[expect(clippy::float_cmp, reason = "whole numbers that f32 holds")]
fn steps(device: &Device) -> Result<()> {
    let values = vec![1f32; SIDE * SIDE];
    let ones = || device.array(&values, [SIDE, SIDE]);
    let (a, b, c, d) = (ones()?, ones()?, ones()?, ones()?);
    let (x, y) = ((&a + &b).eval()?, (&c + &d).eval()?);
    device.synchronize().wait()?;
    let sums = y.to_host()?;
    let total = x.sum(..)?.item()?;
    let running = x.cumsum(1)?;
    device.synchronize().wait()?;
    let first = running.slice(s![0, 0])?.item()?;
    let right = total == 2e6 && first == 2.0 && sums.as_slice().iter().all(|&sum| sum == 2.0);
    if right { Ok(()) } else { Err(refused("1 + 1 is not 2")) }
}

fn refused(why: &str) -> Error {
    ErrorKind::Backend { op: "warm up", message: why.to_owned() }.into()
}

/// The engine, for work that is not the program's.
struct QuietBackend {
    engine: Arc<Engine>,
    wanted: Box<dyn Fn(&Warming) -> bool + Send + Sync>,
}

impl QuietBackend {
    fn go_on(&self) -> Result<()> {
        if (self.wanted)(&self.engine.warming) { Ok(()) } else { Err(refused("the program goes first")) }
    }
}

impl Backend for QuietBackend {
    fn info(&self) -> &DeviceInfo {
        &self.engine.info
    }

    fn caps(&self) -> &Caps {
        &self.engine.caps
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.go_on()?;
        self.engine.allocate(bytes)
    }

    fn upload(&self, data: &[u8]) -> Result<BufferId> {
        self.go_on()?;
        self.engine.upload(data)
    }

    fn release(&self, buffer: BufferId) {
        self.engine.release(buffer);
    }

    fn run(&self, recording: &Recording) -> Result<()> {
        // The program has not used these kernels: they are not noted as if it had.
        let kernels = recording.dispatches.iter().map(|dispatch| {
            let kernel = self.engine.pipelines.get(&self.engine.gpu, &dispatch.kernel);
            // A compile takes its time.
            self.go_on().and(kernel)
        });
        let kernels = kernels.collect::<Result<_>>()?;
        self.engine.launch(recording, kernels)?;
        // Alone: nothing of it stays behind for a batch of the program's.
        self.engine.submit_awaited(&mut self.engine.state())
    }

    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes> {
        match self.go_on() {
            Ok(()) => self.engine.read(buffer, bytes),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn synchronize(&self) -> Pending<()> {
        match self.go_on() {
            Ok(()) => self.engine.synchronize(),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn warm_up(&self) -> WarmUp {
        WarmUp::done(Report::default())
    }

    fn warm(&self, _: Vec<Arc<KernelSpec>>) -> WarmUp {
        self.warm_up()
    }
}
