//! Kiln's embedded CPU backend: blocked, vectorised, on all cores, and free of unsafe code.
//!
//! What enters: buffers and [`Recording`]s. What leaves: their results, bit for bit in the order of
//! [`kiln_array::plan::order`], as every other backend has them. Work runs at once, on the caller's thread or on the
//! backend's own; results are always ready.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `buffers`, `scratch` | the device's memory; a thread's blocks |
//! | `task` | a dispatch with its memory, checked |
//! | `gather`, `feed` | operands as blocks; their mapped elements |
//! | `operand`, `lanes`, `block` | blocks as values; one loop per operator; programs over blocks |
//! | `order` | the order in which values combine |
//! | `fast`, `totals`, `avx2`, `rows` | that order in loops of the built-in operators: along a line, across lines |
//! | `map`, `reduce`, `scan`, `spine` | the four families |
//! | `threads` | units of work dealt to threads |

#![forbid(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod block;
mod buffers;
mod fast;
mod feed;
mod gather;
mod lanes;
mod map;
mod numbers;
mod operand;
mod order;
mod reduce;
mod rows;
mod scan;
mod scratch;
mod spine;
mod task;
mod threads;
mod totals;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_array::backend::{Backend, Caps, DeviceInfo, DeviceKind, Pending};
use kiln_array::dtype::Dtype;
use kiln_array::kernel::KernelSpec;
use kiln_array::recording::{BufferId, Dispatch, Recording};
use kiln_array::warm::{Report, WarmUp};
use kiln_array::{Error, ErrorKind, HostBytes, Result};

use buffers::Store;
use threads::{PIECE, Threads};

/// The CPU as a device.
#[derive(Debug)]
pub struct Cpu {
    info: DeviceInfo,
    caps: Caps,
    store: Mutex<Store>,
    threads: Threads,
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

impl Cpu {
    /// A device with no buffers. Its threads start with its first large piece of work.
    #[must_use]
    pub fn new() -> Self {
        let threads = Threads::count();
        let info = DeviceInfo {
            name: format!("{} ({threads} threads)", std::env::consts::ARCH),
            backend: "cpu",
            kind: DeviceKind::Cpu,
            driver: format!("kiln {}", env!("CARGO_PKG_VERSION")),
        };
        let caps = Caps {
            dtypes: vec![Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F32],
            max_array_bytes: buffers::MAX_BYTES,
            max_operands: 64,
            max_groups: u64::MAX,
            log_slots: 12,
            busy_groups: threads,
            serial_groups: true,
        };
        Self { info, caps, store: Mutex::default(), threads: Threads::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        // A panic cannot leave the store half changed: buffers are put in and taken out whole.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether memory that is given back may help.
fn is_out_of_memory(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory { .. })
}

fn size(dispatch: &Dispatch) -> usize {
    dispatch.tiling.length.saturating_mul(dispatch.tiling.lines)
}

impl Backend for Cpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        if cfg!(target_endian = "big") {
            let reason = "the CPU backend needs a little-endian machine".to_string();
            return Err(ErrorKind::NoDevice { wanted: "cpu".into(), reason }.into());
        }
        self.store().allocate(bytes)
    }

    fn upload(&self, data: &[u8]) -> Result<BufferId> {
        let id = self.allocate(data.len() as u64)?;
        self.store().get_mut(id)?.bytes_mut()[..data.len()].copy_from_slice(data);
        Ok(id)
    }

    fn release(&self, buffer: BufferId) {
        self.store().release(buffer);
    }

    fn run(&self, recording: &Recording) -> Result<()> {
        let mut guard = self.store();
        let store = &mut *guard;
        let mut all = |parallel: bool| {
            recording
                .dispatches
                .iter()
                .try_for_each(|dispatch| task::run(dispatch, store, parallel && size(dispatch) > PIECE))
        };
        if recording.dispatches.iter().any(|dispatch| size(dispatch) > PIECE) {
            self.threads.run(all)
        } else {
            all(false)
        }
    }

    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes> {
        let mut store = self.store();
        let copied = match store.copy_of(buffer, bytes) {
            Err(error) if is_out_of_memory(&error) && store.trim() => store.copy_of(buffer, bytes),
            other => other,
        };
        Pending::ready(copied)
    }

    fn synchronize(&self) -> Pending<()> {
        Pending::ready(Ok(()))
    }

    fn trim(&self) -> Result<()> {
        self.store().trim();
        Ok(())
    }

    /// Nothing: nothing is compiled.
    fn warm_up(&self) -> WarmUp {
        WarmUp::done(Report::default())
    }

    /// Nothing: nothing is compiled.
    fn warm(&self, _kernels: Vec<Arc<KernelSpec>>) -> WarmUp {
        WarmUp::done(Report::default())
    }
}

#[cfg(test)]
mod tests;
