//! Standardises the columns of a matrix, and shows what that costs: the kernels that each line becomes.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use kiln::prelude::*;
use kiln_array::recorder::Recorder;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fused_broadcast: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let opened = kiln::open()?;
    // Keeps a copy of the work on its way to the device.
    let recorder = Recorder::before(&opened);
    let gpu = recorder.device();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", gpu.info())?;

    // 1000 readings of 4 sensors, each with its own level and swing.
    let readings: Vec<f32> = (0u16..4000)
        .map(|i| {
            let (row, sensor) = (f32::from(i / 4), f32::from(i % 4));
            10.0 * sensor + (1.0 + sensor) * (0.37 * row + sensor).sin()
        })
        .collect();
    let x = gpu.array(&readings, [1000, 4])?;

    // Each of the next three lines is a kernel, whatever stands in it; `centered` alone is none.
    let mean = x.mean(keep(0))?;
    let centered = &x - &mean;
    let variance = (&centered * &centered).mean(keep(0))?;
    let z = (&centered / variance.sqrt()).eval()?;

    let recordings = recorder.take();
    let dispatches: usize = recordings.iter().map(|work| work.dispatches.len()).sum();
    writeln!(out, "\n{dispatches} dispatches:")?;
    for recording in &recordings {
        write!(out, "{recording}")?;
    }

    let after = z.mean(0)?.to_host()?;
    let spread = (&z * &z).mean(0)?.sqrt().eval()?.to_host()?;
    writeln!(out, "\nmean before    {}", mean.to_host()?)?;
    writeln!(out, "mean after     {after}")?;
    writeln!(out, "spread after   {spread}")?;
    let standard = |value: &f32, wanted: f32| (value - wanted).abs() < 1e-4;
    let fine = after.as_slice().iter().all(|mean| standard(mean, 0.0))
        && spread.as_slice().iter().all(|one| standard(one, 1.0));
    if fine { Ok(()) } else { Err("the columns are not standardised".into()) }
}
