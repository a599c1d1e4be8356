//! Cuts: trees that read more arrays than a kernel binds, computed part by part.
//!
//! What enters: the trees of a statement and the number of arrays that fit. What leaves: one program that fits, after
//! its parts have been computed into arrays. From the leaves up, every node gets the set of what it reads; where the
//! sets of a node's operands together do not fit, the operand that reads most becomes an array. No set is larger than
//! what fits, so the work grows with the number of nodes and not faster.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::device::Device;
use crate::error::Result;
use crate::expr::Node;
use crate::fuse::{Fused, Fuser, Read, Stored, too_many_arrays};
use crate::layout::Layout;
use crate::plan::{Statement, map};
use crate::recording::MAX_ELEMENTS;
use crate::storage::View;

/// Numbers of what a node reads, ascending.
type Reads = SmallVec<[u32; 8]>;

/// Computes parts of trees until what is left fits one kernel.
pub(crate) struct Cutter<'a> {
    op: &'static str,
    device: &'a Device,
    /// How many arrays a kernel may read.
    room: usize,
    stored: Stored,
    numbers: HashMap<Read, u32>,
    reads: HashMap<*const Node, Reads>,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(op: &'static str, device: &'a Device, room: usize) -> Self {
        Self { op, device, room, stored: Stored::new(), numbers: HashMap::new(), reads: HashMap::new() }
    }

    /// The trees as one program that fits.
    pub(crate) fn fuse(&mut self, roots: &[Arc<Node>]) -> Result<Fused> {
        loop {
            let before = self.stored.len();
            self.cut(roots)?;
            if let Some(fused) = Fuser::new(self.op, roots).stored(&self.stored).fuse_within(self.room)? {
                return Ok(fused);
            }
            // A part may have become an array after the sets of other nodes that read it: they are made anew.
            if self.stored.len() == before {
                return Err(too_many_arrays(self.op, self.room + 1, self.room, &self.device.info().to_string()));
            }
        }
    }

    /// Computes parts until the sets of all nodes fit, and that of the roots together.
    fn cut(&mut self, roots: &[Arc<Node>]) -> Result<()> {
        self.reads.clear();
        let mut stack: Vec<&Arc<Node>> = roots.iter().rev().collect();
        while let Some(&node) = stack.last() {
            let at = Arc::as_ptr(node);
            if self.reads.contains_key(&at) {
                stack.pop();
                continue;
            }
            let view = self.stored.get(&at).or_else(|| node.as_view());
            let reads = match view.map(Read::new) {
                Some(read) => slice::from_ref(&self.number(read)).into(),
                None => {
                    let children = node.kind.children();
                    let before = stack.len();
                    stack.extend(children.iter().filter(|child| !self.reads.contains_key(&Arc::as_ptr(child))));
                    if stack.len() > before {
                        continue;
                    }
                    self.together(&children)?
                }
            };
            self.reads.insert(at, reads);
            stack.pop();
        }
        let roots: SmallVec<[&Arc<Node>; 3]> = roots.iter().collect();
        self.together(&roots).map(drop)
    }

    fn number(&mut self, read: Read) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(read).or_insert(next)
    }

    /// What nodes read together, after those that read most have become arrays where it would not fit.
    fn together(&mut self, nodes: &[&Arc<Node>]) -> Result<Reads> {
        let none = Reads::new();
        loop {
            let mut all = Reads::new();
            for node in nodes {
                all = union(&all, self.reads.get(&Arc::as_ptr(node)).unwrap_or(&none));
            }
            if all.len() <= self.room {
                return Ok(all);
            }
            let count = |node: &Arc<Node>| self.reads.get(&Arc::as_ptr(node)).map_or(0, SmallVec::len);
            let parts = nodes.iter().filter(|node| count(node) >= 2 && self.can_store(node));
            match parts.max_by_key(|node| count(node)) {
                Some(part) => self.store(part)?,
                None => {
                    let device = self.device.info().to_string();
                    return Err(too_many_arrays(self.op, all.len(), self.room, &device));
                }
            }
        }
    }

    /// Whether the device takes an array of a node's values.
    fn can_store(&self, node: &Node) -> bool {
        let bytes = |size: usize| size as u64 * node.dtype.bytes() as u64;
        let size = node.shape.checked_size().filter(|&size| size <= MAX_ELEMENTS);
        size.is_some_and(|size| bytes(size) <= self.device.caps().max_array_bytes)
    }

    /// Computes a node's values into an array, which stands for it from then on.
    fn store(&mut self, part: &Arc<Node>) -> Result<()> {
        let roots = slice::from_ref(part);
        let fused = match Fuser::new(self.op, roots).stored(&self.stored).fuse_within(self.room)? {
            Some(fused) => fused,
            None => {
                let outer = std::mem::take(&mut self.reads);
                let fused = self.fuse(roots)?;
                self.reads = outer;
                fused
            }
        };
        let storage = self.device.storage(self.op, part.dtype, &part.shape)?;
        let mut statement = Statement::new(self.op, self.device);
        map::plan(&mut statement, &fused, slice::from_ref(&storage))?;
        statement.run()?;
        let view = View { storage, layout: Layout::contiguous(part.shape.clone()) };
        let number = self.number(Read::new(&view));
        self.reads.insert(Arc::as_ptr(part), slice::from_ref(&number).into());
        self.stored.insert(Arc::as_ptr(part), view);
        Ok(())
    }
}

/// The numbers of two ascending lists, ascending.
fn union(a: &[u32], b: &[u32]) -> Reads {
    let mut out = Reads::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    while let (Some(&left), Some(&right)) = (a.peek(), b.peek()) {
        out.push(left.min(right));
        a.next_if_eq(&left.min(right));
        b.next_if_eq(&left.min(right));
    }
    out.extend(a.chain(b));
    out
}
