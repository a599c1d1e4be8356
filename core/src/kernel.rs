//! Kernel specifications: all that decides a kernel's text, and nothing that changes from call to call.
//!
//! What enters: programs, element types, access patterns and ranks, from the planners. What leaves: a value that
//! backends compile once and find again, by value or by [`KernelSpec::key`]. Lengths, strides, offsets and constants are parameters
//! of a [`Dispatch`](crate::recording::Dispatch); [`KernelSpec::param_names`] says in which order they travel.

use std::fmt;

use crate::dtype::Dtype;
use crate::program::Program;

/// The algorithm: one skeleton in `kiln-shaders`, one function in `kiln-cpu`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Family {
    /// Every element of the output from the elements at its place.
    Map,
    /// The total of each tile of each line.
    Reduce,
    /// The running combination within each tile of each line, after the tiles to its left.
    Scan,
    /// Totals of ever larger blocks of tiles, in place.
    Spine,
}

impl Family {
    /// The family's name, as it stands in labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Reduce => "reduce",
            Self::Scan => "scan",
            Self::Spine => "spine",
        }
    }
}

/// Slots of a scan's tile at most, as a power of two. A scan holds its tile in registers; larger ones leave room for too
/// few workgroups on a processor at a time (measured on an H200: 0.92 ms for 1 GiB with 12, 0.85 ms with 11).
pub const MAX_LOG_SCAN_SLOTS: u32 = 11;

/// How a kernel finds an operand's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Access {
    /// Four neighbours at a time: they lie together and start at a multiple of four.
    Quad,
    /// One by one, through the strides.
    Strided,
}

/// Type and access of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot {
    /// The element type in memory.
    pub dtype: Dtype,
    /// The access pattern.
    pub access: Access,
}

/// Everything that decides a kernel's text.
///
/// All families see their work as `lines` of `length` elements. An element is found from the line's number, decoded
/// over the `kept` axes, and its place in the line, decoded over the `walked` axes. A map is one line.
#[derive(Clone, Debug)]
pub struct KernelSpec {
    /// The algorithm.
    pub family: Family,
    /// A short name of what is computed, for labels only: `sum`, `mul`. Kernels that differ in it alone are equal.
    pub name: &'static str,
    /// Number of axes that number the lines.
    pub kept: u8,
    /// Number of axes along a line.
    pub walked: u8,
    /// Arrays read.
    pub inputs: Vec<Slot>,
    /// Arrays written.
    pub outputs: Vec<Slot>,
    /// From the inputs' elements to the accumulator (map: to the outputs).
    pub map: Program,
    /// From two accumulators, left then right, to one. Empty in a map.
    pub combine: Program,
    /// From the accumulator to the outputs. Empty in a map.
    pub finish: Program,
    /// Reads earlier totals: reduce takes them for elements, scan for the carries of its tiles.
    pub reads_totals: bool,
    /// Writes its tiles' totals for a later pass instead of outputs.
    pub writes_totals: bool,
    /// Every tile is full, as [`Tiling::is_even`](crate::recording::Tiling::is_even) says, so none needs questions.
    pub even_tiles: bool,
}

/// A stable name of a kernel: equal specifications have equal keys in every process and build.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelKey(pub u128);

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All that decides the text; the name does not.
type Deciding<'a> = (Family, [u8; 2], [&'a [Slot]; 2], [&'a Program; 3], [bool; 3]);

impl KernelSpec {
    fn deciding(&self) -> Deciding<'_> {
        (
            self.family,
            [self.kept, self.walked],
            [&self.inputs, &self.outputs],
            [&self.map, &self.combine, &self.finish],
            [self.reads_totals, self.writes_totals, self.even_tiles],
        )
    }
}

impl PartialEq for KernelSpec {
    /// Whether the kernels' texts are the same.
    fn eq(&self, other: &Self) -> bool {
        self.deciding() == other.deciding()
    }
}

impl Eq for KernelSpec {}

impl std::hash::Hash for KernelSpec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.deciding().hash(state);
    }
}

impl KernelSpec {
    /// The types of the accumulator's components.
    #[must_use]
    pub fn accumulator(&self) -> Vec<Dtype> {
        self.combine.output_dtypes().collect()
    }

    /// The kernel's label: family, what, types. `reduce.sum.f32`.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = format!("{}.{}", self.family.name(), self.name);
        let dtypes = self.inputs.iter().map(|slot| slot.dtype).chain(self.outputs.iter().map(|slot| slot.dtype));
        let mut last = None;
        for dtype in dtypes {
            if last != Some(dtype) {
                label.push('.');
                label.push_str(dtype.name());
                last = Some(dtype);
            }
        }
        label
    }

    /// The stable key: 128-bit FNV-1a of the specification's text.
    #[must_use]
    pub fn key(&self) -> KernelKey {
        let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
        for byte in self.to_string().bytes() {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        KernelKey(hash)
    }

    /// The names of the kernel's parameters, each one 32-bit word, in order.
    ///
    /// [`Dispatch::param_words`](crate::recording::Dispatch::param_words) gives the values in the same order. `kI` and
    /// `wI` are lengths of kept and walked axes; `aI` inputs and `oI` outputs, each with its offset and its strides;
    /// `sI` constants: of `map`, then `combine`, then `finish`.
    #[must_use]
    pub fn param_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            ["length", "lines", "tiles", "groups", "log_leaves", "log_lines", "log_stride", "log_step"]
                .map(String::from)
                .into();
        names.extend((0..self.kept).map(|axis| format!("k{axis}")));
        names.extend((0..self.walked).map(|axis| format!("w{axis}")));
        for (letter, slots) in [("a", &self.inputs), ("o", &self.outputs)] {
            for index in 0..slots.len() {
                names.push(format!("{letter}{index}_offset"));
                names.extend((0..self.kept).map(|axis| format!("{letter}{index}_k{axis}")));
                names.extend((0..self.walked).map(|axis| format!("{letter}{index}_w{axis}")));
            }
        }
        let scalars = self.map.scalars + self.combine.scalars + self.finish.scalars;
        names.extend((0..scalars).map(|slot| format!("s{slot}")));
        names
    }
}

impl fmt::Display for KernelSpec {
    /// The whole specification on one line: what the key is made of. The name is left out, since it changes nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kept={} walked={}", self.family.name(), self.kept, self.walked)?;
        for (letter, slots) in [("a", &self.inputs), ("o", &self.outputs)] {
            for slot in slots {
                let access = match slot.access {
                    Access::Quad => "quad",
                    Access::Strided => "strided",
                };
                write!(f, " {letter}:{}:{access}", slot.dtype)?;
            }
        }
        if self.reads_totals {
            f.write_str(" reads-totals")?;
        }
        if self.writes_totals {
            f.write_str(" writes-totals")?;
        }
        if self.even_tiles {
            f.write_str(" even")?;
        }
        for (name, program) in [("map", &self.map), ("combine", &self.combine), ("finish", &self.finish)] {
            if !program.outputs.is_empty() {
                write!(f, " {name}{{{program}}}")?;
            }
        }
        Ok(())
    }
}
