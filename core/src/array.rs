//! Arrays: values on a device. Views share storage and differ in layout; only reads wait for
//! results.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::backend::Pending;
use crate::device::Device;
use crate::dtype::{Dtype, Element};
use crate::elementwise::ArrayOps;
use crate::error::{Error, ErrorKind, Located, Result};
use crate::expr::{Expr, Source};
use crate::host::HostArray;
use crate::layout::Layout;
use crate::recording::BufferId;
use crate::shape::{IntoAxis, IntoShape, Shape, resolve_axis};
use crate::slice::SliceItem;

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

/// An n-dimensional array on a device.
///
/// An array is a value: cloning it shares its memory, and nothing changes an array once it is made. Slices, transposes
/// and other views are new arrays that share memory too; any of them can be used wherever an array can.
///
/// `Debug` shows shape, type and device. Values come to the host by [`item`](Self::item), [`to_host`](Self::to_host)
/// and [`read`](Self::read) only, which wait for the device.
pub struct Array<T> {
    source: Source,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), marker: PhantomData }
    }
}

impl<T: Element> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array<{}> {} on {}", T::DTYPE, self.shape(), self.device().info())
    }
}

impl<T: Element> Array<T> {
    pub(crate) fn new(storage: Arc<Storage>, layout: Layout) -> Self {
        debug_assert_eq!(storage.dtype(), T::DTYPE);
        Self { source: Source { storage, layout }, marker: PhantomData }
    }

    fn view(&self, layout: Layout) -> Self {
        Self::new(Arc::clone(&self.source.storage), layout)
    }

    fn layout(&self) -> &Layout {
        &self.source.layout
    }

    /// The lengths of the axes.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.layout().shape
    }

    /// The number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.shape().ndim()
    }

    /// The number of elements.
    #[must_use]
    pub fn size(&self) -> usize {
        self.shape().size()
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        T::DTYPE
    }

    /// The device that holds the array.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.source.storage.device()
    }

    /// Elements between neighbours along each axis.
    #[must_use]
    pub fn strides(&self) -> &[isize] {
        &self.layout().strides
    }

    /// Whether the elements lie in row-major order without gaps.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout().is_contiguous()
    }

    /// The view that a slice takes: `x.slice(s![1, .., 2..8;2])`. No element moves.
    ///
    /// # Errors
    /// More items than axes, an index out of range, a step of zero.
    #[track_caller]
    pub fn slice(&self, items: impl AsRef<[SliceItem]>) -> Result<Self> {
        Ok(self.view(self.layout().slice(items.as_ref()).located()?))
    }

    /// The view with its axes in reverse order: NumPy's `x.T`.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let mut layout = self.layout().clone();
        layout.shape.0.reverse();
        layout.strides.reverse();
        self.view(layout)
    }

    /// The view whose axis `i` is this array's axis `axes[i]`: NumPy's `transpose(axes)`.
    ///
    /// # Errors
    /// `axes` is not a permutation of the axes.
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[isize]>) -> Result<Self> {
        Ok(self.view(self.layout().permute("permute", axes.as_ref()).located()?))
    }

    /// The view with the order of the elements along an axis reversed: NumPy's `flip`.
    ///
    /// # Errors
    /// The axis is out of range.
    #[track_caller]
    pub fn reverse(&self, axis: impl IntoAxis) -> Result<Self> {
        let at = resolve_axis("reverse", axis.into_axis().0, self.ndim()).located()?;
        let mut items = vec![SliceItem::from(..); at];
        items.push(SliceItem::from(..).step_by(-1));
        self.slice(items)
    }

    /// The view stretched to `shape` by NumPy's broadcasting rule.
    ///
    /// # Errors
    /// The array does not broadcast to that shape, or its elements cannot be counted. A view may have more elements
    /// than an array in memory: it can be reduced, though not copied.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Result<Self> {
        let (op, shape) = ("broadcast_to", shape.into_shape());
        let layout = self.layout().broadcast_to(op, &shape).located()?;
        shape.countable(op).located()?;
        Ok(self.view(layout))
    }

    /// The same elements in row-major order under another shape of the same size.
    ///
    /// A view where the layout allows one, as it does for every row-major array; else a copy, as NumPy's `reshape`.
    ///
    /// # Errors
    /// The shape has another number of elements; for a copy, as [`eval`](ArrayOps::eval).
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Result<Self> {
        let shape = shape.into_shape();
        if shape.countable("reshape").located()? != self.size() {
            return Err(Error::here(ErrorKind::LengthMismatch { op: "reshape", got: self.size(), shape }));
        }
        match self.layout().reshape(&shape) {
            Some(layout) => Ok(self.view(layout)),
            None => {
                let copy = self.copy()?;
                Ok(copy.view(Layout::contiguous(shape)))
            }
        }
    }

    /// The same elements in new row-major memory.
    ///
    /// # Errors
    /// As [`eval`](ArrayOps::eval).
    #[track_caller]
    pub fn copy(&self) -> Result<Self> {
        crate::elementwise::compute("copy", &Expr::array(self.source.clone())).located()
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
                let read = self.device().backend().read(whole.source.storage.id(), bytes);
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

impl<T: Element> ArrayOps for Array<T> {
    type Elem = T;
    fn to_expr(&self) -> Expr<T> {
        Expr::array(self.source.clone())
    }
}
