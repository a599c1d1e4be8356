//! The plan of a running combination: reduce, then scan.
//!
//! ```text
//! elements ── reduce ─▶ totals [line][tile] ── spine ─▶ totals of blocks of 2, 4, 8 … tiles, in place
//! elements + totals ── scan ─▶ output
//! ```
//! A tile's elements take, left of them, the blocks that [`order`](crate::plan::order) names: at most one per level,
//! which the spine leaves at the index of the block's last tile. Lines of one tile take one dispatch. Nothing waits
//! for a neighbour, so no forward progress between workgroups is assumed, and floats have the same bits in every run.

use std::sync::Arc;

use smallvec::smallvec;

use crate::error::Result;
use crate::fuse::Fused;
use crate::kernel::{Access, Family, KernelSpec, MAX_LOG_SCAN_SLOTS};
use crate::layout::Layout;
use crate::monoid::Operator;
use crate::plan::reduce::{first_pass_to_totals, rank, work};
use crate::plan::tiling::{self, Work, log2_ceil};
use crate::plan::{Lines, Placed, Statement, lines};
use crate::program::Program;
use crate::recording::{BufferId, Dispatch, LEAF, Tiling};
use crate::storage::Storage;

/// Scans `fused` along `axis` into `output`, a new row-major array of the same shape (no axis of length 0).
pub(crate) fn plan(
    statement: &mut Statement<'_>,
    fused: &Fused,
    axis: usize,
    operator: &Operator,
    output: &Arc<Storage>,
) -> Result<()> {
    let whole = Layout::contiguous(fused.shape.clone());
    let all = lines(&fused.shape, &[axis], &placed(fused, output, &whole));
    // Whole quads of packed results are whole words.
    if all.slots.last().is_some_and(|slot| slot.access == Access::Quad) {
        return passes(statement, fused, axis, operator, output, operator.finish.clone());
    }
    statement.unpacked(output, &fused.shape, &operator.finish, |statement, output, finish| {
        passes(statement, fused, axis, operator, output, finish)
    })
}

/// What a scan reads, and the array it writes.
fn placed<'a>(fused: &'a Fused, output: &Storage, whole: &'a Layout) -> Vec<Placed<'a>> {
    let out = Placed { buffer: output.id(), dtype: output.dtype(), layout: whole };
    fused.inputs.iter().map(Placed::view).chain([out]).collect()
}

/// The dispatches of a scan into an output that they may write.
fn passes(
    statement: &mut Statement<'_>,
    fused: &Fused,
    axis: usize,
    operator: &Operator,
    output: &Arc<Storage>,
    finish: Program,
) -> Result<()> {
    let whole = Layout::contiguous(fused.shape.clone());
    let all = lines(&fused.shape, &[axis], &placed(fused, output, &whole));
    let caps = statement.device.caps();
    // A backend that walks its tiles holds none in registers.
    let log_room = if caps.serial_groups { u32::MAX } else { MAX_LOG_SCAN_SLOTS };
    let work = Work { log_room, ..work(&all, operator) };
    let room = work.log_slots(caps);
    let tiling = tiling::choose(&work, caps, statement.device.schedule());
    let mut totals = None;
    if tiling.tiles() > 1 {
        let buffer = statement.scratch(&tiling, work.words)?;
        let mut elements = lines(&fused.shape, &[axis], &placed(fused, output, &whole));
        elements.operands.truncate(fused.inputs.len());
        elements.slots.truncate(fused.inputs.len());
        statement.push(first_pass_to_totals(fused, elements, operator, tiling, buffer))?;
        spine(statement, operator, &tiling, work.words, buffer)?;
        totals = Some(buffer);
    }
    statement.push(scan_pass(fused, all, operator, finish, tiling, totals, room))
}

/// Combines the totals of neighbouring tiles in place, level by level, in as many dispatches as one workgroup's memory
/// makes necessary.
fn spine(
    statement: &mut Statement<'_>,
    operator: &Operator,
    tiling: &Tiling,
    words: usize,
    totals: BufferId,
) -> Result<()> {
    let tiles = tiling.tiles();
    let room = statement.device.caps().log_slots;
    let slots = statement.device.schedule().log_slots.unwrap_or(u32::MAX).max(4).min(room);
    let most = slots.saturating_sub(log2_ceil(words)).max(2);
    let mut log_step = 0;
    while tiles >> log_step >= 2 {
        let length = tiles >> log_step;
        let log_nodes = log2_ceil(length).clamp(2, most);
        let level = Tiling {
            length,
            lines: tiling.lines,
            log_leaves: log_nodes - LEAF.trailing_zeros(),
            log_lines: 0,
            line_fastest: false,
        };
        statement.push(Dispatch {
            kernel: Arc::new(KernelSpec {
                family: Family::Spine,
                name: operator.name,
                kept: 0,
                walked: 1,
                inputs: Vec::new(),
                outputs: Vec::new(),
                map: Program::default(),
                combine: operator.combine.clone(),
                finish: Program::default(),
                reads_totals: false,
                writes_totals: true,
                even_tiles: false,
            }),
            inputs: Vec::new(),
            outputs: Vec::new(),
            totals_in: None,
            totals_out: Some(totals),
            kept: smallvec![],
            walked: smallvec![tiles],
            tiling: level,
            log_step,
            groups: level.groups(),
            scalars: operator.combine_scalars.clone(),
        })?;
        log_step += log_nodes;
    }
    Ok(())
}

/// The pass that writes the output. `room` is what a workgroup's tile may have, in leaves, as a power of two.
fn scan_pass(
    fused: &Fused,
    mut all: Lines,
    operator: &Operator,
    finish: Program,
    tiling: Tiling,
    totals_in: Option<BufferId>,
    room: u32,
) -> Dispatch {
    let mut scalars = fused.scalars.clone();
    scalars.extend_from_slice(&operator.combine_scalars);
    scalars.extend_from_slice(&operator.finish_scalars);
    let outputs = all.operands.split_off(fused.inputs.len());
    let output_slots = all.slots.split_off(fused.inputs.len());
    Dispatch {
        kernel: Arc::new(KernelSpec {
            family: Family::Scan,
            name: operator.name,
            kept: rank(&all.kept),
            walked: rank(&all.walked),
            inputs: all.slots,
            outputs: output_slots,
            map: fused.program.clone(),
            combine: operator.combine.clone(),
            finish,
            reads_totals: totals_in.is_some(),
            writes_totals: false,
            even_tiles: tiling.is_even(room),
        }),
        inputs: all.operands,
        outputs,
        totals_in,
        totals_out: None,
        kept: all.kept,
        walked: all.walked,
        tiling,
        log_step: 0,
        groups: tiling.groups(),
        scalars,
    }
}
