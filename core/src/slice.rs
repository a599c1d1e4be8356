//! Slices: NumPy's `start:stop:step` with negative counts, one item per axis.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::error::{Error, ErrorKind};
use crate::shape::Shape;

/// What a slice takes of one axis. Made by [`s!`](crate::s!).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceItem {
    /// One element; the axis goes away. Negative counts from the end.
    Index(isize),
    /// Elements from `start` (inclusive) to `stop` (exclusive) in steps of `step`.
    ///
    /// As in NumPy: negative ends count from the end, ends out of range are cut, a negative step walks backwards and
    /// leaves out ends meaning the whole axis.
    Range {
        /// First element.
        start: Option<isize>,
        /// The element before which it ends.
        stop: Option<isize>,
        /// Distance between elements; not zero.
        step: isize,
    },
    /// Elements from `start` to `last`, both included, in steps of `step`: `start..=last`.
    ///
    /// As [`Range`](Self::Range), but that `last` belongs to it whichever way the slice walks.
    Inclusive {
        /// First element.
        start: Option<isize>,
        /// The element after which it ends, if a step falls on it.
        last: isize,
        /// Distance between elements; not zero.
        step: isize,
    },
}

/// First index, number of elements and step of a slice of an axis of `len` elements.
pub(crate) enum Picked {
    Index(usize),
    Range { start: usize, len: usize, step: isize },
}

impl SliceItem {
    /// The same range with every `step`-th element, backwards if negative.
    #[must_use]
    pub fn step_by(self, step: isize) -> Self {
        match self {
            Self::Index(_) => self,
            Self::Range { start, stop, .. } => Self::Range { start, stop, step },
            Self::Inclusive { start, last, .. } => Self::Inclusive { start, last, step },
        }
    }

    pub(crate) fn pick(self, len: usize, shape: &Shape) -> Result<Picked, Error> {
        let bad = |reason: String| Error::from(ErrorKind::BadSlice { reason, shape: shape.clone() });
        let Ok(n) = isize::try_from(len) else {
            return Err(bad(format!("an axis of {len} elements is too long to slice")));
        };
        let (start, stop, step) = match self {
            Self::Index(index) => {
                let at = if index < 0 { index.saturating_add(n) } else { index };
                return match usize::try_from(at) {
                    Ok(at) if at < len => Ok(Picked::Index(at)),
                    _ => Err(bad(format!("index {index} is out of range for an axis of {len} elements"))),
                };
            }
            Self::Range { step: 0, .. } | Self::Inclusive { step: 0, .. } => {
                return Err(bad("the step must not be zero".into()));
            }
            Self::Range { start, stop, step } => (start, stop, step),
            Self::Inclusive { start, last, step } => (start, beyond(last, step), step),
        };
        // The ends, cut to 0..=n walking forwards and to -1..=n-1 walking backwards.
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let cut = |end: isize| if end < 0 { end.saturating_add(n) } else { end }.clamp(low, high);
        let start = start.map_or(if step > 0 { low } else { high }, cut);
        let stop = stop.map_or(if step > 0 { high } else { low }, cut);
        let gap = if step > 0 { stop - start } else { start - stop };
        let len = if gap <= 0 { 0 } else { (gap.cast_unsigned() - 1) / step.unsigned_abs() + 1 };
        let start = if len == 0 { 0 } else { start.cast_unsigned() };
        Ok(Picked::Range { start, len, step })
    }
}

macro_rules! from_range {
    ($int:ty) => {
        impl From<$int> for SliceItem {
            fn from(index: $int) -> Self {
                Self::Index(end(index))
            }
        }
        impl From<Range<$int>> for SliceItem {
            fn from(r: Range<$int>) -> Self {
                Self::Range { start: Some(end(r.start)), stop: Some(end(r.end)), step: 1 }
            }
        }
        impl From<RangeFrom<$int>> for SliceItem {
            fn from(r: RangeFrom<$int>) -> Self {
                Self::Range { start: Some(end(r.start)), stop: None, step: 1 }
            }
        }
        impl From<RangeTo<$int>> for SliceItem {
            fn from(r: RangeTo<$int>) -> Self {
                Self::Range { start: None, stop: Some(end(r.end)), step: 1 }
            }
        }
        impl From<RangeInclusive<$int>> for SliceItem {
            fn from(r: RangeInclusive<$int>) -> Self {
                let (start, last) = r.into_inner();
                Self::Inclusive { start: Some(end(start)), last: end(last), step: 1 }
            }
        }
        impl From<RangeToInclusive<$int>> for SliceItem {
            fn from(r: RangeToInclusive<$int>) -> Self {
                Self::Inclusive { start: None, last: end(r.end), step: 1 }
            }
        }
    };
}
from_range!(isize);
from_range!(i32);
from_range!(usize);

/// A number of any type as `isize`; what does not fit is beyond any axis.
fn end<T: TryInto<isize>>(number: T) -> isize {
    number.try_into().unwrap_or(isize::MAX)
}

/// The exclusive end just beyond an inclusive one, on the way of the step. There is none where it would count from the
/// axis's other end: after the last element, and before the first.
fn beyond(last: isize, step: isize) -> Option<isize> {
    match (last, step > 0) {
        (-1, true) | (0, false) => None,
        (_, true) => Some(last.saturating_add(1)),
        (_, false) => Some(last.saturating_sub(1)),
    }
}

impl From<RangeFull> for SliceItem {
    fn from(_: RangeFull) -> Self {
        Self::Range { start: None, stop: None, step: 1 }
    }
}

/// A slice, one item per axis from the first: an index, a range, or a range with a step after `;`.
///
/// `s![1, .., 2..8;2, ..;-1]` is NumPy's `x[1, :, 2:8:2, ::-1]`. Axes not named are taken whole. Negative numbers
/// count from the end; ends out of range are cut. With a negative step the first end is where it starts, as in NumPy:
/// `s![30..4;-2]` is `x[30:4:-2]`, and `s![..;-1]` the whole axis backwards. The end of `a..=b` is included whichever
/// way the slice walks: `s![5..=2;-1]` takes 5, 4, 3 and 2.
///
/// Clippy's `reversed_empty_ranges` mistakes a range of literals whose ends fall, such as `1..-1` or `5..=2`, for an
/// empty one: allow that lint there.
#[macro_export]
macro_rules! s {
    (@items [$($done:expr,)*]) => { [$($done),*] };
    (@items [$($done:expr,)*] $range:expr ; $step:expr , $($rest:tt)*) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($range).step_by($step),] $($rest)*)
    };
    (@items [$($done:expr,)*] $range:expr ; $step:expr) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($range).step_by($step),])
    };
    (@items [$($done:expr,)*] $range:expr , $($rest:tt)*) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($range),] $($rest)*)
    };
    (@items [$($done:expr,)*] $range:expr) => {
        $crate::s!(@items [$($done,)* $crate::SliceItem::from($range),])
    };
    ($($items:tt)*) => { $crate::s!(@items [] $($items)*) };
}
