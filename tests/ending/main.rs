//! The process ends in the middle of a warm-up, or with a device in a variable of the main thread: cases H12, L04.
//!
//! Apart from the other cases, without the usual harness: that runs tests on threads of its own, and what ends a process as
//! a rule is the main thread, which must have used Kiln (`exit.rs` of the backend says why that matters).

#![allow(dead_code, unused_imports, reason = "modules that have more to do for the other cases")]

#[path = "../first_kernel/child.rs"]
mod child;
#[path = "../first_kernel/embedded.rs"]
mod embedded;
#[path = "../first_kernel/files.rs"]
mod files;
#[path = "../first_kernel/kernels.rs"]
mod kernels;
#[path = "../first_kernel/process.rs"]
mod process;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Trial};

use crate::files::Scratch;
use crate::process::{Job, Random, device, rounds};

/// What the end may take, and what a machine with other work adds.
const LIMIT: Duration = Duration::from_millis(2000 + 1500);

/// Ends in one way again and again.
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
        let ended = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let took = ended.saturating_sub(Duration::from_micros(done.fact("ending")));
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

/// The main thread keeps the last handles on the device in a variable of its own: case L04.
fn locals() {
    let Some((device, _turn)) = device("L04") else { return };
    let scratch = Scratch::new("l04");
    for way in ["return", "exit"] {
        for (first, threads) in [("", "0"), ("1", "0"), ("", "2"), ("1", "2")] {
            let job = Job::new("locals", &device, scratch.path()).with("JOB_WAY", way).with("JOB_FIRST", first);
            let done = job.with("KILN_PREWARM", threads).run();
            assert_eq!(done.fact("total"), 52, "{way}\n{}", done.output());
            assert_eq!(done.warnings(), 0, "{way}\n{}", done.output());
        }
    }
}

fn main() {
    if std::env::var_os(child::MARK).is_some() {
        return child::run();
    }
    let ways = [
        ("h12_return_from_main", "return", 0),
        ("h12_exit", "exit", 0),
        ("h12_exit_after_an_upload", "upload", 0),
        ("h12_panic", "panic", 101),
        ("h12_drop_of_the_device", "drop", 0),
        ("h12_cancel", "cancel", 0),
    ];
    let trial = |(seed, (name, way, code))| {
        Trial::test(name, move || {
            ends(way, code, seed);
            Ok(())
        })
    };
    let mut trials: Vec<_> = (121..).zip(ways).map(trial).collect();
    trials.push(Trial::test("l04_the_main_threads_variable", || {
        locals();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
