//! The tables of elementwise operators: names, and which types they take and give.
//!
//! Adding an operator is a row here, its WGSL in `shaders/src/spell.rs`, its loop in `backends/cpu/src/lanes.rs`, and
//! a line in the suite.

use crate::dtype::{Dtype, Kind};

macro_rules! table {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $op:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $op,)* }

        impl $name {
            /// Every operator of the table.
            pub const ALL: &'static [Self] = &[$(Self::$op,)*];

            /// The operator's name, as it stands in kernels' labels and in errors.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$op => $text,)* }
            }
        }
    };
}

table! {
    /// Operators of one operand.
    UnaryOp {
        /// `-x`; integers wrap.
        Neg = "neg",
        /// Logical not of bool, bitwise complement of integers.
        Not = "not",
        /// Absolute value; `abs(MIN) = MIN`.
        Abs = "abs",
        /// Square root.
        Sqrt = "sqrt",
        /// e to the power x.
        Exp = "exp",
        /// Natural logarithm.
        Ln = "ln",
        /// Sine of x radians.
        Sin = "sin",
        /// Cosine of x radians.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Whether x is not a number.
        IsNan = "is_nan",
        /// The float's place among all floats as an unsigned integer: −∞ < … < −0 < +0 < … < +∞; NaN is the least.
        MinKey = "min_key",
        /// The same with NaN the greatest, so that the greatest key is the maximum that propagates NaN.
        MaxKey = "max_key",
        /// The float of a key.
        FromKey = "from_key",
        /// The bits of a float.
        ToBits = "to_bits",
        /// The float with these bits.
        FromBits = "from_bits",
    }
}

table! {
    /// Operators of two operands of one type.
    BinaryOp {
        /// Sum; integers wrap.
        Add = "add",
        /// Difference; integers wrap.
        Sub = "sub",
        /// Product; integers wrap.
        Mul = "mul",
        /// Quotient; integers truncate, `x / 0 = x`, `MIN / -1 = MIN`.
        Div = "div",
        /// Remainder with the dividend's sign; for integers `x % 0 = 0`, `MIN % -1 = 0`.
        Rem = "rem",
        /// The smaller; NaN if either is NaN; −0 is smaller than +0.
        Min = "min",
        /// The larger; NaN if either is NaN; +0 is larger than −0.
        Max = "max",
        /// Logical or bitwise and.
        And = "and",
        /// Logical or bitwise or.
        Or = "or",
        /// Logical or bitwise exclusive or.
        Xor = "xor",
        /// `a < b`; false if either is NaN.
        Lt = "lt",
        /// `a <= b`; false if either is NaN.
        Le = "le",
        /// `a > b`; false if either is NaN.
        Gt = "gt",
        /// `a >= b`; false if either is NaN.
        Ge = "ge",
        /// `a == b`; false if either is NaN.
        Eq = "eq",
        /// `a != b`; true if either is NaN.
        Ne = "ne",
        /// The first 32 bits after the point of a / b, cut off; for a < b.
        Fraction = "fraction",
        /// The bits of the `f32` nearest to a · 2^32 + b.
        FloatBits = "float_bits",
        /// The bits of the `f32` nearest to the `f32` with bits a, divided by the integer b.
        QuotientBits = "quotient_bits",
    }
}

impl UnaryOp {
    /// The result's type for an operand of type `dtype`, or `None` where the operator does not exist.
    #[must_use]
    pub const fn result(self, dtype: Dtype) -> Option<Dtype> {
        match (self, dtype.kind()) {
            (Self::Neg, Kind::Signed | Kind::Float)
            | (Self::Not, Kind::Bool | Kind::Signed | Kind::Unsigned)
            | (Self::Abs, Kind::Signed | Kind::Unsigned | Kind::Float)
            | (Self::Sqrt | Self::Exp | Self::Ln | Self::Sin | Self::Cos | Self::Tanh, Kind::Float) => Some(dtype),
            (Self::IsNan, Kind::Float) => Some(Dtype::Bool),
            (Self::MinKey | Self::MaxKey | Self::ToBits, Kind::Float) => Some(Dtype::U32),
            (Self::FromKey | Self::FromBits, Kind::Unsigned) => Some(Dtype::F32),
            _ => None,
        }
    }
}

impl BinaryOp {
    /// The result's type for operands of type `dtype`, or `None` where the operator does not exist.
    #[must_use]
    pub const fn result(self, dtype: Dtype) -> Option<Dtype> {
        match (self, dtype.kind()) {
            (Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Rem, Kind::Bool)
            | (Self::And | Self::Or | Self::Xor, Kind::Float)
            | (Self::Fraction | Self::FloatBits | Self::QuotientBits, Kind::Bool | Kind::Signed | Kind::Float) => None,
            (Self::Lt | Self::Le | Self::Gt | Self::Ge | Self::Eq | Self::Ne, _) => Some(Dtype::Bool),
            _ => Some(dtype),
        }
    }
}
