//! The ways to make arrays on a device: from values, and full of one value.

use std::sync::Arc;

use crate::array::Array;
use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Located, Result};
use crate::expr::Expr;
use crate::fuse::Fuser;
use crate::layout::Layout;
use crate::plan::{Statement, map};
use crate::shape::{IntoShape, Shape};
use crate::storage::Storage;

impl Device {
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
        let id = self.backend().upload(&T::to_bytes(values)).located()?;
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
}
