//! The plan of a reduction: each tile's total, then the totals' totals, until one is left per line.
//!
//! ```text
//! elements  [line][length]   reduce ─▶ totals [line][tile]   reduce ─▶ … ─▶ finish ─▶ output [line]
//! ```
//! Lines of one tile take one dispatch. The expression is evaluated inside the first; the last applies `finish`.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::Dtype;
use crate::error::Result;
use crate::fuse::Fused;
use crate::kernel::{Access, Family, KernelSpec};
use crate::layout::{Layout, row_major};
use crate::monoid::Operator;
use crate::plan::tiling::{self, Work};
use crate::plan::{Lines, Placed, Statement, lines};
use crate::program::Program;
use crate::recording::{BufferId, Dispatch, Operand, Tiling};
use crate::shape::Shape;
use crate::storage::Storage;

/// Reduces `fused` along `axes` (no axis of length 0; no axis at all is a copy through `finish`) into `output`.
pub(crate) fn plan(
    statement: &mut Statement<'_>,
    fused: &Fused,
    axes: &[usize],
    operator: &Operator,
    output: &Arc<Storage>,
    kept_shape: &Shape,
) -> Result<()> {
    statement.unpacked(output, kept_shape, &operator.finish, |statement, output, finish| {
        let out = output_layout(&fused.shape, axes);
        let placed = Placed { buffer: output.id(), dtype: output.dtype(), layout: &out };
        let (elements, target) = split(fused, axes, placed);
        let mut work = work(&elements, operator);
        let mut tiling = tiling::choose(&work, statement.device.caps(), statement.device.schedule());
        let mut last = Last { finish, target: Some(target), scalars: operator.finish_scalars.clone() };
        if tiling.tiles() == 1 {
            return statement.push(first_pass(fused, elements, operator, tiling, None, Some(&mut last)));
        }
        let mut totals = statement.scratch(&tiling, work.words)?;
        statement.push(first_pass(fused, elements, operator, tiling, Some(totals), None))?;
        // The output's kept axes by themselves are one.
        let placed = Placed { buffer: output.id(), dtype: output.dtype(), layout: &out };
        let mut alone = lines(&fused.shape, axes, &[placed]);
        loop {
            work = Work { length: tiling.tiles(), run: 1, ..work };
            tiling = tiling::choose(&work, statement.device.caps(), statement.device.schedule());
            if tiling.tiles() == 1 {
                last.target = alone.operands.pop();
                return statement.push(later_pass(&alone, operator, tiling, totals, None, Some(&mut last)));
            }
            let next = statement.scratch(&tiling, work.words)?;
            statement.push(later_pass(&alone, operator, tiling, totals, Some(next), None))?;
            totals = next;
        }
    })
}

/// What the last pass does instead of writing totals.
struct Last {
    finish: Program,
    target: Option<Operand>,
    scalars: SmallVec<[u32; 4]>,
}

/// The layout of a row-major output over the kept axes, seen with the shape that is reduced.
fn output_layout(shape: &Shape, axes: &[usize]) -> Layout {
    let kept: Shape = shape.iter().enumerate().map(|(axis, &len)| if axes.contains(&axis) { 1 } else { len }).collect();
    let mut strides = row_major(&kept);
    for &axis in axes {
        strides[axis] = 0;
    }
    Layout { shape: shape.clone(), strides, offset: 0 }
}

/// The inputs as lines, and the output apart.
fn split(fused: &Fused, axes: &[usize], output: Placed<'_>) -> (Lines, Operand) {
    let mut arrays: Vec<Placed<'_>> = fused.inputs.iter().map(Placed::view).collect();
    arrays.push(output);
    let mut lines = lines(&fused.shape, axes, &arrays);
    lines.slots.truncate(fused.inputs.len());
    let target = lines.operands.split_off(fused.inputs.len()).remove(0);
    (lines, target)
}

/// The work that lines and an operator make.
pub(crate) fn work(lines: &Lines, operator: &Operator) -> Work {
    Work {
        length: lines.walked.iter().product(),
        lines: lines.kept.iter().product(),
        words: operator.combine.outputs.len(),
        run: lines.run(),
        log_room: u32::MAX,
    }
}

/// The pass over elements: to the totals of tiles, or of whole lines to the output.
pub(crate) fn first_pass_to_totals(
    fused: &Fused,
    elements: Lines,
    operator: &Operator,
    tiling: Tiling,
    totals: BufferId,
) -> Dispatch {
    first_pass(fused, elements, operator, tiling, Some(totals), None)
}

fn first_pass(
    fused: &Fused,
    elements: Lines,
    operator: &Operator,
    tiling: Tiling,
    totals_out: Option<BufferId>,
    last: Option<&mut Last>,
) -> Dispatch {
    let mut scalars = fused.scalars.clone();
    scalars.extend_from_slice(&operator.combine_scalars);
    let mut dispatch = Dispatch {
        kernel: Arc::new(KernelSpec {
            family: Family::Reduce,
            name: operator.name,
            kept: rank(&elements.kept),
            walked: rank(&elements.walked),
            inputs: elements.slots,
            outputs: Vec::new(),
            map: fused.program.clone(),
            combine: operator.combine.clone(),
            finish: Program::default(),
            reads_totals: false,
            writes_totals: totals_out.is_some(),
            even_tiles: false,
        }),
        inputs: elements.operands,
        outputs: Vec::new(),
        totals_in: None,
        totals_out,
        kept: elements.kept,
        walked: elements.walked,
        tiling,
        log_step: 0,
        groups: tiling.groups(),
        scalars,
    };
    if let Some(last) = last {
        finish(&mut dispatch, last);
    }
    dispatch
}

/// A pass over totals.
fn later_pass(
    alone: &Lines,
    operator: &Operator,
    tiling: Tiling,
    totals_in: BufferId,
    totals_out: Option<BufferId>,
    last: Option<&mut Last>,
) -> Dispatch {
    let mut dispatch = Dispatch {
        kernel: Arc::new(KernelSpec {
            family: Family::Reduce,
            name: operator.name,
            kept: rank(&alone.kept),
            walked: rank(&alone.walked),
            inputs: Vec::new(),
            outputs: Vec::new(),
            map: Program::default(),
            combine: operator.combine.clone(),
            finish: Program::default(),
            reads_totals: true,
            writes_totals: totals_out.is_some(),
            even_tiles: false,
        }),
        inputs: Vec::new(),
        outputs: Vec::new(),
        totals_in: Some(totals_in),
        totals_out,
        kept: alone.kept.clone(),
        walked: alone.walked.clone(),
        tiling,
        log_step: 0,
        groups: tiling.groups(),
        scalars: operator.combine_scalars.clone(),
    };
    if let Some(last) = last {
        finish(&mut dispatch, last);
    }
    dispatch
}

/// Makes a pass the last one: it applies `finish` and writes the output.
fn finish(dispatch: &mut Dispatch, last: &mut Last) {
    let kernel = Arc::make_mut(&mut dispatch.kernel);
    let dtype = last.finish.output_dtypes().next().unwrap_or(Dtype::U32);
    kernel.outputs.push(crate::kernel::Slot { dtype, access: Access::Strided });
    kernel.finish = last.finish.clone();
    dispatch.outputs.extend(last.target.take());
    dispatch.scalars.extend_from_slice(&last.scalars);
}

/// The number of axes as it stands in a specification; arrays have far fewer than 255 after merging.
pub(crate) fn rank(axes: &[usize]) -> u8 {
    u8::try_from(axes.len()).unwrap_or(u8::MAX)
}
