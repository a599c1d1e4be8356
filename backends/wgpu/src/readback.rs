//! From the device to the host: staging buffers, and results that are on their way.
//!
//! What enters: a submission that fills a staging buffer. What leaves: a [`Completion`] with its bytes. Decided: wgpu's
//! callback only fills a [`Slot`]; whoever wants the bytes copies them. A waiting thread polls for a moment, since that
//! halves the latency of short work, and then blocks; it holds no lock of ours meanwhile. A future never needs the
//! user to poll the device: the worker does.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use kiln_array::backend::Completion;
use kiln_array::{Error, ErrorKind, HostBytes, Result};

use crate::engine::Engine;
use crate::error::{Gpu, lock};

/// Staging buffers kept for later reads, at most this many bytes.
const KEEP: u64 = 64 << 20;

/// Where a callback leaves its result.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    filled: Condvar,
}

#[derive(Default)]
struct SlotState {
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

impl Slot {
    /// Leaves the result, the first one only, and wakes whoever waits.
    pub(crate) fn fill(&self, result: Result<()>) {
        let mut state = lock(&self.state);
        if state.result.is_none() {
            state.result = Some(result);
            let waker = state.waker.take();
            drop(state);
            self.filled.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn get(&self) -> Option<Result<()>> {
        lock(&self.state).result.clone()
    }

    /// The result, or `None` and `waker` is woken once it is there.
    fn get_or_wake(&self, waker: &Waker) -> Option<Result<()>> {
        let mut state = lock(&self.state);
        if state.result.is_none() {
            state.waker = Some(waker.clone());
        }
        state.result.clone()
    }

    /// Blocks until the result is there: another thread may be about to run the callback.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait(&self) -> Result<()> {
        let mut state = lock(&self.state);
        loop {
            match &state.result {
                Some(result) => return result.clone(),
                None => state = self.filled.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
            }
        }
    }
}

/// What a callback fills a slot with. Dropped before, it fills it with an error: the panic of one callback drops those
/// behind it.
pub(crate) struct Promise(Arc<Slot>);

impl Promise {
    /// A promise and its slot.
    pub(crate) fn new() -> (Self, Arc<Slot>) {
        let slot = Arc::new(Slot::default());
        (Self(slot.clone()), slot)
    }

    /// Fills the slot.
    pub(crate) fn keep(self, result: Result<()>) {
        self.0.fill(result);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.fill(Err(failed("its callback was dropped".to_owned())));
    }
}

/// Staging buffers that nobody uses.
#[derive(Default)]
pub(crate) struct Staging {
    free: Mutex<Vec<wgpu::Buffer>>,
}

impl Staging {
    /// A buffer of `class` bytes that the device can copy to and the host can read.
    pub(crate) fn take(&self, gpu: &Gpu, class: u64) -> Result<wgpu::Buffer> {
        let mut free = lock(&self.free);
        if let Some(at) = free.iter().position(|buffer| buffer.size() == class) {
            return Ok(free.swap_remove(at));
        }
        drop(free);
        gpu.scoped("read", || {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("kiln.staging"),
                size: class,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })
    }

    /// Gives up the buffers that nobody uses.
    pub(crate) fn clear(&self) {
        lock(&self.free).clear();
    }

    /// Takes back an unmapped buffer.
    fn put(&self, buffer: wgpu::Buffer) {
        let mut free = lock(&self.free);
        free.push(buffer);
        let mut bytes: u64 = free.iter().map(wgpu::Buffer::size).sum();
        while bytes > KEEP {
            bytes -= free.remove(0).size();
        }
    }
}

/// Bytes on their way to the host; none if `staging` is `None`.
pub(crate) struct Arrival {
    engine: Arc<Engine>,
    slot: Arc<Slot>,
    index: wgpu::SubmissionIndex,
    staging: Option<wgpu::Buffer>,
    bytes: usize,
    watched: bool,
}

impl Arrival {
    /// Asks for the first `bytes` bytes of `staging`, which submission `index` fills.
    pub(crate) fn of(engine: Arc<Engine>, index: wgpu::SubmissionIndex, staging: wgpu::Buffer, bytes: usize) -> Self {
        let (promise, slot) = Promise::new();
        let mapped = (bytes as u64).next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        // A failure arrives through the callback as well, without its words.
        let asked = engine.gpu.scoped("read", || {
            staging.map_async(wgpu::MapMode::Read, ..mapped, move |result| {
                promise.keep(result.map_err(|error| failed(error.to_string())));
            });
        });
        if let Err(error) = asked {
            slot.fill(Err(error));
        }
        Self { engine, slot, index, staging: Some(staging), bytes, watched: false }
    }

    /// Completes when submission `index` is done. wgpu's own callback may wait for later submissions as well, so natively
    /// whoever has waited for `index` fills the slot, if the callback was not there before.
    pub(crate) fn of_nothing(engine: Arc<Engine>, index: wgpu::SubmissionIndex) -> Self {
        let slot = Arc::new(Slot::default());
        let filled = slot.clone();
        engine.gpu.queue.on_submitted_work_done(move || filled.fill(Ok(())));
        Self { engine, slot, index, staging: None, bytes: 0, watched: false }
    }

    /// Copies the bytes out and gives the staging buffer back.
    fn finish(&mut self, result: Result<()>) -> Result<HostBytes> {
        let staging = self.staging.take();
        // Whether the bytes of a device that is lost made it is its driver's business: nobody gets them.
        self.engine.gpu.check()?;
        if let Err(error) = result {
            // That the driver lost it may show when it is polled.
            #[cfg(not(target_arch = "wasm32"))]
            poll_until(&self.engine.gpu, self.index.clone())?;
            return Err(self.engine.gpu.or_lost(error));
        }
        let Some(staging) = staging else {
            return Ok(HostBytes::default());
        };
        let mapped = (self.bytes as u64).next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        let bytes = {
            let view = staging.get_mapped_range(..mapped);
            let view = view.map_err(|error| self.engine.gpu.or_lost(failed(error.to_string())))?;
            HostBytes::copy_of(&view[..self.bytes])
        };
        self.engine.gpu.scoped("read", || staging.unmap())?;
        self.engine.staging.put(staging);
        bytes
    }
}

pub(crate) fn failed(message: String) -> Error {
    ErrorKind::Backend { op: "read", message }.into()
}

impl Future for Arrival {
    type Output = Result<HostBytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(result) = self.slot.get_or_wake(cx.waker()) else {
            if !std::mem::replace(&mut self.watched, true) {
                let nothing = self.staging.is_none();
                self.engine.worker.watch(&self.engine.gpu, self.index.clone(), &self.slot, nothing);
            }
            return Poll::Pending;
        };
        let settled = std::task::ready!(self.engine.gpu.settle(cx));
        Poll::Ready(self.finish(settled.and(result)))
    }
}

impl Arrival {
    /// Blocks until the bytes are there.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait_here(mut self: Pin<&mut Self>) -> Result<HostBytes> {
        let gpu = &self.engine.gpu;
        let start = std::time::Instant::now();
        let result = loop {
            if let Some(result) = self.slot.get() {
                break result;
            }
            if start.elapsed() < self.engine.spin {
                poll(gpu, wgpu::PollType::Poll)?;
                std::hint::spin_loop();
            } else {
                poll_until(gpu, self.index.clone())?;
                break if self.staging.is_none() { Ok(()) } else { self.slot.wait() };
            }
        };
        let settled = gpu.health.report();
        self.finish(settled.and(result))
    }
}

impl Completion<HostBytes> for Arrival {
    #[cfg(not(target_arch = "wasm32"))]
    fn wait(mut self: Pin<Box<Self>>) -> Result<HostBytes> {
        self.as_mut().wait_here()
    }

    #[cfg(target_arch = "wasm32")]
    fn wait(self: Pin<Box<Self>>) -> Result<HostBytes> {
        Err(failed("a browser cannot block: await the result instead of waiting for it".into()))
    }
}

/// Polls the device, which runs callbacks. wgpu panics when the device is lost meanwhile; we do not.
///
/// Never with a time limit: wgpu 30 panics when another thread's poll finds the work done in between.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn poll(gpu: &Gpu, how: wgpu::PollType) -> Result<()> {
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gpu.device.poll(how)));
    crate::locals::used();
    match polled {
        Ok(Ok(_)) => Ok(()),
        // A submission that was accepted is unknown: only a lost device does that.
        Ok(Err(error)) => gpu.check().and_then(|()| Err(gpu.health.lose(&error.to_string()))),
        Err(_) => Err(gpu.health.lose("the driver reported an error while waiting")),
    }
}

/// Blocks until a submission is done and its callbacks have run.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn poll_until(gpu: &Gpu, index: wgpu::SubmissionIndex) -> Result<()> {
    poll(gpu, wgpu::PollType::Wait { submission_index: Some(index), timeout: None })
}
