//! Development commands of the workspace, run as `cargo xtask COMMAND`.
//!
//! Needs a Rust toolchain and nothing else. `check` is the list that CI runs; every
//! entry of it is a command line of its own, printed before it starts, so a red step
//! can be repeated alone.

#![forbid(unsafe_code)]

mod apple;
mod builds;
mod check;
mod cross;
mod layers;
mod macho;
mod metal;
mod metal_report;
mod process;
mod sizes;
mod source;
mod suite;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  test [--backend NAME] [ARGS]  the whole test suite; ends with the backends that ran.
                                ARGS go to `cargo test --workspace`
  test --backend metal          the MSL of all kernels, compiled and run on the CPU (minutes)
  metal-report [--output FILE]  on a Mac: suite, known-answer probe, bandwidth and first
                                kernel, as one Markdown page
  builds                        two builds of the same source keep the same kernels
  check                         everything CI runs, in order, with the time of each step
  cross                         type checks for targets that are not the host
  cross --link                  links the suite for macOS with stubs of its libraries and reads
                                the binary (minutes when cold)
  layers                        dependencies run one way, unsafe stays where it is allowed
  sizes                         median and longest file per crate, against the limits

Environment: KILN_TEST_REQUIRE=cpu,wgpu fails `test` when one of them did not run;
KILN_REQUIRE_CROSS=1 fails `cross` when a target could not be checked.";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    let outcome = match (command.as_str(), rest.as_slice()) {
        ("test", _) => suite::run(rest),
        ("builds", []) => builds::run(),
        ("check", []) => check::run(),
        ("cross", []) => cross::run(),
        ("cross", [flag]) if flag == "--link" => apple::run(),
        ("layers", []) => layers::run(),
        ("metal-report", arguments) => metal_report::run(arguments),
        ("sizes", []) => sizes::run(),
        ("help" | "--help" | "-h", _) => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("unknown command `{}`\n\n{HELP}", [&[command], rest.as_slice()].concat().join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
