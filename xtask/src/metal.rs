//! `cargo xtask test --backend metal`: the MSL of kernels, compiled and run on the CPU.
//!
//! First the host's own tests: planted faults, SIMD groups, the catalogue of all kernels. Then the suite, once for each
//! way to run it. Compiled kernels are kept from one run to the next.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::process;
use crate::workspace::Workspace;

/// How the suite runs: `KILN_METAL`.
const RUNS: [&str; 7] =
    ["strict,32", "strict,4", "strict,8", "strict,64", "strict,32,passthrough", "fast,32", "checked,32"];

/// Runs everything; `arguments` go to `cargo test` of the suite.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let log = Workspace::members()?.target_dir.join(format!("metal-{}.txt", std::process::id()));
    let outcome = all(arguments, &log);
    // The log is this run's alone; one that stays behind does no harm.
    let _ = fs::remove_file(&log);
    outcome
}

fn all(arguments: &[String], log: &Path) -> Result<(), String> {
    fs::create_dir_all(log.parent().unwrap_or(log))
        .and_then(|()| fs::write(log, ""))
        .map_err(|error| format!("{}: {error}", log.display()))?;
    let mut passed = 0;
    let mut lines = Vec::new();
    let mut step = |name: &str, arguments: &[&str], rest: &[String]| -> Result<(), String> {
        let start = Instant::now();
        println!("\n=== metal, {name}");
        let mut command = process::cargo();
        command.arg("test").arg("--release").args(arguments).args(rest);
        command.env("KILN_METAL_LOG", log).env("KILN_METAL", name);
        command.env("KILN_TEST_BACKENDS", "metal").env("KILN_TEST_REQUIRE", "metal").env_remove("KILN_TEST_REPORT");
        let tests = process::run_counting(&mut command)?;
        passed += tests;
        lines.push(format!("{name}: {tests} tests in {:.0} s", start.elapsed().as_secs_f32()));
        Ok(())
    };
    step("host", &["--package", "kiln-metal-host"], &[])?;
    for run in RUNS {
        step(run, &["--package", "kiln", "--test", "suite"], arguments)?;
    }
    let text = fs::read_to_string(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let kernels: BTreeSet<&str> = text.lines().collect();
    println!();
    lines.iter().for_each(|line| println!("  {line}"));
    println!("metal: {} kernels compiled, {passed} tests passed", kernels.len());
    Ok(())
}
