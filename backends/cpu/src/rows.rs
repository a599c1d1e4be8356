//! Leaves of neighbouring lines, side by side, for the built-in operators: four rows at a time, column by column.
//!
//! What enters: the four rows of a leaf and the rows of totals to its left. What leaves: the leaf's totals
//! ([`LeafTotals`]), or its running combination too ([`LeafRunning`]). Decided: a few columns stay in registers while all
//! totals to the left are applied to all four rows, so that each row is read and written once. For that the loops below
//! stay plain: arrays taken by value from chunks of slices, no closures over arrays of arrays.

use kiln_array::dtype::Dtype;
use smallvec::SmallVec;

use crate::fast::values;
use crate::lanes::{MonoidVisitor, wide};
use crate::operand::{Arg, Dst, Lane, Values};
use crate::scratch::Buf;

/// Columns held in registers.
const COLUMNS: usize = 16;

/// The totals of a leaf of `n` lines.
pub(crate) struct LeafTotals<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) n: usize,
    pub(crate) rows: [Arg<'a>; 4],
    pub(crate) dst: Dst<'a>,
}

impl MonoidVisitor for LeafTotals<'_> {
    type Output = ();
    fn visit<T: Lane>(mut self, f: impl Fn(T, T) -> T + Copy + Send + Sync) {
        let mut bufs = [const { Buf::none() }; 4];
        let [a, b, c, d] = slices::<T>(self.rows, self.dtype, self.n, &mut bufs);
        let places = T::places(&mut self.dst).iter_mut();
        wide(
            #[inline(always)]
            || {
                for ((((to, &a), &b), &c), &d) in places.zip(a).zip(b).zip(c).zip(d) {
                    *to = f(f(f(a, b), c), d);
                }
            },
        );
    }
}

fn slices<'a, T: Lane>(rows: [Arg<'a>; 4], dtype: Dtype, n: usize, bufs: &'a mut [Buf; 4]) -> [&'a [T]; 4] {
    let [a, b, c, d] = bufs;
    [
        values(rows[0], dtype, n, a),
        values(rows[1], dtype, n, b),
        values(rows[2], dtype, n, c),
        values(rows[3], dtype, n, d),
    ]
}

/// The running combination of a leaf of `n` lines, after the rows of totals to its left, and the leaf's own totals.
pub(crate) struct LeafRunning<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) n: usize,
    pub(crate) rows: [Arg<'a>; 4],
    /// The rows of totals to the left, nearest first.
    pub(crate) lefts: SmallVec<[Arg<'a>; 16]>,
    pub(crate) dsts: [Dst<'a>; 4],
    pub(crate) totals: Dst<'a>,
}

impl MonoidVisitor for LeafRunning<'_> {
    type Output = ();
    fn visit<T: Lane>(mut self, f: impl Fn(T, T) -> T + Copy + Send + Sync) {
        let mut bufs = [const { Buf::none() }; 4];
        let rows = slices::<T>(self.rows, self.dtype, self.n, &mut bufs);
        let lefts = self.lefts.iter().filter_map(|&left| match T::values(left) {
            Values::Slice(left) => Some(left),
            Values::Splat(_) => None,
        });
        let mut lefts: SmallVec<[&[T]; 16]> = lefts.collect();
        let [a, b, c, d] = &mut self.dsts;
        let totals = T::places(&mut self.totals);
        let mut out = [T::places(a), T::places(b), T::places(c), T::places(d), totals];
        let whole = self.n / COLUMNS * COLUMNS;
        wide(
            #[inline(always)]
            || leaf_running::<COLUMNS, T>(f, rows, &lefts, &mut out),
        );
        let rows = rows.map(|row| &row[whole..]);
        lefts.iter_mut().for_each(|left| *left = &left[whole..]);
        leaf_running::<1, T>(f, rows, &lefts, &mut out.map(|row| &mut row[whole..]));
    }
}

/// As many columns as there are, `N` at a time. `out` is the four rows and the totals.
#[inline(always)]
fn leaf_running<const N: usize, T: Lane>(
    f: impl Fn(T, T) -> T + Copy,
    rows: [&[T]; 4],
    lefts: &[&[T]],
    out: &mut [&mut [T]; 5],
) {
    let lefts: SmallVec<[&[[T; N]]; 16]> = lefts.iter().map(|left| left.as_chunks().0).collect();
    let [out_a, out_b, out_c, out_d, totals] = out;
    let read = rows[0].as_chunks::<N>().0.iter().zip(rows[1].as_chunks::<N>().0);
    let read = read.zip(rows[2].as_chunks::<N>().0).zip(rows[3].as_chunks::<N>().0);
    let write = out_a.as_chunks_mut::<N>().0.iter_mut().zip(out_b.as_chunks_mut::<N>().0);
    let write = write.zip(out_c.as_chunks_mut::<N>().0).zip(out_d.as_chunks_mut::<N>().0);
    let write = write.zip(totals.as_chunks_mut::<N>().0);
    for (at, ((((&a, &b), &c), &d), ((((to_a, to_b), to_c), to_d), total))) in read.zip(write).enumerate() {
        let (mut a, mut b, mut c, mut d) = (a, b, c, d);
        for k in 0..N {
            b[k] = f(a[k], b[k]);
            c[k] = f(b[k], c[k]);
            d[k] = f(c[k], d[k]);
        }
        *total = d;
        for left in &lefts {
            let left = left[at];
            for k in 0..N {
                a[k] = f(left[k], a[k]);
                b[k] = f(left[k], b[k]);
                c[k] = f(left[k], c[k]);
                d[k] = f(left[k], d[k]);
            }
        }
        (*to_a, *to_b, *to_c, *to_d) = (a, b, c, d);
    }
}
