//! Export and import.

use std::path::Path;

use crate::files::{self, Scratch};
use crate::process::{Device, Job, Random, device};

const KERNELS: &str = "0..3,s2,c2";

fn job(device: &Device, folder: &Path) -> Job {
    Job::new("kernels", device, folder).with("JOB_KERNELS", KERNELS)
}

#[test]
fn h05_an_export_makes_a_fresh_folder_warm() {
    let Some((device, _turn)) = device("H05") else { return };
    let (scratch, fresh) = (Scratch::new("export"), Scratch::new("import"));
    let file = scratch.path().join("kernels.kiln");
    let exported = job(&device, scratch.path()).with("JOB_EXPORT", &file).run();
    assert_eq!(exported.fact("exported"), exported.fact("kernels_compiled"));
    let import = job(&device, fresh.path()).with("JOB_IMPORT", &file).run();
    assert_eq!(import.fact("imported"), exported.fact("exported"));
    assert_eq!((import.fact("text_misses"), import.fact("driver_misses")), (0, 0), "{}", import.output());
    files::assert_good(fresh.path());
    let next = job(&device, fresh.path()).with("JOB_WARM", "1").with("KILN_PREWARM", "1").run();
    assert_eq!(next.fact("manifest_kernels"), exported.fact("kernels_compiled"));
    assert_eq!(next.fact("kernels_compiled"), next.fact("compiled_by_warm_up"));
    // Twice is as good as once.
    assert_eq!(job(&device, fresh.path()).with("JOB_IMPORT", &file).run().fact("imported"), exported.fact("exported"));
    files::assert_good(fresh.path());
}

#[test]
fn h05_a_damaged_or_foreign_export_is_refused_whole() {
    let Some((device, _turn)) = device("H05") else { return };
    let (scratch, fresh) = (Scratch::new("export-bad"), Scratch::new("import-bad"));
    let file = scratch.path().join("kernels.kiln");
    job(&device, scratch.path()).with("JOB_EXPORT", &file).run();
    let good = files::read(&file);
    let summed = |mut bytes: Vec<u8>| {
        let body = bytes.len() - 16;
        let sum = xxhash_rust::xxh3::xxh3_128(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
        bytes
    };
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let mut random = Random::new(5);
    let mut bad =
        vec![Vec::new(), good[..1].to_vec(), good[..good.len() / 2].to_vec(), good[..good.len() - 1].to_vec()];
    // The magic, the environment, a name and the last entry's end, with a checksum that fits and without.
    let places = [0, 8, 20, 30, good.len() - 20, random.below(good.len())];
    bad.extend(places.map(changed));
    bad.extend([8, 24, 30, good.len() - 20].map(|at| summed(changed(at))));
    bad.push(summed([&good[..good.len() - 40], &[0; 16]].concat()));
    for (at, bytes) in bad.into_iter().enumerate() {
        files::write(&file, &bytes);
        let done = Job::new("kernels", &device, fresh.path()).with("JOB_IMPORT", &file).run();
        assert!(done.output().contains("refused: "), "{at}: {}", done.output());
        assert!(files::entries(fresh.path()).is_empty(), "{at}: nothing of it is taken over");
    }
    files::assert_good(fresh.path());
    let missing = Job::new("kernels", &device, fresh.path()).with("JOB_IMPORT", scratch.path().join("none")).run();
    assert!(missing.output().contains("refused: "));
}

#[test]
fn h05_an_import_writes_no_other_files() {
    let Some((device, _turn)) = device("H05") else { return };
    let (scratch, fresh) = (Scratch::new("export-names"), Scratch::new("import-names"));
    let file = scratch.path().join("kernels.kiln");
    job(&device, scratch.path()).with("JOB_EXPORT", &file).run();
    let good = files::read(&file);
    let list = files::read(&files::with_ending(scratch.path(), "kernels").remove(0));
    for name in [
        "another.kernels",
        "../another.kernels",
        "/elsewhere/another.kernels",
        "device.txt",
        "x.last",
        "",
        "C:x.kernels",
    ] {
        let mut bytes = good[..24].to_vec();
        for part in [name.as_bytes(), &list] {
            bytes.extend(u32::try_from(part.len()).expect("it is short").to_le_bytes());
            bytes.extend(part);
        }
        bytes.extend(xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes());
        files::write(&file, &bytes);
        let done = Job::new("kernels", &device, fresh.path()).with("JOB_IMPORT", &file).run();
        assert!(done.output().contains("refused: "), "{name:?}: {}", done.output());
    }
    assert_eq!(files::all(fresh.path()).len(), 1, "device.txt alone: {:?}", files::all(fresh.path()));
}

#[test]
fn h07_an_import_stays_below_the_cap() {
    let Some((device, _turn)) = device("H07") else { return };
    let (scratch, fresh) = (Scratch::new("export-cap"), Scratch::new("import-cap"));
    let file = scratch.path().join("kernels.kiln");
    job(&device, scratch.path()).with("JOB_EXPORT", &file).run();
    let cap = files::bytes(fresh.path()) + files::read(&file).len() as u64 / 2;
    let job = Job::new("kernels", &device, fresh.path()).with("JOB_IMPORT", &file);
    job.with("KILN_CACHE_BYTES", cap.to_string()).run();
    assert!(files::bytes(fresh.path()) <= cap, "{} bytes with a cap of {cap}", files::bytes(fresh.path()));
}
