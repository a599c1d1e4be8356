//! `cargo xtask metal-report`: what only a Mac can tell, as one Markdown page to paste into an issue.
//!
//! Runs the suite, the known-answer probe, the benches and first_kernel on Metal, once with wgpu's own translation and
//! once with the passthrough text, and writes what they print. A part that fails is a part of the report.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use lexopt::{Arg::Long, ValueExt as _};

use crate::process;

/// A part of the report: a title and the arguments of cargo.
type Part = (&'static str, &'static [&'static str]);

const PARTS: [Part; 5] = [
    ("Device and known-answer probe", &["run", "--release", "--example", "device_info"]),
    ("Suite", &["test", "--release", "--package", "kiln", "--test", "suite", "--", "--test-threads", "2"]),
    ("First kernel", &["run", "--release", "--example", "first_kernel"]),
    ("Bandwidth", &["bench", "--bench", "bandwidth", "--", "--backend", "metal"]),
    ("Launch", &["bench", "--bench", "launch", "--", "--backend", "metal"]),
];

/// Lines of one part that are kept: the last ones, where failures and results stand.
const MOST_LINES: usize = 120;

struct Asked {
    output: String,
    backend: String,
}

impl Asked {
    fn read(arguments: &[String]) -> Result<Self, lexopt::Error> {
        let mut asked = Self { output: "metal-report.md".to_owned(), backend: "metal".to_owned() };
        let mut arguments = lexopt::Parser::from_args(arguments);
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("output") => asked.output = arguments.value()?.string()?,
                Long("backend") => asked.backend = arguments.value()?.string()?,
                _ => return Err(argument.unexpected()),
            }
        }
        Ok(asked)
    }
}

/// Writes the report; `arguments` may be `--output FILE` and, to try it elsewhere, `--backend NAME`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let Asked { output, backend } = Asked::read(arguments).map_err(|error| error.to_string())?;
    let mut report = format!("# Kiln on {backend}\n\n");
    for (name, arguments) in [("system", &["-a"][..]), ("macOS", &["-productVersion"])] {
        let program = if name == "macOS" { "sw_vers" } else { "uname" };
        if let Ok(text) = process::output(Command::new(program).args(arguments)) {
            let _ = writeln!(report, "- {name}: {}", text.trim());
        }
    }
    for (name, program) in [("rustc", "rustc"), ("cargo", "cargo")] {
        let text = process::output(Command::new(program).arg("--version")).unwrap_or_else(|error| error);
        let _ = writeln!(report, "- {name}: {}", text.trim());
    }
    let mut failed = Vec::new();
    for passthrough in ["0", "1"] {
        let text = if passthrough == "1" { "passthrough text" } else { "wgpu's translation" };
        let _ = writeln!(report, "\n## With {text}");
        for (title, arguments) in PARTS {
            println!("=== {title}, {text}");
            let arguments: Vec<&str> =
                arguments.iter().map(|&argument| if argument == "metal" { &*backend } else { argument }).collect();
            let (passed, seconds, lines) = part(&arguments, &backend, passthrough)?;
            if !passed {
                failed.push(format!("{title}, {text}"));
            }
            let verdict = if passed { "done" } else { "FAILED" };
            let _ = writeln!(report, "\n### {title}: {verdict} in {seconds:.0} s\n\n```text\n{lines}```");
        }
        if backend != "metal" {
            break;
        }
    }
    let path = process::root().join(&output);
    fs::write(&path, &report).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nwritten: {output} ({} parts failed)", failed.len());
    Ok(())
}

/// Runs one part; whether it succeeded, how long it took, and the end of what it printed.
fn part(arguments: &[&str], backend: &str, passthrough: &str) -> Result<(bool, f32, String), String> {
    let start = Instant::now();
    let mut command = process::cargo();
    command.args(arguments).env("KILN_BACKEND", backend).env("KILN_METAL_PASSTHROUGH", passthrough);
    command.env("KILN_TEST_BACKENDS", "wgpu").env("KILN_TEST_REQUIRE", "wgpu").env("CARGO_TERM_COLOR", "never");
    let ran = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let ran = ran.map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // Cargo's own progress tells nothing; the lines of failed tests come before the summary.
    let noise = ["   Compiling", "    Finished", "     Running", "    Blocking", "error: XDG"];
    let lines: Vec<&str> = text[1]
        .lines()
        .chain(text[0].lines())
        .filter(|line| !noise.iter().any(|start| line.starts_with(start)) && !line.ends_with("... ok"))
        .collect();
    let kept = lines[lines.len().saturating_sub(MOST_LINES)..].iter().map(|line| format!("{line}\n")).collect();
    Ok((ran.status.success(), start.elapsed().as_secs_f32(), kept))
}
