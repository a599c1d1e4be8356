//! Reads where host and device share memory: the array's own buffer is mapped, and nothing is copied on the device.
//!
//! What enters: a buffer and the submission after which it holds what is read. What leaves: its bytes. Decided: a buffer
//! that is mapped must not be used by the device, so it is mapped at the last moment, when its work is done and somebody
//! takes the bytes, and only while they are copied out; who wants to use it meanwhile waits for that copy. A buffer that
//! is dropped before stays until it was read.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use kiln_array::backend::Completion;
use kiln_array::recording::{BufferId, Recording};
use kiln_array::{HostBytes, Result};

use crate::engine::{Engine, State, unknown};
use crate::memory::Dropped;
use crate::readback::{Arrival, Promise, failed, poll, poll_until};

/// How often newer work on the buffer is waited for before it is held back.
const TRIES: usize = 3;

/// Bytes that stay in the array's buffer until they are taken.
pub(crate) struct InPlace {
    engine: Arc<Engine>,
    id: BufferId,
    bytes: usize,
    /// The work that must be done before.
    until: Pin<Box<Arrival>>,
    /// The newest batch that is known to be done once `until` is over.
    batch: u64,
    tries: usize,
}

impl InPlace {
    /// Reads the first `bytes` bytes of a buffer once submission `index`, of batch `batch`, is done. The caller has counted
    /// this reader.
    pub(crate) fn after(
        engine: Arc<Engine>,
        index: wgpu::SubmissionIndex,
        batch: u64,
        id: BufferId,
        bytes: usize,
    ) -> Self {
        let until = Box::pin(Arrival::of_nothing(engine.clone(), index));
        Self { engine, id, bytes, until, batch, tries: 0 }
    }

    /// The bytes; or `None` if newer work uses the buffer, which is then waited for: by `until`, or here after a few tries if
    /// the caller may block. Call it when `until` is over.
    fn take(&mut self, mut state: MutexGuard<'_, State>, may_block: bool) -> Result<Option<HostBytes>> {
        let (buffer, last) = loop {
            let number = state.batch.number;
            let recording = (!state.batch.is_empty()).then_some(number);
            let last = state.last.clone().ok_or_else(|| unknown("read", self.id))?;
            let live = state.memory.get(self.id).ok_or_else(|| unknown("read", self.id))?;
            if let Some(error) = &live.poison {
                return Err(error.clone());
            }
            if live.mapped {
                state = self.engine.unmapped.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if Some(live.block.batch) == recording {
                // The batch that is being recorded uses it: a submission must find it unmapped.
                self.engine.submit(&mut state);
            } else if self.batch < live.block.batch
                // Otherwise what would use it was refused before it became part of a batch.
                && live.block.batch < number
                && (self.tries < TRIES || !may_block)
            {
                self.tries += 1;
                self.batch = number - 1;
                drop(state);
                self.until = Box::pin(Arrival::of_nothing(self.engine.clone(), last));
                return Ok(None);
            } else {
                live.mapped = true;
                let buffer = live.block.buffer.clone();
                state.mapped += 1;
                break (buffer, last);
            }
        };
        drop(state);
        let mut held = Held { engine: &self.engine, id: self.id, buffer: &buffer, is_mapped: false };
        held.map(self.bytes, last).map(Some).map_err(|error| self.engine.gpu.or_lost(error))
    }
}

/// A buffer that nobody else maps or submits work on: unmaps it and wakes who waits for that.
struct Held<'a> {
    engine: &'a Engine,
    id: BufferId,
    buffer: &'a wgpu::Buffer,
    is_mapped: bool,
}

impl Held<'_> {
    /// Copies the first `bytes` bytes out; `last` is the last submission that may use the buffer.
    ///
    /// What was asked for is always awaited: wgpu 30 leaves a buffer mapped for ever if it is unmapped just when another
    /// thread's poll maps it.
    fn map(&mut self, bytes: usize, last: wgpu::SubmissionIndex) -> Result<HostBytes> {
        let gpu = &self.engine.gpu;
        let (promise, slot) = Promise::new();
        let whole = (bytes as u64).next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        gpu.scoped("read", || {
            self.buffer.map_async(wgpu::MapMode::Read, ..whole, move |result| {
                promise.keep(result.map_err(|error| failed(error.to_string())));
            });
        })?;
        // Its work is done, as a rule, and this maps it.
        poll(gpu, wgpu::PollType::Poll)?;
        if slot.get().is_none() {
            poll_until(gpu, last)?;
        }
        if slot.get().is_none() {
            // Data of a batch that was refused goes to the device with whatever wgpu submits next.
            poll(gpu, wgpu::PollType::wait_indefinitely())?;
        }
        // Another thread may be about to run the callback.
        let mapped = slot.wait();
        self.is_mapped = true;
        mapped?;
        let view = self.buffer.get_mapped_range(..whole).map_err(|error| failed(error.to_string()))?;
        HostBytes::copy_of(&view[..bytes])
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_mapped {
            // It fails where the mapping did, which its reader tells.
            let _ = self.engine.gpu.scoped("read", || self.buffer.unmap());
        }
        let mut state = self.engine.state();
        if let Some(live) = state.memory.get(self.id) {
            live.mapped = false;
        }
        state.mapped -= 1;
        state.reads_in_place += u64::from(self.is_mapped);
        drop(state);
        self.engine.unmapped.notify_all();
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        self.engine.give_back(Dropped::Reader(self.id));
    }
}

impl Future for InPlace {
    type Output = Result<HostBytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Err(error) = std::task::ready!(self.until.as_mut().poll(cx)) {
                return Poll::Ready(Err(error));
            }
            let engine = Arc::clone(&self.engine);
            // wgpu wakes from inside a submission, under the lock; who polls there comes again.
            let Some(state) = engine.try_state() else {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            };
            if let Some(taken) = self.take(state, false).transpose() {
                return Poll::Ready(taken);
            }
        }
    }
}

impl Completion<HostBytes> for InPlace {
    fn wait(mut self: Pin<Box<Self>>) -> Result<HostBytes> {
        loop {
            self.until.as_mut().wait_here()?;
            let engine = Arc::clone(&self.engine);
            if let Some(bytes) = self.take(engine.state(), true)? {
                return Ok(bytes);
            }
        }
    }
}

impl Engine {
    /// The state, once no buffer of a recording is mapped.
    pub(crate) fn state_for(&self, recording: &Recording) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.mapped > 0 && recording.dispatches.iter().any(|dispatch| state.is_mapped(dispatch)) {
            state = self.unmapped.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}
