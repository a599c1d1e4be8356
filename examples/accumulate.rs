//! Running totals of a `.npy` file along each of its axes.
//!
//! `cargo run --release --example accumulate -- FILE.npy`; without a file, 61 years of sea surface temperatures.

mod npy;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln::{Element, SliceItem};
use npy::Values;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("accumulate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let file = npy::from_args()?;
    let gpu = kiln::open()?;
    match &file.values {
        Values::Bool(values) => report(&file, &file.upload(&gpu, values)?),
        Values::I32(values) => report(&file, &file.upload(&gpu, values)?),
        Values::U32(values) => report(&file, &file.upload(&gpu, values)?),
        Values::F32(values) => report(&file, &file.upload(&gpu, values)?),
    }
}

fn report<T: Element>(file: &npy::File, x: &Array<T>) -> Result<(), Box<dyn Error>> {
    let info = x.device().info();
    let mut out = std::io::stdout().lock();
    writeln!(out, "file    {}", file.path.display())?;
    writeln!(out, "array   {} {}", x.dtype(), x.shape())?;
    writeln!(out, "device  {} {} {}", info.backend, info.name, info.driver)?;
    writeln!(out, "times   from the call until all totals are there; the first call may compile kernels\n")?;
    writeln!(out, "{:<7} {:>10} {:>10}  running totals of the first line", "", "first", "again")?;
    // An array without axes has no running totals: its error says so.
    for axis in 0..x.ndim().max(1) {
        let along = isize::try_from(axis)?;
        let timed = || -> kiln::Result<_> {
            let start = Instant::now();
            let totals = x.cumsum(along)?;
            x.device().synchronize().wait()?;
            Ok((totals, start.elapsed()))
        };
        let (_, first): (_, Duration) = timed()?;
        let (totals, again) = timed()?;
        let line = first_line(&totals, axis)?.to_host()?;
        writeln!(
            out,
            "{:<7} {:>7.3} ms {:>7.3} ms  {}",
            format!("axis {axis}"),
            first.as_secs_f64() * 1e3,
            again.as_secs_f64() * 1e3,
            npy::brief(&line)
        )?;
    }
    Ok(())
}

/// The line along an axis that starts at the first element; empty where there is none.
fn first_line<T: Element>(totals: &Array<T>, axis: usize) -> kiln::Result<Array<T>> {
    let items = (0..totals.ndim()).map(|other| match other {
        other if other == axis => SliceItem::from(..),
        _ => SliceItem::from(..1),
    });
    totals.slice(items.collect::<Vec<_>>())
}
