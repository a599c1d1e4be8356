//! The operators of reductions and scans: programs that take two accumulators, left and right, to one.
//!
//! Built-in operators are rows made by `Operator::binary`; a user's closure is traced into the same form. An operator
//! must be associative. It need not be commutative, and it needs no identity.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::{Dtype, Element, Kind};
use crate::error::{ErrorKind, Result};
use crate::expr::{Expr, Node};
use crate::fuse::Fuser;
use crate::op::{BinaryOp, UnaryOp};
use crate::program::{Instr, Program};

/// An associative operator, with what becomes of the accumulator at the end.
#[derive(Clone)]
pub(crate) struct Operator {
    /// Its name in labels.
    pub(crate) name: &'static str,
    /// Left components, then right components, to components.
    pub(crate) combine: Program,
    pub(crate) combine_scalars: SmallVec<[u32; 4]>,
    /// Components to the result.
    pub(crate) finish: Program,
    pub(crate) finish_scalars: SmallVec<[u32; 4]>,
}

impl Operator {
    /// The operator that applies one binary operator.
    pub(crate) fn binary(name: &'static str, op: BinaryOp, dtype: Dtype) -> Self {
        let mut combine = Program::default();
        let left = combine.push(Instr::Input(0), dtype);
        let right = combine.push(Instr::Input(1), dtype);
        let both = combine.push(Instr::Binary(op, left, right), dtype);
        combine.outputs.push(both);
        Self {
            name,
            combine,
            combine_scalars: SmallVec::new(),
            finish: Program::identity(&[dtype]),
            finish_scalars: SmallVec::new(),
        }
    }

    /// The minimum or maximum of a type: the operator, and what the elements become first.
    ///
    /// Floats become keys that order as unsigned integers, NaN at the winning end; so NaN propagates, −0 comes before
    /// +0, and combining two is one instruction. For bool the smaller is `and`, the larger `or`.
    pub(crate) fn extreme<T: Element>(name: &'static str, op: BinaryOp, expr: &Expr<T>) -> Result<(Self, Arc<Node>)> {
        let (key, logic) =
            if op == BinaryOp::Min { (UnaryOp::MinKey, BinaryOp::And) } else { (UnaryOp::MaxKey, BinaryOp::Or) };
        match T::DTYPE.kind() {
            Kind::Bool => Ok((Self::binary(name, logic, T::DTYPE), expr.node.clone()?)),
            Kind::Float => {
                let argument = Expr::<u32>::argument();
                let result = argument.unary::<T>(UnaryOp::FromKey).node?;
                let operator = Self::binary(name, op, Dtype::U32).finished(&[argument.node?], result)?;
                Ok((operator, expr.unary::<u32>(key).node?))
            }
            _ => Ok((Self::binary(name, op, T::DTYPE), expr.node.clone()?)),
        }
    }

    /// The operator of a closure over one component.
    pub(crate) fn traced<T: Element>(
        op: &'static str,
        combine: impl FnOnce(&Expr<T>, &Expr<T>) -> Expr<T>,
    ) -> Result<Self> {
        let (left, right) = (Expr::argument(), Expr::argument());
        let both = combine(&left, &right).node?;
        Self::from_nodes(op, &[left.node?, right.node?], &[both])
    }

    /// The operator that takes the arguments `left… right…` to the trees `both`.
    pub(crate) fn from_nodes(op: &'static str, arguments: &[Arc<Node>], both: &[Arc<Node>]) -> Result<Self> {
        let combine = Fuser::new(op, both).arguments(arguments).fuse()?;
        if !combine.inputs.is_empty() {
            let reason = "an operator may use only its own arguments and scalars, not arrays".into();
            return Err(ErrorKind::BadOperator { op, reason }.into());
        }
        let components: Vec<Dtype> = combine.program.output_dtypes().collect();
        Ok(Self {
            name: op,
            combine: combine.program,
            combine_scalars: combine.scalars,
            finish: Program::identity(&components),
            finish_scalars: SmallVec::new(),
        })
    }

    /// The operator with another end: `finish` takes the components to the result.
    pub(crate) fn finished(mut self, arguments: &[Arc<Node>], result: Arc<Node>) -> Result<Self> {
        let finish = Fuser::new(self.name, &[result]).arguments(arguments).fuse()?;
        self.finish = finish.program;
        self.finish_scalars = finish.scalars;
        Ok(self)
    }
}
