//! Scans: the running combination within each tile of each line, after the tiles to its left.
//!
//! What enters: a [`Task`] with the totals of earlier tiles. What leaves: outputs, row-major, with the scanned axis
//! somewhere in the middle: `outer × length × inner`. Decided: work is cut into pieces that lie together in the output
//! (one tile of all lines of one outer index), so that threads write plain slices; in a piece, a thread walks lines one
//! at a time, or rows of neighbouring lines at once; if there are few pieces, threads share their columns.

use std::ops::Range;

use kiln_array::recording::LEAF;
use kiln_array::{ErrorKind, Result};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::block::{Code, Machine};
use crate::feed::Feed;
use crate::gather::{View, merge};
use crate::operand::{Arg, Dst};
use crate::order::{Acc, Combiner, Counter, Joiner, Vector, put};
use crate::reduce::{side_by_side, widest};
use crate::scratch::{BLOCK, Buf};
use crate::task::{Task, invalid};
use crate::threads::{Outs, PIECE, Threads, split};

/// Inner lengths from which on lines of one outer index are walked side by side.
const WIDE: usize = 16;

/// What the threads share.
struct Scan<'a> {
    views: &'a [View<'a>],
    carries: &'a [u32],
    map: Code,
    combiner: Combiner,
    finish: Code,
    outer: usize,
    length: usize,
    inner: usize,
    /// Elements of a tile.
    tile: usize,
    tiles: usize,
}

/// Where lines walked side by side go.
enum Rows<'r, 'o> {
    /// A stretch of each output for each place.
    Given(&'r mut [Outs<'o>]),
    /// Whole lines, one after another from `base` on.
    Apart { outs: &'r mut Outs<'o>, base: usize },
}

/// One thread's scratch.
struct Job<'s> {
    feed: Feed<'s>,
    joiner: Joiner<'s>,
    finish: Machine<'s>,
}

pub(crate) fn run(task: Task<'_>) -> Result<()> {
    let dispatch = task.dispatch;
    let (spec, tiling) = (&*dispatch.kernel, &dispatch.tiling);
    let combiner = Combiner::new(&spec.combine, task.scalars(1))?;
    let map = Code::new(&spec.map, &task.dtypes(), task.scalars(0))?;
    let finish = Code::new(&spec.finish, combiner.dtypes(), task.scalars(2))?;
    if map.dtypes != combiner.dtypes() {
        return Err(invalid(dispatch, "the map does not make accumulators"));
    }
    let inner = inner(&task).ok_or_else(|| invalid(dispatch, "the output of a scan is not row-major"))?;
    let scan = Scan {
        views: &task.views,
        carries: task.totals_in,
        map,
        combiner,
        finish,
        outer: tiling.lines / inner,
        length: tiling.length,
        inner,
        tile: LEAF << tiling.log_leaves,
        tiles: tiling.tiles(),
    };
    let all = scan.outer * scan.length * scan.inner;
    let outs = task.outputs.into_iter().zip(&dispatch.outputs);
    let outs: Outs<'_> = outs.map(|(out, operand)| out.split_at(operand.offset).1.split_at(all).0).collect();
    let units = 0..scan.outer * scan.tiles;
    let grain = if task.parallel { PIECE.div_ceil(scan.tile.min(scan.length) * scan.inner) } else { 0 };
    let short = scan.inner == 1 && scan.tiles == 1 && side_by_side(scan.views, tiling.lines, tiling.length);
    let at = |unit: usize| scan.start(unit);
    if short {
        split(outs, units, grain, &at, &|units, outs| scan.short_lines(units, outs))
    } else if scan.inner < WIDE {
        split(outs, units, grain, &at, &|units, outs| {
            scan.each(units, outs, |job, unit, outs| scan.lines(job, unit, outs))
        })
    } else {
        let shared = task.parallel && units.len() < 2 * Threads::count();
        let grain = if shared { 0 } else { grain };
        split(outs, units, grain, &at, &|units, outs| {
            scan.each(units, outs, |job, unit, outs| scan.columns(job, unit, outs, shared))
        })
    }
}

/// Product of the lengths of the kept axes inside the scanned one, if the outputs are row-major.
fn inner(task: &Task<'_>) -> Option<usize> {
    let dispatch = task.dispatch;
    let (lines, length) = (dispatch.tiling.lines, dispatch.tiling.length);
    let mut found = None;
    for operand in &dispatch.outputs {
        let mut kept = merge(&dispatch.kept, &operand.kept);
        let walked = merge(&dispatch.walked, &operand.walked);
        let inner = match walked[..] {
            [] => lines,
            [(_, stride)] => usize::try_from(stride).ok().filter(|&inner| inner > 0)?,
            _ => return None,
        };
        if inner > 1 && !walked.is_empty() {
            // The kept axes are (outer, inner), which do not merge since the scanned axis lies between them.
            (kept.pop()? == (inner, 1)).then_some(())?;
        }
        let expected = match kept[..] {
            [] => true,
            [(outer, stride)] => {
                let step = if walked.is_empty() { 1 } else { length * inner };
                stride == step.cast_signed() && (walked.is_empty() || outer * inner == lines)
            }
            _ => false,
        };
        (expected && found.is_none_or(|found| found == inner)).then_some(())?;
        found = Some(inner);
    }
    found.filter(|&inner| lines % inner == 0)
}

impl Scan<'_> {
    /// Where a unit's stretch of the outputs starts; units are (outer, tile) pairs.
    fn start(&self, unit: usize) -> usize {
        let (outer, tile) = (unit / self.tiles, unit % self.tiles);
        (outer * self.length + tile * self.tile) * self.inner
    }

    fn range(&self, tile: usize) -> Range<usize> {
        tile * self.tile..((tile + 1) * self.tile).min(self.length)
    }

    fn job(&self) -> Job<'_> {
        Job {
            feed: Feed::new(self.views, &self.map),
            joiner: Joiner::new(&self.combiner),
            finish: Machine::new(&self.finish),
        }
    }

    fn each<'o>(
        &self,
        units: Range<usize>,
        mut outs: Outs<'o>,
        work: impl Fn(&mut Job<'_>, usize, Outs<'o>) -> Result<()>,
    ) -> Result<()> {
        let mut job = self.job();
        for unit in units {
            let length = self.start(unit + 1) - self.start(unit);
            let length = if unit % self.tiles + 1 == self.tiles {
                self.range(self.tiles - 1).len() * self.inner
            } else {
                length
            };
            let (piece, rest): (Outs<'_>, Outs<'_>) = outs.into_iter().map(|out| out.split_at(length)).unzip();
            work(&mut job, unit, piece)?;
            outs = rest;
        }
        Ok(())
    }

    /// The carry entries of a tile: the totals to its left, nearest first, as tile numbers.
    fn carry_tiles(tile: usize) -> impl Iterator<Item = usize> {
        (0..usize::BITS).filter(move |bit| tile >> bit & 1 == 1).map(move |bit| ((tile >> bit) << bit) - 1)
    }

    fn carry(&self, line: usize, tile: usize) -> Acc {
        let words = self.combiner.dtypes().len();
        let at = (line * self.tiles + tile) * words;
        self.carries[at..at + words].into()
    }

    /// One tile of each of a few interleaved lines, one line after another.
    fn lines(&self, job: &mut Job<'_>, unit: usize, mut outs: Outs<'_>) -> Result<()> {
        let tile = unit % self.tiles;
        for column in 0..self.inner {
            let line = unit / self.tiles * self.inner + column;
            let carries: Vec<Acc> = Self::carry_tiles(tile).map(|left| self.carry(line, left)).collect();
            let mut counter = Counter::new();
            let places = self.range(tile);
            for start in places.clone().step_by(BLOCK) {
                let n = BLOCK.min(places.end - start);
                let values = job.feed.along(line, start, n)?;
                let lefts: Vec<Acc> = counter.held().chain(&carries).cloned().collect();
                let at = (start - places.start) * self.inner + column;
                let total = self.block(&mut job.joiner, &mut job.finish, &values, n, &lefts, &mut outs, at)?;
                counter.push(total, |left, right| job.joiner.join_one(left, right))?;
            }
        }
        Ok(())
    }

    /// Scans and stores a block of a line; returns its total without `lefts`.
    #[expect(clippy::too_many_arguments, reason = "one call, in the loop above")]
    fn block(
        &self,
        joiner: &mut Joiner<'_>,
        finish: &mut Machine<'_>,
        values: &[Arg<'_>],
        n: usize,
        lefts: &[Acc],
        outs: &mut Outs<'_>,
        at: usize,
    ) -> Result<Acc> {
        if let (Some(op), true, 1, [out]) = (self.combiner.fast, self.finish.is_identity(), self.inner, &mut outs[..]) {
            let dst = out.reborrow().split_at(at).1.split_at(n).0;
            return Ok(joiner.running_fast(op, values[0], dst, lefts));
        }
        let (running, total) = joiner.running(values, n, lefts)?;
        self.store(finish, &joiner.args(&running, n), n, outs, at, self.inner)?;
        Ok(total)
    }

    /// Finishes a block and stores it from `at` on, `step` apart.
    fn store(
        &self,
        finish: &mut Machine<'_>,
        values: &[Arg<'_>],
        n: usize,
        outs: &mut Outs<'_>,
        at: usize,
        step: usize,
    ) -> Result<()> {
        if step == 1 {
            let mut places: Outs<'_> = outs.iter_mut().map(|out| out.reborrow().split_at(at).1.split_at(n).0).collect();
            return finish.run(values, &mut places, n);
        }
        let mut bufs = Buf::several(outs.len());
        let mut places: Outs<'_> =
            bufs.iter_mut().zip(&self.finish.dtypes).map(|(buf, &dtype)| buf.dst(dtype, n)).collect();
        finish.run(values, &mut places, n)?;
        for (out, place) in outs.iter_mut().zip(&places) {
            match (out, place.arg()) {
                (Dst::Words(out), Arg::Words(from)) => scatter(out, at, step, from),
                (Dst::Bytes(out), Arg::Bytes(from)) => scatter(out, at, step, from),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whole lines, one after another in the output, short enough to be walked side by side.
    fn short_lines(&self, units: Range<usize>, mut outs: Outs<'_>) -> Result<()> {
        let mut job = self.job();
        let width = widest(self.length);
        for first in units.clone().step_by(width) {
            let n = width.min(units.end - first);
            let base = (first - units.start) * self.length;
            self.walk(&mut job, first, n, 0, &mut Rows::Apart { outs: &mut outs, base })?;
        }
        Ok(())
    }

    /// One tile of all lines of one outer index, as rows of neighbouring lines.
    fn columns(&self, job: &mut Job<'_>, unit: usize, outs: Outs<'_>, shared: bool) -> Result<()> {
        let (outer, tile) = (unit / self.tiles, unit % self.tiles);
        let width = if shared { self.inner.div_ceil(Threads::count()).clamp(WIDE, BLOCK) } else { BLOCK };
        let mut strips: Vec<(usize, Vec<Outs<'_>>)> =
            (0..self.inner).step_by(width).map(|first| (first, vec![])).collect();
        let rows = self.range(tile).len();
        for (_, strip) in &mut strips {
            strip.try_reserve_exact(rows).map_err(|_| {
                let bytes = (rows * size_of::<Outs<'_>>()) as u64;
                ErrorKind::OutOfMemory { bytes, device: "cpu".into() }
            })?;
        }
        let mut rest = outs;
        for _ in self.range(tile) {
            let (mut row, below): (Outs<'_>, Outs<'_>) = rest.into_iter().map(|out| out.split_at(self.inner)).unzip();
            for (first, strip) in &mut strips {
                let n = width.min(self.inner - *first);
                let (part, right): (Outs<'_>, Outs<'_>) = row.into_iter().map(|out| out.split_at(n)).unzip();
                strip.push(part);
                row = right;
            }
            rest = below;
        }
        let strip = |job: &mut Job<'_>, (first, mut rows): (usize, Vec<Outs<'_>>)| {
            let n = width.min(self.inner - first);
            self.walk(job, outer * self.inner + first, n, tile, &mut Rows::Given(&mut rows))
        };
        if shared {
            strips.into_par_iter().try_for_each(|rows| strip(&mut self.job(), rows))
        } else {
            strips.into_iter().try_for_each(|rows| strip(job, rows))
        }
    }

    /// One tile of `n` lines from `first` on, side by side.
    fn walk(&self, job: &mut Job<'_>, first: usize, n: usize, tile: usize, rows: &mut Rows<'_, '_>) -> Result<()> {
        let Job { feed, joiner, finish } = job;
        let carries: Vec<Vector> = Self::carry_tiles(tile).map(|left| self.carry_row(joiner, first, n, left)).collect();
        let fast = self.combiner.fast.filter(|_| self.finish.is_identity());
        let mut counter: Counter<Vector> = Counter::new();
        let places = self.range(tile);
        for place in places.clone().step_by(LEAF) {
            let row = place - places.start;
            let size = LEAF.min(places.end - place);
            let lefts = counter.held().chain(&carries);
            let total = match (fast, &mut *rows) {
                (Some(op), Rows::Given(rows)) if size == LEAF => {
                    let [a, b, c, d] = &mut rows[row..row + LEAF] else { return Ok(()) };
                    let dsts = [a, b, c, d].map(|row| row[0].reborrow());
                    joiner.leaf_running(op, feed.leaf(first, n, place)?, n, lefts, dsts)
                }
                (_, rows) => {
                    let lefts: Vec<&Vector> = lefts.collect();
                    let mut prefix: Option<Vector> = None;
                    for element in 0..size {
                        let values = feed.across(first, n, place + element)?;
                        let next = match &prefix {
                            None => joiner.copy(&values, n),
                            Some(left) => joiner.join(&joiner.args(left, n), &values, n)?,
                        };
                        let mut running: Option<Vector> = None;
                        for left in &lefts {
                            running = Some(joiner.join_vectors(left, running.as_ref().unwrap_or(&next), n)?);
                        }
                        {
                            let running = joiner.args(running.as_ref().unwrap_or(&next), n);
                            match rows {
                                Rows::Given(rows) => finish.run(&running, &mut rows[row + element], n)?,
                                Rows::Apart { outs, base } => {
                                    self.store(finish, &running, n, outs, *base + row + element, self.length)?;
                                }
                            }
                        }
                        prefix = Some(next);
                    }
                    prefix.unwrap_or_default()
                }
            };
            counter.push(total, |left, right| joiner.join_vectors(left, right, n))?;
        }
        Ok(())
    }

    fn carry_row(&self, joiner: &Joiner<'_>, first: usize, n: usize, tile: usize) -> Vector {
        let mut row = joiner.vector();
        for index in 0..n {
            let carry = self.carry(first + index, tile);
            for ((buf, &dtype), &bits) in row.iter_mut().zip(self.combiner.dtypes()).zip(&carry) {
                put(buf, dtype, index, bits);
            }
        }
        row
    }
}

fn scatter<T: Copy>(out: &mut [T], at: usize, step: usize, from: &[T]) {
    out[at..].iter_mut().step_by(step).zip(from).for_each(|(to, &value)| *to = value);
}
