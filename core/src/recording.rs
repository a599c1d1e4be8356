//! Recordings: work as data. A backend replays them; tests and people read them.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::kernel::KernelSpec;

/// A buffer of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

impl fmt::Debug for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

/// Strides along a few axes.
pub type Strides = SmallVec<[isize; 4]>;

/// An array as a dispatch sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Where its elements lie.
    pub buffer: BufferId,
    /// Buffer index of the first element, in elements.
    pub offset: usize,
    /// Strides along the kept axes, in elements.
    pub kept: Strides,
    /// Strides along the walked axes, in elements.
    pub walked: Strides,
}

/// How the lines of a dispatch are cut into tiles, and the tiles dealt to workgroups.
///
/// A *leaf* is four neighbouring elements (or totals) of a line. A workgroup takes one tile, `1 << log_leaves` leaves
/// from a multiple of that number, of each of `1 << log_lines` neighbouring lines. How values combine does not depend
/// on any of it: see [`plan::order`](crate::plan::order).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tiling {
    /// Elements of one line.
    pub length: usize,
    /// Number of lines.
    pub lines: usize,
    /// Leaves of one tile, as a power of two.
    pub log_leaves: u32,
    /// Lines of one workgroup, as a power of two.
    pub log_lines: u32,
    /// Whether neighbouring invocations take neighbouring lines rather than neighbouring leaves.
    pub line_fastest: bool,
}

/// Elements of the largest array: kernels index with 32 bits and look four elements ahead.
pub const MAX_ELEMENTS: usize = (1 << 31) - 4;

/// Elements in one leaf.
pub const LEAF: usize = 4;

/// Invocations of a workgroup on a GPU, as a power of two.
pub const LOG_GROUP: u32 = 8;

impl Tiling {
    /// Tiles of one line.
    #[must_use]
    pub const fn tiles(&self) -> usize {
        self.length.div_ceil(LEAF << self.log_leaves)
    }

    /// Slots between neighbouring leaves of a line, as a power of two: slots count lines first or leaves first.
    #[must_use]
    pub const fn log_stride(&self) -> u32 {
        if self.line_fastest { self.log_lines } else { 0 }
    }

    /// Whether every tile has `1 << log_slots` whole leaves, of lines that all exist, and neighbouring slots are
    /// neighbouring lines or leaves of one line.
    #[must_use]
    pub const fn is_even(&self, log_slots: u32) -> bool {
        self.log_leaves + self.log_lines == log_slots
            && self.log_lines == self.log_stride()
            && self.log_lines <= LOG_GROUP
            && self.length.is_multiple_of(LEAF << self.log_leaves)
            && self.lines.is_multiple_of(1 << self.log_lines)
    }

    /// Workgroups: blocks of lines times tiles.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.lines.div_ceil(1 << self.log_lines).saturating_mul(self.tiles())
    }
}

/// One kernel's work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// What to run.
    pub kernel: Arc<KernelSpec>,
    /// Arrays read, as the kernel's `inputs`.
    pub inputs: Vec<Operand>,
    /// Arrays written, as the kernel's `outputs`.
    pub outputs: Vec<Operand>,
    /// Totals read, one accumulator per tile and line: `[line][tile][component]`, a 32-bit word each.
    pub totals_in: Option<BufferId>,
    /// Totals written, likewise. A spine works on these in place.
    pub totals_out: Option<BufferId>,
    /// Lengths of the kept axes.
    pub kept: SmallVec<[usize; 4]>,
    /// Lengths of the walked axes.
    pub walked: SmallVec<[usize; 4]>,
    /// Lines and tiles. In a spine the elements of a line are totals, every `1 << log_step`-th of them.
    pub tiling: Tiling,
    /// Distance between the totals that a spine combines, as a power of two.
    pub log_step: u32,
    /// The workgroups to launch. A map's cover [`MAP_GROUP`] elements each.
    pub groups: usize,
    /// Values of the constants, as the kernel's `sI`.
    pub scalars: SmallVec<[u32; 4]>,
}

/// Elements of the output that one workgroup of a map computes.
pub const MAP_GROUP: usize = 4096;

impl Dispatch {
    /// The kernel's parameters, in the order of [`KernelSpec::param_names`]. Lengths, offsets and strides are taken
    /// modulo 2^32, as kernels compute with them; planners keep arrays below 2^31 elements.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "arrays have fewer than 2^31 elements; strides wrap on purpose"
    )]
    pub fn param_words(&self, words: &mut Vec<u32>) {
        let tiling = &self.tiling;
        words.extend([
            tiling.length as u32,
            tiling.lines as u32,
            tiling.tiles() as u32,
            self.groups as u32,
            tiling.log_leaves,
            tiling.log_lines,
            tiling.log_stride(),
            self.log_step,
        ]);
        words.extend(self.kept.iter().chain(&self.walked).map(|&len| len as u32));
        for operand in self.inputs.iter().chain(&self.outputs) {
            words.push(operand.offset as u32);
            words.extend(operand.kept.iter().chain(&operand.walked).map(|&stride| stride as u32));
        }
        words.extend(&self.scalars);
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dispatch {} groups={}", self.kernel.label(), self.groups)?;
        write!(f, " lines={} length={}", self.tiling.lines, self.tiling.length)?;
        if !self.inputs.is_empty() || self.totals_in.is_some() {
            f.write_str(" reads")?;
            for operand in &self.inputs {
                write!(f, " {:?}+{}", operand.buffer, operand.offset)?;
            }
            if let Some(totals) = self.totals_in {
                write!(f, " totals {totals:?}")?;
            }
        }
        f.write_str(" writes")?;
        for operand in &self.outputs {
            write!(f, " {:?}", operand.buffer)?;
        }
        if let Some(totals) = self.totals_out {
            write!(f, " totals {totals:?}")?;
        }
        Ok(())
    }
}

/// Dispatches in order. Each sees what the earlier ones wrote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The dispatches.
    pub dispatches: Vec<Dispatch>,
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for dispatch in &self.dispatches {
            writeln!(f, "{dispatch}")?;
        }
        Ok(())
    }
}
