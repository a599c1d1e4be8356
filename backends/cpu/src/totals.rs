//! Totals of values that lie together, for the built-in operators: what reductions spend their time on.
//!
//! What enters: an operator, values in order, however many. What leaves: their total ([`total`]). Decided: a chunk goes
//! level by level through two rooms that stay in the cache, in plain loops, which are good where loads pick every fourth
//! element apart, as on ARM; where they are not, [`crate::avx2`] does better. Totals of chunks are joined as they come.

use crate::lanes::wide;
use crate::operand::Lane;

/// Values totalled at a time.
pub(crate) const CHUNK: usize = 64 * 8 * 8;

/// Room that totals need twice, in values.
pub(crate) const ROOM: usize = CHUNK / 2;

/// The total of values: of their leaves of four and the tree above, or of the tree alone.
pub(crate) fn total<T: Lane>(f: impl Fn(T, T) -> T + Copy, x: &[T], of_leaves: bool, rooms: [&mut [T]; 2]) -> T {
    let [a, b] = rooms;
    wide(
        #[inline(always)]
        || {
            by_chunks(
                f,
                x,
                #[inline(always)]
                |x| {
                    let m = if of_leaves { leaves(f, x, a) } else { pairs(f, x, a) };
                    tree(f, m, a, b)
                },
            )
        },
    )
}

/// The total of chunks, the last of which may be shorter.
#[inline(always)]
pub(crate) fn by_chunks<T: Lane>(f: impl Fn(T, T) -> T, x: &[T], mut chunk_total: impl FnMut(&[T]) -> T) -> T {
    // Totals of 1, 2, 4, … chunks to the left, as the bits of the chunk's number say.
    let mut held = [T::from_bits(0); usize::BITS as usize];
    let last = x.len().saturating_sub(1) / CHUNK;
    let mut number = 0;
    loop {
        let mut total = chunk_total(&x[number * CHUNK..x.len().min((number + 1) * CHUNK)]);
        if number == last {
            for level in (0..held.len()).filter(|level| number >> level & 1 == 1) {
                total = f(held[level], total);
            }
            return total;
        }
        let mut level = 0;
        while number >> level & 1 == 1 {
            total = f(held[level], total);
            level += 1;
        }
        held[level] = total;
        number += 1;
    }
}

/// The totals of leaves of four, left to right; the last may be shorter. Returns their number.
#[inline(always)]
pub(crate) fn leaves<T: Lane>(f: impl Fn(T, T) -> T + Copy, x: &[T], out: &mut [T]) -> usize {
    let (quads, tail) = x.as_chunks::<4>();
    for (to, &[a, b, c, d]) in out.iter_mut().zip(quads) {
        *to = f(f(f(a, b), c), d);
    }
    if let Some((&first, rest)) = tail.split_first() {
        out[quads.len()] = rest.iter().fold(first, |total, &value| f(total, value));
    }
    x.len().div_ceil(4)
}

/// The totals of pairs; an odd last value passes up. Returns their number.
#[inline(always)]
pub(crate) fn pairs<T: Lane>(f: impl Fn(T, T) -> T + Copy, x: &[T], out: &mut [T]) -> usize {
    let (pairs, tail) = x.as_chunks::<2>();
    for (to, &[a, b]) in out.iter_mut().zip(pairs) {
        *to = f(a, b);
    }
    if let Some(&last) = tail.first() {
        out[pairs.len()] = last;
    }
    x.len().div_ceil(2)
}

/// The total of the first `m` values of `a`.
#[inline(always)]
pub(crate) fn tree<T: Lane>(f: impl Fn(T, T) -> T + Copy, mut m: usize, a: &mut [T], b: &mut [T]) -> T {
    let (mut from, mut to) = (a, b);
    while m > 1 {
        m = pairs(f, &from[..m], to);
        (from, to) = (to, from);
    }
    from[0]
}

#[cfg(test)]
mod tests {
    use kiln_array::dtype::Dtype;
    use kiln_array::op::BinaryOp;
    use kiln_array::plan::order;

    use super::CHUNK;
    use crate::fast::{Fold, Pair};
    use crate::lanes::monoid;
    use crate::operand::Arg;

    #[test]
    fn every_operator_keeps_the_order_on_either_way() {
        use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
        for (op, dtype) in [Add, Mul, Min, Max, And, Or, Xor]
            .into_iter()
            .flat_map(|op| [Dtype::F32, Dtype::I32, Dtype::U32].map(|dtype| (op, dtype)))
        {
            let Some(_) = monoid(op, dtype, Pair(0, 0)) else { continue };
            let mut join = |a: &u32, b: &u32| monoid(op, dtype, Pair(*a, *b)).unwrap();
            for len in [1, 3, 4, 63, 64, 65, 511, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 7 * CHUNK + 77] {
                let value = |i: u32| i.wrapping_mul(2_654_435_761).rotate_left(i % 7);
                // Floats near 1, so that products stay finite.
                let float = |i: u32| value(i) >> 9 | 0x3f40_0000;
                let line: Vec<u32> =
                    (1..).take(len).map(|i| if dtype == Dtype::F32 { float(i) } else { value(i) }).collect();
                let fold = |leaves| Fold { values: Arg::Words(&line), dtype, n: len, leaves };
                let expected = order::total(&line, &mut join);
                assert_eq!(fold(true).total(op), expected, "{op:?} of {len} {dtype}");
                assert_eq!(monoid(op, dtype, fold(true)), expected, "{op:?} of {len} {dtype}, plain");
                let expected = order::balanced(line.clone(), &mut join);
                assert_eq!(fold(false).total(op), expected, "{op:?} of {len} totals");
            }
        }
    }
}
