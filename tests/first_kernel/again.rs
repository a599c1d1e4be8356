//! The second process: nothing is lowered or compiled again, and names are the same everywhere.

use crate::files::{self, Scratch};
use crate::process::{Job, device, not_run};

const KERNELS: &str = "0..6,s3,s900,c3,c900";

#[test]
fn h01_the_second_process_makes_no_kernel_that_the_first_has_made() {
    let Some((device, _turn)) = device("H01") else { return };
    let scratch = Scratch::new("again");
    let job = Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", KERNELS);
    let first = job.run();
    assert_eq!((first.fact("text_hits"), first.fact("manifest_kernels")), (0, 0));
    let names = files::all(scratch.path());
    let contents: Vec<_> = files::entries(scratch.path()).iter().map(|path| files::read(path)).collect();
    for prewarm in ["0", "1", "8"] {
        let done =
            job.clone().with("KILN_PREWARM", prewarm).with("JOB_WARM", if prewarm == "0" { "0" } else { "1" }).run();
        let (text, driver) = (done.fact("text_misses"), done.fact("driver_misses"));
        // A warm-up adds the kernels that many programs begin with.
        let common = if prewarm == "0" { 0 } else { done.fact("warmed") - done.fact("manifest_kernels") };
        assert!(text <= common && driver <= common, "with {prewarm}: {text}, {driver}\n{}", done.output());
        assert_eq!(done.fact("manifest_kernels"), first.fact("kernels_compiled"));
        assert_eq!((done.fact("rejected"), done.warnings()), (0, 0));
        if prewarm != "0" {
            assert_eq!(done.fact("kernels_compiled"), done.fact("compiled_by_warm_up"), "all was warm");
        }
    }
    let after: Vec<_> = files::all(scratch.path()).into_iter().filter(|path| names.contains(path)).collect();
    assert_eq!(after, names, "no file has gone");
    // In a folder of its own another process makes the same names.
    let other = Scratch::new("again-other");
    Job::new("kernels", &device, other.path()).with("JOB_KERNELS", KERNELS).run();
    let relative = |scratch: &Scratch, paths: &[std::path::PathBuf]| -> Vec<_> {
        paths.iter().map(|path| path.strip_prefix(scratch.path()).expect("it is in it").to_path_buf()).collect()
    };
    assert_eq!(relative(&other, &files::all(other.path())), relative(&scratch, &names));
    // The text in the entries, too: magic, environment, key, and the lengths come first, then the text.
    let text = |bytes: &[u8]| {
        let length = u32::from_le_bytes(bytes[40..44].try_into().expect("four bytes")) as usize;
        bytes[48..48 + length].to_vec()
    };
    for (ours, theirs) in contents.iter().zip(files::entries(other.path())) {
        assert!(text(ours) == text(&files::read(&theirs)), "{} differs", theirs.display());
    }
}

#[test]
fn h01_programs_of_different_names_share_entries_but_no_lists() {
    let Some((device, _turn)) = device("H01") else { return };
    let scratch = Scratch::new("again-name");
    let job = Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", KERNELS);
    job.run();
    let list = files::with_ending(scratch.path(), "kernels").remove(0);
    let last = files::with_ending(scratch.path(), "last").remove(0);
    std::fs::rename(&list, list.with_file_name("another.kernels")).expect("it can be renamed");
    std::fs::rename(&last, last.with_file_name("another.last")).expect("it can be renamed");
    let done = job.run();
    assert_eq!((done.fact("manifest_kernels"), done.fact("text_misses"), done.fact("driver_misses")), (0, 0, 0));
    assert_eq!(files::with_ending(scratch.path(), "kernels").len(), 2);
}

#[test]
fn h01_another_build_of_the_same_source_makes_nothing_again() {
    let Some(other) = std::env::var_os("KILN_TEST_OTHER_BUILD").filter(|path| !path.is_empty()) else {
        not_run("H01", "another build: `cargo xtask builds` makes one");
        return;
    };
    let Some((device, _turn)) = device("H01") else { return };
    let scratch = Scratch::new("again-build");
    let job = Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", KERNELS);
    let job = job.with("KILN_APPLICATION", "builds");
    let first = job.run();
    let files =
        || -> Vec<_> { files::entries(scratch.path()).into_iter().map(|path| (files::read(&path), path)).collect() };
    let before = files();
    assert_eq!(before.len() as u64, first.fact("kernels_compiled"));
    let second = job.by(other).run();
    assert_eq!(second.fact("manifest_kernels"), first.fact("kernels_compiled"));
    assert_eq!((second.fact("text_misses"), second.fact("driver_misses")), (0, 0), "{}", second.output());
    assert!(files() == before, "no file is written again");
}
