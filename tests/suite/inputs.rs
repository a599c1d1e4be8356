//! What to try: shapes around tile edges, chains of views, axes, values of every element type.
//!
//! Shapes come from proptest; what depends on a shape (views, axes, values) is drawn from seeds, which proptest shrinks.

use kiln::{Array, Element, SliceItem};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::long;
use crate::naive::{Host, room, size};
use crate::random::Rng;

/// How many random cases a property takes: many times more in long runs.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let cases = if long() { count * 8 } else { count };
    ProptestConfig { cases, max_shrink_iters: 200, ..ProptestConfig::default() }
}

/// Lengths around the sizes where kernels change their ways.
const EDGES: [usize; 24] =
    [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511];
const LONG: [usize; 12] = [1023, 1024, 1025, 4095, 4096, 4097, 16383, 16384, 16385, 32769, 65535, 65537];

/// Shapes of rank 0 to 5 with at most `most` elements; some with a length of 0.
pub(crate) fn shapes(most: usize) -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![
        8 => 1usize..6,
        4 => proptest::sample::select(EDGES.to_vec()),
        2 => proptest::sample::select(LONG.to_vec()),
        2 => 1usize..600,
        1 => Just(0usize),
    ];
    vec(len, 0..6).prop_map(move |mut shape| {
        // Too large, zeros aside, since they may be reduced away: the longest axes are halved until it fits.
        while room(&shape) > most {
            if let Some(longest) = shape.iter_mut().max() {
                *longest = *longest / 2 + *longest % 3;
            }
        }
        shape
    })
}

/// Seeds for a chain of views.
pub(crate) fn seeds() -> impl Strategy<Value = Vec<u64>> {
    vec(any::<u64>(), 0..4)
}

/// One view of a chain.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Slice(Vec<SliceItem>),
    Permute(Vec<usize>),
    Transpose,
    Reverse(isize),
    Broadcast(Vec<usize>),
    Reshape(Vec<usize>),
}

impl View {
    /// A view that fits a shape, with at most `most` elements.
    pub(crate) fn fitting(shape: &[usize], seed: u64, most: usize) -> Self {
        let mut rng = Rng(seed);
        let rank = shape.len();
        match rng.below(7) {
            0 if rank > 0 => Self::Reverse({
                let axis = rng.below(rank);
                rng.axis(axis, rank)
            }),
            1 => Self::Transpose,
            2 => Self::Permute(rng.permutation(rank)),
            3 => {
                let mut target = shape.to_vec();
                for len in &mut target {
                    if *len == 1 && rng.below(2) == 0 {
                        *len = rng.pick(&[0, 1, 2, 3, 5, 33]);
                    }
                }
                for _ in 0..rng.below(3) {
                    target.insert(0, rng.pick(&[1, 2, 3, 4, 7, 65]));
                }
                if room(&target) > most || target.len() > 6 {
                    target = shape.to_vec();
                }
                Self::Broadcast(target)
            }
            4 => Self::Reshape(Self::regrouped(shape, &mut rng)),
            _ => Self::Slice((0..rng.below(rank + 1)).map(|axis| Self::item(shape[axis], &mut rng)).collect()),
        }
    }

    fn item(len: usize, rng: &mut Rng) -> SliceItem {
        let n = len as isize;
        let end = |rng: &mut Rng| (rng.below(3) > 0).then(|| rng.between(-n - 2, n + 2));
        if len > 0 && rng.below(6) == 0 {
            return SliceItem::Index(rng.between(-n, n - 1));
        }
        let step = rng.pick(&[1, 1, 1, -1, 2, -2, 3, -5, 7]);
        if rng.below(5) == 0 {
            return SliceItem::Inclusive { start: end(rng), last: rng.between(-n - 2, n + 2), step };
        }
        SliceItem::Range { start: end(rng), stop: if rng.below(2) == 0 { end(rng) } else { None }, step }
    }

    /// Another shape of the same size: neighbours merged, an axis split, ones put in.
    fn regrouped(shape: &[usize], rng: &mut Rng) -> Vec<usize> {
        let mut out = shape.to_vec();
        if out.len() > 1 && rng.below(3) > 0 {
            let at = rng.below(out.len() - 1);
            out[at] *= out[at + 1];
            out.remove(at + 1);
        }
        if !out.is_empty() && out.len() < 5 {
            let at = rng.below(out.len());
            let parts: Vec<usize> = (2..8).filter(|part| out[at].is_multiple_of(*part)).collect();
            if out[at] > 0 && !parts.is_empty() {
                let part = rng.pick(&parts);
                out[at] /= part;
                out.insert(at + rng.below(2), part);
            }
        }
        if out.len() < 5 && rng.below(3) == 0 {
            out.insert(rng.below(out.len() + 1), 1);
        }
        out
    }

    pub(crate) fn of_array<T: Element>(&self, x: &Array<T>) -> Array<T> {
        let view = match self {
            Self::Slice(items) => x.slice(items),
            Self::Permute(axes) => {
                let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
                x.permute(axes)
            }
            Self::Transpose => Ok(x.transpose()),
            Self::Reverse(axis) => x.reverse(*axis),
            Self::Broadcast(shape) => x.broadcast_to(&shape[..]),
            Self::Reshape(shape) => x.reshape(&shape[..]),
        };
        view.unwrap_or_else(|error| panic!("{self:?} of {}: {error}", x.shape()))
    }

    pub(crate) fn of_host<T: Copy>(&self, x: &Host<T>) -> Host<T> {
        let rank = x.shape.len();
        match self {
            Self::Slice(items) => x.slice(items),
            Self::Permute(axes) => x.permute(axes),
            Self::Transpose => x.permute(&(0..rank).rev().collect::<Vec<_>>()),
            Self::Reverse(axis) => {
                let at = axis.rem_euclid(rank as isize) as usize;
                let mut items = vec![SliceItem::from(..); at + 1];
                items[at] = SliceItem::from(..).step_by(-1);
                x.slice(&items)
            }
            Self::Broadcast(shape) => x.broadcast_to(shape),
            Self::Reshape(shape) => x.reshape(shape),
        }
    }
}

/// An array and the oracle's, seen through a chain of views.
pub(crate) fn viewed<T: Element>(x: &Array<T>, host: &Host<T>, seeds: &[u64], most: usize) -> (Array<T>, Host<T>) {
    let (mut x, mut host) = (x.clone(), host.clone());
    for &seed in seeds {
        let view = View::fitting(&host.shape, seed, most);
        x = view.of_array(&x);
        host = view.of_host(&host);
        assert_eq!(x.shape()[..], host.shape[..], "the shape of {view:?}");
    }
    (x, host)
}

/// Values of a type, of many sizes and both signs, never constant.
pub(crate) trait Values: Element {
    fn draw(rng: &mut Rng) -> Self;

    fn host(shape: &[usize], seed: u64) -> Host<Self> {
        let mut rng = Rng(seed);
        let values = (0..size(shape)).map(|_| Self::draw(&mut rng)).collect();
        Host::new(shape, values)
    }
}

impl Values for f32 {
    /// Magnitudes from 2^-12 to 2^12: sums round, and depend on the order.
    fn draw(rng: &mut Rng) -> Self {
        let bits = rng.next();
        let exponent = 127 - 12 + (bits >> 32) as u32 % 24;
        Self::from_bits((bits as u32 & 0x807f_ffff) | (exponent << 23))
    }
}

impl Values for i32 {
    fn draw(rng: &mut Rng) -> Self {
        let bits = rng.next();
        match bits >> 61 {
            0 => (bits as Self) >> 16,
            1 => bits as Self,
            _ => (bits as Self) >> 22,
        }
    }
}

impl Values for u32 {
    fn draw(rng: &mut Rng) -> Self {
        i32::draw(rng).cast_unsigned()
    }
}

impl Values for bool {
    fn draw(rng: &mut Rng) -> Self {
        rng.below(3) == 0
    }
}
