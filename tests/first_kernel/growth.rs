//! The folder stays within its bounds: case H07.

use std::time::Duration;

use crate::files::{self, Scratch};
use crate::process::{Job, device};

/// Bytes of all files at most.
const CAP: u64 = 1 << 20;

#[test]
fn h07_the_folder_stays_below_its_cap_and_keeps_what_was_used() {
    let Some((device, _turn)) = device("H07") else { return };
    let scratch = Scratch::new("h07");
    let job = |unread: &str| {
        let job = Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", "2000,s2001");
        job.with("JOB_UNREAD", unread).with("KILN_CACHE_BYTES", CAP.to_string())
    };
    let kept = job("").run().fact("kernels_compiled");
    for run in 0..8 {
        for path in files::all(scratch.path()) {
            files::age(&path, Duration::from_secs(20 * 3600));
        }
        let from = run * 40;
        let done = job(&format!("{from}..{}", from + 40)).run();
        let largest = files::entries(scratch.path()).iter().map(|path| files::read(path).len()).max().unwrap_or(0);
        let bytes = files::bytes(scratch.path());
        assert!(bytes <= CAP + largest as u64, "run {run}: {bytes} bytes");
        assert_eq!(done.warnings(), 0, "{}", done.output());
        assert_eq!(done.fact("text_hits").max(done.fact("driver_hits")), kept, "run {run}");
    }
    let left = files::entries(scratch.path()).len();
    println!("h07: {left} of 320 kernels and more are left, {} bytes", files::bytes(scratch.path()));
    assert!(left < 300, "the cap was reached");
    let done = job("").run();
    assert_eq!((done.fact("text_misses"), done.fact("driver_misses")), (0, 0), "what was used survives");
    files::assert_good(scratch.path());
}

#[test]
fn h07_a_cap_that_nothing_fits_keeps_nothing_and_says_nothing() {
    let Some((device, _turn)) = device("H07") else { return };
    let scratch = Scratch::new("h07-none");
    for cap in ["0", "1", "5000"] {
        let job = Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", "0..5,s1");
        let done = job.with("KILN_CACHE_BYTES", cap).run();
        assert_eq!(done.warnings(), 0);
        let bytes = files::bytes(scratch.path());
        assert!(bytes <= 5000, "{bytes} bytes with a cap of {cap}");
    }
}

#[test]
fn h07_a_larger_folder_is_brought_below_the_cap() {
    let Some((device, _turn)) = device("H07") else { return };
    let scratch = Scratch::new("h07-less");
    let job = |kernels: &str| Job::new("kernels", &device, scratch.path()).with("JOB_UNREAD", kernels);
    job("0..20").run();
    let cap = files::bytes(scratch.path()) / 2;
    let done = job("20").with("KILN_CACHE_BYTES", cap.to_string()).run();
    assert_eq!(done.warnings(), 0);
    assert!(files::bytes(scratch.path()) <= cap, "{}", files::bytes(scratch.path()));
}

#[test]
fn h07_nobody_elses_files_are_removed() {
    let Some((device, _turn)) = device("H07") else { return };
    let scratch = Scratch::new("h07-others");
    let job = |kernels: &str| Job::new("kernels", &device, scratch.path()).with("JOB_UNREAD", kernels);
    job("0..4").run();
    let (root, environment) = (scratch.path().join("kiln-v1"), files::environment(scratch.path()));
    std::fs::create_dir_all(root.join("photos/old")).expect("a folder");
    let others = [root.join("letter.txt"), root.join("photos/old/one.jpg"), environment.join("notes")];
    for path in &others {
        files::write(path, &vec![0; 100_000]);
        files::age(path, Duration::from_secs(9_000_000));
    }
    let done = job("4..8").with("KILN_CACHE_BYTES", "100000").run();
    assert_eq!(done.warnings(), 0);
    for path in &others {
        assert!(path.exists(), "{} is not Kiln's", path.display());
    }
    assert!(files::entries(scratch.path()).len() >= 4, "they are no part of the cap either");
    kiln::cache::clear(kiln::Options::new().cache_folder(scratch.path())).expect("it can be cleared");
    for path in &others {
        assert!(path.exists(), "{} is not Kiln's", path.display());
    }
    assert!(files::entries(scratch.path()).is_empty());
}
