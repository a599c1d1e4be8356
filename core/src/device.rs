//! Devices: handles on an open backend.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::backend::{Backend, Caps, DeviceInfo, Pending};
use crate::error::{Located, Result};

/// A device to compute on. Cloning makes another handle on the same device.
#[derive(Clone)]
pub struct Device {
    backend: Arc<dyn Backend>,
    schedule: Schedule,
    number: usize,
}

/// A handle that keeps no device open.
#[derive(Clone)]
pub struct WeakDevice {
    backend: Weak<dyn Backend>,
    schedule: Schedule,
    number: usize,
}

impl WeakDevice {
    /// The device, if a handle or an array keeps it open.
    #[must_use]
    pub fn upgrade(&self) -> Option<Device> {
        let backend = self.backend.upgrade()?;
        Some(Device { backend, schedule: self.schedule, number: self.number })
    }

    /// Whether the device is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.backend.strong_count() == 0
    }
}

impl fmt::Debug for WeakDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakDevice({})", self.number)
    }
}

/// Schedules forced on a device, instead of those chosen for its size.
///
/// Results do not depend on the schedule, bit for bit; tests force every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// Leaves that one workgroup holds, as a power of two; cut to what the device has.
    pub log_slots: Option<u32>,
    /// Whether neighbouring invocations take neighbouring lines.
    pub line_fastest: Option<bool>,
}

impl PartialEq for Device {
    /// Whether both are handles on one open device.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.info())
    }
}

impl Device {
    /// A handle on a backend.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        static DEVICES: AtomicUsize = AtomicUsize::new(1);
        let number = DEVICES.fetch_add(1, Ordering::Relaxed);
        Self { backend, schedule: Schedule::default(), number }
    }

    /// Another handle on this device, whose arrays are reduced and scanned with a forced schedule.
    #[must_use]
    pub fn with_schedule(&self, schedule: Schedule) -> Self {
        Self { backend: Arc::clone(&self.backend), schedule, number: self.number }
    }

    /// A handle that does not keep the device open.
    #[must_use]
    pub fn downgrade(&self) -> WeakDevice {
        WeakDevice { backend: Arc::downgrade(&self.backend), schedule: self.schedule, number: self.number }
    }

    /// What tells it from another of the same name: its place among the devices that this process has opened.
    pub(crate) fn told_apart(&self) -> String {
        format!("{} as device {}", self.info(), self.number)
    }

    /// Which device it is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }

    /// Its limits, as planners see them.
    #[must_use]
    pub fn caps(&self) -> &Caps {
        self.backend.caps()
    }

    /// The backend behind it, if it is a `B`: its own counters, handles and times.
    #[must_use]
    pub fn backend_as<B: Backend>(&self) -> Option<&B> {
        let backend: &dyn Any = &*self.backend;
        backend.downcast_ref()
    }

    /// The backend behind it.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Blocks until the work of all earlier calls is done; `.await` it instead to go on meanwhile.
    #[track_caller]
    pub fn synchronize(&self) -> Pending<()> {
        self.backend.synchronize().located()
    }

    /// Gives back the memory that the device keeps for later arrays. It may wait for work under way.
    ///
    /// A new page of memory costs more than what is computed into it, so the memory of dropped arrays and of reads is
    /// kept. The CPU backend keeps up to twice the most that arrays held at once lately, 16 MiB at least and 512 MiB at
    /// most. GPUs keep what arrays held at once lately beyond what they hold now, and 256 MiB more. When memory runs
    /// out, the device gives it back by itself before it fails. The CPU backend gives it to the program's allocator,
    /// which may hold on to a part of it.
    ///
    /// # Errors
    /// The device was lost.
    pub fn trim(&self) -> Result<()> {
        self.backend.trim()
    }
}
