//! What the first result of a process costs: cold, with each cache, prewarmed, while prewarming, and without Kiln.
//!
//! `cargo bench --bench first_kernel [-- --backend NAME] [--samples N] [--pairs N] [--only ROW]...`; README.md says how
//! to read it. Every sample is a process of its own: the program starts itself again with `--child ROW COLUMN`. The
//! parent opens no device, since an open one would keep the driver warm for its children.

#[path = "first_kernel/args.rs"]
mod args;
#[path = "first_kernel/bare.rs"]
mod bare;
#[path = "first_kernel/chart.rs"]
mod chart;
#[path = "first_kernel/child.rs"]
mod child;
#[path = "first_kernel/columns.rs"]
mod columns;
#[path = "first_kernel/figures.rs"]
mod figures;
#[path = "first_kernel/folders.rs"]
mod folders;
#[path = "first_kernel/measure.rs"]
mod measure;
#[path = "first_kernel/program.rs"]
mod program;
#[path = "first_kernel/report.rs"]
mod report;
#[path = "first_kernel/rows.rs"]
mod rows;
#[path = "first_kernel/samples.rs"]
mod samples;
#[path = "first_kernel/spawn.rs"]
mod spawn;
#[path = "first_kernel/statistics.rs"]
mod statistics;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let start = Instant::now();
    match run(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("first_kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(start: Instant) -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("--child", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return child::run(start, rest);
    }
    let Some(asked) = args::Asked::read(words)? else { return Ok(()) };
    let mut known = None;
    for file in &asked.from {
        known = Some(samples::Measured::read(file, known)?);
    }
    let measured = known.map_or_else(|| measure::all(&asked), Ok)?;
    report::print(&measured);
    if let Some(path) = &asked.svg {
        std::fs::write(path, chart::draw(&measured)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
