//! Fusion: from trees to one program, with the arrays and constants that it reads.
//!
//! Children come before parents and a node that occurs twice is computed once. Where a tree reads more arrays than a
//! kernel of the device can bind, parts of it are computed first: see `cut.rs`. Time grows with the number of operands
//! and not faster: nodes and arrays are found by hash.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cut::Cutter;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{Kind, Node};
use crate::program::{Instr, Program, Value};
use crate::shape::Shape;
use crate::storage::{Storage, View};

/// A whole expression as one program, with what it reads.
#[derive(Clone)]
pub(crate) struct Fused {
    pub(crate) program: Program,
    /// The arrays, seen with the expression's shape.
    pub(crate) inputs: Vec<View>,
    /// The constants' bits.
    pub(crate) scalars: SmallVec<[u32; 4]>,
    pub(crate) shape: Shape,
}

impl Fused {
    /// A name for labels: the last operator, or `op` where there is none.
    pub(crate) fn name(&self, op: &'static str) -> &'static str {
        match self.program.outputs.first().map(|&value| self.program.instrs[value as usize].0) {
            Some(Instr::Unary(op, _)) => op.name(),
            Some(Instr::Binary(op, ..)) => op.name(),
            Some(Instr::Select(..)) => "select",
            Some(Instr::Cast(_)) => "cast",
            Some(Instr::Input(_)) => "copy",
            _ => op,
        }
    }
}

/// Operations in one kernel; more would only wait for the compiler. Arrays and constants do not count.
const MAX_OPERATIONS: usize = 4096;

/// Nodes whose values are in arrays already.
pub(crate) type Stored = HashMap<*const Node, View>;

/// What is read of a storage, whatever shape it is stretched to: equal keys, equal elements.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Read {
    storage: *const Storage,
    offset: usize,
    /// From the last axis; 0 where nothing moves, and none before the first axis that moves.
    strides: SmallVec<[isize; 4]>,
}

impl Read {
    pub(crate) fn new(view: &View) -> Self {
        let layout = &view.layout;
        let steps = layout.shape.iter().zip(&layout.strides).map(|(&len, &stride)| if len == 1 { 0 } else { stride });
        let mut strides: SmallVec<[isize; 4]> = steps.rev().collect();
        while strides.last() == Some(&0) {
            strides.pop();
        }
        Self { storage: Arc::as_ptr(&view.storage), offset: layout.offset, strides }
    }
}

/// Turns trees into a program. One value per root, in order.
pub(crate) struct Fuser<'a> {
    op: &'static str,
    known: HashMap<*const Node, Value>,
    /// The values of what is read.
    reads: HashMap<Read, Value>,
    stored: Option<&'a Stored>,
    operations: usize,
    fused: Fused,
    roots: &'a [Arc<Node>],
}

impl<'a> Fuser<'a> {
    /// The trees of one statement, over the shape of the first root.
    pub(crate) fn new(op: &'static str, roots: &'a [Arc<Node>]) -> Self {
        let shape = roots.first().map(|root| root.shape.clone()).unwrap_or_default();
        let fused = Fused { program: Program::default(), inputs: Vec::new(), scalars: SmallVec::new(), shape };
        Self { op, known: HashMap::new(), reads: HashMap::new(), stored: None, operations: 0, fused, roots }
    }

    /// Takes nodes for the arrays that hold their values.
    pub(crate) fn stored(self, stored: &'a Stored) -> Self {
        Self { stored: Some(stored), ..self }
    }

    /// Makes nodes stand for the program's inputs: the arguments of an operator.
    pub(crate) fn arguments(mut self, arguments: &[Arc<Node>]) -> Self {
        for (index, node) in (0..).zip(arguments) {
            let value = self.fused.program.push(Instr::Input(index), node.dtype);
            self.known.insert(Arc::as_ptr(node), value);
        }
        self
    }

    pub(crate) fn fuse(self) -> Result<Fused> {
        let op = self.op;
        // No list of inputs is that long.
        self.fuse_within(usize::MAX)?.ok_or_else(|| too_many_arrays(op, usize::MAX, usize::MAX, "kiln"))
    }

    /// The program, or `None` if it reads more than `room` arrays.
    pub(crate) fn fuse_within(mut self, room: usize) -> Result<Option<Fused>> {
        for root in self.roots {
            let Some(value) = self.value(root, room)? else { return Ok(None) };
            self.fused.program.outputs.push(value);
        }
        if self.operations > MAX_OPERATIONS {
            let (needed, limit) = (self.operations as u64, MAX_OPERATIONS as u64);
            let what = "operations in one kernel; evaluate a part of the expression first";
            return Err(ErrorKind::Limit { op: self.op, what, needed, limit, device: "kiln".into() }.into());
        }
        Ok(Some(self.fused))
    }

    /// The value of a node: children first, without recursion. `None` if there is no room for what it reads.
    fn value(&mut self, root: &'a Arc<Node>, room: usize) -> Result<Option<Value>> {
        let mut stack = vec![root];
        while let Some(&node) = stack.last() {
            let at = Arc::as_ptr(node);
            if self.known.contains_key(&at) {
                stack.pop();
                continue;
            }
            let view = self.stored.and_then(|stored| stored.get(&at)).or_else(|| node.as_view());
            let value = match view {
                Some(view) => self.input(view)?,
                None => {
                    let before = stack.len();
                    let children = node.kind.children();
                    stack.extend(children.into_iter().filter(|child| !self.known.contains_key(&Arc::as_ptr(child))));
                    if stack.len() > before {
                        continue;
                    }
                    self.emit(node)?
                }
            };
            if self.fused.inputs.len() > room {
                return Ok(None);
            }
            self.known.insert(at, value);
            stack.pop();
        }
        Ok(self.known.get(&Arc::as_ptr(root)).copied())
    }

    fn emit(&mut self, node: &Node) -> Result<Value> {
        let known = |child: &Arc<Node>| self.known[&Arc::as_ptr(child)];
        let instr = match &node.kind {
            Kind::Array(view) => return self.input(view),
            Kind::Scalar(scalar) => {
                self.fused.scalars.push(scalar.bits);
                return Ok(self.fused.program.push_scalar(scalar.dtype));
            }
            Kind::Argument => {
                let reason = "an operator may use only its own arguments and scalars".into();
                return Err(ErrorKind::BadOperator { op: self.op, reason }.into());
            }
            Kind::Unary(op, a) => Instr::Unary(*op, known(a)),
            Kind::Binary(op, a, b) => Instr::Binary(*op, known(a), known(b)),
            Kind::Select(c, a, b) => Instr::Select(known(c), known(a), known(b)),
            Kind::Cast(a) => Instr::Cast(known(a)),
        };
        self.operations += 1;
        Ok(self.fused.program.push(instr, node.dtype))
    }

    fn input(&mut self, view: &View) -> Result<Value> {
        let read = Read::new(view);
        if let Some(&value) = self.reads.get(&read) {
            return Ok(value);
        }
        let layout = view.layout.broadcast_to(self.op, &self.fused.shape)?;
        let index = u32::try_from(self.fused.inputs.len()).unwrap_or(u32::MAX);
        self.fused.inputs.push(View { storage: Arc::clone(&view.storage), layout });
        let value = self.fused.program.push(Instr::Input(index), view.storage.dtype());
        self.reads.insert(read, value);
        Ok(value)
    }
}

/// The trees of one statement as one program that a kernel of `device` can run, with `others` arrays beside its inputs.
///
/// Trees that read more arrays than fit are cut, and their parts computed into arrays first.
pub(crate) fn fuse(op: &'static str, roots: &[Arc<Node>], device: &Device, others: usize) -> Result<Fused> {
    // A part is a map, which writes one array.
    let room = device.caps().max_operands.saturating_sub(others.max(1));
    if let Some(fused) = Fuser::new(op, roots).fuse_within(room)? {
        return Ok(fused);
    }
    let mut cutter = Cutter::new(op, device, room);
    cutter.fuse(roots)
}

/// The error of a tree that cannot be cut into parts that fit.
pub(crate) fn too_many_arrays(op: &'static str, needed: usize, limit: usize, device: &str) -> Error {
    let (needed, limit, device) = (needed as u64, limit as u64, device.to_string());
    ErrorKind::Limit { op, what: "arrays in one kernel", needed, limit, device }.into()
}
