//! Planners: from shapes, layouts and dtypes to dispatches.
//!
//! What enters: a fused expression (`Fused`), the axes, the operator. What leaves: a
//! [`Recording`]. [`order`] says how values combine, [`tiling`] how the work is dealt out;
//! the first never depends on the device, the second may.

pub mod map;
pub mod order;
pub mod reduce;
pub mod scan;
pub mod tiling;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::{ErrorKind, Result};
use crate::fuse::Fused;
use crate::kernel::{Access, Slot};
use crate::layout::{Layout, collapse};
use crate::program::{Instr, Program};
use crate::recording::{BufferId, Dispatch, MAX_ELEMENTS, Operand, Recording, Tiling};
use crate::shape::Shape;
use crate::storage::{Storage, View};

/// Operands seen as lines: the kept axes number the lines, the walked axes run along one.
pub(crate) struct Lines {
    pub(crate) kept: SmallVec<[usize; 4]>,
    pub(crate) walked: SmallVec<[usize; 4]>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) slots: Vec<Slot>,
}

/// One array that a kernel reads or writes, before its axes are dealt out.
pub(crate) struct Placed<'a> {
    pub(crate) buffer: BufferId,
    pub(crate) dtype: Dtype,
    pub(crate) layout: &'a Layout,
}

impl<'a> Placed<'a> {
    pub(crate) fn view(view: &'a View) -> Self {
        Self { buffer: view.storage.id(), dtype: view.storage.dtype(), layout: &view.layout }
    }
}

/// Deals the axes of `shape` to lines: those in `axes` are walked, the others kept; merges what can be merged.
pub(crate) fn lines(shape: &[usize], axes: &[usize], arrays: &[Placed<'_>]) -> Lines {
    let deal = |walked: bool| {
        let mine = |axis: &usize| axes.contains(axis) == walked;
        let lens: SmallVec<[usize; 4]> = (0..shape.len()).filter(mine).map(|axis| shape[axis]).collect();
        let strides: SmallVec<[SmallVec<[isize; 4]>; 4]> = arrays
            .iter()
            .map(|array| (0..shape.len()).filter(mine).map(|axis| array.layout.strides[axis]).collect())
            .collect();
        let views: SmallVec<[&[isize]; 4]> = strides.iter().map(SmallVec::as_slice).collect();
        collapse(&lens, &views)
    };
    let (kept, kept_strides) = deal(false);
    let (walked, walked_strides) = deal(true);
    let mut out = Lines { kept, walked, operands: Vec::new(), slots: Vec::new() };
    for ((array, kept), along) in arrays.iter().zip(kept_strides).zip(walked_strides) {
        let quad = array.layout.offset % 4 == 0
            && kept.iter().all(|stride| stride % 4 == 0)
            && matches!(collapse(&out.walked, &[&along]).1[0][..], [] | [1]);
        let access = if quad { Access::Quad } else { Access::Strided };
        out.slots.push(Slot { dtype: array.dtype, access });
        out.operands.push(Operand { buffer: array.buffer, offset: array.layout.offset, kept, walked: along });
    }
    out
}

impl Lines {
    /// How many neighbouring lines lie side by side in memory, if lines are better walked side by side than along.
    pub(crate) fn run(&self) -> usize {
        // The operand that moves most decides; broadcast ones have no say.
        let finest = |strides: &[isize]| strides.iter().map(|s| s.unsigned_abs()).filter(|&s| s > 0).min();
        let side = |operand: &Operand| match (finest(&operand.kept), finest(&operand.walked)) {
            (Some(kept), Some(walked)) => kept < walked,
            (Some(_), None) => true,
            _ => false,
        };
        let votes = self.operands.iter().filter(|operand| side(operand)).count();
        if votes * 2 > self.operands.len() { self.kept.last().copied().unwrap_or(1) } else { 1 }
    }
}

/// One statement being planned: its dispatches and the buffers that only it needs.
pub(crate) struct Statement<'a> {
    /// The operation, for errors.
    pub(crate) op: &'static str,
    /// Where it will run.
    pub(crate) device: &'a Device,
    /// The dispatches so far.
    pub(crate) recording: Recording,
    scratch: Vec<Arc<Storage>>,
}

impl<'a> Statement<'a> {
    pub(crate) fn new(op: &'static str, device: &'a Device) -> Self {
        Self { op, device, recording: Recording::default(), scratch: Vec::new() }
    }

    /// A buffer for the totals of `tiling`'s tiles, of `words` words each, that goes back when the statement has been
    /// handed over.
    pub(crate) fn scratch(&mut self, tiling: &Tiling, words: usize) -> Result<BufferId> {
        let count = tiling.lines.saturating_mul(tiling.tiles()).saturating_mul(words);
        let storage = self.working("bytes for the totals of parts of lines", &Shape::from_iter([count]))?;
        let id = storage.id();
        self.scratch.push(storage);
        Ok(id)
    }

    /// An array of words that nobody asked for; the error of too large a one says what it is for.
    fn working(&self, what: &'static str, shape: &Shape) -> Result<Arc<Storage>> {
        let limit = self.device.caps().max_array_bytes.min(4 * MAX_ELEMENTS as u64);
        let needed = (shape.size() as u64).saturating_mul(4);
        if needed > limit {
            let device = self.device.info().to_string();
            return Err(ErrorKind::Limit { op: self.op, what, needed, limit, device }.into());
        }
        self.device.storage(self.op, Dtype::U32, shape)
    }

    /// Appends a dispatch after checking what no schedule can mend: its operands and its workgroups.
    pub(crate) fn push(&mut self, dispatch: Dispatch) -> Result<()> {
        let caps = self.device.caps();
        let limit = |what, needed: u64, limit: u64| {
            let device = self.device.info().to_string();
            Err(ErrorKind::Limit { op: self.op, what, needed, limit, device }.into())
        };
        let totals = usize::from(dispatch.totals_in.is_some()) + usize::from(dispatch.totals_out.is_some());
        let operands = dispatch.inputs.len() + dispatch.outputs.len() + totals;
        if operands > caps.max_operands {
            return limit("arrays in one kernel", operands as u64, caps.max_operands as u64);
        }
        if dispatch.groups as u64 > caps.max_groups {
            return limit("workgroups in one dispatch", dispatch.groups as u64, caps.max_groups);
        }
        self.recording.dispatches.push(dispatch);
        Ok(())
    }

    /// Hands the work to the backend.
    pub(crate) fn run(self) -> Result<()> {
        self.device.backend().run(&self.recording)
    }

    /// Runs `plan` with an output whose elements have a word each, then packs them where `output` is packed.
    ///
    /// Reductions, and scans of most views, write results one by one; neighbours that share a word would race.
    pub(crate) fn unpacked(
        &mut self,
        output: &Arc<Storage>,
        shape: &Shape,
        finish: &Program,
        plan: impl FnOnce(&mut Self, &Arc<Storage>, Program) -> Result<()>,
    ) -> Result<()> {
        if !output.dtype().is_packed() {
            return plan(self, output, finish.clone());
        }
        let wide = self.working("bytes for results of a word each before they are packed", shape)?;
        let mut widened = finish.clone();
        for at in 0..widened.outputs.len() {
            widened.outputs[at] = widened.push(Instr::Cast(widened.outputs[at]), Dtype::U32);
        }
        plan(self, &wide, widened)?;
        let mut narrow = Program::default();
        let word = narrow.push(Instr::Input(0), Dtype::U32);
        let packed = narrow.push(Instr::Cast(word), output.dtype());
        narrow.outputs.push(packed);
        let view = View { storage: Arc::clone(&wide), layout: Layout::contiguous(shape.clone()) };
        self.scratch.push(wide);
        let fused = Fused { program: narrow, inputs: vec![view], scalars: SmallVec::new(), shape: shape.clone() };
        map::plan(self, &fused, std::slice::from_ref(output))
    }
}
