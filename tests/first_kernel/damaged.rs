//! Files of the cache that are cut, changed or exchanged: cases H01 and H02.

use std::fs;
use std::path::Path;

use crate::files::{self, Scratch};
use crate::process::{Device, Done, Job, Random, device, rounds};

/// An elementwise kernel, a sum and a scan, which are read; and some more.
const KERNELS: [&str; 2] = ["0,s6,c7", "1..6"];

fn job(device: &Device, folder: &Path) -> Job {
    Job::new("kernels", device, folder).with("JOB_KERNELS", KERNELS[0]).with("JOB_UNREAD", KERNELS[1])
}

/// A folder with the kernels' files, and how many of them there are.
fn warm(device: &Device, name: &str) -> (Scratch, u64) {
    let scratch = Scratch::new(name);
    job(device, scratch.path()).run();
    let entries = files::entries(scratch.path()).len();
    assert!(entries >= 7, "{entries} entries");
    files::assert_good(scratch.path());
    (scratch, entries as u64)
}

/// Runs after damage to all entries, and again: what was damaged is made again, and then there.
#[track_caller]
fn recovers(device: &Device, folder: &Path, entries: u64, what: &str) {
    let damaged = job(device, folder).run();
    damaged.assert_quiet();
    assert_eq!(damaged.fact("rejected"), entries, "{what}: every entry is noticed");
    assert_all_missed(&damaged, entries, what);
    files::assert_good(folder);
    assert_eq!(files::entries(folder).len() as u64, entries, "{what}");
    let after = job(device, folder).run();
    assert_all_hit(&after, entries, what);
    assert_eq!(after.fact("rejected"), 0, "{what}");
}

#[track_caller]
fn assert_all_hit(done: &Done, entries: u64, what: &str) {
    assert_eq!((done.fact("text_misses"), done.fact("driver_misses")), (0, 0), "{what}: misses\n{}", done.output());
    assert_eq!(done.fact("text_hits").max(done.fact("driver_hits")), entries, "{what}: hits");
    assert_eq!(done.warnings(), 0, "{what}");
}

#[track_caller]
fn assert_all_missed(done: &Done, entries: u64, what: &str) {
    assert_eq!((done.fact("text_hits"), done.fact("driver_hits")), (0, 0), "{what}: hits");
    assert_eq!(done.fact("text_misses").max(done.fact("driver_misses")), entries, "{what}: misses");
}

#[test]
fn h01_truncated_entries_are_made_again() {
    let Some((device, _turn)) = device("H01") else { return };
    let (scratch, entries) = warm(&device, "h01");
    for what in ["empty", "one byte", "half", "one byte less"] {
        for path in files::entries(scratch.path()) {
            let length = fs::metadata(&path).expect("it is there").len();
            files::truncate(
                &path,
                match what {
                    "empty" => 0,
                    "one byte" => 1,
                    "half" => length / 2,
                    _ => length - 1,
                },
            );
        }
        recovers(&device, scratch.path(), entries, what);
    }
}

#[test]
fn h01_every_other_file_may_be_truncated() {
    let Some((device, _turn)) = device("H01") else { return };
    let (scratch, entries) = warm(&device, "h01-other");
    let others: Vec<_> =
        files::all(scratch.path()).into_iter().filter(|path| path.extension().is_none_or(|it| it != "bin")).collect();
    assert_eq!(others.len(), 3, "device.txt, the list and the last environment: {others:?}");
    for share in [0, 1, 2] {
        for path in &others {
            let length = fs::metadata(path).expect("it is there").len();
            files::truncate(path, length * share / 3 + share % 2);
        }
        // Entries are found without the list.
        let done = job(&device, scratch.path()).run();
        done.assert_quiet();
        assert_eq!((done.fact("manifest_kernels"), done.fact("rejected")), (0, 1));
        assert_all_hit(&done, entries, "without a list");
        files::assert_good(scratch.path());
        assert_eq!(job(&device, scratch.path()).run().fact("manifest_kernels"), entries);
    }
}

#[test]
fn h02_flipped_bits_are_noticed_wherever_they_are() {
    let Some((device, _turn)) = device("H02") else { return };
    let (scratch, entries) = warm(&device, "h02");
    // Each run flips one bit in each entry: the head's fields, the payload from end to end, the checksum.
    let head = [0, 7, 8, 23, 24, 39, 40, 43, 44, 47].map(|byte| byte * 8 + byte % 8);
    let runs = 28;
    for run in 0..runs {
        for (at, path) in files::entries(scratch.path()).into_iter().enumerate() {
            let bits = usize::try_from(fs::metadata(&path).expect("it is there").len()).expect("it is small") * 8;
            let spread = (run * 7 + at) * (bits / (runs * 7));
            let last = bits - 1 - run;
            let at = run + at;
            files::flip(
                &path,
                if at % 4 == 0 {
                    head[at / 4 % head.len()]
                } else if at % 4 == 1 {
                    last
                } else {
                    spread
                },
            );
        }
        let read = if run % 4 == 0 { KERNELS } else { ["0", "s6,c7,1..6"] };
        let done = job(&device, scratch.path()).with("JOB_KERNELS", read[0]).with("JOB_UNREAD", read[1]).run();
        done.assert_quiet();
        assert_eq!(done.fact("rejected"), entries, "run {run}");
        assert_all_missed(&done, entries, "a flipped bit");
    }
    files::assert_good(scratch.path());
    assert_all_hit(&job(&device, scratch.path()).run(), entries, "afterwards");
}

#[test]
fn h02_noise_and_exchanged_entries_are_noticed() {
    let Some((device, _turn)) = device("H02") else { return };
    let (scratch, entries) = warm(&device, "h02-noise");
    let mut random = Random::new(2);
    for path in files::entries(scratch.path()) {
        let length = files::read(&path).len();
        files::write(&path, &(0..length).map(|_| u8::try_from(random.below(256)).unwrap_or(0)).collect::<Vec<_>>());
    }
    recovers(&device, scratch.path(), entries, "noise");
    // Each has the contents of the next.
    let paths = files::entries(scratch.path());
    let contents: Vec<_> = paths.iter().map(|path| files::read(path)).collect();
    for (at, path) in paths.iter().enumerate() {
        files::write(path, &contents[(at + 1) % contents.len()]);
    }
    recovers(&device, scratch.path(), entries, "another entry's bytes");
    // What came after the right bytes makes them wrong.
    for path in files::entries(scratch.path()) {
        files::write(&path, &[files::read(&path), vec![0; 16]].concat());
    }
    recovers(&device, scratch.path(), entries, "more bytes");
}

#[test]
fn h02_random_damage_to_every_file_costs_only_time() {
    let Some((device, _turn)) = device("H02") else { return };
    let scratch = Scratch::new("h02-random");
    let (each, all) = (50, rounds(200, 1000));
    let mut rejected = 0;
    for seed in 0..all / each {
        let job = Job::new("damage", &device, scratch.path()).with("JOB_KERNELS", "0").with("JOB_UNREAD", "1..3,s1,c2");
        let done = job.with("JOB_ROUNDS", each.to_string()).with("JOB_SEED", seed.to_string()).run();
        assert_eq!(done.warnings(), 0, "{}", done.output());
        rejected += done.fact("rejected");
    }
    println!("h02: {all} rounds, {rejected} damaged entries noticed");
    assert!(rejected > all as u64, "the damage was read");
    files::assert_good(scratch.path());
    // No folder of an environment that never was.
    files::environment(scratch.path());
    assert!(files::under_way(scratch.path()).is_empty());
}
