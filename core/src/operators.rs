//! `+ − × ÷ %`, negation, `& | ^ !` for every mix of arrays, expressions and scalars.
//!
//! Each makes an [`Expr`]. Shapes that do not broadcast and operands on two devices make a failed expression, whose
//! error names this source line and is returned by the call that evaluates it.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

use crate::array::Array;
use crate::dtype::{Bits, Number, Signed};
use crate::elementwise::{ArrayOps, IntoExpr};
use crate::expr::Expr;
use crate::op::{BinaryOp, UnaryOp};

macro_rules! binary_for {
    ($trait:ident, $method:ident, $op:ident, $bound:ident: $($lhs:ty),*) => {
        $(impl<T: $bound, R: IntoExpr<T>> $trait<R> for $lhs {
            type Output = Expr<T>;
            #[track_caller]
            fn $method(self, rhs: R) -> Expr<T> {
                self.into_expr().binary(BinaryOp::$op, rhs.into_expr())
            }
        })*
    };
}

macro_rules! binary {
    ($($trait:ident $method:ident $op:ident $bound:ident;)*) => {
        $(binary_for!($trait, $method, $op, $bound: Array<T>, &Array<T>, Expr<T>, &Expr<T>);)*
    };
}
binary! {
    Add add Add Number;
    Sub sub Sub Number;
    Mul mul Mul Number;
    Div div Div Number;
    Rem rem Rem Number;
    BitAnd bitand And Bits;
    BitOr bitor Or Bits;
    BitXor bitxor Xor Bits;
}

macro_rules! scalar_left_for {
    ($trait:ident, $method:ident, $op:ident, $scalar:ty: $($rhs:ty),*) => {
        $(impl $trait<$rhs> for $scalar {
            type Output = Expr<$scalar>;
            #[track_caller]
            fn $method(self, rhs: $rhs) -> Expr<$scalar> {
                Expr::scalar(self).binary(BinaryOp::$op, rhs.into_expr())
            }
        })*
    };
}

macro_rules! scalar_left {
    ($($scalar:ty: $($trait:ident $method:ident $op:ident),*;)*) => {
        $($(scalar_left_for!($trait, $method, $op, $scalar:
            Array<$scalar>, &Array<$scalar>, Expr<$scalar>, &Expr<$scalar>);)*)*
    };
}
scalar_left! {
    f32: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem;
    i32: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem,
         BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor;
    u32: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem,
         BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor;
    bool: BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor;
}

macro_rules! unary {
    ($($trait:ident $method:ident $op:ident $bound:ident: $($operand:ty),*;)*) => {
        $($(impl<T: $bound> $trait for $operand {
            type Output = Expr<T>;
            fn $method(self) -> Expr<T> {
                self.to_expr().unary(UnaryOp::$op)
            }
        })*)*
    };
}
unary! {
    Neg neg Neg Signed: Array<T>, &Array<T>, Expr<T>, &Expr<T>;
    Not not Not Bits: Array<T>, &Array<T>, Expr<T>, &Expr<T>;
}
