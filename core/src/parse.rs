//! Kernel specifications from their text, for lists of kernels that are kept from one process to the next.
//!
//! What enters: the text that [`KernelSpec`]'s `Display` writes. What leaves: a specification with the same text, and so
//! the same key; or why there is none, since a list may come from another version or name what no longer exists.

use std::str::FromStr;

use crate::dtype::{Dtype, ROWS};
use crate::kernel::{Access, Family, KernelSpec, Slot};
use crate::op::{BinaryOp, UnaryOp};
use crate::program::{Instr, Program, Value};

type Parsed<T> = Result<T, String>;

impl FromStr for KernelSpec {
    type Err = String;

    /// Reads what `Display` writes; the name, which is no part of it, is that of the last operator.
    fn from_str(text: &str) -> Parsed<Self> {
        let mut rest = text;
        let mut spec = Self {
            family: family(word(&mut rest))?,
            name: "",
            kept: number(word(&mut rest), "kept=")?,
            walked: number(word(&mut rest), "walked=")?,
            inputs: Vec::new(),
            outputs: Vec::new(),
            map: Program::default(),
            combine: Program::default(),
            finish: Program::default(),
            reads_totals: false,
            writes_totals: false,
            even_tiles: false,
        };
        while !rest.is_empty() {
            if let Some((name, body)) = ["map", "combine", "finish"].into_iter().find_map(|name| {
                let body = rest.strip_prefix(name)?.strip_prefix('{')?;
                Some((name, body))
            }) {
                let (body, after) = body.split_once('}').ok_or("a program that does not end")?;
                rest = after.trim_start();
                let program = program(body)?;
                match name {
                    "map" => spec.map = program,
                    "combine" => spec.combine = program,
                    _ => spec.finish = program,
                }
                continue;
            }
            match word(&mut rest) {
                "reads-totals" => spec.reads_totals = true,
                "writes-totals" => spec.writes_totals = true,
                "even" => spec.even_tiles = true,
                operand => match operand.split_once(':') {
                    Some(("a", operand)) => spec.inputs.push(slot(operand)?),
                    Some(("o", operand)) => spec.outputs.push(slot(operand)?),
                    _ => return Err(format!("unknown word `{operand}`")),
                },
            }
        }
        spec.name = last_operator(&spec);
        // Whatever else may be odd, the text decides: a specification must be the one that it was.
        if spec.to_string() == text { Ok(spec) } else { Err("it reads as another kernel".to_owned()) }
    }
}

/// Takes the next word.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
    *rest = after;
    word
}

fn number<T: FromStr>(text: &str, prefix: &str) -> Parsed<T> {
    let digits = text.strip_prefix(prefix).ok_or_else(|| format!("`{text}` where `{prefix}` should be"))?;
    digits.parse().map_err(|_| format!("no number: `{text}`"))
}

fn family(text: &str) -> Parsed<Family> {
    let families = [Family::Map, Family::Reduce, Family::Scan, Family::Spine];
    families.into_iter().find(|family| family.name() == text).ok_or_else(|| format!("unknown family `{text}`"))
}

fn dtype(text: &str) -> Parsed<Dtype> {
    let row = ROWS.iter().find(|row| row.name == text);
    row.map(|row| row.dtype).ok_or_else(|| format!("unknown element type `{text}`"))
}

fn slot(text: &str) -> Parsed<Slot> {
    let (ty, access) = text.split_once(':').ok_or_else(|| format!("no access: `{text}`"))?;
    let access = match access {
        "quad" => Access::Quad,
        "strided" => Access::Strided,
        _ => return Err(format!("unknown access `{access}`")),
    };
    Ok(Slot { dtype: dtype(ty)?, access })
}

/// `v0:f32=in0; v1:f32=add(v0,v0); -> v1`.
fn program(text: &str) -> Parsed<Program> {
    let (instrs, outputs) = text.split_once("->").ok_or("a program without results")?;
    let mut program = Program::default();
    for part in instrs.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let at = program.instrs.len();
        let head = format!("v{at}:");
        let (ty, instr) = part
            .strip_prefix(&head)
            .and_then(|rest| rest.split_once('='))
            .ok_or_else(|| format!("`{part}` where value {at} should be"))?;
        let instr = instruction(instr, at)?;
        if let Instr::Scalar(slot) = instr {
            program.scalars = program.scalars.max(slot.saturating_add(1));
        }
        program.instrs.push((instr, dtype(ty)?));
    }
    for output in outputs.split_whitespace() {
        program.outputs.push(value(output, program.instrs.len())?);
    }
    // No program has more constants than instructions: a number beyond would only cost memory.
    let count = u32::try_from(program.instrs.len()).unwrap_or(u32::MAX);
    if program.scalars <= count { Ok(program) } else { Err(format!("constants up to {}", program.scalars)) }
}

/// A value that exists before instruction `before`.
fn value(text: &str, before: usize) -> Parsed<Value> {
    let value: Value = number(text, "v")?;
    if (value as usize) < before { Ok(value) } else { Err(format!("{text} before it exists")) }
}

fn instruction(text: &str, at: usize) -> Parsed<Instr> {
    let Some((name, arguments)) = text.split_once('(') else {
        return match text.strip_prefix("in") {
            Some(index) => Ok(Instr::Input(number(index, "")?)),
            None => Ok(Instr::Scalar(number(text, "const")?)),
        };
    };
    let arguments = arguments.strip_suffix(')').ok_or_else(|| format!("`{text}` does not end"))?;
    let values: Vec<Value> = arguments.split(',').map(|argument| value(argument, at)).collect::<Parsed<_>>()?;
    let unary = || UnaryOp::ALL.iter().copied().find(|op| op.name() == name);
    let binary = || BinaryOp::ALL.iter().copied().find(|op| op.name() == name);
    match (name, &values[..]) {
        ("select", &[c, a, b]) => Ok(Instr::Select(c, a, b)),
        ("cast", &[a]) => Ok(Instr::Cast(a)),
        (_, &[a]) => unary().map(|op| Instr::Unary(op, a)).ok_or_else(|| format!("unknown operator `{name}`")),
        (_, &[a, b]) => binary().map(|op| Instr::Binary(op, a, b)).ok_or_else(|| format!("unknown operator `{name}`")),
        _ => Err(format!("`{text}` has {} operands", values.len())),
    }
}

/// A name for labels.
fn last_operator(spec: &KernelSpec) -> &'static str {
    let program = if spec.family == Family::Map { &spec.map } else { &spec.combine };
    match program.instrs.last().map(|(instr, _)| instr) {
        Some(Instr::Unary(op, _)) => op.name(),
        Some(Instr::Binary(op, ..)) => op.name(),
        Some(Instr::Select(..)) => "select",
        Some(Instr::Cast(_)) => "cast",
        Some(Instr::Scalar(_)) => "full",
        Some(Instr::Input(_)) | None => "copy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{Recorder, kernels};
    use crate::{ArrayOps, reduce::Reduce, s, scan::Scan};

    #[test]
    fn kernels_read_back_as_they_were() {
        let recorder = Recorder::new(Recorder::gpu_caps());
        let device = recorder.device();
        let x = device.full(1.5f32, [70, 80]).unwrap();
        (x.slice(s![.., 1..;2]).unwrap().gt(0.0).select(x.slice(s![.., ..;2]).unwrap(), 2.0)).eval().unwrap();
        (x.cast::<i32>() / 3).abs().sum(0).unwrap();
        x.min(..).unwrap();
        x.mean(1).unwrap();
        device.full(true, 1 << 20).unwrap().cumsum(0).unwrap();
        let recordings = recorder.take();
        let mut count = 0;
        for spec in kernels(&recordings) {
            let read: KernelSpec = spec.to_string().parse().unwrap();
            assert_eq!((&read, read.key()), (&**spec, spec.key()));
            assert!(!read.name.is_empty());
            count += 1;
        }
        assert!(count > 8);
    }

    #[test]
    fn odd_texts_are_errors() {
        let good = "map kept=0 walked=1 a:f32:quad o:f32:quad map{v0:f32=in0; v1:f32=neg(v0); -> v1}";
        good.parse::<KernelSpec>().unwrap();
        for (from, to) in [
            ("map kept", "fold kept"),
            ("kept=0", "kept=x"),
            ("f32:quad", "f33:quad"),
            ("quad", "quads"),
            ("neg", "negate"),
            ("neg(v0)", "neg(v1)"),
            ("neg(v0)", "neg(v0,v0,v0,v0)"),
            ("v1:f32", "v2:f32"),
            ("-> v1", "-> v9"),
            ("-> v1}", "-> v1"),
            ("in0", "const4000000000"),
            ("o:f32", "q:f32"),
            ("map{v0", "  map{v0"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good);
            text.parse::<KernelSpec>().expect_err(&text);
        }
        "".parse::<KernelSpec>().unwrap_err();
    }
}
