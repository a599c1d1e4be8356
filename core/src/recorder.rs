//! A backend that keeps what it is asked to run: to read plans, to list kernels, to test both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::{Backend, Caps, DeviceInfo, DeviceKind, Pending};
use crate::device::Device;
use crate::dtype::ROWS;
use crate::error::{ErrorKind, Result};
use crate::host::HostBytes;
use crate::kernel::KernelSpec;
use crate::recording::{BufferId, Recording};
use crate::warm::{Report, WarmUp};

/// Keeps recordings, and hands them on where it stands before another backend.
pub struct Recorder {
    inner: Option<Arc<dyn Backend>>,
    info: DeviceInfo,
    caps: Caps,
    buffers: AtomicU64,
    recordings: Mutex<Vec<Recording>>,
}

impl Recorder {
    /// A recorder that computes nothing. Arrays can be made and combined on its device, not read.
    #[must_use]
    pub fn new(caps: Caps) -> Arc<Self> {
        let (name, driver) = ("recorder".to_string(), String::new());
        let info = DeviceInfo { name, backend: "recorder", kind: DeviceKind::OtherGpu, driver };
        Self::make(None, info, caps)
    }

    /// A recorder before a device, which computes as it would without.
    #[must_use]
    pub fn before(device: &Device) -> Arc<Self> {
        Self::make(Some(Arc::clone(device.backend())), device.info().clone(), device.caps().clone())
    }

    fn make(inner: Option<Arc<dyn Backend>>, info: DeviceInfo, caps: Caps) -> Arc<Self> {
        Arc::new(Self { inner, info, caps, buffers: AtomicU64::new(0), recordings: Mutex::default() })
    }

    /// Caps of a GPU of middle size, whose kernels are those of most GPUs.
    #[must_use]
    pub fn gpu_caps() -> Caps {
        Caps {
            dtypes: ROWS.iter().map(|row| row.dtype).collect(),
            max_array_bytes: 1 << 31,
            max_operands: 8,
            max_groups: 65_535 * 65_535,
            log_slots: 12,
            busy_groups: 256,
            serial_groups: false,
        }
    }

    /// A device on this recorder.
    #[must_use]
    pub fn device(self: &Arc<Self>) -> Device {
        Device::new(Arc::<Self>::clone(self))
    }

    /// The recordings since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Recording> {
        std::mem::take(&mut *self.recordings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The kernels of some recordings, in order, with repetitions.
pub fn kernels(recordings: &[Recording]) -> impl Iterator<Item = &Arc<KernelSpec>> {
    recordings.iter().flat_map(|recording| recording.dispatches.iter().map(|dispatch| &dispatch.kernel))
}

impl Backend for Recorder {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        match &self.inner {
            Some(inner) => inner.allocate(bytes),
            None => Ok(BufferId(self.buffers.fetch_add(1, Ordering::Relaxed))),
        }
    }

    fn upload(&self, data: &[u8]) -> Result<BufferId> {
        match &self.inner {
            Some(inner) => inner.upload(data),
            None => self.allocate(data.len() as u64),
        }
    }

    fn release(&self, buffer: BufferId) {
        if let Some(inner) = &self.inner {
            inner.release(buffer);
        }
    }

    fn run(&self, recording: &Recording) -> Result<()> {
        self.recordings.lock().unwrap_or_else(PoisonError::into_inner).push(recording.clone());
        self.inner.as_ref().map_or(Ok(()), |inner| inner.run(recording))
    }

    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes> {
        match &self.inner {
            Some(inner) => inner.read(buffer, bytes),
            None => {
                let message = "a recorder computes nothing, so there is nothing to read".into();
                Pending::ready(Err(ErrorKind::Backend { op: "read", message }.into()))
            }
        }
    }

    fn synchronize(&self) -> Pending<()> {
        self.inner.as_ref().map_or_else(|| Pending::ready(Ok(())), |inner| inner.synchronize())
    }

    fn trim(&self) -> Result<()> {
        self.inner.as_ref().map_or(Ok(()), |inner| inner.trim())
    }

    fn warm_up(&self) -> WarmUp {
        self.inner.as_ref().map_or_else(|| WarmUp::done(Report::default()), |inner| inner.warm_up())
    }

    fn warm(&self, kernels: Vec<Arc<KernelSpec>>) -> WarmUp {
        self.inner.as_ref().map_or_else(|| WarmUp::done(Report::default()), |inner| inner.warm(kernels))
    }
}
