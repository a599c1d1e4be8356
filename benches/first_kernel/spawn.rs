//! Starts a child, times it, and gives up on one that hangs.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::args::Asked;
use crate::columns::Column;
use crate::figures::Figures;
use crate::rows::Row;

/// How long a child may take, its end included.
const PATIENCE: Duration = Duration::from_secs(60);

/// The line that a child writes when it has its first result.
pub(crate) const RESULT: &str = "result";

/// Runs a child and returns its figures. `process` is from before its start until its first result was there.
pub(crate) fn sample(asked: &Asked, row: Row, column: Column, folder: &Path, more: &[&str]) -> Result<Figures, String> {
    let mut command = command(asked, &["--child", row.name(), column.name()], more)?;
    column.environment(&mut command, folder);
    let named = |message: String| format!("{} {}: {message}", row.name(), column.name());
    let lines = run(&mut command).map_err(named)?;
    let first = lines.iter().find(|(_, line)| line == RESULT);
    let figures = lines.iter().find_map(|(_, line)| Figures::parse(line));
    let mut figures = figures.ok_or_else(|| named(format!("the child printed no figures, but {lines:?}")))?;
    if let Some((time, _)) = first {
        figures.time("process", *time);
    }
    Ok(figures)
}

/// What a child says of the device that it opens: a line of words between tabs.
pub(crate) fn device(asked: &Asked) -> Result<Vec<String>, String> {
    let mut command = command(asked, &["--child", "device"], &[])?;
    command.env("KILN_CACHE", "0").env("KILN_PREWARM", "0");
    let lines = run(&mut command).map_err(|message| format!("device: {message}"))?;
    Ok(lines.first().map(|(_, line)| line.split('\t').map(str::to_owned).collect()).unwrap_or_default())
}

fn command(asked: &Asked, words: &[&str], more: &[&str]) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    let mut command = Command::new(program);
    command.args(words).args(more).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(backend) = asked.backend {
        command.env("KILN_BACKEND", backend);
    }
    Ok(command)
}

/// The lines of a child, and when each arrived.
fn run(command: &mut Command) -> Result<Vec<(Duration, String)>, String> {
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("the child does not start: {error}"))?;
    let (Some(out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the child has no output".to_owned());
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        // Nobody listens any more to a child that took too long.
        lines.for_each(|line| drop(sender.send((start.elapsed(), line))));
    });
    let (complaint, complaints) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = err.read_to_end(&mut bytes);
        let _ = complaint.send(String::from_utf8_lossy(&bytes).trim().to_owned());
    });
    let mut lines = Vec::new();
    let ended = loop {
        match receiver.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Disconnected) => break end(&mut child, start),
            Err(RecvTimeoutError::Timeout) => break None,
        }
    };
    let problem = match ended {
        Some(status) if status.success() => return Ok(lines),
        Some(status) => format!("the child failed, {status}"),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            format!("the child was not done after {} s, with {} lines", PATIENCE.as_secs(), lines.len())
        }
    };
    let said = complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    Err(if said.is_empty() { problem } else { format!("{problem}; it said:\n{said}") })
}

/// How a child ended that has closed its output; `None` if it does not end.
fn end(child: &mut Child, start: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
            _ => return None,
        }
    }
}
