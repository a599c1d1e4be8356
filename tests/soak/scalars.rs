//! The oracle's scalars: what each operator makes of bits.

use std::cell::Cell;

use crate::program::{Bin, Type, Un};

thread_local! {
    static INEXACT: Cell<bool> = const { Cell::new(false) };
}

/// Whether some float since the last call was not a whole number of 24 bits: then its bits depend on the device, where
/// it does not keep all rules.
pub(crate) fn was_inexact() -> bool {
    INEXACT.replace(false)
}

fn noted(x: f32, wide: f64) -> f32 {
    if wide.fract() != 0.0 || wide.abs() > 16_777_216.0 || !wide.is_finite() {
        INEXACT.set(true);
    }
    x
}

/// The smaller of two numbers: NaN if either is, −0 before +0.
fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

pub(crate) fn unary(op: Un, ty: Type, a: u32) -> u32 {
    match (op, ty) {
        (Un::Neg, Type::F32) => a ^ (1 << 31),
        (Un::Neg, _) => a.wrapping_neg(),
        (Un::Abs, Type::F32) => a & !(1 << 31),
        (Un::Abs, _) => a.cast_signed().wrapping_abs().cast_unsigned(),
        (Un::Not, Type::Bool) => a ^ 1,
        (Un::Not, _) => !a,
        (Un::IsNan, _) => u32::from(f32::from_bits(a).is_nan()),
        _ => unreachable!("{op:?} is approximate"),
    }
}

pub(crate) fn binary(op: Bin, ty: Type, a: u32, b: u32) -> u32 {
    match ty {
        Type::Bool | Type::U32 => unsigned(op, a, b),
        Type::I32 => signed(op, a.cast_signed(), b.cast_signed()),
        Type::F32 => float(op, f32::from_bits(a), f32::from_bits(b)),
    }
}

fn unsigned(op: Bin, a: u32, b: u32) -> u32 {
    match op {
        Bin::Add => a.wrapping_add(b),
        Bin::Sub => a.wrapping_sub(b),
        Bin::Mul => a.wrapping_mul(b),
        Bin::Div => a.checked_div(b).unwrap_or(a),
        Bin::Rem => a.checked_rem(b).unwrap_or(0),
        Bin::Min => a.min(b),
        Bin::Max => a.max(b),
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
        _ => compared(op, &a, &b),
    }
}

fn signed(op: Bin, a: i32, b: i32) -> u32 {
    let value = match op {
        Bin::Div if b == 0 => a,
        Bin::Div => a.wrapping_div(b),
        Bin::Rem if b == 0 => 0,
        Bin::Rem => a.wrapping_rem(b),
        Bin::Min => a.min(b),
        Bin::Max => a.max(b),
        Bin::Add | Bin::Sub | Bin::Mul | Bin::And | Bin::Or | Bin::Xor => {
            return unsigned(op, a.cast_unsigned(), b.cast_unsigned());
        }
        _ => return compared(op, &a, &b),
    };
    value.cast_unsigned()
}

fn float(op: Bin, a: f32, b: f32) -> u32 {
    let (wide_a, wide_b) = (f64::from(a), f64::from(b));
    let value = match op {
        Bin::Add => noted(a + b, wide_a + wide_b),
        Bin::Sub => noted(a - b, wide_a - wide_b),
        Bin::Mul => noted(a * b, wide_a * wide_b),
        Bin::Rem => noted(a % b, wide_a % wide_b),
        Bin::Min => minimum(a, b),
        Bin::Max => -minimum(-a, -b),
        _ => return compared(op, &a, &b),
    };
    value.to_bits()
}

fn compared<T: PartialOrd>(op: Bin, a: &T, b: &T) -> u32 {
    u32::from(match op {
        Bin::Lt => a < b,
        Bin::Le => a <= b,
        Bin::Gt => a > b,
        Bin::Ge => a >= b,
        Bin::Eq => a == b,
        Bin::Ne => a != b,
        _ => unreachable!("{op:?} is no comparison"),
    })
}

pub(crate) fn cast(from: Type, to: Type, a: u32) -> u32 {
    match (from, to) {
        (Type::F32, Type::Bool) => u32::from(f32::from_bits(a) != 0.0),
        (Type::F32, Type::I32) => (f32::from_bits(a) as i32).cast_unsigned(),
        (Type::F32, Type::U32) => f32::from_bits(a) as u32,
        (Type::I32, Type::F32) => noted(a.cast_signed() as f32, f64::from(a.cast_signed())).to_bits(),
        (Type::U32 | Type::Bool, Type::F32) => noted(a as f32, f64::from(a)).to_bits(),
        (_, Type::Bool) => u32::from(a != 0),
        _ => a,
    }
}

/// The exact value of an approximate operator, and how many units in the last place results may be away from it.
pub(crate) fn function(op: Un, a: f32) -> (f64, f64) {
    let x = f64::from(a);
    match op {
        Un::Sqrt => (x.sqrt(), 3.0),
        Un::Exp => (x.exp(), 2.0),
        Un::Ln => (x.ln(), 2.0),
        Un::Sin => (x.sin(), 2.0),
        Un::Cos => (x.cos(), 2.0),
        Un::Tanh => (x.tanh(), 2.0),
        _ => unreachable!("{op:?} is exact"),
    }
}
