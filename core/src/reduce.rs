//! Reductions: sum, prod, min, max, mean, any, all, and own operators, over any set of axes.
//!
//! *Execution*: `plan/reduce.rs` plans one dispatch for lines that fit one tile and one more per level of totals;
//! `shaders/wgsl/reduce.wgsl` runs each. An expression is evaluated inside the first dispatch, never stored.

use std::sync::Arc;

use crate::array::Array;
use crate::dtype::{Dtype, Element};
use crate::elementwise::ArrayOps;
use crate::error::{ErrorKind, Result};
use crate::expr::{Expr, Node};
use crate::fuse::fuse;
use crate::layout::Layout;
use crate::monoid::Operator;
use crate::op::BinaryOp;
use crate::plan::{MAX_ELEMENTS, Statement, reduce as plan};
use crate::shape::{Axes, Shape};

/// Reductions of arrays and expressions.
///
/// `axes` is `..` for all axes, one axis, or an array of axes, negative ones counted from the end; wrapped in
/// [`keep`](crate::keep) they stay, with length 1. The result is a new array on the device, 0-d for all axes; nothing
/// waits. An axis that is out of range or named twice is an error.
///
/// Values combine in one fixed order, the same on every device and for every layout: see
/// [`order`](crate::plan::order).
pub trait Reduce: ArrayOps {
    /// The sum. NumPy's `sum`; 0 over no elements. Integers wrap; bool counts in `u32`.
    ///
    /// # Errors
    /// Bad axes, the expression's own error, or no memory for the result.
    fn sum(&self, axes: impl Into<Axes>) -> Result<Array<<Self::Elem as Element>::Sum>> {
        let wide = self.to_expr().convert();
        binary("sum", BinaryOp::Add, &wide, &axes.into(), Some(value(0)))
    }

    /// The product. NumPy's `prod`; 1 over no elements. Integers wrap.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    fn prod(&self, axes: impl Into<Axes>) -> Result<Array<<Self::Elem as Element>::Sum>> {
        let wide = self.to_expr().convert();
        binary("prod", BinaryOp::Mul, &wide, &axes.into(), Some(value(1)))
    }

    /// The smallest element; NaN if there is one; −0 before +0. Of two arrays, elementwise:
    /// [`minimum`](ArrayOps::minimum).
    ///
    /// # Errors
    /// As [`sum`](Self::sum), and over no elements.
    fn min(&self, axes: impl Into<Axes>) -> Result<Array<Self::Elem>> {
        extreme("min", BinaryOp::Min, &self.to_expr(), &axes.into())
    }

    /// The largest element; NaN if there is one; +0 after −0. Of two arrays, elementwise:
    /// [`maximum`](ArrayOps::maximum).
    ///
    /// # Errors
    /// As [`min`](Self::min).
    fn max(&self, axes: impl Into<Axes>) -> Result<Array<Self::Elem>> {
        extreme("max", BinaryOp::Max, &self.to_expr(), &axes.into())
    }

    /// The arithmetic mean; NaN over no elements.
    ///
    /// Floats are summed and divided by the count. Integers and bool are summed in 64 bits, which cannot overflow, and
    /// give `f32`; converting and dividing may be off by three units in the last place on a GPU.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    fn mean(&self, axes: impl Into<Axes>) -> Result<Array<<Self::Elem as Element>::Mean>> {
        mean(&self.to_expr(), &axes.into())
    }

    /// Whether any element is true; false over no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    fn any(&self, axes: impl Into<Axes>) -> Result<Array<bool>>
    where
        Self: ArrayOps<Elem = bool>,
    {
        binary("any", BinaryOp::Or, &self.to_expr(), &axes.into(), Some(false))
    }

    /// Whether all elements are true; true over no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    fn all(&self, axes: impl Into<Axes>) -> Result<Array<bool>>
    where
        Self: ArrayOps<Elem = bool>,
    {
        binary("all", BinaryOp::And, &self.to_expr(), &axes.into(), Some(true))
    }

    /// The elements combined by an associative operator: `x.reduce(.., |a, b| a.maximum(b))`.
    ///
    /// The closure gets the left and the right value and returns their combination; it is traced into the kernel, and
    /// compiled once per structure. It need not be commutative. It may use scalars, whose values are parameters. A line of
    /// one element is that element, to which the operator is not applied: map first, `x.abs().reduce(…)`.
    ///
    /// # Errors
    /// As [`min`](Self::min), and an operator that uses arrays or another operator's arguments.
    fn reduce<F>(&self, axes: impl Into<Axes>, combine: F) -> Result<Array<Self::Elem>>
    where
        F: FnOnce(&Expr<Self::Elem>, &Expr<Self::Elem>) -> Expr<Self::Elem>,
    {
        reduce(&self.to_expr(), &axes.into(), &Operator::traced("reduce", combine)?, None)
    }

    /// [`reduce`](Self::reduce) from an initial value, which enters once per result, on the left; it is the result over
    /// no elements.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), but not over no elements.
    fn reduce_from<F>(&self, initial: Self::Elem, axes: impl Into<Axes>, combine: F) -> Result<Array<Self::Elem>>
    where
        F: Fn(&Expr<Self::Elem>, &Expr<Self::Elem>) -> Expr<Self::Elem>,
    {
        let total = Expr::argument();
        let result = combine(&Expr::scalar(initial), &total).node?;
        let operator = Operator::traced("reduce", combine)?.finished(&[total.node?], result)?;
        reduce(&self.to_expr(), &axes.into(), &operator, Some(initial))
    }
}

impl<A: ArrayOps + ?Sized> Reduce for A {}

/// A small number in any element type.
fn value<T: Element>(small: u8) -> T {
    let bits = match T::DTYPE {
        Dtype::F32 => f32::from(small).to_bits(),
        Dtype::Bool | Dtype::I32 | Dtype::U32 => u32::from(small),
    };
    T::from_scalar(crate::Scalar { dtype: T::DTYPE, bits })
}

fn binary<T: Element>(
    name: &'static str,
    op: BinaryOp,
    expr: &Expr<T>,
    axes: &Axes,
    empty: Option<T>,
) -> Result<Array<T>> {
    reduce(expr, axes, &Operator::binary(name, op, T::DTYPE), empty)
}

fn extreme<T: Element>(name: &'static str, op: BinaryOp, expr: &Expr<T>, axes: &Axes) -> Result<Array<T>> {
    let (operator, root) = Operator::extreme(name, op, expr)?;
    run(&[root], axes, &operator, None)
}

fn reduce<T: Element>(expr: &Expr<T>, axes: &Axes, operator: &Operator, empty: Option<T>) -> Result<Array<T>> {
    run(&[expr.node.clone()?], axes, operator, empty)
}

/// Reduces the components `roots` over `axes`; the value over no elements is `empty`.
fn run<U: Element>(roots: &[Arc<Node>], axes: &Axes, operator: &Operator, empty: Option<U>) -> Result<Array<U>> {
    let op = operator.name;
    let node = &roots[0];
    let device = node.device(op)?.clone();
    let shape = node.shape();
    let walked = axes.resolve(op, shape)?;
    let without = |len_of_walked: Option<usize>| -> Shape {
        let lens = shape.iter().enumerate();
        lens.filter_map(|(axis, &len)| if walked.contains(&axis) { len_of_walked } else { Some(len) }).collect()
    };
    let out_shape = without(axes.keep.then_some(1));
    let length = line_length(op, shape, &walked)?;
    let storage = device.storage(op, U::DTYPE, &out_shape)?;
    if out_shape.size() > 0 && length == 0 {
        let empty = empty.ok_or_else(|| ErrorKind::Empty { op, shape: shape.clone() })?;
        device.fill(op, empty, &storage, &out_shape)?;
    } else if out_shape.size() > 0 {
        let fused = fuse(op, roots, &device, 1)?;
        let mut statement = Statement::new(op, &device);
        plan::plan(&mut statement, &fused, &walked, operator, &storage, &out_shape)?;
        statement.run()?;
    }
    Ok(Array::new(storage, Layout::contiguous(out_shape)))
}

/// The number of elements that become one.
fn line_length(op: &'static str, shape: &Shape, walked: &[usize]) -> Result<usize> {
    let line: Shape = walked.iter().map(|&axis| shape[axis]).collect();
    line.checked_size().ok_or_else(|| {
        let (needed, limit) = (u64::MAX, MAX_ELEMENTS as u64);
        ErrorKind::Limit { op, what: "elements of one expression", needed, limit, device: "kiln".into() }.into()
    })
}

/// The mean of any element type.
fn mean<T: Element>(expr: &Expr<T>, axes: &Axes) -> Result<Array<T::Mean>> {
    let op = "mean";
    let shape = expr.shape()?;
    let walked = axes.resolve(op, shape)?;
    let length = line_length(op, shape, &walked)?;
    let nan = T::Mean::from_scalar(f32::NAN.scalar());
    #[expect(clippy::cast_precision_loss, reason = "counts above 2^24 round to the nearest f32, as the result does")]
    let count = Expr::scalar(length as f32);
    if T::DTYPE == Dtype::F32 {
        let total = Expr::<f32>::argument();
        let result = (&total / count).node?;
        let operator = Operator::binary(op, BinaryOp::Add, Dtype::F32).finished(&[total.node?], result)?;
        return run(&[expr.node.clone()?], axes, &operator, Some(nan));
    }
    let (low, high) = wide(expr);
    let roots = [low.node?, high.node?];
    let operator = wide_sum(op)?;
    let (low, high) = (Expr::<u32>::argument(), Expr::<u32>::argument());
    let arguments = [low.node.clone()?, high.node.clone()?];
    let result = (wide_to_float(&low, &high) / count).node?;
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

/// A signed 64-bit integer in two words as `f32`: the magnitude's words are converted and added.
fn wide_to_float(low: &Expr<u32>, high: &Expr<u32>) -> Expr<f32> {
    let negative = high.ge(1u32 << 31);
    let magnitude_low = negative.select(low.not() + 1, low);
    let carry = magnitude_low.eq(0).cast::<u32>();
    let magnitude_high = negative.select(high.not() + carry, high);
    // 2^32 times the high word is exact, so it does not matter whether the sum is fused.
    let magnitude = magnitude_high.cast::<f32>() * 4_294_967_296.0 + magnitude_low.cast::<f32>();
    negative.select(-&magnitude, &magnitude)
}
