//! `cargo xtask test`: the whole test suite, and at its end which backends it ran on.
//!
//! The suite runs once per backend inside one test binary. It appends a line to the
//! file that `KILN_TEST_REPORT` names for each backend: `ran: cpu (…)` or
//! `not run: wgpu (reason)`. Those lines are printed last, where they are seen.

use std::fs;
use std::path::PathBuf;

use crate::workspace::Workspace;
use crate::{metal, process};

const REPORT: &str = "KILN_TEST_REPORT";
const ONLY: &str = "KILN_TEST_BACKENDS";
const REQUIRE: &str = "KILN_TEST_REQUIRE";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
struct Request {
    /// Backends to test, comma separated; all when absent.
    backends: Option<String>,
    /// Arguments for `cargo test`.
    rest: Vec<String>,
}

impl Request {
    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut request = Self { backends: None, rest: Vec::new() };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                request.rest.push(argument);
                request.rest.extend(arguments);
                break;
            }
            if argument == "--backend" {
                let name = arguments.next();
                request.backends = Some(name.ok_or("--backend needs a name, such as cpu")?);
            } else if let Some(name) = argument.strip_prefix("--backend=") {
                request.backends = Some(name.to_owned());
            } else {
                request.rest.push(argument);
            }
        }
        Ok(request)
    }
}

/// Runs the tests of the whole workspace, doc tests included; examples are compiled.
pub(crate) fn run(arguments: Vec<String>) -> Result<(), String> {
    let request = Request::parse(arguments)?;
    if request.backends.as_deref() == Some("metal") {
        return metal::run(&request.rest);
    }
    let report = report_file()?;
    let mut command = process::cargo();
    // The MSL host's own tests go with its backend, which takes minutes and a C++ compiler.
    command
        .args(["test", "--workspace", "--exclude", "kiln-metal-host", "--no-fail-fast"])
        .args(&request.rest)
        .env(REPORT, &report);
    let mut required = std::env::var(REQUIRE).unwrap_or_default();
    if let Some(backends) = &request.backends {
        // Asking for a backend by name means that not running it is a failure.
        required = backends.clone();
        command.env(ONLY, backends).env(REQUIRE, backends);
    }
    let tests = process::run(&mut command);
    let text = fs::read_to_string(&report).unwrap_or_default();
    // The report is this run's alone; one that stays behind does no harm.
    let _ = fs::remove_file(&report);
    let lines = distinct(&text);
    println!("\nbackends:");
    for line in &lines {
        println!("  {line}");
    }
    if request.backends.is_none() {
        println!("  not run: metal (it takes minutes; `cargo xtask test --backend metal` runs it)");
    }
    tests?;
    // A filter may leave out every test that opens a backend.
    if request.rest.is_empty() {
        verify(&lines, &required)?;
    }
    Ok(())
}

/// An empty file for this run.
fn report_file() -> Result<PathBuf, String> {
    let dir = Workspace::members()?.target_dir;
    let path = dir.join(format!("backends-{}.txt", std::process::id()));
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(&path, ""))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Each line once, in the order of its first appearance.
fn distinct(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Some backend ran, and so did all `required` ones (comma separated).
fn verify(lines: &[&str], required: &str) -> Result<(), String> {
    let ran: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("ran: ")?.split_whitespace().next()).collect();
    if ran.is_empty() {
        return Err("no backend reported that it ran".to_owned());
    }
    let names = required.split(',').map(str::trim);
    let missing: Vec<&str> = names.filter(|name| !name.is_empty() && !ran.contains(name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("required, but did not run: {}", missing.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Result<Request, String> {
        Request::parse(arguments.iter().map(|&a| a.to_owned()).collect())
    }

    #[test]
    fn the_backend_is_taken_out_and_the_rest_passed_on() {
        let expected = Request {
            backends: Some("cpu".to_owned()),
            rest: ["--release", "--", "--backend", "x"].map(str::to_owned).to_vec(),
        };
        let given = ["--backend", "cpu", "--release", "--", "--backend", "x"];
        assert_eq!(request(&given), Ok(expected));
        assert_eq!(request(&["--backend=wgpu"]).map(|r| r.backends), Ok(Some("wgpu".to_owned())));
        assert!(request(&["--backend"]).is_err());
    }

    #[test]
    fn a_backend_that_did_not_run_is_missed() {
        let text = "ran: cpu (2 threads)\nnot run: wgpu (no adapter)\nran: cpu (2 threads)\n";
        let lines = distinct(text);
        assert_eq!(lines, ["ran: cpu (2 threads)", "not run: wgpu (no adapter)"]);
        assert_eq!(verify(&lines, ""), Ok(()));
        assert_eq!(verify(&lines, "cpu"), Ok(()));
        assert_eq!(verify(&lines, "cpu, wgpu"), Err("required, but did not run: wgpu".to_owned()));
        assert!(verify(&distinct(""), "").is_err());
    }
}
