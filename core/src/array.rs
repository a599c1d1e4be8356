//! Arrays: values on a device. Views share storage and differ in layout.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::Device;
use crate::dtype::{Dtype, Element};
use crate::error::{Located, Result};
use crate::layout::Layout;
use crate::shape::{IntoAxis, IntoShape, Shape, resolve_axis};
use crate::slice::SliceItem;
use crate::storage::{Storage, View};

/// An n-dimensional array on a device.
///
/// An array is a value: cloning it shares its memory, and nothing changes an array once it is made. Slices, transposes
/// and other views are new arrays that share memory too; any of them can be used wherever an array can.
///
/// `Debug` shows shape, type and device. Values come to the host by [`item`](Self::item), [`to_host`](Self::to_host)
/// and [`read`](Self::read) only, which wait for the device.
pub struct Array<T> {
    view: View,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Self { view: self.view.clone(), marker: PhantomData }
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
        Self { view: View { storage, layout }, marker: PhantomData }
    }

    /// Another view of the same memory.
    pub(crate) fn with_layout(&self, layout: Layout) -> Self {
        Self::new(Arc::clone(&self.view.storage), layout)
    }

    /// What an expression reads.
    pub(crate) fn as_view(&self) -> &View {
        &self.view
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.view.layout
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
        self.view.storage.device()
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
        Ok(self.with_layout(self.layout().slice(items.as_ref()).located()?))
    }

    /// The view with its axes in reverse order: NumPy's `x.T`.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let mut layout = self.layout().clone();
        layout.shape.0.reverse();
        layout.strides.reverse();
        self.with_layout(layout)
    }

    /// The view whose axis `i` is this array's axis `axes[i]`: NumPy's `transpose(axes)`.
    ///
    /// # Errors
    /// `axes` is not a permutation of the axes.
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[isize]>) -> Result<Self> {
        Ok(self.with_layout(self.layout().permute("permute", axes.as_ref()).located()?))
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
        Ok(self.with_layout(layout))
    }
}
