//! Shapes, NumPy's broadcasting rule, and the ways to name axes.

use std::fmt;
use std::ops::{Deref, RangeFull};

use smallvec::SmallVec;

use crate::error::{ErrorKind, Result};

/// The lengths of an array's axes, slowest first. `[]` is a 0-d array: one element.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(pub(crate) SmallVec<[usize; 4]>);

impl Shape {
    /// The number of elements, or `None` where it does not fit a `usize`.
    #[must_use]
    pub fn checked_size(&self) -> Option<usize> {
        if self.contains(&0) {
            return Some(0);
        }
        self.iter().try_fold(1usize, |size, &len| size.checked_mul(len))
    }

    /// The number of elements. Saturates; arrays that exist always fit.
    #[must_use]
    pub fn size(&self) -> usize {
        self.checked_size().unwrap_or(usize::MAX)
    }

    /// The number of elements, or an error where nobody can count them.
    pub(crate) fn countable(&self, op: &'static str) -> Result<usize> {
        let size = self.checked_size().filter(|&size| isize::try_from(size).is_ok());
        size.ok_or_else(|| ErrorKind::TooLarge { op, shape: self.clone() }.into())
    }

    /// The number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.0.len()
    }

    /// The shape that both broadcast to by NumPy's rule: axes are matched from the last; lengths must be equal or 1.
    pub(crate) fn broadcast(&self, other: &Self) -> Option<Self> {
        let (long, short) = if self.ndim() >= other.ndim() { (self, other) } else { (other, self) };
        let mut out = long.clone();
        let gap = long.ndim() - short.ndim();
        for (axis, &len) in short.iter().enumerate() {
            let slot = &mut out.0[gap + axis];
            *slot = match (*slot, len) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            };
        }
        Some(out)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (axis, len) in self.iter().enumerate() {
            if axis > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{len}")?;
        }
        f.write_str(if self.ndim() == 1 { ",)" } else { ")" })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(lens: I) -> Self {
        Self(lens.into_iter().collect())
    }
}

/// What can be given where a shape is asked for: `[2, 3]`, `vec![2, 3]`, `&[2, 3][..]`, `6`, `()` for 0-d.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no shape",
    label = "a shape is a number of `usize` or an array of them",
    note = "two rows of three elements are `[2, 3]`, a single element is `()`"
)]
pub trait IntoShape {
    /// The shape.
    fn into_shape(self) -> Shape;
}

impl IntoShape for Shape {
    fn into_shape(self) -> Shape {
        self
    }
}
impl IntoShape for &Shape {
    fn into_shape(self) -> Shape {
        self.clone()
    }
}
impl IntoShape for () {
    fn into_shape(self) -> Shape {
        Shape::default()
    }
}
impl IntoShape for usize {
    fn into_shape(self) -> Shape {
        Shape(smallvec::smallvec![self])
    }
}
impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self) -> Shape {
        self.into_iter().collect()
    }
}
impl<const N: usize> IntoShape for &[usize; N] {
    fn into_shape(self) -> Shape {
        self.iter().copied().collect()
    }
}
impl IntoShape for &[usize] {
    fn into_shape(self) -> Shape {
        self.iter().copied().collect()
    }
}
impl IntoShape for Vec<usize> {
    fn into_shape(self) -> Shape {
        self.into_iter().collect()
    }
}

/// Axes to reduce, and whether they stay as axes of length 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// The axes as given (negative ones count from the end), or all of them.
    pub(crate) list: Option<SmallVec<[isize; 4]>>,
    /// Whether a reduced axis stays, with length 1.
    pub(crate) keep: bool,
}

impl Axes {
    /// The axes counted from the front, ascending, each checked.
    pub(crate) fn resolve(&self, op: &'static str, shape: &Shape) -> Result<SmallVec<[usize; 4]>> {
        let Some(list) = &self.list else {
            return Ok((0..shape.ndim()).collect());
        };
        let mut axes: SmallVec<[usize; 4]> = SmallVec::new();
        for &axis in list {
            let at = resolve_axis(op, axis, shape.ndim())?;
            if axes.contains(&at) {
                return Err(ErrorKind::RepeatedAxis { op, axis: at, shape: shape.clone() }.into());
            }
            axes.push(at);
        }
        axes.sort_unstable();
        Ok(axes)
    }
}

/// One axis counted from the front.
pub(crate) fn resolve_axis(op: &'static str, axis: isize, ndim: usize) -> Result<usize> {
    let at = if axis < 0 { axis.checked_add_unsigned(ndim) } else { Some(axis) };
    match at.and_then(|at| usize::try_from(at).ok()) {
        Some(at) if at < ndim => Ok(at),
        _ => Err(ErrorKind::AxisOutOfRange { op, axis, ndim }.into()),
    }
}

/// The given axes, kept as axes of length 1, so that the result broadcasts against the array it came from.
///
/// NumPy's `keepdims=True`: `x.mean(keep(1))?` of shape `(5, 7)` is `(5, 1)`.
pub fn keep(axes: impl IntoAxes) -> Axes {
    Axes { keep: true, ..axes.into_axes() }
}

/// What can name the axes of a reduction: whatever makes [`Axes`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no axes",
    label = "axes are `..`, a number or an array of numbers",
    note = "the larger of each two elements is `x.maximum(&y)`, the smaller `x.minimum(&y)`"
)]
pub trait IntoAxes {
    /// The axes.
    fn into_axes(self) -> Axes;
}

#[diagnostic::do_not_recommend]
impl<A: Into<Axes>> IntoAxes for A {
    fn into_axes(self) -> Axes {
        self.into()
    }
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Self {
        Self { list: None, keep: false }
    }
}

/// One axis; a negative number counts from the end. Made of `usize`, `isize` and `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis(pub(crate) isize);

/// What can name the axis of a scan: whatever makes an [`Axis`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one axis",
    label = "an axis is a number; a negative one counts from the end",
    note = "all elements lie along the only axis of `x.reshape(x.size())?`",
    note = "the larger of each two elements is `x.maximum(&y)`, the smaller `x.minimum(&y)`"
)]
pub trait IntoAxis {
    /// The axis.
    fn into_axis(self) -> Axis;
}

#[diagnostic::do_not_recommend]
impl<A: Into<Axis>> IntoAxis for A {
    fn into_axis(self) -> Axis {
        self.into()
    }
}

impl From<isize> for Axis {
    fn from(axis: isize) -> Self {
        Self(axis)
    }
}
impl From<i32> for Axis {
    fn from(axis: i32) -> Self {
        Self(axis as isize)
    }
}
impl From<usize> for Axis {
    /// Numbers beyond `isize::MAX` are beyond any axis, and refused where the axis is used.
    fn from(axis: usize) -> Self {
        Self(isize::try_from(axis).unwrap_or(isize::MAX))
    }
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        [axis].into()
    }
}
impl From<i32> for Axes {
    fn from(axis: i32) -> Self {
        [axis].into()
    }
}
impl From<usize> for Axes {
    fn from(axis: usize) -> Self {
        [Axis::from(axis).0].into()
    }
}
impl<const N: usize> From<[usize; N]> for Axes {
    fn from(axes: [usize; N]) -> Self {
        Self { list: Some(axes.into_iter().map(|axis| Axis::from(axis).0).collect()), keep: false }
    }
}
impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Self {
        Self { list: Some(axes.into_iter().collect()), keep: false }
    }
}
impl<const N: usize> From<[i32; N]> for Axes {
    fn from(axes: [i32; N]) -> Self {
        Self { list: Some(axes.into_iter().map(|axis| axis as isize).collect()), keep: false }
    }
}
impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Self {
        Self { list: Some(axes.iter().copied().collect()), keep: false }
    }
}
impl From<Vec<isize>> for Axes {
    fn from(axes: Vec<isize>) -> Self {
        axes.as_slice().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(lens: &[usize]) -> Shape {
        lens.into_shape()
    }

    #[test]
    fn broadcast_follows_numpy() {
        for (a, b, want) in [
            (&[][..], &[][..], Some(&[][..])),
            (&[3, 1], &[4], Some(&[3, 4])),
            (&[0], &[1], Some(&[0])),
            (&[0], &[3], None),
            (&[2, 0, 4], &[1, 4], Some(&[2, 0, 4])),
            (&[10, 1], &[3, 1], None),
            (&[3, 1], &[0], Some(&[3, 0])),
        ] {
            assert_eq!(shape(a).broadcast(&shape(b)), want.map(shape), "{a:?} {b:?}");
            assert_eq!(shape(b).broadcast(&shape(a)), want.map(shape), "{b:?} {a:?}");
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(shape(&[usize::MAX, 2]).checked_size(), None);
        assert_eq!(shape(&[usize::MAX, 2, 0]).checked_size(), Some(0));
        assert_eq!(shape(&[]).size(), 1);
    }

    #[test]
    fn axes_count_from_either_end() {
        let s = shape(&[2, 3, 4]);
        assert_eq!(Axes::from(-1).resolve("sum", &s).unwrap().as_slice(), [2]);
        assert_eq!(Axes::from([2, 0]).resolve("sum", &s).unwrap().as_slice(), [0, 2]);
        for bad in [Axes::from(3), Axes::from(-4), Axes::from([0, 0]), Axes::from([0, -3]), Axes::from(isize::MIN)] {
            assert!(bad.resolve("sum", &s).is_err(), "{bad:?}");
        }
    }
}
