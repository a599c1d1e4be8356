//! Values on the host: what a read returns.

use std::fmt;

use crate::dtype::Element;
use crate::shape::Shape;

/// An array's values in host memory, row-major.
#[derive(Clone, PartialEq)]
pub struct HostArray<T> {
    shape: Shape,
    values: Vec<T>,
}

impl<T: Element> HostArray<T> {
    pub(crate) fn new(shape: Shape, values: Vec<T>) -> Self {
        Self { shape, values }
    }

    /// The lengths of the axes.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values, row-major.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// The values, row-major.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.values
    }

    /// The value at an index, one number per axis; `None` where there is no such element.
    #[must_use]
    pub fn get(&self, index: &[usize]) -> Option<T> {
        if index.len() != self.shape.ndim() || self.values.is_empty() {
            return None;
        }
        let mut at = 0;
        for (&i, &len) in index.iter().zip(self.shape.iter()) {
            if i >= len {
                return None;
            }
            at = at * len + i;
        }
        self.values.get(at).copied()
    }
}

/// Axes longer than this show their ends only.
const SHOWN: usize = 6;

impl<T: Element> HostArray<T> {
    fn show(&self, f: &mut fmt::Formatter<'_>, axis: usize, base: usize) -> fmt::Result {
        let Some(&len) = self.shape.get(axis) else {
            return fmt::Debug::fmt(&self.values[base], f);
        };
        if self.values.is_empty() {
            return f.write_str("[]");
        }
        let inner = self.shape[axis + 1..].iter().product::<usize>();
        f.write_str("[")?;
        let ends = if len > 2 * SHOWN { SHOWN } else { len };
        for i in (0..ends).chain(len - SHOWN.min(len - ends)..len) {
            if i > ends && i == len - SHOWN {
                f.write_str(", ...")?;
            }
            if i > 0 {
                f.write_str(if axis + 1 == self.shape.ndim() { ", " } else { ",\n" })?;
                if axis + 1 < self.shape.ndim() {
                    write!(f, "{:1$}", "", axis + 1)?;
                }
            }
            self.show(f, axis + 1, base + i * inner)?;
        }
        f.write_str("]")
    }
}

impl<T: Element> fmt::Display for HostArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, 0, 0)
    }
}

impl<T: Element> fmt::Debug for HostArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HostArray<{}> {}", T::DTYPE, self.shape)?;
        self.show(f, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::IntoShape;

    #[test]
    fn shows_values_by_rows() {
        let a = HostArray::new([2, 2].into_shape(), vec![1, 2, 3, 4]);
        assert_eq!(a.to_string(), "[[1, 2],\n [3, 4]]");
        let zero_d = HostArray::new(().into_shape(), vec![2.5f32]);
        assert_eq!(zero_d.to_string(), "2.5");
        let long = HostArray::new(20.into_shape(), (0..20).collect());
        assert_eq!(long.to_string(), "[0, 1, 2, 3, 4, 5, ..., 14, 15, 16, 17, 18, 19]");
        let empty = HostArray::<i32>::new([1 << 40, 0].into_shape(), Vec::new());
        assert_eq!(empty.to_string(), "[]");
        assert_eq!(empty.get(&[3, 0]), None);
        assert_eq!(HostArray::<i32>::new([2, usize::MAX, 2, 0].into_shape(), Vec::new()).to_string(), "[]");
        assert_eq!(a.get(&[1, 0]), Some(3));
        assert_eq!(a.get(&[2, 0]), None);
    }
}
