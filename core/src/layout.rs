//! Layouts: where the elements of a view lie in its storage. Views are changes of layout and nothing else.
//!
//! A layout is a shape, a stride (in elements, of any sign, 0 where an axis is broadcast) per axis, and the offset of
//! the first element. `collapse` merges axes that several layouts walk as one, so that kernels see few.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Shape, resolve_axis};
use crate::slice::{Picked, SliceItem};

/// Shape, strides and offset of a view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Lengths of the axes.
    pub shape: Shape,
    /// Elements between neighbours along each axis.
    pub strides: SmallVec<[isize; 4]>,
    /// Storage index of the first element.
    pub offset: usize,
}

/// Row-major strides of a shape.
pub(crate) fn row_major(shape: &[usize]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = smallvec![0; shape.len()];
    let mut step = 1isize;
    for (stride, &len) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.saturating_mul(isize::try_from(len).unwrap_or(isize::MAX));
    }
    strides
}

impl Layout {
    /// The row-major layout of a whole storage.
    #[must_use]
    pub fn contiguous(shape: Shape) -> Self {
        let strides = row_major(&shape);
        Self { shape, strides, offset: 0 }
    }

    /// Whether the elements lie in row-major order without gaps (from any offset).
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&len, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if len == 0 {
                return true;
            }
            if len != 1 {
                if stride != step {
                    return false;
                }
                step = step.saturating_mul(len.cast_signed());
            }
        }
        true
    }

    /// This layout seen with `shape`: axes of length 1 and missing leading axes get stride 0.
    pub(crate) fn broadcast_to(&self, op: &'static str, shape: &Shape) -> Result<Self> {
        let mismatch = || Error::from(ErrorKind::ShapeMismatch { op, lhs: self.shape.clone(), rhs: shape.clone() });
        let gap = shape.ndim().checked_sub(self.shape.ndim()).ok_or_else(mismatch)?;
        let mut strides: SmallVec<[isize; 4]> = smallvec![0; shape.ndim()];
        for (axis, (&len, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            let want = shape[gap + axis];
            if len == want {
                strides[gap + axis] = stride;
            } else if len != 1 {
                return Err(mismatch());
            }
        }
        Ok(Self { shape: shape.clone(), strides, offset: self.offset })
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this one.
    pub(crate) fn permute(&self, op: &'static str, axes: &[isize]) -> Result<Self> {
        let ndim = self.shape.ndim();
        let bad = || ErrorKind::NotAPermutation { op, axes: axes.to_vec(), shape: self.shape.clone() };
        if axes.len() != ndim {
            return Err(bad().into());
        }
        let mut seen: SmallVec<[bool; 8]> = smallvec![false; ndim];
        let mut out = Self { shape: Shape::default(), strides: SmallVec::new(), offset: self.offset };
        for &axis in axes {
            let at = resolve_axis(op, axis, ndim)?;
            if std::mem::replace(&mut seen[at], true) {
                return Err(bad().into());
            }
            out.shape.0.push(self.shape[at]);
            out.strides.push(self.strides[at]);
        }
        Ok(out)
    }

    /// The elements a slice takes, one item per axis from the first.
    pub(crate) fn slice(&self, items: &[SliceItem]) -> Result<Self> {
        if items.len() > self.shape.ndim() {
            let reason = format!("{} items for {} axes", items.len(), self.shape.ndim());
            return Err(ErrorKind::BadSlice { reason, shape: self.shape.clone() }.into());
        }
        let mut out = Self { shape: Shape::default(), strides: SmallVec::new(), offset: self.offset };
        for (axis, (&len, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            let item = items.get(axis).copied().unwrap_or(SliceItem::Range { start: None, stop: None, step: 1 });
            let start = match item.pick(len, &self.shape)? {
                Picked::Index(at) => at,
                Picked::Range { start, len, step } => {
                    out.shape.0.push(len);
                    // Strides of arrays without elements may be anything, so products may wrap.
                    out.strides.push(if len > 1 { stride.wrapping_mul(step) } else { stride });
                    start
                }
            };
            out.offset = out.offset.wrapping_add_signed(stride.wrapping_mul(start.cast_signed()));
        }
        Ok(out)
    }

    /// The same elements, in the same order, under another shape; `None` where that needs a copy.
    pub(crate) fn reshape(&self, shape: &Shape) -> Option<Self> {
        debug_assert_eq!(self.shape.checked_size(), shape.checked_size());
        if self.shape.size() == 0 {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape.clone()) });
        }
        // Runs of old axes that are walked as one, from the last; new axes are cut from them.
        let (lens, mut strides) = collapse(&self.shape, [&self.strides[..]].as_slice());
        let mut runs = lens.into_iter().zip(strides.pop()?).rev();
        let mut out = Self { shape: shape.clone(), strides: smallvec![0; shape.ndim()], offset: self.offset };
        let (mut left, mut step) = runs.next().unwrap_or((1, 0));
        for (axis, &len) in shape.iter().enumerate().rev() {
            if len == 1 {
                continue;
            }
            if left == 1 {
                (left, step) = runs.next()?;
            }
            if left % len != 0 {
                return None;
            }
            out.strides[axis] = step;
            left /= len;
            step *= len.cast_signed();
        }
        Some(out)
    }
}

/// Strides along a few axes, of each of several layouts.
pub(crate) type StridesOfEach = SmallVec<[SmallVec<[isize; 4]>; 4]>;

/// Lengths and, per layout, strides of the fewest axes that walk the same elements in the same order.
///
/// Axes of length 1 go away; neighbours merge where every layout steps from the end of the inner to the next of the
/// outer. `strides` holds one slice per layout, each as long as `lens`.
pub(crate) fn collapse(lens: &[usize], strides: &[&[isize]]) -> (SmallVec<[usize; 4]>, StridesOfEach) {
    let mut out_lens: SmallVec<[usize; 4]> = SmallVec::new();
    let mut out_strides: StridesOfEach = smallvec![SmallVec::new(); strides.len()];
    for (axis, &len) in lens.iter().enumerate() {
        if len == 1 {
            continue;
        }
        let mergeable = out_lens.last().is_some()
            && strides
                .iter()
                .zip(&out_strides)
                .all(|(s, out)| out.last().is_some_and(|&outer| Some(outer) == s[axis].checked_mul(len.cast_signed())));
        if mergeable {
            if let Some(last) = out_lens.last_mut() {
                *last *= len;
            }
            for (s, out) in strides.iter().zip(&mut out_strides) {
                if let Some(last) = out.last_mut() {
                    *last = s[axis];
                }
            }
        } else {
            out_lens.push(len);
            for (s, out) in strides.iter().zip(&mut out_strides) {
                out.push(s[axis]);
            }
        }
    }
    (out_lens, out_strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::IntoShape;

    fn dense(lens: &[usize]) -> Layout {
        Layout::contiguous(lens.into_shape())
    }

    #[test]
    fn slices_step_both_ways() {
        let eight = dense(&[8]);
        for (item, offset, len, stride) in [
            (SliceItem::from(..).step_by(-1), 7, 8, -1),
            (SliceItem::Range { start: Some(6), stop: Some(1), step: -2 }, 6, 3, -2),
            (SliceItem::Range { start: Some(-1), stop: Some(-9), step: -3 }, 7, 3, -3),
            (SliceItem::from(1..7).step_by(3), 1, 2, 3),
            (SliceItem::Range { start: Some(5), stop: Some(2), step: 1 }, 0, 0, 1),
            (SliceItem::from(..=-1), 0, 8, 1),
            (SliceItem::Range { start: Some(isize::MIN), stop: Some(isize::MAX), step: isize::MIN }, 0, 0, 1),
        ] {
            let got = eight.slice(&[item]).unwrap();
            assert_eq!((got.offset, got.shape[0]), (offset, len), "{item:?}");
            if len > 1 {
                assert_eq!(got.strides[0], stride, "{item:?}");
            }
        }
        assert!(eight.slice(&[SliceItem::Index(8)]).is_err());
        assert!(eight.slice(&[SliceItem::from(..).step_by(0)]).is_err());
        assert!(eight.slice(&[SliceItem::Index(0), SliceItem::Index(0)]).is_err());
    }

    #[test]
    fn reshape_of_a_transposed_view_needs_a_copy() {
        let t = dense(&[3, 4]).permute("transpose", &[1, 0]).unwrap();
        assert_eq!(t.reshape(&12.into_shape()), None);
        assert_eq!(t.reshape(&[4, 1, 3].into_shape()).unwrap().strides.as_slice(), [1, 0, 4]);
        let d = dense(&[3, 4]);
        assert_eq!(d.reshape(&[2, 6].into_shape()).unwrap().strides.as_slice(), [6, 1]);
        assert_eq!(d.reshape(&[12, 1].into_shape()).unwrap().strides.as_slice(), [1, 0]);
        assert_eq!(dense(&[1, 1]).reshape(&().into_shape()).unwrap().shape.ndim(), 0);
        let column = dense(&[4, 6]).slice(&[SliceItem::from(..), SliceItem::from(0..3)]).unwrap();
        assert_eq!(column.reshape(&[2, 2, 3].into_shape()).unwrap().strides.as_slice(), [12, 6, 1]);
        assert_eq!(column.reshape(&[4, 3, 1].into_shape()).unwrap().strides.as_slice(), [6, 1, 0]);
        assert_eq!(column.reshape(&[2, 6].into_shape()), None);
    }

    #[test]
    fn axes_walked_as_one_merge() {
        let (lens, strides) = collapse(&[2, 1, 3, 4], &[&[12, 9, 4, 1], &[0, 9, 4, 1]]);
        assert_eq!(lens.as_slice(), [2, 12]);
        assert_eq!(strides[1].as_slice(), [0, 1]);
        let (lens, _) = collapse(&[2, 3, 4], &[&[12, 4, 1]]);
        assert_eq!(lens.as_slice(), [24]);
        let (lens, _) = collapse(&[5, 5], &[&[0, 0]]);
        assert_eq!(lens.as_slice(), [25]);
    }
}
