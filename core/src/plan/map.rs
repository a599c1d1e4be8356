//! The plan of an elementwise expression: one dispatch, whatever it reads.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::Result;
use crate::fuse::Fused;
use crate::kernel::{Family, KernelSpec};
use crate::layout::Layout;
use crate::plan::{Placed, Statement, lines};
use crate::program::Program;
use crate::recording::{Dispatch, MAP_GROUP, Tiling};
use crate::storage::Storage;

/// Computes `fused` into `outputs`, one new row-major array per result of its program.
pub(crate) fn plan(statement: &mut Statement<'_>, fused: &Fused, outputs: &[Arc<Storage>]) -> Result<()> {
    let size = fused.shape.size();
    let axes: SmallVec<[usize; 4]> = (0..fused.shape.ndim()).collect();
    let whole = Layout::contiguous(fused.shape.clone());
    let mut arrays: Vec<Placed<'_>> = fused.inputs.iter().map(Placed::view).collect();
    arrays.extend(outputs.iter().map(|out| Placed { buffer: out.id(), dtype: out.dtype(), layout: &whole }));
    let mut lines = lines(&fused.shape, &axes, &arrays);
    let (operands, slots) = (lines.operands.split_off(fused.inputs.len()), lines.slots.split_off(fused.inputs.len()));
    let kernel = KernelSpec {
        family: Family::Map,
        name: fused.name(statement.op),
        kept: 0,
        walked: u8::try_from(lines.walked.len()).unwrap_or(u8::MAX),
        inputs: lines.slots,
        outputs: slots,
        map: fused.program.clone(),
        combine: Program::default(),
        finish: Program::default(),
        reads_totals: false,
        writes_totals: false,
        even_tiles: false,
    };
    statement.push(Dispatch {
        kernel: Arc::new(kernel),
        inputs: lines.operands,
        outputs: operands,
        totals_in: None,
        totals_out: None,
        kept: SmallVec::new(),
        walked: lines.walked,
        tiling: Tiling { length: size, lines: 1, ..Tiling::default() },
        log_step: 0,
        groups: size.div_ceil(MAP_GROUP),
        scalars: fused.scalars.clone(),
    })
}
