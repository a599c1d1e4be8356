//! Device memory and the views of it: the ground that arrays and expressions stand on.
//!
//! What enters: an element type and a shape, which are checked against the device's limits. What leaves: memory that is
//! given back when nobody holds it.

use std::sync::Arc;

use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::{ErrorKind, Result};
use crate::layout::Layout;
use crate::recording::{BufferId, MAX_ELEMENTS};
use crate::shape::Shape;

/// Device memory of one or more arrays; given back when the last of them is dropped.
pub(crate) struct Storage {
    id: BufferId,
    dtype: Dtype,
    device: Device,
}

impl Storage {
    pub(crate) fn new(id: BufferId, dtype: Dtype, device: Device) -> Self {
        Self { id, dtype, device }
    }

    pub(crate) fn id(&self) -> BufferId {
        self.id
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.device.backend().release(self.id);
    }
}

/// A view of a storage.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) storage: Arc<Storage>,
    pub(crate) layout: Layout,
}

impl Device {
    /// New memory for an array, with undefined contents.
    pub(crate) fn storage(&self, op: &'static str, dtype: Dtype, shape: &Shape) -> Result<Arc<Storage>> {
        let bytes = self.check(op, dtype, shape)?;
        let id = self.backend().allocate(bytes)?;
        Ok(Arc::new(Storage::new(id, dtype, self.clone())))
    }

    /// Checks type and size of a new array; returns its bytes.
    pub(crate) fn check(&self, op: &'static str, dtype: Dtype, shape: &Shape) -> Result<u64> {
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
