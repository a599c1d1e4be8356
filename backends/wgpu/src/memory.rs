//! Allocating, uploading and releasing: from bytes to a block of the pool.
//!
//! What enters: sizes and host data. What leaves: buffer ids. Decided: host data goes to the device before the batch that is
//! being recorded, so the block it lands in is one that this batch does not touch. Neither the creation of an array's
//! buffer nor the copy happens under the engine's lock. Out of memory, the pool's free blocks and the staging buffers
//! go back to the driver before the error goes to the user.

use kiln_array::recording::BufferId;
use kiln_array::{Error, ErrorKind, Result};

use crate::buffers::{Block, Reuse, size_class};
use crate::engine::{Engine, State};
use crate::error::lock;

/// What was dropped while somebody may have had the state's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dropped {
    /// An array's buffer.
    Array(BufferId),
    /// A read that would have taken its bytes from the buffer.
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser shares no memory"))]
    Reader(BufferId),
}

impl Engine {
    /// A buffer with undefined contents.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<BufferId> {
        let block = self.block("allocate", bytes, false)?;
        Ok(self.state().memory.insert(block))
    }

    /// A buffer with `data` in it.
    pub(crate) fn upload(&self, data: &[u8]) -> Result<BufferId> {
        let bytes = data.len() as u64;
        let block = self.block("upload", bytes, true)?;
        let written = self.write(&block.buffer, data);
        let mut state = self.state();
        let id = state.memory.insert(block);
        if let Err(error) = written {
            state.release(id);
            return Err(with_bytes(error, bytes));
        }
        state.batch.bytes += bytes;
        let behind = self.submit_if_full(&mut state);
        drop(state);
        if let Err(error) = self.catch_up(behind) {
            self.release(id);
            return Err(error);
        }
        Ok(id)
    }

    /// Takes a buffer back. Work recorded before still sees it.
    ///
    /// Never waits for the lock: wgpu calls back from inside a submission, the owner's callbacks and wakers of tasks
    /// among them, and those may drop arrays. What cannot be released now is released by the next who has the lock.
    pub(crate) fn release(&self, id: BufferId) {
        self.give_back(Dropped::Array(id));
    }

    /// Takes back what an array or a read held, now or with the next call that has the lock.
    pub(crate) fn give_back(&self, dropped: Dropped) {
        lock(&self.released).push(dropped);
        if let Ok(mut state) = self.state.try_lock() {
            self.release_dropped(&mut state);
        }
    }

    /// The engine's state, without the buffers that were dropped meanwhile.
    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        self.release_dropped(&mut state);
        state
    }

    /// [`state`](Self::state), if nobody has the lock.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn try_state(&self) -> Option<std::sync::MutexGuard<'_, State>> {
        let mut state = self.state.try_lock().ok()?;
        self.release_dropped(&mut state);
        Some(state)
    }

    fn release_dropped(&self, state: &mut State) {
        let dropped = std::mem::take(&mut *lock(&self.released));
        for dropped in dropped {
            match dropped {
                Dropped::Array(id) => state.release(id),
                Dropped::Reader(id) => {
                    state.memory.read(id);
                    state.trim();
                }
            }
        }
    }

    /// Memory for `bytes` bytes, from the pool or new. `untouched`: not used by the batch that is being recorded.
    fn block(&self, op: &'static str, bytes: u64, untouched: bool) -> Result<Block> {
        self.gpu.check()?;
        let limit = self.caps.max_array_bytes;
        let bytes = bytes.max(1).checked_next_multiple_of(16).unwrap_or(u64::MAX);
        if bytes > limit {
            let what = "bytes of one array";
            return Err(ErrorKind::Limit { op, what, needed: bytes, limit, device: self.gpu.health.device() }.into());
        }
        let class = size_class(bytes, limit);
        let mut state = self.state();
        let reuse = if untouched { Reuse::Before(state.batch.number) } else { Reuse::Any };
        if let Some(block) = state.memory.take(class, reuse) {
            return Ok(block);
        }
        drop(state);
        let buffer = match self.create(op, class) {
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => {
                self.give_free_memory_back()?;
                self.create(op, class).map_err(|error| with_bytes(error, bytes))?
            }
            other => other?,
        };
        Ok(self.state().memory.adopt(buffer))
    }

    fn create(&self, op: &'static str, bytes: u64) -> Result<wgpu::Buffer> {
        let mut usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        if self.in_place {
            usage |= wgpu::BufferUsages::MAP_READ;
        }
        let descriptor =
            wgpu::BufferDescriptor { label: Some("kiln.array"), size: bytes, usage, mapped_at_creation: false };
        self.gpu.scoped(op, || self.gpu.device.create_buffer(&descriptor))
    }

    /// Gives the pool's free blocks and staging buffers back to the driver, and waits until it has them.
    pub(crate) fn give_free_memory_back(&self) -> Result<()> {
        self.gpu.check()?;
        self.staging.clear();
        let mut state = self.state();
        let dropped = state.memory.trim_all();
        state.bind_groups.forget(&dropped);
        drop(dropped);
        self.submit(&mut state);
        let last = state.last.clone();
        drop(state);
        self.catch_up(last)
    }
}

impl State {
    fn release(&mut self, id: BufferId) {
        self.memory.release(id);
        self.trim();
    }

    /// Gives memory back that is free beyond the bound.
    fn trim(&mut self) {
        if self.memory.is_hoarding() {
            let dropped = self.memory.trim_hoard();
            self.bind_groups.forget(&dropped);
            // The batch keeps those that it uses until it has run.
            let number = self.batch.number;
            let kept = dropped.iter().filter(|block| block.batch == number);
            self.batch.bytes += kept.map(|block| block.bytes).sum::<u64>();
        }
    }
}

/// An out-of-memory error with the size that was asked for.
pub(crate) fn with_bytes(error: Error, bytes: u64) -> Error {
    match error.kind() {
        ErrorKind::OutOfMemory { device, .. } => ErrorKind::OutOfMemory { bytes, device: device.clone() }.into(),
        _ => error,
    }
}
