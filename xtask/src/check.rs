//! `cargo xtask check`: the list of checks, cheapest first.

use std::time::Instant;

use crate::process;

/// One check: a cargo command line and the environment it needs.
struct Step {
    name: &'static str,
    arguments: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const fn step(name: &'static str, arguments: &'static str) -> Step {
    Step { name, arguments, environment: &[] }
}

const STEPS: [Step; 16] = [
    step("format", "fmt --all --check"),
    step("sizes", "xtask sizes"),
    step("layers", "xtask layers"),
    step("clippy", "clippy --workspace --all-targets --all-features -- -D warnings"),
    step("clippy, no backend", "clippy --package kiln --lib --no-default-features -- -D warnings"),
    step("clippy, cpu only", "clippy --package kiln --lib --no-default-features --features cpu -- -D warnings"),
    step("clippy, wgpu only", "clippy --package kiln --lib --no-default-features --features wgpu -- -D warnings"),
    Step {
        name: "docs",
        arguments: "doc --workspace --no-deps --all-features",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    // README's two commands, as they stand there.
    step("tests", "xtask test"),
    // The build of the step before.
    Step {
        name: "soak",
        arguments: "test --workspace --exclude kiln-metal-host --test soak",
        environment: &[("KILN_SOAK_SECONDS", "10")],
    },
    step("first example", "run --release --example reductions"),
    step("examples", "build --release --examples"),
    step("benches", "bench --workspace --no-run"),
    step("another build", "xtask builds"),
    step("metal", "xtask test --backend metal"),
    step("other targets", "xtask cross"),
];

/// Runs the steps in order, each with its time; stops at the first that fails.
pub(crate) fn run() -> Result<(), String> {
    let start = Instant::now();
    for step in &STEPS {
        println!("\n=== {}: cargo {}", step.name, step.arguments);
        let begin = Instant::now();
        let outcome =
            process::run(process::cargo().args(step.arguments.split(' ')).envs(step.environment.iter().copied()));
        let seconds = begin.elapsed().as_secs_f32();
        let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("=== {}: {verdict} in {seconds:.1} s", step.name);
        outcome?;
    }
    println!("\nall checks passed in {:.0} s", start.elapsed().as_secs_f32());
    Ok(())
}
