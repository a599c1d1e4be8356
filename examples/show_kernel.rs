//! The kernels of an operation, as Kiln writes them and as a driver sees them. Needs no GPU.
//!
//! `cargo run --release --example show_kernel -- sum f32` prints the dispatches of a sum over a million elements, and of
//! each distinct kernel the WGSL, the MSL and the size of the SPIR-V. Equal arguments give equal bytes.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use kiln::prelude::*;
use kiln::{Element, Number, Scalar};
use kiln_array::recorder::{Recorder, kernels};

/// What can be shown of every element type, then of numbers, then of one type.
const ANY: [&str; 10] = ["copy", "sum", "prod", "min", "max", "mean", "cumsum", "cumprod", "cummin", "cummax"];
const NUMBERS: [&str; 5] = ["add", "sub", "mul", "div", "fused"];
const BOOL: [&str; 3] = ["any", "all", "not"];
const F32: [&str; 4] = ["sqrt", "exp", "ln", "tanh"];
const DTYPES: [&str; 4] = ["bool", "i32", "u32", "f32"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("show_kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let (op, dtype) = match &args[..] {
        [] => ("sum", "f32"),
        [op] => (&**op, "f32"),
        [op, dtype] => (&**op, &**dtype),
        _ => return Err("give an operation and an element type: sum f32".into()),
    };
    let recorder = Recorder::new(Recorder::gpu_caps());
    let gpu = recorder.device();
    let known = match dtype {
        "bool" => show_bool(&array::<bool>(&gpu)?, op)?,
        "i32" => show_number(&array::<i32>(&gpu)?, op)?,
        "u32" => show_number(&array::<u32>(&gpu)?, op)?,
        "f32" => show_f32(&array::<f32>(&gpu)?, op)?,
        _ => {
            let dtypes = DTYPES.join(" ");
            return Err(format!("no element type {dtype:?}; there are {dtypes}").into());
        }
    };
    if !known {
        let more: &[&[&str]] = match dtype {
            "bool" => &[&ANY, &BOOL],
            "f32" => &[&ANY, &NUMBERS, &F32],
            _ => &[&ANY, &NUMBERS],
        };
        let ops = more.concat().join(" ");
        return Err(format!("no operation {op:?} of {dtype}; there are {ops}").into());
    }

    let recordings = recorder.take();
    let mut out = std::io::stdout().lock();
    for recording in &recordings {
        write!(out, "{recording}")?;
    }
    let mut shown = Vec::new();
    for spec in kernels(&recordings) {
        if shown.contains(&spec.key()) {
            continue;
        }
        shown.push(spec.key());
        let target = kiln_shaders::Target::default();
        let wgsl = kiln_shaders::render(spec, target)?;
        let lowered = kiln_shaders::lower(spec, &wgsl, target)?;
        writeln!(out, "\n---- {} {}\n---- {spec}", spec.label(), spec.key())?;
        writeln!(out, "\n---- WGSL, {} bytes\n{}", wgsl.len(), wgsl.trim_end())?;
        let msl = lowered.msl.trim_end();
        writeln!(out, "\n---- MSL, {} bytes\n{msl}", lowered.msl.len())?;
        writeln!(out, "\n---- SPIR-V, {} bytes", lowered.spirv.len() * 4)?;
    }
    Ok(())
}

/// A million elements; behind them the recorder has no memory.
fn array<T: Element>(gpu: &Device) -> kiln::Result<Array<T>> {
    const LENGTH: usize = 1 << 20;
    let zero = T::from_scalar(Scalar { dtype: T::DTYPE, bits: 0 });
    gpu.array(&std::iter::repeat_n(zero, LENGTH).collect::<Vec<_>>(), LENGTH)
}

/// Records an operation; `false` where there is none of that name.
fn show_any<T: Element>(x: &Array<T>, op: &str) -> kiln::Result<bool> {
    match op {
        "copy" => drop(x.copy()?),
        "sum" => drop(x.sum(..)?),
        "prod" => drop(x.prod(..)?),
        "min" => drop(x.min(..)?),
        "max" => drop(x.max(..)?),
        "mean" => drop(x.mean(..)?),
        "cumsum" => drop(x.cumsum(0)?),
        "cumprod" => drop(x.cumprod(0)?),
        "cummin" => drop(x.cummin(0)?),
        "cummax" => drop(x.cummax(0)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn show_number<T: Number>(x: &Array<T>, op: &str) -> kiln::Result<bool> {
    match op {
        "add" => drop((x + other(x)?).eval()?),
        "sub" => drop((x - other(x)?).eval()?),
        "mul" => drop((x * other(x)?).eval()?),
        "div" => drop((x / other(x)?).eval()?),
        "fused" => drop(((x - other(x)?) * other(x)? + other(x)?).eval()?),
        _ => return show_any(x, op),
    }
    Ok(true)
}

fn show_bool(x: &Array<bool>, op: &str) -> kiln::Result<bool> {
    match op {
        "any" => drop(x.any(..)?),
        "all" => drop(x.all(..)?),
        "not" => drop(x.not().eval()?),
        _ => return show_any(x, op),
    }
    Ok(true)
}

fn show_f32(x: &Array<f32>, op: &str) -> kiln::Result<bool> {
    match op {
        "sqrt" => drop(x.sqrt().eval()?),
        "exp" => drop(x.exp().eval()?),
        "ln" => drop(x.ln().eval()?),
        "tanh" => drop(x.tanh().eval()?),
        _ => return show_number(x, op),
    }
    Ok(true)
}

/// Another array of the same shape.
fn other<T: Element>(x: &Array<T>) -> kiln::Result<Array<T>> {
    array(x.device())
}
