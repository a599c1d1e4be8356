//! Expressions: lazy elementwise trees over arrays.
//!
//! What enters: arrays, scalars, operators. What leaves: trees of nodes, with the shape that their parts broadcast to
//! and the device of their arrays. Nothing is computed here; `fuse.rs` makes programs of trees. An expression carries the
//! first error of its parts, so that operators need not return one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::device::Device;
use crate::dtype::{Dtype, Element, Scalar};
use crate::error::{Error, ErrorKind, Result};
use crate::op::{BinaryOp, UnaryOp};
use crate::shape::Shape;
use crate::storage::View;

/// A lazy elementwise expression with elements of type `T`.
///
/// Nothing runs until it is evaluated ([`eval`](crate::ArrayOps::eval)), reduced or scanned; then the whole expression
/// becomes part of that one kernel. An expression holds the arrays it reads, as they are now.
#[must_use = "an expression computes nothing until it is evaluated, reduced or scanned"]
pub struct Expr<T> {
    pub(crate) node: Result<Arc<Node>>,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Expr<T> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), marker: PhantomData }
    }
}

impl<T: Element> fmt::Debug for Expr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Ok(node) => write!(f, "Expr<{}> {}", T::DTYPE, node.shape),
            Err(error) => write!(f, "Expr<{}> failed: {error}", T::DTYPE),
        }
    }
}

/// One operation of a tree.
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Shape,
    pub(crate) device: Option<Device>,
}

pub(crate) enum Kind {
    Array(View),
    Scalar(Scalar),
    /// An argument of an operator that is being traced.
    Argument,
    Unary(UnaryOp, Arc<Node>),
    Binary(BinaryOp, Arc<Node>, Arc<Node>),
    Select(Arc<Node>, Arc<Node>, Arc<Node>),
    Cast(Arc<Node>),
}

impl Kind {
    pub(crate) fn children(&self) -> SmallVec<[&Arc<Node>; 3]> {
        match self {
            Self::Array(_) | Self::Scalar(_) | Self::Argument => SmallVec::new(),
            Self::Unary(_, a) | Self::Cast(a) => [a].into_iter().collect(),
            Self::Binary(_, a, b) => [a, b].into_iter().collect(),
            Self::Select(c, a, b) => [c, a, b].into_iter().collect(),
        }
    }
}

impl Drop for Node {
    /// Takes long trees apart without recursion.
    fn drop(&mut self) {
        let mut doomed: Vec<Kind> = Vec::new();
        let take = |kind: &mut Kind| std::mem::replace(kind, Kind::Argument);
        if !self.kind.children().is_empty() {
            doomed.push(take(&mut self.kind));
        }
        while let Some(kind) = doomed.pop() {
            let mut visit = |child: Arc<Self>| {
                if let Some(mut node) = Arc::into_inner(child)
                    && !node.kind.children().is_empty()
                {
                    doomed.push(take(&mut node.kind));
                }
            };
            match kind {
                Kind::Array(_) | Kind::Scalar(_) | Kind::Argument => {}
                Kind::Unary(_, a) | Kind::Cast(a) => visit(a),
                Kind::Binary(_, a, b) => {
                    visit(a);
                    visit(b);
                }
                Kind::Select(c, a, b) => {
                    visit(c);
                    visit(a);
                    visit(b);
                }
            }
        }
    }
}

impl<T: Element> Expr<T> {
    fn new(node: Result<Arc<Node>>) -> Self {
        Self { node, marker: PhantomData }
    }

    pub(crate) fn array(view: View) -> Self {
        let (dtype, shape) = (view.storage.dtype(), view.layout.shape.clone());
        let device = Some(view.storage.device().clone());
        Self::new(Ok(Arc::new(Node { kind: Kind::Array(view), dtype, shape, device })))
    }

    pub(crate) fn scalar(value: T) -> Self {
        let kind = Kind::Scalar(value.scalar());
        Self::new(Ok(Arc::new(Node { kind, dtype: T::DTYPE, shape: Shape::default(), device: None })))
    }

    pub(crate) fn argument() -> Self {
        let node = Node { kind: Kind::Argument, dtype: T::DTYPE, shape: Shape::default(), device: None };
        Self::new(Ok(Arc::new(node)))
    }

    pub(crate) fn unary<U: Element>(&self, op: UnaryOp) -> Expr<U> {
        Expr::new(self.node.clone().map(|a| {
            debug_assert_eq!(op.result(a.dtype), Some(U::DTYPE));
            let (shape, device) = (a.shape.clone(), a.device.clone());
            Arc::new(Node { kind: Kind::Unary(op, a), dtype: U::DTYPE, shape, device })
        }))
    }

    #[track_caller]
    pub(crate) fn binary<U: Element>(self, op: BinaryOp, rhs: Self) -> Expr<U> {
        let joined = match (self.node, rhs.node) {
            (Ok(a), Ok(b)) => join(op.name(), &a, &b).map(|(shape, device)| {
                debug_assert_eq!(op.result(a.dtype), Some(U::DTYPE));
                Arc::new(Node { kind: Kind::Binary(op, a, b), dtype: U::DTYPE, shape, device })
            }),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        Expr::new(joined)
    }

    #[track_caller]
    pub(crate) fn choose(condition: Expr<bool>, a: Self, b: Self) -> Self {
        let joined = match (condition.node, a.node, b.node) {
            (Ok(c), Ok(a), Ok(b)) => select(c, a, b, T::DTYPE),
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => Err(error),
        };
        Self::new(joined)
    }

    pub(crate) fn convert<U: Element>(&self) -> Expr<U> {
        Expr::new(self.node.clone().map(|a| {
            if a.dtype == U::DTYPE {
                return a;
            }
            let (shape, device) = (a.shape.clone(), a.device.clone());
            Arc::new(Node { kind: Kind::Cast(a), dtype: U::DTYPE, shape, device })
        }))
    }

    /// The shape of the result.
    ///
    /// # Errors
    /// The first error of the expression's parts.
    pub fn shape(&self) -> Result<&Shape> {
        self.node.as_ref().map(|node| &node.shape).map_err(Clone::clone)
    }
}

/// The node that takes `a` where `c` is true, else `b`.
#[track_caller]
fn select(c: Arc<Node>, a: Arc<Node>, b: Arc<Node>, dtype: Dtype) -> Result<Arc<Node>> {
    let (shape, device) = join("select", &a, &b)?;
    let both = Node { kind: Kind::Argument, dtype, shape, device };
    let (shape, device) = join("select", &c, &both)?;
    Ok(Arc::new(Node { kind: Kind::Select(c, a, b), dtype, shape, device }))
}

#[track_caller]
fn join(op: &'static str, a: &Node, b: &Node) -> Result<(Shape, Option<Device>)> {
    let device = match (&a.device, &b.device) {
        (Some(a), Some(b)) if a != b => {
            let (lhs, rhs) = (a.told_apart(), b.told_apart());
            return Err(Error::here(ErrorKind::DeviceMismatch { op, lhs, rhs }));
        }
        (Some(device), _) | (None, Some(device)) => Some(device.clone()),
        (None, None) => None,
    };
    // No closure here: it would be the caller that the error names.
    let Some(shape) = a.shape.broadcast(&b.shape) else {
        return Err(Error::here(ErrorKind::ShapeMismatch { op, lhs: a.shape.clone(), rhs: b.shape.clone() }));
    };
    Ok((shape, device))
}

impl Node {
    /// The device of the arrays in the tree.
    pub(crate) fn device(&self, op: &'static str) -> Result<&Device> {
        self.device.as_ref().ok_or_else(|| ErrorKind::NoArray { op }.into())
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The array that the tree is, if it is nothing else.
    pub(crate) fn as_view(&self) -> Option<&View> {
        if let Kind::Array(view) = &self.kind { Some(view) } else { None }
    }
}
