//! Maps: every element of the outputs from the elements at its place.
//!
//! What enters: a [`Task`] of one line. What leaves: its outputs. Decided: blocks end where the innermost axis ends, if
//! that axis is long, so that broadcast rows and columns are borrowed or repeated rather than gathered.

use kiln_array::Result;

use crate::block::{Code, Machine};
use crate::gather::Loader;
use crate::scratch::BLOCK;
use crate::task::Task;
use crate::threads::{Outs, PIECE, split};

/// Innermost axes at least this long end the blocks.
const LONG: usize = 256;

pub(crate) fn run(task: Task<'_>) -> Result<()> {
    let spec = &*task.dispatch.kernel;
    let length = task.dispatch.tiling.length;
    let code = Code::new(&spec.map, &task.dtypes(), task.scalars(0))?;
    let row = task.dispatch.walked.last().copied().filter(|&row| row >= LONG).unwrap_or(usize::MAX);
    let outs = task.outputs.into_iter().zip(&task.dispatch.outputs);
    let outs = outs.map(|(out, operand)| out.split_at(operand.offset).1.split_at(length).0).collect();
    let views = &task.views;
    let grain = if task.parallel { PIECE } else { 0 };
    split(outs, 0..length, grain, &|unit| unit, &|units, mut outs: Outs<'_>| {
        let mut loader = Loader::new(views);
        let mut machine = Machine::new(&code);
        let mut start = units.start;
        while start < units.end {
            let n = BLOCK.min(units.end - start).min(row - start % row);
            let (mut block, rest): (Outs<'_>, Outs<'_>) = outs.into_iter().map(|out| out.split_at(n)).unzip();
            machine.run(&loader.along(0, start, n), &mut block, n)?;
            outs = rest;
            start += n;
        }
        Ok(())
    })
}
