//! Tilings: how lines are dealt to workgroups. Speed depends on this file; values do not.

use crate::backend::Caps;
use crate::device::Schedule;
use crate::recording::{LEAF, Tiling};

/// The shape of the work, as far as a tiling cares.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Elements of one line.
    pub length: usize,
    /// Number of lines.
    pub lines: usize,
    /// Words of one accumulator.
    pub words: usize,
    /// Lines whose elements at one place lie side by side in memory; 1 where the elements of a line do.
    pub run: usize,
    /// Leaves of a one-word accumulator that a workgroup may hold, as a power of two, where the kernel has less room for
    /// them than the device.
    pub log_room: u32,
}

impl Work {
    /// Leaves of all lines that a workgroup's tile may have, as a power of two.
    #[must_use]
    pub fn log_slots(&self, caps: &Caps) -> u32 {
        caps.log_slots.min(self.log_room).saturating_sub(log2_ceil(self.words))
    }
}

/// Leaves of all lines of a workgroup below which more workgroups do not help: one leaf per invocation.
const FEWEST_SLOTS: u32 = 8;

/// Neighbouring lines that make a strided access whole: 32 words are one memory transaction.
const LOG_RUN: u32 = 5;

/// Chooses the tiling.
#[must_use]
pub fn choose(work: &Work, caps: &Caps, forced: &Schedule) -> Tiling {
    let leaves = log2_ceil(work.length.div_ceil(LEAF));
    let lines = log2_ceil(work.lines);
    let line_fastest = forced.line_fastest.unwrap_or(work.run > 1);
    let most = work.log_slots(caps);
    let make = |slots: u32| {
        let log_lines = if line_fastest { LOG_RUN.min(log2_ceil(work.run)).min(lines).min(slots) } else { 0 };
        let log_leaves = leaves.min(slots - log_lines);
        Tiling {
            length: work.length,
            lines: work.lines,
            log_leaves,
            log_lines: lines.min(slots - log_leaves),
            line_fastest,
        }
    };
    if let Some(slots) = forced.log_slots {
        return make(slots.clamp(LOG_RUN.min(most), most));
    }
    if caps.serial_groups {
        // One thread walks a tile: long tiles along a line, fewer leaves where it walks a whole run of lines at once.
        let run = if line_fastest { log2_ceil(work.run).min(most) } else { 0 };
        let log_leaves = leaves.min((most - run).max(4.min(most)));
        return Tiling { length: work.length, lines: work.lines, log_leaves, log_lines: 0, line_fastest };
    }
    // The largest tiles that still keep the device busy; a line that fits one tile stays in one.
    let mut slots = most;
    while slots > FEWEST_SLOTS && make(slots).groups() < caps.busy_groups {
        if make(slots).tiles() == 1 && make(slots - 1).tiles() > 1 {
            break;
        }
        slots -= 1;
    }
    make(slots)
}

/// The smallest `k` with `1 << k >= n`.
#[must_use]
pub fn log2_ceil(n: usize) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn caps(serial_groups: bool) -> Caps {
        Caps {
            dtypes: vec![Dtype::F32],
            max_array_bytes: 1 << 31,
            max_operands: 8,
            max_groups: 1 << 32,
            log_slots: 12,
            busy_groups: 512,
            serial_groups,
        }
    }

    #[test]
    fn every_tiling_covers_its_work() {
        for serial in [false, true] {
            for length in [1, 3, 4, 5, 16, 17, 1000, 16384, 16385, 1 << 20, 1 << 28] {
                for lines in [1, 2, 3, 31, 32, 33, 1000, 70_000] {
                    for run in [1, lines] {
                        for words in [1, 2, 4] {
                            for log_slots in [None, Some(0), Some(5), Some(8), Some(40)] {
                                let work = Work { length, lines, words, run, log_room: u32::MAX };
                                let forced = Schedule { log_slots, ..Schedule::default() };
                                let tiling = choose(&work, &caps(serial), &forced);
                                let tile = LEAF << tiling.log_leaves;
                                assert!(tiling.tiles() * tile >= length && (tiling.tiles() - 1) * tile < length);
                                let slots = tiling.log_leaves + tiling.log_lines + log2_ceil(words);
                                assert!(slots <= 12, "{work:?} {tiling:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}
