//! Trees of the built-in operators on one component, as loops over slices.
//!
//! What enters: an operator of [`crate::lanes::monoid`], a block of values. What leaves: the block's total ([`Fold`]) or
//! its running combination ([`Running`]), in the order of [`crate::order`]. Decided: everything here is generic over the
//! operator, inlined into [`wide`], and made of loops over arrays of fixed length that compilers turn into vectors.

use kiln_array::dtype::Dtype;
use kiln_array::op::BinaryOp;
use smallvec::SmallVec;

use crate::lanes::{self, MonoidVisitor, wide};
use crate::operand::{Arg, Dst, Lane, Values};
use crate::scratch::Buf;
use crate::totals;

/// Asks whether an operator has a loop.
pub(crate) struct Known;

impl MonoidVisitor for Known {
    type Output = ();
    fn visit<T: Lane>(self, _: impl Fn(T, T) -> T + Copy + Send + Sync) {}
}

/// The total of values: of their leaves of four and the tree above, or of the tree alone.
pub(crate) struct Fold<'a> {
    /// Of any length if it is a slice; up to a block otherwise.
    pub(crate) values: Arg<'a>,
    pub(crate) dtype: Dtype,
    pub(crate) n: usize,
    pub(crate) leaves: bool,
}

impl Fold<'_> {
    /// The total's bits, for a known operator.
    pub(crate) fn total(self, op: BinaryOp) -> Option<u32> {
        #[cfg(target_arch = "x86_64")]
        if let (Arg::Words(x), true) = (self.values, self.leaves) {
            let (mut a, mut b) = (Buf::new(), Buf::new());
            let rooms = [a.words_mut(totals::ROOM), b.words_mut(totals::ROOM)];
            if let Some(total) = crate::avx2::total(op, self.dtype, x, rooms) {
                return Some(total);
            }
        }
        lanes::monoid(op, self.dtype, self)
    }
}

impl MonoidVisitor for Fold<'_> {
    type Output = u32;
    fn visit<T: Lane>(self, f: impl Fn(T, T) -> T + Copy + Send + Sync) -> u32 {
        let (mut filled, mut a, mut b) = (Buf::none(), Buf::new(), Buf::new());
        let x = values(self.values, self.dtype, self.n, &mut filled);
        let (mut a, mut b) = (a.dst(self.dtype, totals::ROOM), b.dst(self.dtype, totals::ROOM));
        totals::total(f, x, self.leaves, [T::places(&mut a), T::places(&mut b)]).bits()
    }
}

/// `left ⊕ right`, as bits.
pub(crate) struct Pair(pub(crate) u32, pub(crate) u32);

impl MonoidVisitor for Pair {
    type Output = u32;
    fn visit<T: Lane>(self, f: impl Fn(T, T) -> T + Copy + Send + Sync) -> u32 {
        f(T::from_bits(self.0), T::from_bits(self.1)).bits()
    }
}

/// An operand as a slice of `n` values; a single value is repeated in `buf`.
pub(crate) fn values<'a, T: Lane>(arg: Arg<'a>, dtype: Dtype, n: usize, buf: &'a mut Buf) -> &'a [T] {
    let value = match T::values(arg) {
        Values::Slice(slice) => return slice,
        Values::Splat(value) => value,
    };
    *buf = Buf::new();
    T::places(&mut buf.dst(dtype, n)).fill(value);
    match T::values(buf.arg(dtype, n)) {
        Values::Slice(slice) => slice,
        Values::Splat(_) => &[],
    }
}

/// Elements that [`Running`] combines at a time; a power of two.
const CHUNK: usize = 64;

/// The running combination of up to a block of values, after totals to their left.
pub(crate) struct Running<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) values: Arg<'a>,
    pub(crate) dst: Dst<'a>,
    /// The totals to the left, nearest first.
    pub(crate) lefts: &'a [u32],
}

impl MonoidVisitor for Running<'_> {
    /// The block's own total, if it has a power of two of chunks.
    type Output = u32;
    fn visit<T: Lane>(mut self, f: impl Fn(T, T) -> T + Copy + Send + Sync) -> u32 {
        let out = T::places(&mut self.dst);
        let mut filled = Buf::none();
        let x = values(self.values, self.dtype, out.len(), &mut filled);
        // Totals of 1, 2, 4, … chunks to the left, as the bits of the chunk's number say; then the given ones.
        let mut totals = [T::from_bits(0); 32];
        let outer: SmallVec<[T; 32]> = self.lefts.iter().map(|&bits| T::from_bits(bits)).collect();
        wide(
            #[inline(always)]
            || {
                let mut top = totals[0];
                let mut lefts = [T::from_bits(0); 64];
                let (whole, tail) = x.as_chunks::<CHUNK>();
                let (out_whole, out_tail) = out.as_chunks_mut::<CHUNK>();
                for (number, (chunk, to)) in whole.iter().zip(out_whole).enumerate() {
                    let count = gather_lefts(number, &totals, &outer, &mut lefts);
                    let mut total = running_chunk(f, chunk, &lefts[..count], to);
                    let mut level = 0;
                    while number >> level & 1 == 1 {
                        total = f(totals[level], total);
                        level += 1;
                    }
                    totals[level] = total;
                    top = total;
                }
                if !tail.is_empty() {
                    // What stands to the right of the last element changes nothing to its left.
                    let (mut chunk, mut to) = ([tail[0]; CHUNK], [tail[0]; CHUNK]);
                    chunk[..tail.len()].copy_from_slice(tail);
                    let count = gather_lefts(whole.len(), &totals, &outer, &mut lefts);
                    running_chunk(f, &chunk, &lefts[..count], &mut to);
                    out_tail.copy_from_slice(&to[..tail.len()]);
                }
                top
            },
        )
        .bits()
    }
}

/// The totals to the left of a chunk, nearest first; returns their number.
#[inline(always)]
fn gather_lefts<T: Lane>(number: usize, totals: &[T; 32], outer: &[T], lefts: &mut [T; 64]) -> usize {
    let mut count = 0;
    let held = (0..32).filter(|level| number >> level & 1 == 1).map(|level| totals[level]);
    for left in held.chain(outer.iter().copied()).take(64) {
        lefts[count] = left;
        count += 1;
    }
    count
}

/// The running combination within a chunk, then after `lefts`; returns the chunk's total without them. All lengths are
/// fixed, so that the chunk stays in registers.
#[inline(always)]
fn running_chunk<T: Lane>(f: impl Fn(T, T) -> T + Copy, x: &[T; CHUNK], lefts: &[T], out: &mut [T; CHUNK]) -> T {
    let mut chunk = *x;
    for leaf in chunk.as_chunks_mut::<4>().0 {
        leaf[1] = f(leaf[0], leaf[1]);
        leaf[2] = f(leaf[1], leaf[2]);
        leaf[3] = f(leaf[2], leaf[3]);
    }
    right_halves::<8, T>(f, &mut chunk);
    right_halves::<16, T>(f, &mut chunk);
    right_halves::<32, T>(f, &mut chunk);
    right_halves::<64, T>(f, &mut chunk);
    let total = chunk[CHUNK - 1];
    for &left in lefts {
        chunk.iter_mut().for_each(|value| *value = f(left, *value));
    }
    *out = chunk;
    total
}

/// Right halves of blocks of `BLOCK` elements follow the last value of their left half.
#[inline(always)]
fn right_halves<const BLOCK: usize, T: Lane>(f: impl Fn(T, T) -> T + Copy, chunk: &mut [T; CHUNK]) {
    for block in chunk.as_chunks_mut::<BLOCK>().0 {
        let left = block[BLOCK / 2 - 1];
        block[BLOCK / 2..].iter_mut().for_each(|value| *value = f(left, *value));
    }
}
