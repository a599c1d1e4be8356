//! Devices: handles on an open backend, and the ways to make arrays on it.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::array::{Array, Storage};
use crate::backend::{Backend, Caps, DeviceInfo, Pending};
use crate::dtype::{Dtype, Element};
use crate::error::{Error, ErrorKind, Located, Result};
use crate::expr::Expr;
use crate::fuse::Fuser;
use crate::layout::Layout;
use crate::plan::{MAX_ELEMENTS, Statement, map};
use crate::shape::{IntoShape, Shape};

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

    /// An array of the given values in row-major order.
    ///
    /// # Errors
    /// The number of values is not that of the shape, the array is above the device's limit, its memory is full, or it
    /// lacks the type.
    #[track_caller]
    pub fn array<T: Element>(&self, values: &[T], shape: impl IntoShape) -> Result<Array<T>> {
        let (op, shape) = ("array", shape.into_shape());
        if shape.countable(op).located()? != values.len() {
            return Err(Error::here(ErrorKind::LengthMismatch { op, got: values.len(), shape }));
        }
        self.check(op, T::DTYPE, &shape).located()?;
        let id = self.backend.upload(&T::to_bytes(values)).located()?;
        let storage = Storage::new(id, T::DTYPE, self.clone());
        Ok(Array::new(Arc::new(storage), Layout::contiguous(shape)))
    }

    /// An array whose every element is `value`.
    ///
    /// # Errors
    /// As [`array`](Self::array), but for the number of values.
    #[track_caller]
    pub fn full<T: Element>(&self, value: T, shape: impl IntoShape) -> Result<Array<T>> {
        let (op, shape) = ("full", shape.into_shape());
        let storage = self.storage(op, T::DTYPE, &shape).located()?;
        self.fill(op, value, &storage, &shape).located()?;
        Ok(Array::new(storage, Layout::contiguous(shape)))
    }

    /// An array of zeros (`false` for bool).
    ///
    /// # Errors
    /// As [`full`](Self::full).
    #[track_caller]
    pub fn zeros<T: Element>(&self, shape: impl IntoShape) -> Result<Array<T>> {
        self.full(T::from_scalar(crate::Scalar { dtype: T::DTYPE, bits: 0 }), shape)
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

    pub(crate) fn fill<T: Element>(
        &self,
        op: &'static str,
        value: T,
        storage: &Arc<Storage>,
        shape: &Shape,
    ) -> Result<()> {
        if shape.size() == 0 {
            return Ok(());
        }
        let roots = [Expr::scalar(value).node?];
        let mut fused = Fuser::new(op, &roots).fuse()?;
        fused.shape = shape.clone();
        let mut statement = Statement::new(op, self);
        map::plan(&mut statement, &fused, std::slice::from_ref(storage))?;
        statement.run()
    }

    /// New memory for an array, with undefined contents.
    pub(crate) fn storage(&self, op: &'static str, dtype: Dtype, shape: &Shape) -> Result<Arc<Storage>> {
        let bytes = self.check(op, dtype, shape)?;
        let id = self.backend.allocate(bytes)?;
        Ok(Arc::new(Storage::new(id, dtype, self.clone())))
    }

    /// Checks type and size of a new array; returns its bytes.
    fn check(&self, op: &'static str, dtype: Dtype, shape: &Shape) -> Result<u64> {
        let device = || self.info().to_string();
        if !self.caps().dtypes.contains(&dtype) {
            return Err(ErrorKind::UnsupportedDtype { dtype, device: device() }.into());
        }
        let limit = |what, needed: u64, limit: u64| ErrorKind::Limit { op, what, needed, limit, device: device() };
        let size = shape.countable(op)?;
        if size > MAX_ELEMENTS {
            return Err(limit("elements of one array", size as u64, MAX_ELEMENTS as u64).into());
        }
        let bytes = size as u64 * dtype.bytes() as u64;
        let most = self.caps().max_array_bytes;
        if bytes > most {
            return Err(limit("bytes of one array", bytes, most).into());
        }
        Ok(bytes)
    }
}
