//! The generated half of a kernel: what the skeletons call.
//!
//! What enters: a specification. What leaves: WGSL declarations, in this order: constants, parameters, bindings, the
//! accumulator and its four-fold, `combine`, workgroup memory, loads, stores. Loads never leave an array: a whole-quad
//! load stays in the array's padding, others repeat the line's last element.

use kiln_array::dtype::{Dtype, Kind};
use kiln_array::kernel::{Access, Family, KernelSpec, MAX_LOG_SCAN_SLOTS, Slot};

use crate::spell::{self, from_word, to_word, type_name};
use crate::writer::{Writer, line};
use crate::{Error, GROUP_SIZE, Target};

/// The prelude of a kernel.
pub(crate) fn write(spec: &KernelSpec, target: Target) -> Result<String, Error> {
    let mut w = Writer::default();
    let components: Vec<Dtype> = match spec.family {
        Family::Map => spec.map.output_dtypes().collect(),
        _ => spec.accumulator(),
    };
    let p = Prelude { spec, components };
    line!(w, "const GROUP_SIZE: u32 = {GROUP_SIZE}u;");
    line!(w, "const LOG_GROUP_SIZE: u32 = {}u;", GROUP_SIZE.trailing_zeros());
    p.parameters(&mut w);
    p.bindings(&mut w)?;
    p.accumulator(&mut w)?;
    if spec.family != Family::Map {
        p.tile(&mut w, target)?;
    }
    match spec.family {
        Family::Map => {
            p.load_elements(&mut w)?;
            p.store_quad(&mut w)?;
        }
        Family::Reduce if spec.reads_totals => {
            p.load_total(&mut w, "totals_in");
            p.load_totals(&mut w);
            p.store_total(&mut w)?;
        }
        Family::Reduce => {
            p.load_elements(&mut w)?;
            p.store_total(&mut w)?;
        }
        Family::Scan => {
            p.load_elements(&mut w)?;
            p.load_total(&mut w, if spec.reads_totals { "totals_in" } else { "" });
            p.store_quad(&mut w)?;
        }
        Family::Spine => {
            p.load_total(&mut w, "totals_out");
            p.put_total(&mut w, "store_block");
        }
        other => {
            return Err(Error::new(format!("no prelude for the family {}", other.name())));
        }
    }
    Ok(w.finish())
}

struct Prelude<'a> {
    spec: &'a KernelSpec,
    /// Types of the accumulator's components (map: of the results).
    components: Vec<Dtype>,
}

/// Elements of one 32-bit word of memory.
fn per_word(dtype: Dtype) -> usize {
    4 / dtype.bytes().min(4)
}

impl Prelude<'_> {
    fn parameters(&self, w: &mut Writer) {
        line!(w, "");
        w.block(format_args!("struct Params"), |w| {
            for name in self.spec.param_names() {
                line!(w, "{name}: u32,");
            }
        });
        line!(w, "@group(0) @binding(0) var<uniform> P: Params;");
    }

    /// Arrays as kernels see them: whole quads, words of packed elements, or elements.
    fn bindings(&self, w: &mut Writer) -> Result<(), Error> {
        line!(w, "");
        let spec = self.spec;
        let mut binding = 0;
        for (letter, access, slots) in [("a", "read", &spec.inputs), ("o", "read_write", &spec.outputs)] {
            for (index, slot) in slots.iter().enumerate() {
                let element = match (slot.access, per_word(slot.dtype)) {
                    (Access::Quad, 1) => format!("vec4<{}>", type_name(slot.dtype)?),
                    (Access::Strided, 1) => type_name(slot.dtype)?.to_string(),
                    _ => "u32".to_string(),
                };
                line!(w, "@group(1) @binding({binding}) var<storage, {access}> {letter}{index}: array<{element}>;");
                binding += 1;
            }
        }
        for (name, access, there) in
            [("totals_in", "read", spec.reads_totals), ("totals_out", "read_write", spec.writes_totals)]
        {
            if there {
                line!(w, "@group(1) @binding({binding}) var<storage, {access}> {name}: array<u32>;");
                binding += 1;
            }
        }
        Ok(())
    }

    fn accumulator(&self, w: &mut Writer) -> Result<(), Error> {
        line!(w, "");
        let mut fields = String::new();
        for (index, &dtype) in self.components.iter().enumerate() {
            fields.push_str(&format!("c{index}: {}, ", type_name(dtype)?));
        }
        line!(w, "struct Acc {{ {}}}", fields);
        line!(w, "struct Quad {{ a: Acc, b: Acc, c: Acc, d: Acc }}");
        Ok(())
    }

    /// What tiles need: constants, `combine`, workgroup memory.
    fn tile(&self, w: &mut Writer, target: Target) -> Result<(), Error> {
        let spec = self.spec;
        let words = self.components.len().next_power_of_two().trailing_zeros();
        let most = if spec.family == Family::Scan { MAX_LOG_SCAN_SLOTS } else { u32::MAX };
        let log_slots = target.log_slots.min(most).saturating_sub(words).max(GROUP_SIZE.trailing_zeros());
        line!(w, "const SLOTS: u32 = {}u;", 1u32 << log_slots);
        // A reduction walks its tile eight rows at a time, a scan holds all of it; both four rows at least.
        let even = if spec.family == Family::Reduce { (1 << log_slots).min(8 * GROUP_SIZE) } else { 1 << log_slots };
        let even = even.max(4 * GROUP_SIZE);
        line!(w, "const EVEN_SLOTS: u32 = {even}u;");
        line!(w, "const ALWAYS_EVEN: bool = {};", spec.even_tiles && even == 1 << log_slots);
        line!(w, "const KEEPS_BLOCKS: bool = {};", spec.family != Family::Reduce);
        line!(w, "const LEAVES_ARE_BALANCED: bool = {};", spec.reads_totals && spec.family == Family::Reduce);
        line!(w, "const READS_TOTALS: bool = {};", spec.reads_totals);
        line!(w, "");
        let count = self.components.len();
        let input = |index: u32| {
            let index = index as usize;
            if index < count { format!("l.c{index}") } else { format!("r.c{}", index - count) }
        };
        let mut result = Ok(());
        w.block(format_args!("fn combine(l: Acc, r: Acc) -> Acc"), |w| {
            match spell::program(w, &spec.combine, input, spec.map.scalars) {
                Ok(values) => line!(w, "return Acc({});", values.join(", ")),
                Err(error) => result = Err(error),
            }
        });
        result?;
        line!(w, "");
        self.memory(w, "slot", "SLOTS")?;
        if spec.family == Family::Scan {
            self.memory(w, "earlier", "GROUP_SIZE")?;
        }
        Ok(())
    }

    /// Accumulators in workgroup memory, an array per component, with `read_NAME` and `write_NAME`.
    ///
    /// Truth values take a word each: arrays of bool in workgroup memory lose values on some drivers (seen on an H200).
    fn memory(&self, w: &mut Writer, name: &str, size: &str) -> Result<(), Error> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (index, &dtype) in self.components.iter().enumerate() {
            let (at, value) = (format!("{name}{index}[at]"), format!("x.c{index}"));
            let (element, read, value) = match dtype.kind() {
                Kind::Bool => ("u32", from_word(dtype, &at), to_word(dtype, &value)),
                _ => (type_name(dtype)?, at.clone(), value),
            };
            line!(w, "var<workgroup> {name}{index}: array<{element}, {size}>;");
            reads.push(read);
            writes.push(format!("{at} = {value};"));
        }
        w.block(format_args!("fn read_{name}(at: u32) -> Acc"), |w| line!(w, "return Acc({});", reads.join(", ")));
        w.block(format_args!("fn write_{name}(at: u32, x: Acc)"), |w| {
            writes.iter().for_each(|write| line!(w, "{write}"));
        });
        Ok(())
    }

    /// `load_quad` of elements: the expression at places `i` to `i + 3` of a line; `i < P.length`.
    fn load_elements(&self, w: &mut Writer) -> Result<(), Error> {
        let spec = self.spec;
        line!(w, "");
        let mut arguments = Vec::new();
        for (index, slot) in spec.inputs.iter().enumerate() {
            arguments.push(format!("x{index}: {}", type_name(slot.dtype)?));
        }
        let mut result = Ok(());
        w.block(format_args!("fn evaluate({}) -> Acc", arguments.join(", ")), |w| {
            match spell::program(w, &spec.map, |index| format!("x{index}"), 0) {
                Ok(values) => line!(w, "return Acc({});", values.join(", ")),
                Err(error) => result = Err(error),
            }
        });
        result?;
        line!(w, "");
        w.block(format_args!("fn load_quad(line: u32, i: u32) -> Quad"), |w| {
            self.kept_coordinates(w);
            let strided: Vec<usize> = indices(&spec.inputs, Access::Strided).collect();
            for (index, slot) in spec.inputs.iter().enumerate() {
                let start = self.at_line(&format!("a{index}"));
                match slot.access {
                    Access::Strided => line!(w, "let start{index} = {start};"),
                    Access::Quad if per_word(slot.dtype) == 1 => {
                        line!(w, "let q{index} = a{index}[({start} + i) >> 2u];");
                    }
                    Access::Quad => {
                        line!(w, "let word{index} = a{index}[({start} + i) >> 2u];");
                        let lanes: Vec<String> =
                            (0..4).map(|lane| byte(&format!("word{index}"), &format!("{}u", 8 * lane))).collect();
                        line!(w, "let q{index} = vec4<bool>({});", lanes.join(", "));
                    }
                }
            }
            if !strided.is_empty() && spec.walked >= 2 {
                self.walked_coordinates(w);
            }
            for lane in 0..4 {
                if !strided.is_empty() {
                    self.strided_lane(w, lane, &strided);
                }
            }
            let lane = |lane: usize| {
                let values: Vec<String> = (0..spec.inputs.len())
                    .map(|index| match spec.inputs[index].access {
                        Access::Quad => format!("q{index}.{}", ["x", "y", "z", "w"][lane]),
                        Access::Strided => format!("e{index}_{lane}"),
                    })
                    .collect();
                format!("evaluate({})", values.join(", "))
            };
            line!(w, "return Quad({}, {}, {}, {});", lane(0), lane(1), lane(2), lane(3));
        });
        Ok(())
    }

    /// `k0`, `k1`, …: the line's coordinates over the kept axes, the last one fastest.
    fn kept_coordinates(&self, w: &mut Writer) {
        match self.spec.kept {
            0 => {}
            1 => line!(w, "let k0 = line;"),
            kept => {
                line!(w, "var lines_left = line;");
                for axis in (1..kept).rev() {
                    line!(w, "let k{axis} = lines_left % P.k{axis};");
                    line!(w, "lines_left = lines_left / P.k{axis};");
                }
                line!(w, "let k0 = lines_left;");
            }
        }
    }

    /// The index of a line's first element in operand `name`.
    fn at_line(&self, name: &str) -> String {
        let mut text = format!("P.{name}_offset");
        for axis in 0..self.spec.kept {
            text.push_str(&format!(" + k{axis} * P.{name}_k{axis}"));
        }
        text
    }

    /// `w0`, `w1`, …: the coordinates of place `i` over two or more walked axes.
    fn walked_coordinates(&self, w: &mut Writer) {
        line!(w, "var places_left = i;");
        for axis in (1..self.spec.walked).rev() {
            line!(w, "var w{axis} = places_left % P.w{axis};");
            line!(w, "places_left = places_left / P.w{axis};");
        }
        line!(w, "var w0 = places_left;");
    }

    /// The elements of the strided inputs at place `i + lane`, or at the line's last place beyond it.
    fn strided_lane(&self, w: &mut Writer, lane: usize, strided: &[usize]) {
        let walked = self.spec.walked;
        if walked == 1 {
            line!(w, "let i{lane} = min(i + {lane}u, P.length - 1u);");
        } else if walked >= 2 && lane > 0 {
            w.block(format_args!("if (i + {lane}u < P.length)"), |w| self.advance(w, walked - 1));
        }
        for &index in strided {
            let mut at = format!("start{index}");
            for axis in 0..walked {
                let coordinate = if walked == 1 { format!("i{lane}") } else { format!("w{axis}") };
                at.push_str(&format!(" + {coordinate} * P.a{index}_w{axis}"));
            }
            if per_word(self.spec.inputs[index].dtype) == 1 {
                line!(w, "let e{index}_{lane} = a{index}[{at}];");
            } else {
                line!(w, "let at{index}_{lane} = {at};");
                let word = format!("a{index}[at{index}_{lane} >> 2u]");
                let shift = format!("((at{index}_{lane} & 3u) * 8u)");
                line!(w, "let e{index}_{lane} = {};", byte(&word, &shift));
            }
        }
    }

    /// The next place: the last coordinate moves, and at its end the one before it.
    fn advance(&self, w: &mut Writer, axis: u8) {
        line!(w, "w{axis} += 1u;");
        if axis > 0 {
            w.block(format_args!("if (w{axis} == P.w{axis})"), |w| {
                line!(w, "w{axis} = 0u;");
                self.advance(w, axis - 1);
            });
        }
    }

    /// `load_total(index)`: an accumulator that an earlier pass left; nothing where there is none to read.
    fn load_total(&self, w: &mut Writer, from: &str) {
        line!(w, "");
        let count = self.components.len();
        w.block(format_args!("fn load_total(index: u32) -> Acc"), |w| {
            let values: Vec<String> = self
                .components
                .iter()
                .enumerate()
                .map(|(component, &dtype)| {
                    let word = if from.is_empty() {
                        "0u".to_string()
                    } else {
                        format!("{from}[index * {count}u + {component}u]")
                    };
                    from_word(dtype, &word)
                })
                .collect();
            line!(w, "return Acc({});", values.join(", "));
        });
    }

    /// `load_quad` of totals.
    fn load_totals(&self, w: &mut Writer) {
        w.block(format_args!("fn load_quad(line: u32, i: u32) -> Quad"), |w| {
            line!(w, "let start = line * P.length;");
            line!(w, "let last = P.length - 1u;");
            let lane = |lane: usize| format!("load_total(start + min(i + {lane}u, last))");
            line!(w, "return Quad({}, {}, {}, {});", lane(0), lane(1), lane(2), lane(3));
        });
    }

    /// A function that stores an accumulator among the totals.
    fn put_total(&self, w: &mut Writer, name: &str) {
        line!(w, "");
        let count = self.components.len();
        w.block(format_args!("fn {name}(index: u32, x: Acc)"), |w| {
            for (component, &dtype) in self.components.iter().enumerate() {
                let word = to_word(dtype, &format!("x.c{component}"));
                line!(w, "totals_out[index * {count}u + {component}u] = {word};");
            }
        });
    }

    /// `store_total(line, tile, x)`: a tile's total, for the next pass or as the line's result.
    fn store_total(&self, w: &mut Writer) -> Result<(), Error> {
        if self.spec.writes_totals {
            self.put_total(w, "put_total");
            w.block(format_args!("fn store_total(line: u32, tile: u32, x: Acc)"), |w| {
                line!(w, "put_total(line * P.tiles + tile, x);");
            });
            return Ok(());
        }
        self.finish(w)?;
        w.block(format_args!("fn store_total(line: u32, tile: u32, x: Acc)"), |w| {
            self.kept_coordinates(w);
            line!(w, "let result = finish(x);");
            for index in 0..self.spec.outputs.len() {
                line!(w, "o{index}[{}] = result.r{index};", self.at_line(&format!("o{index}")));
            }
        });
        Ok(())
    }

    /// `finish(x)`: the results of an accumulator. A map's accumulator is its results.
    fn finish(&self, w: &mut Writer) -> Result<(), Error> {
        let spec = self.spec;
        line!(w, "");
        let mut fields = String::new();
        for (index, slot) in spec.outputs.iter().enumerate() {
            fields.push_str(&format!("r{index}: {}, ", type_name(slot.dtype)?));
        }
        line!(w, "struct Results {{ {}}}", fields);
        let mut result = Ok(());
        w.block(format_args!("fn finish(x: Acc) -> Results"), |w| {
            if spec.family == Family::Map {
                let values: Vec<String> = (0..spec.outputs.len()).map(|index| format!("x.c{index}")).collect();
                line!(w, "return Results({});", values.join(", "));
                return;
            }
            let scalar = spec.map.scalars + spec.combine.scalars;
            match spell::program(w, &spec.finish, |index| format!("x.c{index}"), scalar) {
                Ok(values) => line!(w, "return Results({});", values.join(", ")),
                Err(error) => result = Err(error),
            }
        });
        result
    }

    /// `store_quad(line, i, quad)`: the results at places `i` to `i + 3` of a line, as far as it goes.
    fn store_quad(&self, w: &mut Writer) -> Result<(), Error> {
        let spec = self.spec;
        self.finish(w)?;
        for slot in &spec.outputs {
            if slot.access == Access::Strided && (per_word(slot.dtype) > 1 || spec.walked > 1) {
                let what = format!("{} results one by one over {} axes", slot.dtype, spec.walked);
                return Err(Error::new(format!("no way to store {what}")));
            }
        }
        w.block(format_args!("fn store_quad(line: u32, i: u32, quad: Quad)"), |w| {
            self.kept_coordinates(w);
            for (lane, field) in ["a", "b", "c", "d"].iter().enumerate() {
                line!(w, "let r{lane} = finish(quad.{field});");
            }
            for (index, slot) in spec.outputs.iter().enumerate() {
                let start = self.at_line(&format!("o{index}"));
                let values = (0..4).map(|lane| format!("r{lane}.r{index}"));
                match slot.access {
                    Access::Quad if per_word(slot.dtype) == 1 => {
                        let values: Vec<String> = values.collect();
                        let ty = slot.dtype.name();
                        line!(w, "o{index}[({start} + i) >> 2u] = vec4<{ty}>({});", values.join(", "));
                    }
                    Access::Quad => {
                        let bytes: Vec<String> = values
                            .enumerate()
                            .map(|(lane, value)| format!("select(0u, {}u, {value})", 1u32 << (8 * lane)))
                            .collect();
                        line!(w, "o{index}[({start} + i) >> 2u] = {};", bytes.join(" | "));
                    }
                    Access::Strided => {
                        line!(w, "let start{index} = {start};");
                        for (lane, value) in values.enumerate() {
                            let mut at = format!("start{index}");
                            if spec.walked == 1 {
                                at.push_str(&format!(" + (i + {lane}u) * P.o{index}_w0"));
                            }
                            if lane == 0 {
                                line!(w, "o{index}[{at}] = {value};");
                            } else {
                                line!(w, "if (i + {lane}u < P.length) {{ o{index}[{at}] = {value}; }}");
                            }
                        }
                    }
                }
            }
        });
        Ok(())
    }
}

/// The numbers of the operands with an access.
fn indices(slots: &[Slot], access: Access) -> impl Iterator<Item = usize> {
    slots.iter().enumerate().filter(move |(_, slot)| slot.access == access).map(|(index, _)| index)
}

/// The byte of a word at a shift, as a truth value.
fn byte(word: &str, shift: &str) -> String {
    format!("((({word} >> {shift}) & 0xffu) != 0u)")
}
