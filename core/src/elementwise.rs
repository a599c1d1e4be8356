//! Elementwise operations: the methods that arrays and expressions share.
//!
//! *Execution*: `plan/map.rs` plans one dispatch for a whole expression; `shaders/wgsl/map.wgsl` runs it.

use std::sync::Arc;

use crate::array::Array;
use crate::dtype::{Bits, Element, Float, Signed};
use crate::error::{Located, Result};
use crate::evaluate::compute;
use crate::expr::Expr;
use crate::op::{BinaryOp, UnaryOp};

/// What can stand as an operand with elements of type `T`: an array, an expression, a scalar.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand for elements of type `{T}`",
    label = "not an array, an expression or a number of `{T}`",
    note = "a number has the elements' type: `2.0` for `f32`, `2` for `i32` and `u32`; others need a cast: `n as {T}`",
    note = "an array or expression of another type is converted by `.cast()`",
    note = "a reduction, scan or view returns a `Result`: put `?` behind it, as in `x - x.mean(0)?`"
)]
pub trait IntoExpr<T> {
    /// The operand as an expression.
    fn into_expr(self) -> Expr<T>;
}

impl<T: Element> IntoExpr<T> for Expr<T> {
    fn into_expr(self) -> Self {
        self
    }
}
impl<T: Element> IntoExpr<T> for &Expr<T> {
    fn into_expr(self) -> Expr<T> {
        self.clone()
    }
}
impl<T: Element> IntoExpr<T> for Array<T> {
    fn into_expr(self) -> Expr<T> {
        self.to_expr()
    }
}
impl<T: Element> IntoExpr<T> for &Array<T> {
    fn into_expr(self) -> Expr<T> {
        self.to_expr()
    }
}
impl<T: Element> IntoExpr<T> for T {
    fn into_expr(self) -> Expr<T> {
        Expr::scalar(self)
    }
}

impl<T: Element> ArrayOps for Array<T> {
    type Elem = T;
    fn to_expr(&self) -> Expr<T> {
        Expr::array(self.as_view().clone())
    }
}

impl<T: Element> ArrayOps for Expr<T> {
    type Elem = T;
    fn to_expr(&self) -> Self {
        self.clone()
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident: $bound:ident -> $op:ident;)*) => {
        $($(#[$doc])*
        fn $name(&self) -> Expr<Self::Elem>
        where
            Self::Elem: $bound,
        {
            self.to_expr().unary(UnaryOp::$op)
        })*
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident -> $out:ty, $op:ident;)*) => {
        $($(#[$doc])*
        #[track_caller]
        fn $name(&self, rhs: impl IntoExpr<Self::Elem>) -> Expr<$out> {
            self.to_expr().binary(BinaryOp::$op, rhs.into_expr())
        })*
    };
}

/// Elementwise methods of arrays and expressions.
///
/// Each makes an [`Expr`] and computes nothing; [`eval`](Self::eval) computes the whole expression in one kernel.
pub trait ArrayOps {
    /// The element type.
    type Elem: Element;

    /// This array or expression as an expression.
    fn to_expr(&self) -> Expr<Self::Elem>;

    /// Computes the expression into a new array.
    ///
    /// # Errors
    /// The first error of the expression's parts; no array in it; the result is above the device's limit or its memory
    /// is full.
    #[track_caller]
    fn eval(&self) -> Result<Array<Self::Elem>> {
        let expr = self.to_expr();
        if let Ok(node) = &expr.node
            && let Some(view) = node.as_view()
        {
            return Ok(Array::new(Arc::clone(&view.storage), view.layout.clone()));
        }
        compute("eval", &expr).located()
    }

    /// The elements converted to another type.
    ///
    /// Float to integer truncates and saturates, NaN gives 0; integers wrap; anything to bool is `x != 0`; bool gives 0
    /// or 1; integer to float rounds to nearest.
    fn cast<U: Element>(&self) -> Expr<U> {
        self.to_expr().convert()
    }

    unary! {
        /// Absolute value; `abs(MIN) = MIN`.
        abs: Signed -> Abs;
        /// Square root; NaN below zero.
        sqrt: Float -> Sqrt;
        /// e to the power of the elements.
        exp: Float -> Exp;
        /// Natural logarithm; −∞ at zero, NaN below.
        ln: Float -> Ln;
        /// Sine of the elements in radians.
        sin: Float -> Sin;
        /// Cosine of the elements in radians.
        cos: Float -> Cos;
        /// Hyperbolic tangent.
        tanh: Float -> Tanh;
    }

    /// Whether each element is not a number.
    fn is_nan(&self) -> Expr<bool>
    where
        Self::Elem: Float,
    {
        self.to_expr().unary(UnaryOp::IsNan)
    }

    /// Logical not of bool, bitwise complement of integers.
    fn not(&self) -> Expr<Self::Elem>
    where
        Self::Elem: Bits,
    {
        self.to_expr().unary(UnaryOp::Not)
    }

    binary! {
        /// The smaller of each pair: NumPy's `minimum`. NaN if either is NaN; −0 is smaller than +0.
        minimum -> Self::Elem, Min;
        /// The larger of each pair: NumPy's `maximum`. NaN if either is NaN; +0 is larger than −0.
        maximum -> Self::Elem, Max;
        /// `self < rhs`; false if either is NaN.
        lt -> bool, Lt;
        /// `self <= rhs`; false if either is NaN.
        le -> bool, Le;
        /// `self > rhs`; false if either is NaN.
        gt -> bool, Gt;
        /// `self >= rhs`; false if either is NaN.
        ge -> bool, Ge;
        /// `self == rhs`; false if either is NaN.
        eq -> bool, Eq;
        /// `self != rhs`; true if either is NaN.
        ne -> bool, Ne;
    }

    /// The elements of `a` where this is true and of `b` where it is false: NumPy's `where`.
    #[track_caller]
    fn select<U: Element>(&self, a: impl IntoExpr<U>, b: impl IntoExpr<U>) -> Expr<U>
    where
        Self: ArrayOps<Elem = bool>,
    {
        Expr::choose(self.to_expr(), a.into_expr(), b.into_expr())
    }
}
