//! Spines: totals of ever larger blocks of tiles, in place.
//!
//! What enters: a line's totals, of which every `1 << log_step`-th is a node. What leaves: after the last node of every
//! aligned, complete block of nodes, within tiles of nodes, stands the block's total. Decided: level by level, all pairs
//! of a level as one block; lines one after another, since a spine is short.

use kiln_array::Result;
use kiln_array::dtype::Dtype;
use kiln_array::recording::LEAF;

use crate::order::{Combiner, Joiner, bits_at, put};
use crate::scratch::BLOCK;
use crate::task::{Task, invalid};

pub(crate) fn run(task: Task<'_>) -> Result<()> {
    let dispatch = task.dispatch;
    let tiling = &dispatch.tiling;
    let combiner = Combiner::new(&dispatch.kernel.combine, task.scalars(1))?;
    let dtypes = combiner.dtypes().to_vec();
    let words = dtypes.len();
    let step = dispatch.log_step;
    let row = dispatch.walked.first().copied().unwrap_or(tiling.length << step);
    let tile = LEAF << tiling.log_leaves;
    if (tiling.length << step) > row {
        return Err(invalid(dispatch, "more nodes than totals"));
    }
    let mut joiner = Joiner::new(&combiner);
    for line in task.totals_out.chunks_exact_mut((row * words).max(1)).take(tiling.lines) {
        for first in (0..tiling.length).step_by(tile) {
            let nodes = tile.min(tiling.length - first);
            let mut level = 0;
            while 1 << level < nodes {
                // Pair `j`: the blocks that end at nodes `(2j + 1) << level` and `(2j + 2) << level`, counted from 1.
                let entry = |node: usize| ((first + node) << step) - 1;
                let pairs = nodes >> (level + 1);
                for start in (0..pairs).step_by(BLOCK) {
                    let n = BLOCK.min(pairs - start);
                    let ends = (start..start + n).map(|j| (entry((2 * j + 1) << level), entry((2 * j + 2) << level)));
                    join_entries(&mut joiner, &dtypes, line, ends, n)?;
                }
                level += 1;
            }
        }
    }
    Ok(())
}

/// `entry right = entry left ⊕ entry right` for `n` pairs.
fn join_entries(
    joiner: &mut Joiner<'_>,
    dtypes: &[Dtype],
    line: &mut [u32],
    pairs: impl Iterator<Item = (usize, usize)> + Clone,
    n: usize,
) -> Result<()> {
    let words = dtypes.len();
    let (mut left, mut right) = (joiner.vector(), joiner.vector());
    for (component, &dtype) in dtypes.iter().enumerate() {
        for (index, (a, b)) in pairs.clone().enumerate() {
            put(&mut left[component], dtype, index, line[a * words + component]);
            put(&mut right[component], dtype, index, line[b * words + component]);
        }
    }
    let joined = joiner.join(&joiner.args(&left, n), &joiner.args(&right, n), n)?;
    for (component, &dtype) in dtypes.iter().enumerate() {
        let values = joined[component].arg(dtype, n);
        for (index, (_, b)) in pairs.clone().enumerate() {
            line[b * words + component] = bits_at(values, index);
        }
    }
    Ok(())
}
