//! Fusion: from trees to one program, with the arrays and constants that it reads.
//!
//! Children come before parents and a node that occurs twice is computed once. Where a tree reads more arrays than a
//! kernel of the device can bind, parts of it are computed first: see [`fuse`].

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::device::Device;
use crate::error::{ErrorKind, Result};
use crate::expr::{Kind, Node, Source};
use crate::layout::Layout;
use crate::plan::{MAX_ELEMENTS, Statement, map};
use crate::program::{Instr, Program, Value};
use crate::shape::Shape;

/// A whole expression as one program, with what it reads.
#[derive(Clone)]
pub(crate) struct Fused {
    pub(crate) program: Program,
    /// The arrays, seen with the expression's shape.
    pub(crate) inputs: Vec<Source>,
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

/// Operations in one kernel; more would only wait for the compiler.
const MAX_INSTRS: usize = 4096;

/// Turns trees into a program. One value per root, in order.
pub(crate) struct Fuser<'a> {
    op: &'static str,
    known: HashMap<*const Node, Value>,
    /// Nodes whose values are in arrays already.
    stored: HashMap<*const Node, Source>,
    fused: Fused,
    roots: &'a [Arc<Node>],
}

impl<'a> Fuser<'a> {
    /// The trees of one statement, over the shape of the first root.
    pub(crate) fn new(op: &'static str, roots: &'a [Arc<Node>]) -> Self {
        let shape = roots.first().map(|root| root.shape.clone()).unwrap_or_default();
        let fused = Fused { program: Program::default(), inputs: Vec::new(), scalars: SmallVec::new(), shape };
        Self { op, known: HashMap::new(), stored: HashMap::new(), fused, roots }
    }

    /// Makes nodes stand for the program's inputs: the arguments of an operator.
    pub(crate) fn arguments(mut self, arguments: &[Arc<Node>]) -> Self {
        for (index, node) in (0..).zip(arguments) {
            let value = self.fused.program.push(Instr::Input(index), node.dtype);
            self.known.insert(Arc::as_ptr(node), value);
        }
        self
    }

    pub(crate) fn fuse(mut self) -> Result<Fused> {
        let size = self.fused.shape.checked_size().unwrap_or(usize::MAX);
        if size > MAX_ELEMENTS {
            let (needed, limit) = (size as u64, MAX_ELEMENTS as u64);
            let what = "elements of one expression";
            return Err(ErrorKind::Limit { op: self.op, what, needed, limit, device: "kiln".into() }.into());
        }
        for root in self.roots {
            let value = self.value(root)?;
            self.fused.program.outputs.push(value);
        }
        Ok(self.fused)
    }

    /// The value of a node: children first, without recursion.
    fn value(&mut self, root: &'a Arc<Node>) -> Result<Value> {
        let mut stack = vec![root];
        while let Some(&node) = stack.last() {
            if self.known.contains_key(&Arc::as_ptr(node)) {
                stack.pop();
                continue;
            }
            let before = stack.len();
            if let Some(source) = self.stored.get(&Arc::as_ptr(node)) {
                let value = self.input(&source.clone())?;
                self.known.insert(Arc::as_ptr(node), value);
                continue;
            }
            for child in node.kind.children() {
                if !self.known.contains_key(&Arc::as_ptr(child)) {
                    stack.push(child);
                }
            }
            if stack.len() == before {
                let value = self.emit(node)?;
                self.known.insert(Arc::as_ptr(node), value);
                stack.pop();
            }
        }
        Ok(self.known[&Arc::as_ptr(root)])
    }

    fn emit(&mut self, node: &Node) -> Result<Value> {
        let known = |child: &Arc<Node>| self.known[&Arc::as_ptr(child)];
        let instr = match &node.kind {
            Kind::Array(source) => return self.input(source),
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
        let count = self.fused.program.instrs.len();
        if count >= MAX_INSTRS {
            let (needed, limit) = (count as u64 + 1, MAX_INSTRS as u64);
            let what = "operations in one expression; evaluate a part of it first";
            return Err(ErrorKind::Limit { op: self.op, what, needed, limit, device: "kiln".into() }.into());
        }
        Ok(self.fused.program.push(instr, node.dtype))
    }

    fn input(&mut self, source: &Source) -> Result<Value> {
        let layout = source.layout.broadcast_to(self.op, &self.fused.shape)?;
        let same = |known: &Source| Arc::ptr_eq(&known.storage, &source.storage) && known.layout == layout;
        let index = self.fused.inputs.iter().position(same).unwrap_or_else(|| {
            self.fused.inputs.push(Source { storage: Arc::clone(&source.storage), layout });
            self.fused.inputs.len() - 1
        });
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        Ok(self.fused.program.push(Instr::Input(index), source.storage.dtype()))
    }
}

/// The trees of one statement as one program that a kernel of `device` can run, with `others` arrays beside its inputs.
///
/// A tree that reads more arrays than fit is cut: its largest part that fits is computed into an array, which stands for
/// it from then on, until the rest fits.
pub(crate) fn fuse(op: &'static str, roots: &[Arc<Node>], device: &Device, others: usize) -> Result<Fused> {
    let room = device.caps().max_operands.saturating_sub(others);
    let mut stored: HashMap<*const Node, Source> = HashMap::new();
    loop {
        let fused = Fuser { stored: stored.clone(), ..Fuser::new(op, roots) }.fuse()?;
        if fused.inputs.len() <= room {
            return Ok(fused);
        }
        let Some(part) = largest_part(roots, &stored, room.min(device.caps().max_operands.saturating_sub(1))) else {
            let (needed, limit) = (fused.inputs.len() as u64, room as u64);
            let what = "arrays in one kernel";
            return Err(ErrorKind::Limit { op, what, needed, limit, device: device.info().to_string() }.into());
        };
        let roots = [Arc::clone(part)];
        let fused = Fuser { stored: stored.clone(), ..Fuser::new(op, &roots) }.fuse()?;
        let storage = device.storage(op, part.dtype, &part.shape)?;
        let mut statement = Statement::new(op, device);
        map::plan(&mut statement, &fused, std::slice::from_ref(&storage))?;
        statement.run()?;
        stored.insert(Arc::as_ptr(part), Source { storage, layout: Layout::contiguous(part.shape.clone()) });
    }
}

/// The node that reads the most arrays, but at least two and at most `room`.
fn largest_part<'a>(
    roots: &'a [Arc<Node>],
    stored: &HashMap<*const Node, Source>,
    room: usize,
) -> Option<&'a Arc<Node>> {
    type Reads = Vec<(*const crate::array::Storage, Layout)>;
    let mut reads: HashMap<*const Node, Reads> = HashMap::new();
    let mut best: Option<(usize, &Arc<Node>)> = None;
    let mut stack: Vec<&Arc<Node>> = roots.iter().collect();
    while let Some(&node) = stack.last() {
        let at = Arc::as_ptr(node);
        let before = stack.len();
        let source = stored.get(&at).or_else(|| node.as_source());
        let children = if source.is_some() { SmallVec::new() } else { node.kind.children() };
        stack.extend(children.iter().filter(|child| !reads.contains_key(&Arc::as_ptr(child))));
        if stack.len() > before {
            continue;
        }
        stack.pop();
        if reads.contains_key(&at) {
            continue;
        }
        let mut mine: Reads =
            source.map(|source| (Arc::as_ptr(&source.storage), source.layout.clone())).into_iter().collect();
        for child in children {
            for read in &reads[&Arc::as_ptr(child)] {
                if !mine.contains(read) {
                    mine.push(read.clone());
                }
            }
        }
        let count = mine.len();
        if (2..=room).contains(&count) && best.is_none_or(|(most, _)| count > most) {
            best = Some((count, node));
        }
        reads.insert(at, mine);
    }
    best.map(|(_, node)| node)
}
