//! SPIR-V whose float arithmetic a driver computes as it is written.
//!
//! Vulkan lets a driver fuse `a * b + c`, cancel `(x + y) - x` and factor `x * y + x * z`, and lets it flush subnormals,
//! unless the module says otherwise. naga does not say it, so this edits its words:
//!
//! 1. `NoContraction` on the result of every float operation that could be fused or regrouped;
//! 2. the float controls that the device has (`SPV_KHR_float_controls`): keep subnormals, signed zeros, infinities and
//!    NaN, and round to the nearest even.
//!
//! With both, `+`, `-` and `*` are IEEE 754's in any expression. Division and square root stay within Vulkan's own bounds.
//! Numbers and their places in a module: SPIR-V 1.6, sections 2.4 "Logical Layout of a Module" and 3 "Binary Form".

use crate::Error;

/// What a Vulkan device lets a module ask for, of 32-bit floats: three members of
/// `VkPhysicalDeviceFloatControlsProperties`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FloatControls {
    /// Subnormals are kept: `shaderDenormPreserveFloat32`.
    pub denorm_preserve: bool,
    /// The signs of zeros, infinities and NaN are kept: `shaderSignedZeroInfNanPreserveFloat32`.
    pub signed_zero_inf_nan_preserve: bool,
    /// Operations round to the nearest even: `shaderRoundingModeRTEFloat32`.
    pub rounding_mode_rte: bool,
}

impl FloatControls {
    /// All of them.
    pub const ALL: Self = Self { denorm_preserve: true, signed_zero_inf_nan_preserve: true, rounding_mode_rte: true };

    /// The capabilities and execution modes to declare, in pairs.
    fn declared(self) -> impl Iterator<Item = (u32, u32)> {
        [
            (self.denorm_preserve, (4464, 4459)),
            (self.signed_zero_inf_nan_preserve, (4466, 4461)),
            (self.rounding_mode_rte, (4467, 4462)),
        ]
        .into_iter()
        .filter_map(|(has, pair)| has.then_some(pair))
    }
}

/// Words before the first instruction.
const HEADER: usize = 5;
const EXTENSION: &[u8] = b"SPV_KHR_float_controls";
const NO_CONTRACTION: u32 = 42;

mod op {
    pub(super) const EXTENSION: u32 = 10;
    pub(super) const EXT_INST_IMPORT: u32 = 11;
    pub(super) const MEMORY_MODEL: u32 = 14;
    pub(super) const ENTRY_POINT: u32 = 15;
    pub(super) const EXECUTION_MODE: u32 = 16;
    pub(super) const CAPABILITY: u32 = 17;
    pub(super) const DECORATE: u32 = 71;
    pub(super) const EXECUTION_MODE_ID: u32 = 331;

    /// Declares a type: what follows the annotations starts with one.
    pub(super) fn is_type(op: u32) -> bool {
        (19..=39).contains(&op)
    }

    /// Arithmetic on floats, which `NoContraction` may decorate.
    pub(super) fn is_float_arithmetic(op: u32) -> bool {
        // FNegate; FAdd, FSub, FMul, FDiv, FRem, FMod; products of vectors and matrices; Dot.
        matches!(op, 127 | 129 | 131 | 133 | 136 | 140 | 141 | 142..=148)
    }
}

/// An instruction's number and all of its words.
type Instruction<'a> = (u32, &'a [u32]);

fn instructions(words: &[u32]) -> Result<Vec<Instruction<'_>>, Error> {
    let mut rest = words.get(HEADER..).ok_or_else(|| Error::new("SPIR-V: shorter than its header"))?;
    let mut found = Vec::new();
    while let Some(&first) = rest.first() {
        let length = (first >> 16) as usize;
        if length == 0 || length > rest.len() {
            let at = words.len() - rest.len();
            return Err(Error::new(format!(
                "SPIR-V: an instruction of {length} words at word {at} of {}",
                words.len()
            )));
        }
        let (instruction, after) = rest.split_at(length);
        found.push((first & 0xffff, instruction));
        rest = after;
    }
    Ok(found)
}

fn push(out: &mut Vec<u32>, op: u32, operands: &[u32]) {
    let length = u32::try_from(operands.len() + 1).unwrap_or(0);
    out.push(length << 16 | op);
    out.extend_from_slice(operands);
}

/// A name as a module holds it: four bytes a word, the least first, ended by a zero byte.
fn name(text: &[u8]) -> Vec<u32> {
    let byte = |at: usize| u32::from(text.get(at).copied().unwrap_or(0));
    (0..=text.len() / 4).map(|word| (0..4).map(|at| byte(4 * word + at) << (8 * at)).sum()).collect()
}

/// The module with every float operation decorated and the float controls declared.
///
/// # Errors
/// The words are no SPIR-V.
pub(crate) fn exact(words: &[u32], controls: FloatControls) -> Result<Vec<u32>, Error> {
    let instructions = instructions(words)?;
    let second = |words: &[u32]| words.get(2).copied();
    let of = |wanted: u32| instructions.iter().filter(move |(op, _)| *op == wanted);
    let entries: Vec<u32> = of(op::ENTRY_POINT).filter_map(|(_, words)| second(words)).collect();
    let inexact = instructions.iter().filter(|(op, _)| op::is_float_arithmetic(*op));
    let results: Vec<u32> = inexact.filter_map(|(_, words)| second(words)).collect();

    let mut out = words[..HEADER].to_vec();
    let (mut capable, mut moded, mut decorated) = (false, false, false);
    for &(op, words) in &instructions {
        if !capable && op != op::CAPABILITY {
            capable = true;
            controls.declared().for_each(|(capability, _)| push(&mut out, op::CAPABILITY, &[capability]));
            if controls != FloatControls::default() {
                push(&mut out, op::EXTENSION, &name(EXTENSION));
            }
        }
        if !moded && !is_before_names(op) {
            moded = true;
            for &entry in &entries {
                controls.declared().for_each(|(_, mode)| push(&mut out, op::EXECUTION_MODE, &[entry, mode, 32]));
            }
        }
        if !decorated && op::is_type(op) {
            decorated = true;
            results.iter().for_each(|&result| push(&mut out, op::DECORATE, &[result, NO_CONTRACTION]));
        }
        out.extend_from_slice(words);
    }
    Ok(out)
}

/// Whether an instruction stands among the execution modes or before them.
fn is_before_names(op: u32) -> bool {
    matches!(
        op,
        op::CAPABILITY
            | op::EXTENSION
            | op::EXT_INST_IMPORT
            | op::MEMORY_MODEL
            | op::ENTRY_POINT
            | op::EXECUTION_MODE
            | op::EXECUTION_MODE_ID
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        @group(0) @binding(0) var<storage, read_write> a: array<f32>;
        @compute @workgroup_size(1) fn main() {
            let x = a[0]; let y = a[1]; let z = a[2];
            let d = dot(vec2(x, y), vec2(y, z));
            a[0] = -x + y - z * x / y + d + f32(u32(a[3]) * 3u + 1u);
        }";

    fn plain() -> Vec<u32> {
        let parsed = crate::lower::Parsed::new(SOURCE).unwrap();
        naga::back::spv::write_vec(&parsed.module, &parsed.info, &Default::default(), None).unwrap()
    }

    /// The ids with `NoContraction`.
    fn decorated(words: &[u32]) -> Vec<u32> {
        let all = instructions(words).unwrap();
        let hers = |words: &[u32]| (words[2] == NO_CONTRACTION).then_some(words[1]);
        all.iter().filter(|(op, _)| *op == op::DECORATE).filter_map(|(_, words)| hers(words)).collect()
    }

    #[test]
    fn every_float_operation_is_decorated_and_no_other() {
        let words = exact(&plain(), FloatControls::default()).unwrap();
        let all = instructions(&words).unwrap();
        let arithmetic: Vec<_> = all.iter().filter(|(op, _)| op::is_float_arithmetic(*op)).collect();
        let results: Vec<_> = arithmetic.iter().map(|(_, words)| words[2]).collect();
        assert_eq!(decorated(&words), results);
        let mut kinds: Vec<_> = arithmetic.iter().map(|(op, _)| *op).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert!([127, 129, 131, 133, 136, 148].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    }

    /// Taking out what was put in gives the words that came in.
    #[test]
    fn nothing_else_changes() {
        let plain = plain();
        let edited = exact(&plain, FloatControls::ALL).unwrap();
        let ours = |op: u32, words: &[u32]| match op {
            op::DECORATE => words[2] == NO_CONTRACTION,
            op::CAPABILITY => words[1] >= 4464,
            op::EXECUTION_MODE => words[2] >= 4459,
            op::EXTENSION => words[1..] == name(EXTENSION),
            _ => false,
        };
        let mut left = plain[..HEADER].to_vec();
        let mut taken = 0;
        for (op, words) in instructions(&edited).unwrap() {
            if ours(op, words) { taken += 1 } else { left.extend_from_slice(words) }
        }
        assert_eq!(left, plain);
        assert_eq!(taken, decorated(&edited).len() + 3 + 3 + 1);
    }

    #[test]
    fn controls_stand_where_a_module_wants_them() {
        let edited = exact(&plain(), FloatControls::ALL).unwrap();
        let ops: Vec<u32> = instructions(&edited).unwrap().iter().map(|(op, _)| *op).collect();
        let rank = |op: u32| match op {
            op::CAPABILITY => 0,
            op::EXTENSION => 1,
            op::EXT_INST_IMPORT => 2,
            op::MEMORY_MODEL => 3,
            op::ENTRY_POINT => 4,
            op::EXECUTION_MODE => 5,
            3..=7 => 6,
            71 | 72 => 7,
            _ => 8,
        };
        assert!(ops.is_sorted_by_key(|&op| rank(op)), "{ops:?}");
        assert_eq!(name(b"SPV_"), [0x5f56_5053, 0], "a whole last word is followed by a zero one");
    }

    #[test]
    fn words_that_are_no_module_are_an_error() {
        let plain = plain();
        for length in 0..plain.len() {
            // Cut between instructions is a module still, for this.
            let cut = exact(&plain[..length], FloatControls::ALL);
            assert!(length >= HEADER || cut.is_err());
        }
        let mut odd = plain;
        odd[HEADER] = 0;
        let message = exact(&odd, FloatControls::ALL).unwrap_err().to_string();
        assert!(message.contains("an instruction of 0 words at word 5"), "{message}");
    }
}
