//! Reductions: the total of each tile of each line.
//!
//! What enters: a [`Task`], its elements mapped from inputs or totals of an earlier pass. What leaves: totals for a later
//! pass, or finished outputs. Decided: a thread walks lines one at a time where their elements lie together, and a row of
//! neighbouring lines at once where those do (or where lines are short); both honour the same order.

use std::ops::Range;

use kiln_array::dtype::Dtype;
use kiln_array::program::{Instr, Program};
use kiln_array::recording::{LEAF, Operand};
use kiln_array::{ErrorKind, Result};
use smallvec::smallvec;

use crate::block::{Code, Machine};
use crate::feed::Feed;
use crate::gather::View;
use crate::operand::{Arg, Dst};
use crate::order::{Acc, Combiner, Counter, Joiner, Vector, bits_at, put};
use crate::scratch::BLOCK;
use crate::task::Task;
use crate::threads::{Outs, PIECE, Threads, split};

/// Lines up to this length are walked side by side wherever they lie.
const SHORT: usize = 128;

/// What the threads share.
struct Reduce<'a> {
    views: &'a [View<'a>],
    map: Code,
    combiner: Combiner,
    finish: Option<Code>,
    /// Whether the elements are elements, not totals.
    leaves: bool,
    lines: usize,
    length: usize,
    /// Elements of a tile.
    tile: usize,
    tiles: usize,
}

/// Whether lines are best walked side by side: fewer operands need gathering.
pub(crate) fn side_by_side(views: &[View<'_>], lines: usize, length: usize) -> bool {
    if length <= SHORT && lines >= SHORT {
        return true;
    }
    let gathered =
        |axes: &[(usize, isize)]| axes.last().is_some_and(|&(len, stride)| len < 16 || !(0..2).contains(&stride));
    let along = views.iter().filter(|view| gathered(&view.walked)).count();
    let across = views.iter().filter(|view| gathered(&view.kept)).count();
    lines >= 16 && across < along
}

/// How many lines to walk side by side: long stretches of each row suit the prefetcher (512 columns of a 4096-square
/// matrix took twice as long as 2048), but short lines, which may lie one after another, must stay in the cache.
pub(crate) fn widest(length: usize) -> usize {
    if length <= SHORT { (16 * BLOCK / length.max(1)).clamp(64, BLOCK) } else { BLOCK }
}

/// A program that reads an accumulator of 32-bit words.
fn from_words(dtypes: &[Dtype]) -> Program {
    let mut program = Program::default();
    for (index, &dtype) in (0..).zip(dtypes) {
        let word = program.push(Instr::Input(index), if dtype == Dtype::Bool { Dtype::U32 } else { dtype });
        let value = if dtype == Dtype::Bool { program.push(Instr::Cast(word), Dtype::Bool) } else { word };
        program.outputs.push(value);
    }
    program
}

pub(crate) fn run(task: Task<'_>) -> Result<()> {
    let spec = &*task.dispatch.kernel;
    let tiling = &task.dispatch.tiling;
    let combiner = Combiner::new(&spec.combine, task.scalars(1))?;
    let dtypes = combiner.dtypes().to_vec();
    let words = dtypes.len();
    let totals_map = from_words(&dtypes);
    let totals_views: Vec<View<'_>>;
    let (views, map) = if spec.reads_totals {
        let operand = |component| Operand {
            buffer: kiln_array::recording::BufferId(0),
            offset: component,
            kept: smallvec![(tiling.length * words).cast_signed()],
            walked: smallvec![words.cast_signed()],
        };
        let view =
            |component| View::new(&operand(component), &[tiling.lines], &[tiling.length], Arg::Words(task.totals_in));
        totals_views = (0..words).map(view).collect::<Result<_>>()?;
        let stored: Vec<Dtype> = totals_map
            .instrs
            .iter()
            .filter(|(instr, _)| matches!(instr, Instr::Input(_)))
            .map(|&(_, dtype)| dtype)
            .collect();
        (&totals_views[..], Code::new(&totals_map, &stored, &[])?)
    } else {
        (&task.views[..], Code::new(&spec.map, &task.dtypes(), task.scalars(0))?)
    };
    let finish = if spec.writes_totals { None } else { Some(Code::new(&spec.finish, &dtypes, task.scalars(2))?) };
    let reduce = Reduce {
        views,
        map,
        combiner,
        finish,
        leaves: !spec.reads_totals,
        lines: tiling.lines,
        length: tiling.length,
        tile: LEAF << tiling.log_leaves,
        tiles: tiling.tiles(),
    };
    if reduce.map.dtypes != dtypes {
        return Err(crate::task::invalid(task.dispatch, "the map does not make accumulators"));
    }
    let across = side_by_side(views, tiling.lines, tiling.length);
    let units = reduce.lines * reduce.tiles;
    let grain = match (task.parallel, across) {
        (false, _) => 0,
        (true, false) => {
            // Long stretches suit the prefetcher, a few pieces for each thread suit what else the machine does.
            let piece = (PIECE / reduce.tile.min(reduce.length)).max(1);
            (units / (4 * Threads::count())).clamp(piece, 8 * piece)
        }
        (true, true) => (PIECE / reduce.tile.min(reduce.length)).max((units / Threads::count()).clamp(64, BLOCK)),
    };
    let job = |units: Range<usize>, outs: Outs<'_>| reduce.units(units, outs, across);
    if !spec.writes_totals {
        let outs = task.outputs.into_iter().zip(&task.dispatch.outputs);
        let outs = outs.map(|(out, operand)| out.split_at(operand.offset).1.split_at(reduce.lines).0).collect();
        return split(outs, 0..units, grain, &|unit| unit, &job);
    }
    let totals = &mut task.totals_out[..units * words];
    if !across || reduce.tiles == 1 {
        return split(smallvec![Dst::Words(totals)], 0..units, grain, &|unit| unit * words, &job);
    }
    // Side by side, neighbours in a tile's row are lines; totals lie line by line.
    let bytes = units as u64 * words as u64 * 4;
    let mut by_tile: Box<[u32]> = bytemuck::allocation::try_zeroed_slice_box(units * words)
        .map_err(|()| ErrorKind::OutOfMemory { bytes, device: "cpu".into() })?;
    split(smallvec![Dst::Words(&mut by_tile)], 0..units, grain, &|unit| unit * words, &job)?;
    for (line, row) in totals.chunks_exact_mut(reduce.tiles * words).enumerate() {
        for (tile, total) in row.chunks_exact_mut(words).enumerate() {
            let at = (tile * reduce.lines + line) * words;
            total.copy_from_slice(&by_tile[at..at + words]);
        }
    }
    Ok(())
}

/// One thread's scratch.
struct Job<'r> {
    feed: Feed<'r>,
    joiner: Joiner<'r>,
    finish: Option<Machine<'r>>,
}

impl Reduce<'_> {
    /// Units are (line, tile) pairs: tiles of a line are neighbours, or, side by side, lines of a tile.
    fn units(&self, units: Range<usize>, mut outs: Outs<'_>, across: bool) -> Result<()> {
        let mut job = Job {
            feed: Feed::new(self.views, &self.map),
            joiner: Joiner::new(&self.combiner),
            finish: self.finish.as_ref().map(Machine::new),
        };
        let mut first = units.start;
        while first < units.end {
            let left = units.end - first;
            let (totals, n) = if across {
                let n = left.min(widest(self.length)).min(self.lines - first % self.lines);
                (self.across(&mut job, first % self.lines, n, first / self.lines)?, n)
            } else {
                let n = left.min(BLOCK);
                (self.along(&mut job, first..first + n)?, n)
            };
            outs = self.store(&mut job, &totals, n, outs)?;
            first += n;
        }
        Ok(())
    }

    /// Writes totals, or what they finish to; returns the rest of the outputs.
    fn store<'o>(&self, job: &mut Job<'_>, totals: &Vector, n: usize, outs: Outs<'o>) -> Result<Outs<'o>> {
        let totals = job.joiner.args(totals, n);
        let words = if self.finish.is_some() { 1 } else { totals.len() };
        let (mut block, rest): (Outs<'_>, Outs<'_>) = outs.into_iter().map(|out| out.split_at(n * words)).unzip();
        match (&mut job.finish, &mut block[..]) {
            (Some(finish), block) => finish.run(&totals, block, n)?,
            (None, [Dst::Words(out)]) => {
                for (component, &values) in totals.iter().enumerate() {
                    out[component..]
                        .iter_mut()
                        .step_by(words)
                        .zip(0..n)
                        .for_each(|(to, index)| *to = bits_at(values, index));
                }
            }
            (None, _) => {}
        }
        Ok(rest)
    }

    fn range(&self, tile: usize) -> Range<usize> {
        tile * self.tile..((tile + 1) * self.tile).min(self.length)
    }

    /// The totals of some (line, tile) pairs, one after another.
    fn along(&self, job: &mut Job<'_>, units: Range<usize>) -> Result<Vector> {
        let mut totals = job.joiner.vector();
        for (index, unit) in units.enumerate() {
            let total = self.total(job, unit / self.tiles, self.range(unit % self.tiles))?;
            for ((buf, &dtype), &bits) in totals.iter_mut().zip(self.combiner.dtypes()).zip(&total) {
                put(buf, dtype, index, bits);
            }
        }
        Ok(totals)
    }

    fn total(&self, job: &mut Job<'_>, line: usize, places: Range<usize>) -> Result<Acc> {
        if let (Some(_), Some(values)) = (self.combiner.fast, job.feed.in_place(line, places.start, places.len())) {
            return job.joiner.fold(&[values], places.len(), self.leaves);
        }
        let mut counter = Counter::new();
        let mut start = places.start;
        loop {
            let n = BLOCK.min(places.end - start);
            let values = job.feed.along(line, start, n)?;
            let total = job.joiner.fold(&values, n, self.leaves)?;
            start += n;
            if start == places.end {
                return counter.finish(total, |left, right| job.joiner.join_one(left, right));
            }
            counter.push(total, |left, right| job.joiner.join_one(left, right))?;
        }
    }

    /// The totals of one tile of `n` neighbouring lines.
    fn across(&self, job: &mut Job<'_>, first: usize, n: usize, tile: usize) -> Result<Vector> {
        let mut counter: Counter<Vector> = Counter::new();
        let places = self.range(tile);
        let mut place = places.start;
        loop {
            let size = if self.leaves { LEAF.min(places.end - place) } else { 1 };
            let total = match self.combiner.fast {
                Some(op) if size == LEAF => job.joiner.leaf_totals(op, job.feed.leaf(first, n, place)?, n),
                _ => self.leaf(job, first, n, place..place + size)?,
            };
            place += size;
            if place == places.end {
                return counter.finish(total, |left, right| job.joiner.join_vectors(left, right, n));
            }
            counter.push(total, |left, right| job.joiner.join_vectors(left, right, n))?;
        }
    }

    fn leaf(&self, job: &mut Job<'_>, first: usize, n: usize, places: Range<usize>) -> Result<Vector> {
        let mut total = job.joiner.copy(&job.feed.across(first, n, places.start)?, n);
        for place in places.skip(1) {
            let joined = job.joiner.join(&job.joiner.args(&total, n), &job.feed.across(first, n, place)?, n)?;
            total = joined;
        }
        Ok(total)
    }
}
