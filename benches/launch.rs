//! What small work costs: recording an operation, running many, waiting for one result, planning
//! sums of many operands.
//!
//! `cargo bench --bench launch [-- --backend NAME]... [--n ELEMENTS]`; README.md says how to read it.

mod devices;
mod timing;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use kiln::prelude::*;
use kiln_array::recorder::Recorder;

fn main() -> ExitCode {
    devices::run("launch", |gpu, n| measure(gpu, n.unwrap_or(64)))
}

fn measure(gpu: &Device, n: usize) -> Result<(), Box<dyn Error>> {
    println!("{}; driver {}; arrays of {n} f32", gpu.info(), gpu.info().driver);
    let x = gpu.array(&vec![1.0f32; n], n)?;
    let operations: [(&str, &dyn Fn() -> kiln::Result<()>); 3] = [
        ("x + 1", &|| (&x + 1.0).eval().map(drop)),
        ("sum", &|| x.sum(..).map(drop)),
        ("cumsum", &|| x.cumsum(0).map(drop)),
    ];
    for (name, once) in operations {
        // A batch that the device need not start on while it is recorded.
        const FEW: u32 = 8;
        let mut recorded = Vec::new();
        for _ in 0..200 {
            let start = Instant::now();
            (0..FEW).try_for_each(|_| once())?;
            recorded.push(start.elapsed().as_secs_f64() / f64::from(FEW));
            gpu.synchronize().wait()?;
        }
        let each = timing::seconds(|count| {
            (0..count).try_for_each(|_| once())?;
            gpu.synchronize().wait()
        })?;
        let recorded = timing::median(recorded) * 1e6;
        println!(
            "{name:<8} recording {recorded:>8.2} us   in a batch {:>8.2} us   {:>10.0} a second",
            each * 1e6,
            1.0 / each
        );
    }
    let one = gpu.array(&[1.0f32], ())?;
    latency("item", || one.item())?;
    latency("sum, item", || x.sum(..)?.item())?;
    many(gpu)?;
    println!();
    Ok(())
}

/// What sums of many operands cost on each evaluation: planning alone, for this device's kernels, and the whole.
fn many(gpu: &Device) -> kiln::Result<()> {
    const LEN: usize = 64;
    let recorder = Recorder::new(gpu.caps().clone());
    for slices in [false, true] {
        for count in [512, 1500] {
            let sum = |gpu: &Device| -> kiln::Result<Expr<f32>> {
                let x = gpu.zeros::<f32>(LEN + count)?;
                let operand = |at: usize| if slices { x.slice(s![at..at + LEN]) } else { gpu.zeros::<f32>(LEN) };
                (1..count).try_fold(operand(0)?.to_expr(), |sum, at| Ok(sum + operand(at)?))
            };
            let planned = sum(&recorder.device())?;
            let plan = timing::seconds(|times| {
                (0..times).try_for_each(|_| planned.eval().map(drop))?;
                drop(recorder.take());
                Ok::<_, kiln::Error>(())
            })?;
            let whole = sum(gpu)?;
            let eval = timing::seconds(|times| {
                (0..times).try_for_each(|_| whole.eval().map(drop))?;
                gpu.synchronize().wait()
            })?;
            let what = if slices { "slices" } else { "arrays" };
            println!("sum of {count:>4} {what}   plan {:>8.3} ms   eval {:>8.3} ms", plan * 1e3, eval * 1e3);
        }
    }
    Ok(())
}

/// How long a result takes to reach the host, alone on the device.
fn latency(name: &str, mut wait: impl FnMut() -> kiln::Result<f32>) -> kiln::Result<()> {
    for _ in 0..20 {
        wait()?;
    }
    let mut times = Vec::new();
    for _ in 0..1000 {
        let start = Instant::now();
        wait()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(f64::NAN);
    println!("{name:<9} round trip {:>8.1} us median, {:>8.1} us 95th of 100", at(50), at(95));
    Ok(())
}
