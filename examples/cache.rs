//! The cache of compiled kernels: what is in it, whether it is whole, and how to bring it along.
//!
//! `cargo run --example cache -- list|verify|clear|export FILE|import FILE`. `export` and `import` work on the device that
//! `KILN_BACKEND` and `KILN_ADAPTER` choose, and on the list of kernels of the program that `KILN_APPLICATION` names;
//! `KILN_CACHE_DIR` says where the cache is.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use kiln::{Options, cache};

const USAGE: &str = "usage: cache list|verify|clear|export FILE|import FILE";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cache: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut out = std::io::stdout().lock();
    match arguments[..] {
        ["list"] => list(&mut out),
        ["verify"] => verify(&mut out),
        ["clear"] => {
            let folder = cache::folder(Options::from_env())?;
            cache::clear(Options::from_env())?;
            Ok(writeln!(out, "cleared {}", folder.display())?)
        }
        ["export", path] => {
            let gpu = Options::from_env().prewarm(0).open()?;
            let count = cache::export(&gpu, path)?;
            Ok(writeln!(out, "{count} kernels of {} written to {path}", gpu.info())?)
        }
        ["import", path] => {
            let gpu = Options::from_env().prewarm(0).open()?;
            let count = cache::import(&gpu, path)?;
            Ok(writeln!(out, "{count} kernels of {} read from {path}", gpu.info())?)
        }
        _ => Err(USAGE.into()),
    }
}

fn list(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "{}", cache::folder(Options::from_env())?.display())?;
    let all = cache::list(Options::from_env())?;
    for stored in &all {
        writeln!(out, "\n{} kernels, {} bytes, in {}", stored.kernels, stored.bytes, stored.folder.display())?;
        writeln!(out, "  programs: {}", stored.applications.join(", "))?;
        for line in stored.device.lines() {
            writeln!(out, "  {line}")?;
        }
    }
    if all.is_empty() {
        writeln!(out, "nothing is kept")?;
    }
    Ok(())
}

fn verify(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let cache::Verified { good, bad } = cache::verify(Options::from_env())?;
    for (path, reason) in &bad {
        writeln!(out, "{}: {reason}", path.display())?;
    }
    writeln!(out, "{good} files are whole, {} are not", bad.len())?;
    // Those are made again when they are needed: it is for people to know, and no program's concern.
    if bad.is_empty() { Ok(()) } else { Err(format!("{} files will be made again", bad.len()).into()) }
}
