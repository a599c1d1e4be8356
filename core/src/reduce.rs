//! Reductions: sum, prod, min, max, mean, any, all, and own operators, over any set of axes.
//!
//! *Execution*: `plan/reduce.rs` plans one dispatch for lines that fit one tile and one more per level of totals;
//! `shaders/wgsl/reduce.wgsl` runs each. An expression is evaluated inside the first dispatch, never stored.

use std::sync::Arc;

use crate::array::Array;
use crate::dtype::{Dtype, Element};
use crate::elementwise::ArrayOps;
use crate::error::{ErrorKind, Located, Result};
use crate::expr::{Expr, Node};
use crate::fuse::fuse;
use crate::layout::Layout;
use crate::monoid::Operator;
use crate::op::BinaryOp;
use crate::plan::{Statement, reduce as plan};
use crate::recording::MAX_ELEMENTS;
use crate::shape::{Axes, IntoAxes, Shape};

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
    #[track_caller]
    fn sum(&self, axes: impl IntoAxes) -> Result<Array<<Self::Elem as Element>::Sum>> {
        let wide = self.to_expr().convert();
        binary("sum", BinaryOp::Add, &wide, &axes.into_axes(), Some(value(0))).located()
    }

    /// The product. NumPy's `prod`; 1 over no elements. Integers wrap.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    #[track_caller]
    fn prod(&self, axes: impl IntoAxes) -> Result<Array<<Self::Elem as Element>::Sum>> {
        let wide = self.to_expr().convert();
        binary("prod", BinaryOp::Mul, &wide, &axes.into_axes(), Some(value(1))).located()
    }

    /// The smallest element; NaN if there is one; −0 before +0. Of two arrays, elementwise:
    /// [`minimum`](ArrayOps::minimum).
    ///
    /// # Errors
    /// As [`sum`](Self::sum), and over no elements.
    #[track_caller]
    fn min(&self, axes: impl IntoAxes) -> Result<Array<Self::Elem>> {
        extreme("min", BinaryOp::Min, &self.to_expr(), &axes.into_axes()).located()
    }

    /// The largest element; NaN if there is one; +0 after −0. Of two arrays, elementwise:
    /// [`maximum`](ArrayOps::maximum).
    ///
    /// # Errors
    /// As [`min`](Self::min).
    #[track_caller]
    fn max(&self, axes: impl IntoAxes) -> Result<Array<Self::Elem>> {
        extreme("max", BinaryOp::Max, &self.to_expr(), &axes.into_axes()).located()
    }

    /// The arithmetic mean; NaN over no elements.
    ///
    /// The total is divided by the count as an integer, and the quotient is rounded once, to the nearest `f32`, on
    /// every device. Floats are summed as by [`sum`](Self::sum); integers and bool in 64 bits, which cannot overflow.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    #[track_caller]
    fn mean(&self, axes: impl IntoAxes) -> Result<Array<<Self::Elem as Element>::Mean>> {
        crate::mean::mean(&self.to_expr(), &axes.into_axes()).located()
    }

    /// Whether any element is true; false over no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    #[track_caller]
    fn any(&self, axes: impl IntoAxes) -> Result<Array<bool>>
    where
        Self: ArrayOps<Elem = bool>,
    {
        binary("any", BinaryOp::Or, &self.to_expr(), &axes.into_axes(), Some(false)).located()
    }

    /// Whether all elements are true; true over no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    #[track_caller]
    fn all(&self, axes: impl IntoAxes) -> Result<Array<bool>>
    where
        Self: ArrayOps<Elem = bool>,
    {
        binary("all", BinaryOp::And, &self.to_expr(), &axes.into_axes(), Some(true)).located()
    }

    /// The elements combined by an associative operator: `x.reduce(.., |a, b| a.maximum(b))`.
    ///
    /// The closure gets the left and the right value and returns their combination; it is traced into the kernel, and
    /// compiled once per structure. It need not be commutative. It may use scalars, whose values are parameters. A line of
    /// one element is that element, to which the operator is not applied: map first, `x.abs().reduce(…)`.
    ///
    /// # Errors
    /// As [`min`](Self::min), and an operator that uses arrays or another operator's arguments.
    #[track_caller]
    fn reduce<F>(&self, axes: impl IntoAxes, combine: F) -> Result<Array<Self::Elem>>
    where
        F: FnOnce(&Expr<Self::Elem>, &Expr<Self::Elem>) -> Expr<Self::Elem>,
    {
        reduce(&self.to_expr(), &axes.into_axes(), &Operator::traced("reduce", combine).located()?, None).located()
    }

    /// [`reduce`](Self::reduce) from an initial value, which enters once per result, on the left; it is the result over
    /// no elements.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), but not over no elements.
    #[track_caller]
    fn reduce_from<F>(&self, initial: Self::Elem, axes: impl IntoAxes, combine: F) -> Result<Array<Self::Elem>>
    where
        F: Fn(&Expr<Self::Elem>, &Expr<Self::Elem>) -> Expr<Self::Elem>,
    {
        let total = Expr::argument();
        let result = combine(&Expr::scalar(initial), &total).node.located()?;
        let operator = Operator::traced("reduce", combine).located()?.finished(&[total.node?], result).located()?;
        reduce(&self.to_expr(), &axes.into_axes(), &operator, Some(initial)).located()
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
pub(crate) fn run<U: Element>(
    roots: &[Arc<Node>],
    axes: &Axes,
    operator: &Operator,
    empty: Option<U>,
) -> Result<Array<U>> {
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

/// The number of elements that become one. Kernels count them in 32 bits; how many lines there are beside matters to
/// nobody but the result.
pub(crate) fn line_length(op: &'static str, shape: &Shape, walked: &[usize]) -> Result<usize> {
    let line: Shape = walked.iter().map(|&axis| shape[axis]).collect();
    let length = line.countable(op).map_err(|_| ErrorKind::TooLarge { op, shape: shape.clone() })?;
    if length > MAX_ELEMENTS {
        let (needed, limit) = (length as u64, MAX_ELEMENTS as u64);
        let what = "elements combined into one";
        return Err(ErrorKind::Limit { op, what, needed, limit, device: "kiln".into() }.into());
    }
    Ok(length)
}
