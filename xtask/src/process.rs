//! Child processes: cargo itself, and any command whose failure is an error.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The workspace root, from which every command runs.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}

/// The cargo that started this program, or the first one in `PATH`.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    in_root(program)
}

/// A command that runs in the workspace root.
pub(crate) fn in_root(program: impl Into<OsString>) -> Command {
    let mut command = Command::new(program.into());
    command.current_dir(root());
    command
}

/// Runs `command` with the terminal as its own; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start {}: {error}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed ({status})", name(command))) }
}

/// Runs a `cargo test` with its output shown; returns how many tests passed.
pub(crate) fn run_counting(command: &mut Command) -> Result<usize, String> {
    let failed = |error: std::io::Error| format!("cannot run cargo test: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut passed = 0;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(failed)?;
            passed += passed_in(&line);
            println!("{line}");
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(passed) } else { Err(format!("{} failed ({status})", name(command))) }
}

/// `test result: ok. 12 passed; …`: 12.
fn passed_in(line: &str) -> usize {
    let count = line.strip_prefix("test result: ok. ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    count.unwrap_or(0)
}

/// Runs `command` and returns what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", name(command)))?;
    if !output.status.success() {
        return Err(format!("{} failed ({})", name(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", name(command)))
}

/// The test program of a target in the messages that cargo writes as JSON, an object in each line.
pub(crate) fn executable(messages: &str, target: &str) -> Result<String, String> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found =
        messages.find_map(|m| Some(m["executable"].as_str().filter(|_| m["target"]["name"] == target)?.to_owned()));
    found.ok_or_else(|| format!("cargo test: no test binary named {target}"))
}

/// The command as it would be typed, without the directory of its program.
fn name(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let stem = program.file_stem().unwrap_or(command.get_program());
    std::iter::once(stem).chain(command.get_args()).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{executable, passed_in};

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed_in("test result: ok. 12 passed; 0 failed; 0 ignored"), 12);
        assert_eq!(passed_in("test result: FAILED. 12 passed; 1 failed"), 0);
        assert_eq!(passed_in("test x ... ok"), 0);
    }

    #[test]
    fn the_binary_is_found_among_cargos_messages() {
        let lines = r#"{"reason":"compiler-artifact","target":{"name":"kiln"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"suite"},"executable":"/x/suite-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(lines, "suite").as_deref(), Ok("/x/suite-1"));
        assert!(executable("{\"reason\":\"build-finished\"}\nno json", "suite").is_err());
    }
}
