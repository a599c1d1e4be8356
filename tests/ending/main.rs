//! The process ends in the middle of a warm-up: case H12.

use std::time::Duration;

use crate::files::{self, Scratch};
use crate::process::{Job, Random, device, rounds};

/// What the end may take, and what a machine with other work adds.
const LIMIT: Duration = Duration::from_millis(2000 + 1500);

/// Ends in one way again and again; the harness's `main` returns or exits as a program's does.
fn ends(way: &str, code: i32, seed: u64) {
    let Some((device, _turn)) = device("H12") else { return };
    let mut random = Random::new(seed);
    let scratch = Scratch::new("h12");
    let (runs, mut longest, mut left) = (rounds(20, 100), Duration::ZERO, 0);
    for run in 0..runs {
        // Others each time, so that nothing is warm.
        let from = run * 40;
        let job = Job::new("ending", &device, scratch.path())
            .with("JOB_WAY", way)
            .with("JOB_KERNELS", format!("{from}..{}", from + 40))
            .with("JOB_OPENED", if run % 3 == 2 { "0" } else { "1" })
            .with("KILN_PREWARM", ["1", "2", "8"][run % 3])
            .with("JOB_WAIT", random.below(150).to_string());
        let done = job.start().wait();
        let took = done.took_to_end();
        longest = longest.max(took);
        assert_eq!(done.code, Some(code), "{way}, run {run}\n{}", done.output());
        assert!(took < LIMIT, "{way}, run {run}: {took:?}\n{}", done.output());
        assert_eq!(done.warnings(), 0, "{way}, run {run}\n{}", done.output());
        left += files::under_way(scratch.path()).len();
    }
    println!("h12: {way}: {runs} ends, the longest took {longest:?}");
    assert_eq!(left, 0, "a regular end leaves nothing half written");
    files::assert_good(scratch.path());
}

#[test]
fn h12_return_from_main() {
    ends("return", 0, 121);
}

#[test]
fn h12_exit() {
    ends("exit", 0, 122);
}

#[test]
fn h12_panic() {
    ends("panic", 101, 123);
}

#[test]
fn h12_drop_of_the_device() {
    ends("drop", 0, 124);
}

#[test]
fn h12_cancel() {
    ends("cancel", 0, 125);
}
