//! A dispatch with its memory: what the four families start from.
//!
//! What enters: a [`Dispatch`] and the buffers it names. What leaves: a [`Task`] whose every operand is known to lie in
//! its buffer, or an error. Decided: outputs are taken out of the store while the dispatch runs, so that they can be
//! written beside inputs being read; an input that is also an output is copied first.

use kiln_array::dtype::Dtype;
use kiln_array::kernel::{Family, Slot};
use kiln_array::recording::{BufferId, Dispatch, Operand};
use kiln_array::{ErrorKind, Result};
use smallvec::SmallVec;

use crate::buffers::{Buffer, Store};
use crate::gather::{View, check};
use crate::operand::{Arg, Dst};
use crate::{map, reduce, scan, spine};

/// A dispatch and its memory.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) dispatch: &'a Dispatch,
    /// The inputs.
    pub(crate) views: Vec<View<'a>>,
    /// The buffers of the outputs, from their starts.
    pub(crate) outputs: SmallVec<[Dst<'a>; 2]>,
    pub(crate) totals_in: &'a [u32],
    pub(crate) totals_out: &'a mut [u32],
    /// Whether to use all threads.
    pub(crate) parallel: bool,
}

/// An error about a recording that does not fit together.
pub(crate) fn invalid(dispatch: &Dispatch, what: &str) -> kiln_array::Error {
    ErrorKind::Backend { op: "cpu", message: format!("{what}: {dispatch}") }.into()
}

impl Task<'_> {
    /// The types of the inputs.
    pub(crate) fn dtypes(&self) -> Vec<Dtype> {
        self.dispatch.kernel.inputs.iter().map(|slot| slot.dtype).collect()
    }

    /// The constants of program `index`: map, combine, finish.
    pub(crate) fn scalars(&self, index: usize) -> &[u32] {
        let spec = &self.dispatch.kernel;
        let counts = [spec.map.scalars, spec.combine.scalars, spec.finish.scalars];
        let start: u32 = counts[..index].iter().sum();
        let all = &self.dispatch.scalars;
        all.get(start as usize..(start + counts[index]) as usize).unwrap_or(&[])
    }
}

/// Runs a dispatch.
pub(crate) fn run(dispatch: &Dispatch, store: &mut Store, parallel: bool) -> Result<()> {
    let written = dispatch.outputs.iter().map(|operand| operand.buffer).chain(dispatch.totals_out);
    let mut taken: SmallVec<[(BufferId, Buffer); 4]> = SmallVec::new();
    let mut result = Ok(());
    for id in written {
        match store.take(id) {
            Ok(buffer) => taken.push((id, buffer)),
            Err(error) => result = Err(error),
        }
    }
    let result = result.and_then(|()| run_taken(dispatch, store, &mut taken, parallel));
    for (id, buffer) in taken {
        store.put(id, buffer);
    }
    result
}

fn run_taken(dispatch: &Dispatch, store: &Store, taken: &mut [(BufferId, Buffer)], parallel: bool) -> Result<()> {
    let spec = &*dispatch.kernel;
    if dispatch.inputs.len() != spec.inputs.len() || dispatch.outputs.len() != spec.outputs.len() {
        return Err(invalid(dispatch, "operands do not fit the kernel"));
    }
    let product = |lengths: &[usize]| lengths.iter().try_fold(1usize, |all, &len| all.checked_mul(len));
    let tiling = &dispatch.tiling;
    let shaped = product(&dispatch.kept) == Some(tiling.lines) && product(&dispatch.walked) == Some(tiling.length);
    if (!dispatch.inputs.is_empty() || spec.family == Family::Map) && !shaped {
        return Err(invalid(dispatch, "axes do not fit the lines"));
    }
    let copies: Vec<(BufferId, Buffer)> = taken
        .iter()
        .filter(|(id, _)| dispatch.inputs.iter().any(|input| input.buffer == *id) || dispatch.totals_in == Some(*id))
        .map(|(id, buffer)| Ok((*id, buffer.copy()?)))
        .collect::<Result<_>>()?;
    let source = |id: BufferId| match copies.iter().find(|(copied, _)| *copied == id) {
        Some((_, buffer)) => Ok(buffer),
        None => store.get(id),
    };

    let mut views = Vec::with_capacity(dispatch.inputs.len());
    for (operand, slot) in dispatch.inputs.iter().zip(&spec.inputs) {
        let buffer = source(operand.buffer)?;
        let data = if stored(slot)? { Arg::Bytes(buffer.bytes()) } else { Arg::Words(buffer.words()) };
        views.push(View::new(operand, &dispatch.kept, &dispatch.walked, data)?);
    }
    let totals_in = dispatch.totals_in.map_or(Ok(&[][..]), |id| source(id).map(Buffer::words))?;
    let mut outputs = SmallVec::new();
    let mut written = taken.iter_mut();
    for ((operand, slot), (_, buffer)) in dispatch.outputs.iter().zip(&spec.outputs).zip(&mut written) {
        let dst = if stored(slot)? { Dst::Bytes(buffer.bytes_mut()) } else { Dst::Words(buffer.words_mut()) };
        check_output(dispatch, operand, dst.len())?;
        outputs.push(dst);
    }
    let totals_out = written.next().map_or(&mut [][..], |(_, buffer)| buffer.words_mut());
    check_totals(dispatch, totals_in.len(), totals_out.len())?;
    if tiling.lines == 0 || tiling.length == 0 {
        return Ok(());
    }
    let task = Task { dispatch, views, outputs, totals_in, totals_out, parallel };
    match spec.family {
        Family::Map => map::run(task),
        Family::Reduce => reduce::run(task),
        Family::Scan => scan::run(task),
        Family::Spine => spine::run(task),
        _ => Err(invalid(dispatch, "unknown family of kernel")),
    }
}

/// Whether a type is stored in bytes; an error if this backend does not store it.
fn stored(slot: &Slot) -> Result<bool> {
    match slot.dtype {
        Dtype::Bool => Ok(true),
        Dtype::I32 | Dtype::U32 | Dtype::F32 => Ok(false),
        dtype => Err(ErrorKind::UnsupportedDtype { dtype, device: "cpu".into() }.into()),
    }
}

/// Outputs of maps and reductions are contiguous; those of scans find their elements through strides.
fn check_output(dispatch: &Dispatch, operand: &Operand, elements: usize) -> Result<()> {
    let needed = match dispatch.kernel.family {
        Family::Map => dispatch.tiling.length,
        Family::Reduce => dispatch.tiling.lines,
        _ => return check(operand, &dispatch.kept, &dispatch.walked, elements),
    };
    match operand.offset.checked_add(needed) {
        Some(end) if end <= elements => Ok(()),
        _ => Err(invalid(dispatch, "an output is larger than its buffer")),
    }
}

fn check_totals(dispatch: &Dispatch, read: usize, written: usize) -> Result<()> {
    let spec = &dispatch.kernel;
    let (tiling, words) = (&dispatch.tiling, spec.combine.outputs.len());
    let per_line = match spec.family {
        Family::Reduce if spec.reads_totals => tiling.length,
        Family::Scan if spec.reads_totals => tiling.tiles(),
        _ => 0,
    };
    let out_per_line = match spec.family {
        Family::Reduce if spec.writes_totals => tiling.tiles(),
        Family::Spine => dispatch.walked.first().copied().unwrap_or(tiling.length << dispatch.log_step),
        _ => 0,
    };
    let fits = |per_line: usize, there: usize| {
        let needed = per_line.checked_mul(tiling.lines).and_then(|all| all.checked_mul(words));
        needed.is_some_and(|needed| needed <= there)
    };
    if !fits(per_line, read) || !fits(out_per_line, written) {
        return Err(invalid(dispatch, "totals are larger than their buffer"));
    }
    if spec.family == Family::Reduce && !spec.writes_totals && tiling.tiles() > 1 {
        return Err(invalid(dispatch, "several tiles and no totals"));
    }
    if spec.family == Family::Scan && !spec.reads_totals && tiling.tiles() > 1 {
        return Err(invalid(dispatch, "several tiles and no carries"));
    }
    Ok(())
}
