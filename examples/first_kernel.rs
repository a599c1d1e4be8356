//! Where the time of a process's first result goes, and that of its second.
//!
//! `cargo run --release --example first_kernel`; `KILN_BACKEND` and `KILN_ADAPTER` choose the device.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln::wgpu::Wgpu;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("first_kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let gpu = kiln::open()?;
    let wgpu = kiln::wgpu::backend(&gpu);
    let opened = start.elapsed();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}; a sum of 1000000 f32, in ms\n", gpu.info())?;

    let mut rows = Vec::new();
    match wgpu {
        Some(wgpu) => {
            let times = wgpu.open_times();
            rows.push(("instance", vec![times.instance]));
            rows.push(("adapter", vec![times.adapter]));
            rows.push(("device", vec![times.device]));
        }
        None => rows.push(("open", vec![opened])),
    }
    let values = vec![1.0f32; 1_000_000];
    let calls = [call(&gpu, wgpu, &values)?, call(&gpu, wgpu, &values)?];
    for (at, (name, _)) in calls[0].iter().enumerate() {
        rows.push((name, calls.iter().map(|call| call[at].1).collect()));
    }
    let total = start.elapsed();

    writeln!(out, "{:<11}{:>10}{:>10}", "", "first", "second")?;
    for (name, times) in rows {
        write!(out, "{name:<11}")?;
        for time in times {
            write!(out, "{:>10.3}", time.as_secs_f64() * 1e3)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{:<11}{:>10.3}", "process", total.as_secs_f64() * 1e3)?;
    Ok(())
}

/// The phases of one sum. A backend that compiles nothing has no render, module and pipeline.
fn call(gpu: &Device, wgpu: Option<&Wgpu>, values: &[f32]) -> kiln::Result<Vec<(&'static str, Duration)>> {
    let compiled = wgpu.map_or(0, |wgpu| wgpu.compile_log().len());
    let mut at = Instant::now();
    let mut lap = || {
        let now = Instant::now();
        now - std::mem::replace(&mut at, now)
    };
    let x = gpu.array(values, values.len())?;
    let upload = lap();
    let sum = x.sum(..)?;
    let planned = lap();
    gpu.synchronize().wait()?;
    let dispatch = lap();
    sum.item()?;
    let readback = lap();

    let Some(wgpu) = wgpu else {
        // The CPU backend computes at once.
        return Ok(vec![("upload", upload), ("compute", planned), ("readback", readback)]);
    };
    let log = wgpu.compile_log();
    let log = log.iter().skip(compiled);
    let phases = log.fold([Duration::ZERO; 3], |[render, module, pipeline], kernel| {
        [render + kernel.render, module + kernel.module, pipeline + kernel.pipeline]
    });
    let [render, module, pipeline] = phases;
    Ok(vec![
        ("upload", upload),
        ("render", render),
        ("naga", module),
        ("pipeline", pipeline),
        ("record", planned.saturating_sub(phases.iter().sum())),
        ("dispatch", dispatch),
        ("readback", readback),
    ])
}
