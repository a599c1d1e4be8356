//! Means: a total and a count, divided as they are and rounded once.
//!
//! A float's total is the sum's, in `f32`. An integer's is kept in 64 bits, as two words that are the components of one
//! accumulator. The quotient is found by integer arithmetic at the end of the reduction's kernel, so it has the same
//! bits on every device, whatever the driver's division does.

use crate::array::Array;
use crate::dtype::{Dtype, Element};
use crate::elementwise::ArrayOps;
use crate::error::{ErrorKind, Result};
use crate::expr::Expr;
use crate::monoid::Operator;
use crate::op::{BinaryOp, UnaryOp};
use crate::reduce::{line_length, run};
use crate::shape::Axes;

const OP: &str = "mean";

/// The mean of any element type.
pub(crate) fn mean<T: Element>(expr: &Expr<T>, axes: &Axes) -> Result<Array<T::Mean>> {
    let shape = expr.shape()?;
    let walked = axes.resolve(OP, shape)?;
    let length = line_length(OP, shape, &walked)?;
    let count = u32::try_from(length).map_err(|_| {
        let (needed, limit) = (length as u64, u64::from(u32::MAX));
        ErrorKind::Limit { op: OP, what: "elements of one mean", needed, limit, device: "kiln".into() }
    })?;
    let nan = T::Mean::from_scalar(f32::NAN.scalar());
    if T::DTYPE == Dtype::F32 {
        let total = Expr::<f32>::argument();
        let bits = total.unary::<u32>(UnaryOp::ToBits);
        let mean = bits.binary::<u32>(BinaryOp::QuotientBits, Expr::scalar(count)).unary::<f32>(UnaryOp::FromBits);
        let operator = Operator::binary(OP, BinaryOp::Add, Dtype::F32).finished(&[total.node?], mean.node?)?;
        return run(&[expr.node.clone()?], axes, &operator, Some(nan));
    }
    let (low, high) = wide(expr);
    let roots = [low.node?, high.node?];
    let operator = wide_sum(OP)?;
    let (low, high) = (Expr::<u32>::argument(), Expr::<u32>::argument());
    let arguments = [low.node.clone()?, high.node.clone()?];
    let result = wide_quotient(&low, &high, count).node?;
    run(&roots, axes, &operator.finished(&arguments, result)?, Some(nan))
}

/// An integer or bool expression as two words of 64 bits, low and high.
fn wide<T: Element>(expr: &Expr<T>) -> (Expr<u32>, Expr<u32>) {
    let low = expr.convert::<u32>();
    let high = match T::DTYPE {
        Dtype::I32 => expr.convert::<i32>().lt(0).select(u32::MAX, 0u32),
        // Zero, but of the expression's shape.
        _ => low.minimum(0),
    };
    (low, high)
}

/// Addition of 64-bit integers in two words.
fn wide_sum(op: &'static str) -> Result<Operator> {
    let [al, ah, bl, bh] = [(); 4].map(|()| Expr::<u32>::argument());
    let low = &al + &bl;
    let carry = low.lt(&al).cast::<u32>();
    let high = &ah + &bh + carry;
    Operator::from_nodes(op, &[al.node?, ah.node?, bl.node?, bh.node?], &[low.node?, high.node?])
}

/// A signed 64-bit integer in two words, divided by `count` and rounded to the nearest `f32`.
///
/// The quotient's magnitude is less than 2^32, as every element's is. It is found in words: the integer part, then 64
/// bits after the point. Of these the first word that is not zero and the next one hold all that decides the rounding,
/// with one more bit for the rest: a quotient that is not zero is at least 2^-32.
fn wide_quotient(low: &Expr<u32>, high: &Expr<u32>, count: u32) -> Expr<f32> {
    let n = &Expr::scalar(count);
    let fraction = |a: &Expr<u32>| a.clone().binary::<u32>(BinaryOp::Fraction, n.clone());
    // What is left of a * 2^32 after the quotient's first word: less than n, so the wrapping difference is exact.
    let rest_of = |quotient: &Expr<u32>| 0u32 - quotient * n;
    let negative = high.ge(1u32 << 31);
    let magnitude_low = negative.select(low.not() + 1, low);
    let borrow = magnitude_low.eq(0).cast::<u32>();
    let magnitude_high = negative.select(high.not() + borrow, high);
    // high * 2^32 and low, each divided.
    let of_high = fraction(&magnitude_high);
    let rest_high = rest_of(&of_high);
    let rest_low = &magnitude_low % n;
    let wraps = rest_high.ge(n - &rest_low);
    let integer = of_high + &magnitude_low / n + wraps.cast::<u32>();
    let rest = &rest_high + &rest_low - wraps.select(n.clone(), 0u32);
    let first = fraction(&rest);
    let rest = rest_of(&first);
    let second = fraction(&rest);
    let sticky = rest_of(&second).ne(0).cast::<u32>();
    let whole = integer.ne(0);
    let top = whole.select(&integer, &first);
    let next = whole.select(first | second.ne(0).cast::<u32>(), &second) | sticky;
    let bits = top.binary::<u32>(BinaryOp::FloatBits, next);
    // The words stand 32 or 64 bits after the point: so much less in the exponent. Zero stays zero.
    let scale = whole.select(32u32 << 23, 64u32 << 23);
    let bits = bits.eq(0).select(0u32, &bits - scale);
    (bits | negative.select(1u32 << 31, 0u32)).unary::<f32>(UnaryOp::FromBits)
}
