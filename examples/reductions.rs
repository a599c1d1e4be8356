//! Sum, mean, smallest and largest value of a `.npy` file, over everything and along each axis.
//!
//! `cargo run --release --example reductions -- FILE.npy`; without a file, 61 years of sea surface temperatures.

mod npy;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln::{Axes, Element, ErrorKind};
use npy::Values;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reductions: {error}");
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
    let mut table = Table { out: std::io::stdout().lock(), failed: None };
    writeln!(table.out, "file    {}", file.path.display())?;
    writeln!(table.out, "array   {} {}", x.dtype(), x.shape())?;
    writeln!(table.out, "device  {} {} {}", info.backend, info.name, info.driver)?;
    writeln!(
        table.out,
        "times   from the call until its values are on the host; the first call may compile kernels\n"
    )?;
    writeln!(table.out, "{:<5} {:<7} {:>10} {:>10}  value", "", "axes", "first", "again")?;
    let each = (0..).zip(x.shape().iter()).map(|(axis, _)| axis);
    let whole = [("all".to_owned(), Axes::from(..))];
    let each = each.map(|axis: isize| (format!("axis {axis}"), Axes::from(axis)));
    for (name, axes) in whole.into_iter().chain(each) {
        table.row("sum", &name, || x.sum(axes.clone()))?;
        table.row("mean", &name, || x.mean(axes.clone()))?;
        table.row("min", &name, || x.min(axes.clone()))?;
        table.row("max", &name, || x.max(axes.clone()))?;
    }
    // What has no answer stands in its row, and is a failure of the whole.
    table.failed.map_or(Ok(()), |error| Err(error.into()))
}

struct Table {
    out: std::io::StdoutLock<'static>,
    failed: Option<kiln::Error>,
}

impl Table {
    fn row<T: Element>(
        &mut self,
        name: &str,
        axes: &str,
        compute: impl Fn() -> kiln::Result<Array<T>>,
    ) -> Result<(), Box<dyn Error>> {
        let timed = || -> kiln::Result<(HostArray<T>, Duration)> {
            let start = Instant::now();
            let host = compute()?.to_host()?;
            Ok((host, start.elapsed()))
        };
        match timed().and_then(|(_, first)| Ok((first, timed()?))) {
            Ok((first, (host, again))) => writeln!(
                self.out,
                "{name:<5} {axes:<7} {:>7.3} ms {:>7.3} ms  {}",
                first.as_secs_f64() * 1e3,
                again.as_secs_f64() * 1e3,
                npy::brief(&host)
            )?,
            Err(error) if matches!(error.kind(), ErrorKind::Empty { .. }) => {
                writeln!(self.out, "{name:<5} {axes:<7} {:>10} {:>10}  {error}", "-", "-")?;
                self.failed.get_or_insert(error);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
