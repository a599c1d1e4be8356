//! Own associative operators: log-sum-exp as a reduction, and filling gaps in a series as a scan.
//!
//! A closure over expressions is traced into the kernel. It must be associative; it need not be commutative, as the
//! second one here is not, and it needs no neutral element.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use kiln::prelude::*;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("custom_operator: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `ln(eᵃ + eᵇ)` without overflow.
fn log_sum_exp(a: &Expr<f32>, b: &Expr<f32>) -> Expr<f32> {
    let (low, high) = (a.minimum(b), a.maximum(b));
    &high + ((low - &high).exp() + 1.0).ln()
}

/// The newer value, or the older one where nothing was measured.
fn last_measured(older: &Expr<f32>, newer: &Expr<f32>) -> Expr<f32> {
    newer.is_nan().select(older, newer)
}

fn run() -> Result<(), Box<dyn Error>> {
    let gpu = kiln::open()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n", gpu.info())?;

    // Log-likelihoods so small that their exponentials vanish in f32.
    let scores: Vec<f32> = (0u16..10_000).map(|i| -200.0 - f32::from(i % 97)).collect();
    let total = gpu.array(&scores, [10_000])?.reduce(.., log_sum_exp)?.item()?;
    let high = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exact: f64 = scores.iter().map(|&x| f64::from(x - high).exp()).sum();
    let exact = f64::from(high) + exact.ln();
    writeln!(out, "log-sum-exp of {} scores   {total}", scores.len())?;
    writeln!(out, "in f64 on the host            {exact:.4}")?;

    // Two sensors side by side; each misses readings now and then.
    let readings: Vec<f32> = (0u16..2000)
        .map(|i| match i % 7 {
            1 | 2 | 5 => f32::NAN,
            _ => f32::from(i),
        })
        .collect();
    let gappy = gpu.array(&readings, [1000, 2])?;
    let filled = gappy.scan(0, last_measured)?.to_host()?;
    let mut last = [f32::NAN; 2];
    let expected = readings.chunks(2).flat_map(|row| {
        for (last, &now) in last.iter_mut().zip(row) {
            *last = if now.is_nan() { *last } else { now };
        }
        last
    });
    let same = filled.as_slice().iter().zip(expected);
    let wrong = same.filter(|(got, wanted)| got.to_bits() != wanted.to_bits() && !wanted.is_nan()).count();
    let missing = gappy.is_nan().sum(..)?.item()?;
    writeln!(out, "\ngaps filled                   {missing}")?;
    writeln!(out, "differences from a host loop  {wrong}")?;
    writeln!(out, "{filled}")?;

    if wrong > 0 {
        return Err(format!("{wrong} values differ from those of the host").into());
    }
    if (f64::from(total) - exact).abs() > 1e-3 {
        return Err(format!("log-sum-exp is {total}, not {exact}").into());
    }
    Ok(())
}
