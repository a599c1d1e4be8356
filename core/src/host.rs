//! Values on the host: what a read returns, and the bytes that it is made of.

use crate::dtype::Element;
use crate::error::{ErrorKind, Result};
use crate::shape::Shape;

/// Bytes that a backend read: whole words, so that numbers take the memory over as it is. A new page costs more than what is
/// copied to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostBytes {
    words: Vec<u32>,
    len: usize,
}

impl HostBytes {
    /// A copy of some bytes.
    ///
    /// # Errors
    /// The host has no memory for it.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let (whole, tail) = bytes.split_at(bytes.len() / 4 * 4);
        let mut words = room(bytes.len().div_ceil(4))?;
        match bytemuck::try_cast_slice(whole) {
            Ok(aligned) => words.extend_from_slice(aligned),
            Err(_) => words.extend(whole.chunks_exact(4).map(bytemuck::pod_read_unaligned::<u32>)),
        }
        if !tail.is_empty() {
            let mut last = [0; 4];
            last[..tail.len()].copy_from_slice(tail);
            words.push(u32::from_ne_bytes(last));
        }
        Ok(Self { words, len: bytes.len() })
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// The whole words, as numbers of one word each.
    pub(crate) fn into_numbers<T: bytemuck::Pod>(mut self) -> Result<Vec<T>> {
        debug_assert_eq!(size_of::<T>(), 4, "a smaller type would lose the tail");
        self.words.truncate(self.len / 4);
        bytemuck::allocation::try_cast_vec(self.words).or_else(|(_, words)| {
            let mut numbers = room(words.len())?;
            numbers.extend(words.iter().map(|word| bytemuck::pod_read_unaligned::<T>(bytemuck::bytes_of(word))));
            Ok(numbers)
        })
    }

    /// The bytes, as truth values.
    pub(crate) fn into_bools(self) -> Result<Vec<bool>> {
        let mut bools = room(self.len)?;
        bools.extend(self.as_bytes().iter().map(|&byte| byte != 0));
        Ok(bools)
    }
}

/// An empty vector with room for so many values. How many there are comes from the user, so a lack of memory is an
/// error.
fn room<T>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        ErrorKind::OutOfMemory { bytes, device: "the host".into() }
    })?;
    Ok(values)
}

/// An array's values in host memory, row-major.
///
/// `{}` writes rows and columns, aligned, and of long axes the ends; `{:#}` writes all values; `{:.3}` three digits
/// after the point.
#[derive(Clone, PartialEq)]
pub struct HostArray<T> {
    shape: Shape,
    values: Vec<T>,
}

impl<T: Element> HostArray<T> {
    pub(crate) fn new(shape: Shape, values: Vec<T>) -> Self {
        Self { shape, values }
    }

    pub(crate) fn lens(&self) -> &Shape {
        &self.shape
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::IntoShape;

    #[test]
    fn bytes_are_the_same_from_any_address_and_become_numbers_in_place() {
        let memory: Vec<u8> = (0..64).collect();
        for start in 0..8 {
            for len in 0..20 {
                let bytes = &memory[start..start + len];
                let copy = HostBytes::copy_of(bytes).unwrap();
                assert_eq!(copy.as_bytes(), bytes, "{len} bytes from {start}");
                let at = copy.as_bytes().as_ptr();
                let numbers = copy.into_numbers::<f32>().unwrap();
                assert_eq!(
                    bytemuck::cast_slice::<f32, u8>(&numbers),
                    &bytes[..len / 4 * 4],
                    "{len} bytes from {start}"
                );
                assert!(
                    numbers.is_empty() || std::ptr::eq(numbers.as_ptr().cast(), at),
                    "{len} bytes were copied again"
                );
            }
        }
    }

    #[test]
    fn shows_values_by_rows() {
        let a = HostArray::new([2, 2].into_shape(), vec![1, 2, 3, 4]);
        assert_eq!(a.to_string(), "[[1, 2],\n [3, 4]]");
        let zero_d = HostArray::new(().into_shape(), vec![2.5f32]);
        assert_eq!(zero_d.to_string(), "2.5");
        let long = HostArray::new(20.into_shape(), (0..20).collect());
        assert_eq!(long.to_string(), "[ 0,  1,  2,  3,  4,  5, ..., 14, 15, 16, 17, 18, 19]");
        let empty = HostArray::<i32>::new([1 << 40, 0].into_shape(), Vec::new());
        assert_eq!(empty.to_string(), "[], shape (1099511627776, 0)");
        assert_eq!(empty.get(&[3, 0]), None);
        let empty = HostArray::<i32>::new([2, usize::MAX, 2, 0].into_shape(), Vec::new());
        assert_eq!(empty.to_string(), format!("[], shape (2, {}, 2, 0)", usize::MAX));
        assert_eq!(a.get(&[1, 0]), Some(3));
        assert_eq!(a.get(&[2, 0]), None);
    }
}
