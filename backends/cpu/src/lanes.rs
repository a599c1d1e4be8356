//! One tight loop per operator and element type: the only place that knows what an operator computes.
//!
//! What enters: operands of a block, each a slice or one repeated value ([`Arg`]), and a place for the results
//! ([`Dst`]). What leaves: the results, equal to Rust's own arithmetic (wrapping integers, IEEE floats; the rules that
//! differ are the functions at the end).
//!
//! Decided: operators are closures in three tables ([`monoid`], [`binary`], [`unary`]), handed to a visitor that owns the
//! loop, so that elementwise loops here and the trees of [`crate::fast`] share one spelling of each operator. An
//! operator that no table knows is `None`. Loops that compute more than they load run inside [`wide`]; loops over two
//! operands do not: they wait for memory, and with wider loads they waited longer (19 ms of
//! processor time for (a − b)·c + d over 2^24 elements became 27 with 32-byte loads and 32 with 64-byte ones, perhaps
//! because fewer loads per cache line train the prefetcher less).

use kiln_array::dtype::Dtype;
use kiln_array::op::{BinaryOp, UnaryOp};

use crate::numbers;
use crate::operand::{Arg, Dst, Lane, Values};

/// Takes an operator whose results have its operands' type.
pub(crate) trait MonoidVisitor {
    type Output;
    fn visit<T: Lane>(self, f: impl Fn(T, T) -> T + Copy + Send + Sync) -> Self::Output;
}

/// Takes an operator of two operands.
trait BinaryVisitor {
    fn visit<A: Lane, R: Lane>(self, f: impl Fn(A, A) -> R + Copy);
}

/// Takes an operator of one operand.
trait UnaryVisitor {
    fn visit<A: Lane, R: Lane>(self, f: impl Fn(A) -> R + Copy);
}

/// Runs a closure's loops with AVX2 where the processor has it.
pub(crate) fn wide<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}

/// Table 1: the operators that reductions and scans use most; they get loops of their own in [`crate::fast`] and
/// [`crate::rows`].
#[rustfmt::skip]
pub(crate) fn monoid<V: MonoidVisitor>(op: BinaryOp, dtype: Dtype, v: V) -> Option<V::Output> {
    use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
    use Dtype::{Bool, F32, I32, U32};
    Some(match (op, dtype) {
        (Add, F32) => v.visit(#[inline(always)] |a: f32, b: f32| a + b),
        (Add, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.wrapping_add(b)),
        (Mul, F32) => v.visit(#[inline(always)] |a: f32, b: f32| a * b),
        (Mul, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.wrapping_mul(b)),
        (Min, F32) => v.visit(min_f32),
        (Min, I32) => v.visit(#[inline(always)] |a: i32, b: i32| a.min(b)),
        (Min, U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.min(b)),
        (Max, F32) => v.visit(max_f32),
        (Max, I32) => v.visit(#[inline(always)] |a: i32, b: i32| a.max(b)),
        (Max, U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.max(b)),
        (And | Min, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| a & b),
        (Or | Max, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| a | b),
        (Xor, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| a ^ b),
        (And, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| a & b),
        (Or, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| a | b),
        (Xor, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| a ^ b),
        _ => return None,
    })
}

/// Table 2: the other operators of two operands.
#[rustfmt::skip]
fn other<V: BinaryVisitor>(op: BinaryOp, dtype: Dtype, v: V) -> Option<()> {
    use BinaryOp::{Div, Eq, FloatBits, Fraction, Ge, Gt, Le, Lt, Ne, QuotientBits, Rem, Sub};
    use Dtype::{Bool, F32, I32, U32};
    match (op, dtype) {
        (Sub, F32) => v.visit(#[inline(always)] |a: f32, b: f32| a - b),
        (Sub, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.wrapping_sub(b)),
        (Div, F32) => v.visit(#[inline(always)] |a: f32, b: f32| a / b),
        (Div, I32) => v.visit(#[inline(always)] |a: i32, b: i32| if b == 0 { a } else { a.wrapping_div(b) }),
        (Div, U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.checked_div(b).unwrap_or(a)),
        (Rem, F32) => v.visit(#[inline(always)] |a: f32, b: f32| a % b),
        (Rem, I32) => v.visit(#[inline(always)] |a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_rem(b) }),
        (Rem, U32) => v.visit(#[inline(always)] |a: u32, b: u32| a.checked_rem(b).unwrap_or(0)),
        (Lt, F32) => v.visit(#[inline(always)] |a: f32, b: f32| u8::from(a < b)),
        (Lt, I32) => v.visit(#[inline(always)] |a: i32, b: i32| u8::from(a < b)),
        (Lt, U32) => v.visit(#[inline(always)] |a: u32, b: u32| u8::from(a < b)),
        (Lt, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| u8::from(a < b)),
        (Le, F32) => v.visit(#[inline(always)] |a: f32, b: f32| u8::from(a <= b)),
        (Le, I32) => v.visit(#[inline(always)] |a: i32, b: i32| u8::from(a <= b)),
        (Le, U32) => v.visit(#[inline(always)] |a: u32, b: u32| u8::from(a <= b)),
        (Le, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| u8::from(a <= b)),
        (Gt, F32) => v.visit(#[inline(always)] |a: f32, b: f32| u8::from(a > b)),
        (Gt, I32) => v.visit(#[inline(always)] |a: i32, b: i32| u8::from(a > b)),
        (Gt, U32) => v.visit(#[inline(always)] |a: u32, b: u32| u8::from(a > b)),
        (Gt, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| u8::from(a > b)),
        (Ge, F32) => v.visit(#[inline(always)] |a: f32, b: f32| u8::from(a >= b)),
        (Ge, I32) => v.visit(#[inline(always)] |a: i32, b: i32| u8::from(a >= b)),
        (Ge, U32) => v.visit(#[inline(always)] |a: u32, b: u32| u8::from(a >= b)),
        (Ge, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| u8::from(a >= b)),
        (Eq, F32) => v.visit(#[inline(always)] |a: f32, b: f32| same(a, b)),
        (Eq, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| u8::from(a == b)),
        (Eq, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| u8::from(a == b)),
        (Ne, F32) => v.visit(#[inline(always)] |a: f32, b: f32| 1 - same(a, b)),
        (Ne, I32 | U32) => v.visit(#[inline(always)] |a: u32, b: u32| u8::from(a != b)),
        (Ne, Bool) => v.visit(#[inline(always)] |a: u8, b: u8| u8::from(a != b)),
        (Fraction, U32) => v.visit(numbers::fraction),
        (FloatBits, U32) => v.visit(numbers::float_bits),
        (QuotientBits, U32) => v.visit(numbers::quotient_bits),
        _ => return None,
    }
    Some(())
}

/// `dst[i] = a[i] op b[i]`; `dtype` is the operands' type.
#[must_use]
pub(crate) fn binary(op: BinaryOp, dtype: Dtype, dst: Dst<'_>, a: Arg<'_>, b: Arg<'_>) -> Option<()> {
    use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
    let loops = Zip { dst, a, b };
    match op {
        Add | Mul | Min | Max | And | Or | Xor => monoid(op, dtype, loops),
        _ => other(op, dtype, loops),
    }
}

/// Table 3: `dst[i] = op a[i]`; `dtype` is the operand's type.
#[must_use]
#[rustfmt::skip]
pub(crate) fn unary(op: UnaryOp, dtype: Dtype, dst: Dst<'_>, a: Arg<'_>) -> Option<()> {
    use Dtype::{Bool, F32, I32, U32};
    use UnaryOp::{Abs, Cos, Exp, FromBits, FromKey, IsNan, Ln, MaxKey, MinKey, Neg, Not, Sin, Sqrt, Tanh, ToBits};
    let v = Each { dst, a };
    match (op, dtype) {
        (Neg, F32) => v.visit(#[inline(always)] |a: f32| -a),
        (Neg, I32) => v.visit(#[inline(always)] |a: i32| a.wrapping_neg()),
        (Not, Bool) => v.visit(#[inline(always)] |a: u8| a ^ 1),
        (Not, I32 | U32) => v.visit(#[inline(always)] |a: u32| !a),
        (Abs, F32) => v.visit(#[inline(always)] |a: f32| a.abs()),
        (Abs, I32) => v.visit(#[inline(always)] |a: i32| a.wrapping_abs()),
        (Abs, U32) => v.visit(#[inline(always)] |a: u32| a),
        (Sqrt, F32) => v.visit(#[inline(always)] |a: f32| a.sqrt()),
        (Exp, F32) => v.visit(f32::exp),
        (Ln, F32) => v.visit(f32::ln),
        (Sin, F32) => v.visit(f32::sin),
        (Cos, F32) => v.visit(f32::cos),
        (Tanh, F32) => v.visit(numbers::tanh),
        (IsNan, F32) => v.visit(#[inline(always)] |a: f32| u8::from(a.is_nan())),
        (MinKey, F32) => v.visit(#[inline(always)] |a: f32| if a.is_nan() { 0 } else { order_key(a.to_bits()) }),
        (MaxKey, F32) => v.visit(#[inline(always)] |a: f32| if a.is_nan() { u32::MAX } else { order_key(a.to_bits()) }),
        (ToBits, F32) | (FromBits, U32) => v.visit(#[inline(always)] |a: u32| a),
        (FromKey, U32) => v.visit(#[inline(always)] |a: u32| {
            f32::from_bits(if a >= 1 << 31 { a ^ (1 << 31) } else { !a })
        }),
        _ => return None,
    }
    Some(())
}

/// `dst[i] = a[i]` converted from one type to another.
#[must_use]
#[rustfmt::skip]
pub(crate) fn cast(from: Dtype, to: Dtype, dst: Dst<'_>, a: Arg<'_>) -> Option<()> {
    use Dtype::{Bool, F32, I32, U32};
    let v = Each { dst, a };
    match (from, to) {
        (F32, I32) => v.visit(#[inline(always)] |a: f32| to_i32(a)),
        (F32, U32) => v.visit(#[inline(always)] |a: f32| to_u32(a)),
        (F32, Bool) => v.visit(#[inline(always)] |a: f32| 1 - same(a, 0.0)),
        (I32, F32) => v.visit(#[inline(always)] |a: i32| to_f32(a)),
        (U32, F32) => v.visit(#[inline(always)] |a: u32| from_u32(a)),
        (I32 | U32, Bool) => v.visit(#[inline(always)] |a: u32| u8::from(a != 0)),
        (Bool, F32) => v.visit(#[inline(always)] |a: u8| f32::from(a)),
        (Bool, I32 | U32) => v.visit(#[inline(always)] |a: u8| u32::from(a)),
        (I32 | U32, I32 | U32) | (F32, F32) => v.visit(#[inline(always)] |a: u32| a),
        (Bool, Bool) => v.visit(#[inline(always)] |a: u8| a),
        _ => return None,
    }
    Some(())
}

/// `dst[i] = a[i]`, bit for bit.
pub(crate) fn copy(mut dst: Dst<'_>, a: Arg<'_>) {
    match (&mut dst, a) {
        (Dst::Words(dst), Arg::Words(a)) => dst.copy_from_slice(a),
        (Dst::Bytes(dst), Arg::Bytes(a)) => dst.copy_from_slice(a),
        (Dst::Words(dst), Arg::Splat(bits)) => dst.fill(bits),
        (Dst::Bytes(dst), Arg::Splat(bits)) => dst.fill(u8::from(bits != 0)),
        // Checked programs never mix widths.
        (Dst::Words(_), Arg::Bytes(_)) | (Dst::Bytes(_), Arg::Words(_)) => {}
    }
}

/// `dst[i] = if c[i] { a[i] } else { b[i] }`.
pub(crate) fn select(dst: Dst<'_>, c: Arg<'_>, a: Arg<'_>, b: Arg<'_>) {
    match c {
        Arg::Splat(bits) => copy(dst, if bits != 0 { a } else { b }),
        Arg::Words(_) => {}
        Arg::Bytes(c) => match dst {
            Dst::Words(_) => select_lanes::<u32>(dst, c, a, b),
            Dst::Bytes(_) => select_lanes::<u8>(dst, c, a, b),
        },
    }
}

fn select_lanes<T: Lane>(mut dst: Dst<'_>, c: &[u8], a: Arg<'_>, b: Arg<'_>) {
    let places = T::places(&mut dst).iter_mut().zip(c);
    match (T::values(a), T::values(b)) {
        (Values::Slice(a), Values::Slice(b)) => {
            wide(
                #[inline(always)]
                || places.zip(a).zip(b).for_each(|(((d, &c), &a), &b)| *d = if c != 0 { a } else { b }),
            );
        }
        (Values::Slice(a), Values::Splat(b)) => {
            wide(
                #[inline(always)]
                || places.zip(a).for_each(|((d, &c), &a)| *d = if c != 0 { a } else { b }),
            );
        }
        (Values::Splat(a), Values::Slice(b)) => {
            wide(
                #[inline(always)]
                || places.zip(b).for_each(|((d, &c), &b)| *d = if c != 0 { a } else { b }),
            );
        }
        (Values::Splat(a), Values::Splat(b)) => {
            wide(
                #[inline(always)]
                || places.for_each(|(d, &c)| *d = if c != 0 { a } else { b }),
            );
        }
    }
}

/// The elementwise loop over two operands.
struct Zip<'a> {
    dst: Dst<'a>,
    a: Arg<'a>,
    b: Arg<'a>,
}

impl BinaryVisitor for Zip<'_> {
    fn visit<A: Lane, R: Lane>(mut self, f: impl Fn(A, A) -> R + Copy) {
        let places = R::places(&mut self.dst).iter_mut();
        match (A::values(self.a), A::values(self.b)) {
            (Values::Slice(a), Values::Slice(b)) => places.zip(a).zip(b).for_each(|((d, &a), &b)| *d = f(a, b)),
            (Values::Slice(a), Values::Splat(b)) => places.zip(a).for_each(|(d, &a)| *d = f(a, b)),
            (Values::Splat(a), Values::Slice(b)) => places.zip(b).for_each(|(d, &b)| *d = f(a, b)),
            (Values::Splat(a), Values::Splat(b)) => {
                let value = f(a, b);
                places.for_each(|d| *d = value);
            }
        }
    }
}

impl MonoidVisitor for Zip<'_> {
    type Output = ();
    fn visit<T: Lane>(self, f: impl Fn(T, T) -> T + Copy + Send + Sync) {
        BinaryVisitor::visit(self, f);
    }
}

/// The elementwise loop over one operand.
struct Each<'a> {
    dst: Dst<'a>,
    a: Arg<'a>,
}

impl UnaryVisitor for Each<'_> {
    fn visit<A: Lane, R: Lane>(mut self, f: impl Fn(A) -> R + Copy) {
        let places = R::places(&mut self.dst).iter_mut();
        match A::values(self.a) {
            Values::Slice(a) => wide(
                #[inline(always)]
                || places.zip(a).for_each(|(d, &a)| *d = f(a)),
            ),
            Values::Splat(a) => {
                let value = f(a);
                places.for_each(|d| *d = value);
            }
        }
    }
}

/// The smaller; NaN if either is NaN; −0 before +0. Equal values other than zeros have equal bits, so `|` keeps a sign.
#[inline(always)]
fn min_f32(a: f32, b: f32) -> f32 {
    let smaller = if a < b { a } else { b };
    let smaller = if same(a, b) != 0 { f32::from_bits(a.to_bits() | b.to_bits()) } else { smaller };
    if a.is_nan() { a } else { smaller }
}

/// The larger; NaN if either is NaN; +0 after −0.
#[inline(always)]
fn max_f32(a: f32, b: f32) -> f32 {
    let larger = if a > b { a } else { b };
    let larger = if same(a, b) != 0 { f32::from_bits(a.to_bits() & b.to_bits()) } else { larger };
    if a.is_nan() { a } else { larger }
}

/// A float's place among all floats but NaN, as unsigned integers order.
#[inline(always)]
fn order_key(bits: u32) -> u32 {
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// IEEE equality, which is what `==` of arrays means.
#[inline(always)]
#[expect(clippy::float_cmp, reason = "the operator itself")]
fn same(a: f32, b: f32) -> u8 {
    u8::from(a == b)
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "saturates: the conversion that arrays promise")]
fn to_i32(a: f32) -> i32 {
    a as i32
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "saturates: the conversion that arrays promise")]
fn to_u32(a: f32) -> u32 {
    a as u32
}

#[inline(always)]
fn to_f32(a: i32) -> f32 {
    a as f32
}

#[inline(always)]
fn from_u32(a: u32) -> f32 {
    a as f32
}
