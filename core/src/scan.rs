//! Running combinations along an axis: cumsum, cumprod, cummin, cummax, and own operators.
//!
//! *Execution*: `plan/scan.rs` plans one dispatch for lines that fit one tile, else reduce, spine and scan;
//! `shaders/wgsl/scan.wgsl` and `spine.wgsl` run them. An expression is evaluated inside, never stored.

use std::sync::Arc;

use crate::array::Array;
use crate::dtype::Element;
use crate::elementwise::ArrayOps;
use crate::error::{Located, Result};
use crate::expr::{Expr, Node};
use crate::fuse::fuse;
use crate::layout::Layout;
use crate::monoid::Operator;
use crate::op::BinaryOp;
use crate::plan::{Statement, scan as plan};
use crate::shape::{Axis, IntoAxis, resolve_axis};

/// Inclusive scans of arrays and expressions: element `i` of the result combines elements `0..=i` along the axis.
///
/// A negative axis counts from the end. The result is a new array of the same shape on the device; nothing waits. The
/// last value along the axis equals the reduction's result, bit for bit, since both combine in the same order: see
/// [`order`](crate::plan::order).
pub trait Scan: ArrayOps {
    /// The running sum: NumPy's `cumsum`. Integers wrap; bool counts in `u32`.
    ///
    /// # Errors
    /// The axis is out of range, the expression's own error, or no memory for the result.
    #[track_caller]
    fn cumsum(&self, axis: impl IntoAxis) -> Result<Array<<Self::Elem as Element>::Sum>> {
        binary("cumsum", BinaryOp::Add, &self.to_expr().convert(), axis.into_axis()).located()
    }

    /// The running product: NumPy's `cumprod`. Integers wrap.
    ///
    /// # Errors
    /// As [`cumsum`](Self::cumsum).
    #[track_caller]
    fn cumprod(&self, axis: impl IntoAxis) -> Result<Array<<Self::Elem as Element>::Sum>> {
        binary("cumprod", BinaryOp::Mul, &self.to_expr().convert(), axis.into_axis()).located()
    }

    /// The smallest element so far: NumPy's `minimum.accumulate`. NaN from the first NaN on.
    ///
    /// # Errors
    /// As [`cumsum`](Self::cumsum).
    #[track_caller]
    fn cummin(&self, axis: impl IntoAxis) -> Result<Array<Self::Elem>> {
        extreme("cummin", BinaryOp::Min, &self.to_expr(), axis.into_axis()).located()
    }

    /// The largest element so far: NumPy's `maximum.accumulate`. NaN from the first NaN on.
    ///
    /// # Errors
    /// As [`cumsum`](Self::cumsum).
    #[track_caller]
    fn cummax(&self, axis: impl IntoAxis) -> Result<Array<Self::Elem>> {
        extreme("cummax", BinaryOp::Max, &self.to_expr(), axis.into_axis()).located()
    }

    /// The running combination by an associative operator: `x.scan(0, |a, b| a.maximum(b))`. Julia's `accumulate`.
    ///
    /// The closure gets the left and the right value; it is traced into the kernel as in
    /// [`reduce`](crate::reduce::Reduce::reduce).
    ///
    /// # Errors
    /// As [`cumsum`](Self::cumsum), and an operator that uses arrays or another operator's arguments.
    #[doc(alias = "accumulate")]
    #[doc(alias = "prefix sum")]
    #[track_caller]
    fn scan<F>(&self, axis: impl IntoAxis, combine: F) -> Result<Array<Self::Elem>>
    where
        F: FnOnce(&Expr<Self::Elem>, &Expr<Self::Elem>) -> Expr<Self::Elem>,
    {
        run(self.to_expr().node.located()?, axis.into_axis(), &Operator::traced("scan", combine).located()?).located()
    }
}

impl<A: ArrayOps + ?Sized> Scan for A {}

fn binary<T: Element>(name: &'static str, op: BinaryOp, expr: &Expr<T>, axis: Axis) -> Result<Array<T>> {
    run(expr.node.clone()?, axis, &Operator::binary(name, op, T::DTYPE))
}

fn extreme<T: Element>(name: &'static str, op: BinaryOp, expr: &Expr<T>, axis: Axis) -> Result<Array<T>> {
    let (operator, root) = Operator::extreme(name, op, expr)?;
    run(root, axis, &operator)
}

fn run<T: Element>(root: Arc<Node>, axis: Axis, operator: &Operator) -> Result<Array<T>> {
    let op = operator.name;
    let roots = [root];
    let device = roots[0].device(op)?.clone();
    let shape = roots[0].shape().clone();
    let axis = resolve_axis(op, axis.0, shape.ndim())?;
    let storage = device.storage(op, T::DTYPE, &shape)?;
    if shape.size() > 0 {
        let fused = fuse(op, &roots, &device, 2)?;
        let mut statement = Statement::new(op, &device);
        plan::plan(&mut statement, &fused, axis, operator, &storage)?;
        statement.run()?;
    }
    Ok(Array::new(storage, Layout::contiguous(shape)))
}
