//! Evaluation: expressions into arrays, arrays to the host. Only reads wait for results.

use crate::array::Array;
use crate::backend::Pending;
use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Located, Result};
use crate::expr::Expr;
use crate::fuse::fuse;
use crate::host::HostArray;
use crate::layout::Layout;
use crate::plan::{Statement, map};
use crate::shape::IntoShape;

impl<T: Element> Array<T> {
    /// The same elements in row-major order under another shape of the same size.
    ///
    /// A view where the layout allows one, as it does for every row-major array; else a copy, as NumPy's `reshape`.
    ///
    /// # Errors
    /// The shape has another number of elements; for a copy, as [`eval`](crate::ArrayOps::eval).
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Result<Self> {
        let shape = shape.into_shape();
        if shape.countable("reshape").located()? != self.size() {
            return Err(Error::here(ErrorKind::LengthMismatch { op: "reshape", got: self.size(), shape }));
        }
        match self.layout().reshape(&shape) {
            Some(layout) => Ok(self.with_layout(layout)),
            None => {
                let copy = self.copy()?;
                Ok(copy.with_layout(Layout::contiguous(shape)))
            }
        }
    }

    /// The same elements in new row-major memory.
    ///
    /// # Errors
    /// As [`eval`](crate::ArrayOps::eval).
    #[track_caller]
    pub fn copy(&self) -> Result<Self> {
        compute("copy", &Expr::array(self.as_view().clone())).located()
    }

    /// Starts reading the values to the host, row-major. `.await` it, or call its `wait`.
    #[track_caller]
    pub fn read(&self) -> Pending<HostArray<T>> {
        let shape = self.shape().clone();
        if self.size() == 0 {
            return Pending::ready(Ok(HostArray::new(shape, Vec::new())));
        }
        // A whole storage is read as it lies; any other view is copied together on the device first.
        let whole = if self.is_contiguous() && self.layout().offset == 0 { Ok(self.clone()) } else { self.copy() };
        match whole {
            Err(error) => Pending::ready(Err(error)).located(),
            Ok(whole) => {
                let bytes = whole.size() as u64 * T::DTYPE.bytes() as u64;
                let read = self.device().backend().read(whole.as_view().storage.id(), bytes);
                read.map(move |bytes| Ok(HostArray::new(shape, T::from_bytes(bytes)?))).located()
            }
        }
    }

    /// Waits for the values and returns them.
    ///
    /// # Errors
    /// The device was lost, the work that makes the array failed, or device or host have no memory for a copy.
    #[track_caller]
    pub fn to_host(&self) -> Result<HostArray<T>> {
        self.read().wait()
    }

    /// Waits for the value of an array of one element and returns it.
    ///
    /// # Errors
    /// The array has another number of elements, or as [`to_host`](Self::to_host).
    #[track_caller]
    pub fn item(&self) -> Result<T> {
        self.read_item().wait()
    }

    /// [`item`](Self::item) without blocking: `x.read_item().await?`.
    #[track_caller]
    pub fn read_item(&self) -> Pending<T> {
        let shape = self.shape().clone();
        if shape.size() != 1 {
            return Pending::ready(Err(Error::here(ErrorKind::NotOneElement { shape })));
        }
        self.read()
            .map(|host| {
                let value = host.as_slice().first().copied();
                value.ok_or_else(|| {
                    ErrorKind::Backend { op: "item", message: "the device returned nothing".into() }.into()
                })
            })
            .located()
    }
}

/// Computes an expression into a new row-major array.
pub(crate) fn compute<T: Element>(op: &'static str, expr: &Expr<T>) -> Result<Array<T>> {
    let node = expr.node.clone()?;
    let device = node.device(op)?.clone();
    let shape = node.shape().clone();
    let storage = device.storage(op, T::DTYPE, &shape)?;
    if shape.size() > 0 {
        let fused = fuse(op, &[node], &device, 1)?;
        let mut statement = Statement::new(op, &device);
        map::plan(&mut statement, &fused, std::slice::from_ref(&storage))?;
        statement.run()?;
    }
    Ok(Array::new(storage, Layout::contiguous(shape)))
}
