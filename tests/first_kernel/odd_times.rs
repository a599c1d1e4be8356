//! A clock that goes backwards: files from the future.

use std::time::{Duration, SystemTime};

use crate::files::{self, Scratch};
use crate::process::{Job, device};

#[test]
fn h07_files_from_the_future_are_used_and_go_in_the_end() {
    let Some((device, _turn)) = device("H07") else { return };
    let scratch = Scratch::new("future");
    let job = |kernels: &str| Job::new("kernels", &device, scratch.path()).with("JOB_UNREAD", kernels);
    job("0..16").run();
    let day = Duration::from_secs(24 * 3600);
    for path in files::all(scratch.path()) {
        files::set_time(&path, SystemTime::now() + 400 * day);
    }
    let done = job("0..8").run();
    assert_eq!((done.fact("text_misses"), done.fact("driver_misses"), done.warnings()), (0, 0, 0));
    // Room for the sixteen and a few more. The clock is right again, and the program uses other kernels every day: those
    // of long ago that nobody uses must not keep them out for ever.
    let cap = (files::bytes(scratch.path()) + 40_000).to_string();
    for from in [100, 200, 300] {
        for path in files::all(scratch.path()) {
            let time = std::fs::metadata(&path).and_then(|meta| meta.modified()).expect("it has a time");
            if time < SystemTime::now() {
                files::set_time(&path, time - 2 * day);
            }
        }
        job(&format!("{from}..{}", from + 16)).with("KILN_CACHE_BYTES", &cap).run();
    }
    let done = job("300..316").with("KILN_CACHE_BYTES", &cap).run();
    assert_eq!((done.fact("text_misses"), done.fact("driver_misses"), done.warnings()), (0, 0, 0), "{}", done.output());
}

#[test]
fn h03_files_under_way_from_the_near_future_are_left_alone() {
    let Some((device, _turn)) = device("H03") else { return };
    let scratch = Scratch::new("near");
    let job = |kernels: &str| Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", kernels).run();
    job("0");
    let environment = files::environment(scratch.path());
    // A server's clock may be ahead of ours: these are being written now. Far ahead is nobody's.
    let (near, far) = (
        environment.join("00000000000000000000000000000001.bin.new-1-1"),
        environment.join("00000000000000000000000000000002.bin.new-1-2"),
    );
    for (path, ahead) in [(&near, 20), (&far, 7200)] {
        files::write(path, b"half");
        files::set_time(path, SystemTime::now() + Duration::from_secs(ahead));
    }
    job("1");
    assert!(near.exists(), "a file that is being written was taken away");
    assert!(!far.exists());
}
