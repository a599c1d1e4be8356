//! Several processes in one folder, some of them killed: case H03.

use std::time::Duration;

use crate::files::{self, Scratch};
use crate::process::{Job, Random, device, not_run, rounds};

const PROCESSES: usize = 8;

/// As many kernels from this number on: most elementwise, one a sum, of twenty one a scan.
fn kernels(from: usize, count: usize) -> String {
    let to = from + count - 1 - count / 20;
    let scans = if count < 20 { String::new() } else { format!(",c{from}") };
    format!("{from}..{to},s{from}{scans}")
}

#[test]
fn h03_processes_share_an_empty_folder_and_are_killed() {
    let Some((device, _turn)) = device("H03") else { return };
    let mut random = Random::new(3);
    // Twenty kernels that all have, and twenty of each process's own; software GPUs take a second for so many.
    let (times, half) = (rounds(2, 20), rounds(4, 20));
    let own = |process: usize| kernels(100 + process * half, half);
    let shared = kernels(0, half);
    let (mut left, mut killed, mut found) = (0, 0, 0);
    for round in 0..times {
        let scratch = Scratch::new("h03");
        let job = |kernels: String| Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", kernels);
        let running: Vec<_> = (0..PROCESSES).map(|at| job(format!("{shared},{}", own(at))).start()).collect();
        // In every second round one is killed, or several are, at any moment of their lives.
        let victims = [1, 0, 4, 0][round % 4];
        let (mut kept, mut killed_ones) = (Vec::new(), Vec::new());
        for (at, child) in running.into_iter().enumerate() {
            if at % 2 == 1 && killed_ones.len() < victims { killed_ones.push(child) } else { kept.push((at, child)) }
        }
        for child in killed_ones {
            std::thread::sleep(Duration::from_millis((random.below(100 * half) / victims) as u64));
            child.kill();
            killed += 1;
        }
        let mut survivors = String::new();
        for (at, child) in kept {
            // Every result was read, and right.
            let done = child.wait();
            done.assert_success();
            assert_eq!(done.fact("checked"), 2 * half as u64);
            assert_eq!(done.warnings(), 0, "round {round}\n{}", done.output());
            assert_eq!(done.fact("rejected"), 0, "round {round}: nobody reads half a file");
            survivors = format!("{survivors},{}", own(at));
        }
        files::assert_good(scratch.path());
        files::environment(scratch.path());
        // The next one finds what they made, and computes with it: no entry holds another kernel.
        let under_way = files::under_way(scratch.path());
        let done = job(format!("{shared}{survivors}")).run();
        assert_eq!(done.fact("checked"), (half * (1 + PROCESSES - victims)) as u64);
        assert_eq!((done.fact("text_misses"), done.fact("driver_misses")), (0, 0), "round {round}\n{}", done.output());
        assert_eq!((done.fact("rejected"), done.warnings()), (0, 0), "round {round}\n{}", done.output());
        // What the killed ones left is right, too.
        if victims > 0 {
            let all: Vec<_> = (0..victims).map(|at| own(2 * at + 1)).collect();
            let done = job(all.join(",")).run();
            assert_eq!((done.fact("checked"), done.fact("rejected"), done.warnings()), ((half * victims) as u64, 0, 0));
            found += done.fact("text_hits").max(done.fact("driver_hits"));
        }
        // Files under way may belong to somebody as long as they are young; then they go with the next sweep.
        left += under_way.len();
        for path in &under_way {
            assert!(path.exists(), "{} was taken from a living process", path.display());
            files::age(path, Duration::from_secs(90));
        }
        if !under_way.is_empty() {
            Job::new("kernels", &device, scratch.path()).with("JOB_UNREAD", "900").run();
        }
        assert_eq!(files::under_way(scratch.path()), Vec::<std::path::PathBuf>::new());
    }
    println!(
        "h03: {times} rounds, {killed} killed, {left} files left under way and swept, {found} of the killed found again"
    );
}

#[test]
fn h03_files_under_way_are_swept_once_they_are_old() {
    let Some((device, _turn)) = device("H03") else { return };
    let scratch = Scratch::new("h03-sweep");
    let job = |kernels: &str| Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", kernels).run();
    job("0");
    let environment = files::environment(scratch.path());
    let places = [environment.clone(), scratch.path().join("kiln-v1")];
    let (old, young) = ("00000000000000000000000000000001.bin.new-1-1", "00000000000000000000000000000002.bin.new-1-2");
    for place in &places {
        for name in [old, young] {
            files::write(&place.join(name), b"half");
        }
        files::age(&place.join(old), Duration::from_secs(61));
    }
    // They are nobody's damage.
    files::assert_good(scratch.path());
    job("1");
    for place in &places {
        assert!(!place.join(old).exists() && place.join(young).exists(), "{}", place.display());
    }
}

#[test]
fn h03_killed_while_it_writes() {
    let Some((device, _turn)) = device("H03") else { return };
    if cfg!(windows) {
        // A file that is open cannot be aged there.
        return not_run("H03", "the folder is watched on Unix alone");
    }
    let scratch = Scratch::new("h03-write");
    for round in 0..rounds(6, 40) {
        let from = round * 60;
        let unread = format!("{from}..{}", from + 60);
        let before = files::entries(scratch.path()).len();
        let child = Job::new("kernels", &device, scratch.path()).with("JOB_UNREAD", unread).start();
        // As soon as the first entry appears, others are being written.
        let start = std::time::Instant::now();
        while files::entries(scratch.path()).len() == before && start.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        child.kill();
        files::assert_good(scratch.path());
    }
}
