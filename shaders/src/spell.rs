//! WGSL's words for types, operators and conversions: the only place that spells them.
//!
//! What WGSL leaves open goes through functions of `wgsl/scalar.wgsl` and `wgsl/math.wgsl`: division by zero, NaN in
//! comparisons, out-of-range conversions, and the accuracy of the elementary functions.

use kiln_array::dtype::{Dtype, Kind};
use kiln_array::op::{BinaryOp, UnaryOp};
use kiln_array::program::{Instr, Program};

use crate::Error;
use crate::writer::{Writer, line};

/// The type of a value in a kernel.
pub(crate) fn type_name(dtype: Dtype) -> Result<&'static str, Error> {
    match dtype {
        Dtype::Bool => Ok("bool"),
        Dtype::I32 => Ok("i32"),
        Dtype::U32 => Ok("u32"),
        Dtype::F32 => Ok("f32"),
        other => Err(Error::new(format!("no WGSL type for {other}"))),
    }
}

/// A 32-bit word as a value of `dtype`.
pub(crate) fn from_word(dtype: Dtype, word: &str) -> String {
    match dtype.kind() {
        Kind::Bool => format!("({word} != 0u)"),
        Kind::Unsigned => word.to_string(),
        _ => format!("bitcast<{}>({word})", dtype.name()),
    }
}

/// A value of `dtype` as a 32-bit word.
pub(crate) fn to_word(dtype: Dtype, value: &str) -> String {
    match dtype.kind() {
        Kind::Bool => format!("select(0u, 1u, {value})"),
        Kind::Unsigned => value.to_string(),
        _ => format!("bitcast<u32>({value})"),
    }
}

fn unary(op: UnaryOp, dtype: Dtype, a: &str) -> Result<String, Error> {
    let name = dtype.name();
    Ok(match (op, dtype.kind()) {
        (UnaryOp::Neg, _) => format!("-{a}"),
        (UnaryOp::Not, Kind::Bool) => format!("!{a}"),
        (UnaryOp::Not, _) => format!("~{a}"),
        (UnaryOp::Abs, Kind::Unsigned) => a.to_string(),
        (UnaryOp::Abs, _) => format!("abs({a})"),
        (
            UnaryOp::Sqrt | UnaryOp::Exp | UnaryOp::Ln | UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tanh | UnaryOp::IsNan,
            _,
        )
        | (UnaryOp::MinKey | UnaryOp::MaxKey, Kind::Float) => format!("kiln_{}_{name}({a})", op.name()),
        (UnaryOp::ToBits, Kind::Float) => format!("bitcast<u32>({a})"),
        (UnaryOp::FromBits, Kind::Unsigned) => format!("bitcast<f32>({a})"),
        (UnaryOp::FromKey, _) => format!("kiln_from_key_f32({a})"),
        (other, _) => {
            return Err(Error::new(format!("no WGSL for {} of {dtype}", other.name())));
        }
    })
}

fn binary(op: BinaryOp, dtype: Dtype, a: &str, b: &str) -> Result<String, Error> {
    use BinaryOp::{Add, And, Div, Eq, FloatBits, Fraction, Ge, Gt, Le, Lt, Max};
    use BinaryOp::{Min, Mul, Ne, Or, QuotientBits, Rem, Sub, Xor};
    let name = dtype.name();
    Ok(match (op, dtype.kind()) {
        (Add, _) => format!("{a} + {b}"),
        (Sub, _) => format!("{a} - {b}"),
        (Mul, _) => format!("{a} * {b}"),
        (Div, Kind::Float) => format!("{a} / {b}"),
        (Div | Rem | Fraction | FloatBits | QuotientBits, _) => format!("kiln_{}_{name}({a}, {b})", op.name()),
        (Min | And, Kind::Bool) => format!("{a} && {b}"),
        (Max | Or, Kind::Bool) => format!("{a} || {b}"),
        (Min | Max, Kind::Float) => format!("kiln_{}_{name}({a}, {b})", op.name()),
        (Min, _) => format!("min({a}, {b})"),
        (Max, _) => format!("max({a}, {b})"),
        (And, _) => format!("{a} & {b}"),
        (Or, _) => format!("{a} | {b}"),
        (Xor | Ne, Kind::Bool) => format!("{a} != {b}"),
        (Xor, _) => format!("{a} ^ {b}"),
        (Lt, Kind::Bool) => format!("!{a} && {b}"),
        (Le, Kind::Bool) => format!("!{a} || {b}"),
        (Gt, Kind::Bool) => format!("{a} && !{b}"),
        (Ge, Kind::Bool) => format!("{a} || !{b}"),
        (Ne, Kind::Float) => format!("!(kiln_ordered({a}, {b}) && {a} == {b})"),
        (Lt | Le | Gt | Ge | Eq, Kind::Float) => {
            format!("kiln_ordered({a}, {b}) && {a} {} {b}", symbol(op))
        }
        (Lt | Le | Gt | Ge | Eq | Ne, _) => format!("{a} {} {b}", symbol(op)),
        (other, _) => {
            return Err(Error::new(format!("no WGSL for {} of {dtype}", other.name())));
        }
    })
}

fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::Ne => "!=",
        _ => "==",
    }
}

fn cast(from: Dtype, to: Dtype, a: &str) -> Result<String, Error> {
    if from == to {
        return Ok(a.to_string());
    }
    let name = type_name(to)?;
    Ok(match (from.kind(), to.kind()) {
        (Kind::Float, Kind::Bool) => format!("(bitcast<u32>({a}) & 0x7fffffffu) != 0u"),
        (_, Kind::Bool) => format!("{a} != {}(0)", from.name()),
        (Kind::Bool, _) => format!("select({name}(0), {name}(1), {a})"),
        (Kind::Float, _) => format!("kiln_{name}_from_{}({a})", from.name()),
        (_, Kind::Float) => format!("{name}({a})"),
        _ => format!("bitcast<{name}>({a})"),
    })
}

/// Writes a program's instructions as `let` lines, `v0` the first; returns the names of its results.
///
/// `input` names the values of inputs; constants start at parameter `P.s{scalar}`.
pub(crate) fn program(
    w: &mut Writer,
    program: &Program,
    input: impl Fn(u32) -> String,
    scalar: u32,
) -> Result<Vec<String>, Error> {
    for (value, &(instr, dtype)) in program.instrs.iter().enumerate() {
        let v = |value: u32| format!("v{value}");
        let of = |value: u32| program.dtype(value);
        let text = match instr {
            Instr::Input(index) => input(index),
            Instr::Scalar(slot) => from_word(dtype, &format!("P.s{}", scalar + slot)),
            Instr::Unary(op, a) => unary(op, of(a), &v(a))?,
            Instr::Binary(op, a, b) => binary(op, of(a), &v(a), &v(b))?,
            Instr::Select(c, a, b) => format!("select({}, {}, {})", v(b), v(a), v(c)),
            Instr::Cast(a) => cast(of(a), dtype, &v(a))?,
            other => return Err(Error::new(format!("no WGSL for {other:?}"))),
        };
        line!(w, "let v{value} = {text};");
    }
    Ok(program.outputs.iter().map(|value| format!("v{value}")).collect())
}
