//! Totals with the instructions of AVX2: whole chunks without leaving registers.
//!
//! What enters: an operator that has an instruction, its elements. What leaves: their total, or nothing if the processor
//! lacks AVX2. Decided: values move between lanes so that neighbours meet in the same lane of two vectors, left operand
//! left; that takes about one instruction for two elements, less than memory takes to deliver them. Operators are spelled
//! a second time here: with those of [`crate::lanes`], applied lane by lane, the compiler took the shuffles apart, and
//! sums of data in the cache took 1.5 times as long.

use std::arch::x86_64::{__m256, __m256i};

use kiln_array::dtype::Dtype;
use kiln_array::op::BinaryOp;
use pulp::x86::V3;

use crate::totals::{CHUNK, by_chunks, leaves, pairs, tree};

/// The total of elements, for operators that have an instruction, if the processor has AVX2.
#[rustfmt::skip]
pub(crate) fn total(op: BinaryOp, dtype: Dtype, x: &[u32], rooms: [&mut [u32]; 2]) -> Option<u32> {
    use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
    use Dtype::{F32, I32, U32};
    let simd = V3::try_new()?;
    let (avx, avx2) = (simd.avx, simd.avx2);
    Some(match (op, dtype) {
        (Add, F32) => run(simd, x, rooms, #[inline(always)] |a, b| avx._mm256_add_ps(a, b)),
        (Mul, F32) => run(simd, x, rooms, #[inline(always)] |a, b| avx._mm256_mul_ps(a, b)),
        (Add, I32 | U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_add_epi32(a, b))),
        (Mul, I32 | U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_mullo_epi32(a, b))),
        (Min, I32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_min_epi32(a, b))),
        (Max, I32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_max_epi32(a, b))),
        (Min, U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_min_epu32(a, b))),
        (Max, U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_max_epu32(a, b))),
        (And, I32 | U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_and_si256(a, b))),
        (Or, I32 | U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_or_si256(a, b))),
        (Xor, I32 | U32) => run(simd, x, rooms, words(#[inline(always)] |a, b| avx2._mm256_xor_si256(a, b))),
        _ => return None,
    })
}

/// An operator of integers as one of the type that all values are moved about as.
#[inline(always)]
fn words(f: impl Fn(__m256i, __m256i) -> __m256i + Copy) -> impl Join {
    inlined(
        #[inline(always)]
        move |a, b| bytemuck::cast(f(bytemuck::cast(a), bytemuck::cast(b))),
    )
}

/// An operator, lane by lane.
trait Join: Fn(__m256, __m256) -> __m256 + Copy {}
impl<F: Fn(__m256, __m256) -> __m256 + Copy> Join for F {}

/// A closure, which only as an argument can have an attribute.
#[inline(always)]
fn inlined<F>(f: F) -> F {
    f
}

fn run(simd: V3, x: &[u32], [a, b]: [&mut [u32]; 2], f: impl Join) -> u32 {
    simd.vectorize(
        #[inline(always)]
        || {
            by_chunks(
                #[inline(always)]
                |a, b| one(simd, f, a, b),
                x,
                #[inline(always)]
                |x| match x.try_into() {
                    Ok(chunk) => chunk_total(simd, f, chunk),
                    Err(_) => short(simd, f, x, a, b),
                },
            )
        },
    )
}

/// The operator on single values.
#[inline(always)]
fn one(simd: V3, f: impl Join, a: u32, b: u32) -> u32 {
    let (a, b) = (simd.avx._mm256_set1_ps(f32::from_bits(a)), simd.avx._mm256_set1_ps(f32::from_bits(b)));
    simd.avx._mm256_cvtss_f32(f(a, b)).to_bits()
}

/// The total of a chunk.
#[inline(always)]
fn chunk_total(simd: V3, f: impl Join, x: &[u32; CHUNK]) -> u32 {
    let mut blocks = [simd.avx._mm256_setzero_ps(); 8];
    for (to, x) in blocks.iter_mut().zip(x.as_chunks::<512>().0) {
        let mut pairs = [simd.avx._mm256_setzero_ps(); 8];
        for (to, x) in pairs.iter_mut().zip(x.as_chunks::<64>().0) {
            *to = leaf_pairs(simd, f, x);
        }
        *to = eights(simd, f, pairs);
    }
    let totals = eights(simd, f, blocks);
    let totals = neighbours(simd, f, totals, totals);
    let totals = neighbours(simd, f, totals, totals);
    simd.avx._mm256_cvtss_f32(halves(simd, f, totals, totals)).to_bits()
}

/// The total of less than a chunk.
#[inline(always)]
fn short(simd: V3, f: impl Join, x: &[u32], a: &mut [u32], b: &mut [u32]) -> u32 {
    let single = inlined(
        #[inline(always)]
        move |a, b| one(simd, f, a, b),
    );
    let (whole, rest) = x.as_chunks::<64>();
    let (pairs_of, above) = a.split_at_mut(whole.len() * 8);
    for (to, x) in pairs_of.as_chunks_mut::<8>().0.iter_mut().zip(whole) {
        *to = bytemuck::cast(leaf_pairs(simd, f, x));
    }
    let count = leaves(single, rest, b);
    let m = whole.len() * 8 + pairs(single, &b[..count], above);
    tree(single, m, a, b)
}

/// The totals of eight pairs of leaves.
#[inline(always)]
fn leaf_pairs(simd: V3, f: impl Join, x: &[u32; 64]) -> __m256 {
    let x = x.as_chunks::<8>().0;
    let low = transposed(simd, f, [x[0], x[1], x[2], x[3]]);
    let high = transposed(simd, f, [x[4], x[5], x[6], x[7]]);
    halves(simd, f, low, high)
}

/// The totals of eight leaves of four, in the order `0 2 4 6 | 1 3 5 7`: a transposition within halves.
#[inline(always)]
fn transposed(simd: V3, f: impl Join, [p, q, r, s]: [[u32; 8]; 4]) -> __m256 {
    let avx = simd.avx;
    let (p, q): (__m256, __m256) = (bytemuck::cast(p), bytemuck::cast(q));
    let (r, s): (__m256, __m256) = (bytemuck::cast(r), bytemuck::cast(s));
    let (pq, rs) = (avx._mm256_unpacklo_ps(p, q), avx._mm256_unpacklo_ps(r, s));
    let first = avx._mm256_shuffle_ps::<0b01_00_01_00>(pq, rs);
    let second = avx._mm256_shuffle_ps::<0b11_10_11_10>(pq, rs);
    let (pq, rs) = (avx._mm256_unpackhi_ps(p, q), avx._mm256_unpackhi_ps(r, s));
    let third = avx._mm256_shuffle_ps::<0b01_00_01_00>(pq, rs);
    let fourth = avx._mm256_shuffle_ps::<0b11_10_11_10>(pq, rs);
    f(f(f(first, second), third), fourth)
}

/// Low half ⊕ high half, of `p` then of `q`.
#[inline(always)]
fn halves(simd: V3, f: impl Join, p: __m256, q: __m256) -> __m256 {
    let low = simd.avx._mm256_permute2f128_ps::<0x20>(p, q);
    let high = simd.avx._mm256_permute2f128_ps::<0x31>(p, q);
    f(low, high)
}

/// Even lane ⊕ odd lane: `p0‥1 p2‥3 q0‥1 q2‥3 | p4‥5 p6‥7 q4‥5 q6‥7`.
#[inline(always)]
fn neighbours(simd: V3, f: impl Join, p: __m256, q: __m256) -> __m256 {
    let even = simd.avx._mm256_shuffle_ps::<0b10_00_10_00>(p, q);
    let odd = simd.avx._mm256_shuffle_ps::<0b11_01_11_01>(p, q);
    f(even, odd)
}

/// The totals of eight neighbours.
#[inline(always)]
fn eights(simd: V3, f: impl Join, [p, q, r, s, t, u, v, w]: [__m256; 8]) -> __m256 {
    halves(simd, f, fours(simd, f, [p, q, r, s]), fours(simd, f, [t, u, v, w]))
}

/// The totals of four neighbours: `p0‥3 q0‥3 r0‥3 s0‥3 | p4‥7 q4‥7 r4‥7 s4‥7`.
#[inline(always)]
fn fours(simd: V3, f: impl Join, [p, q, r, s]: [__m256; 4]) -> __m256 {
    neighbours(simd, f, neighbours(simd, f, p, q), neighbours(simd, f, r, s))
}
