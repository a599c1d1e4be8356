//! What the system refuses while the rest works: case H04. Users without rights or a home, files that cannot be read,
//! writes that fail later on.

#[cfg(unix)]
use std::fs;
use std::path::Path;

use crate::files::{self, Scratch};
#[cfg(unix)]
use crate::process::not_run;
use crate::process::{Device, Job, device};

fn job(device: &Device, folder: &Path) -> Job {
    Job::new("kernels", device, folder).with("JOB_KERNELS", "0..3")
}

/// A user of whom the system knows nothing.
#[cfg(unix)]
const NOBODY: u32 = 54_321;

/// The job, by a user whom permissions stop: this one, or where that is root, one without a name or a home. The folder is
/// then that user's, and the program lies in it.
#[cfg(unix)]
fn as_ordinary_user(job: Job, scratch: &Scratch) -> Job {
    use std::os::unix::fs::MetadataExt;
    let path = scratch.path();
    if fs::metadata(path).expect("it is there").uid() != 0 {
        return job;
    }
    let program = path.join("program");
    fs::copy(std::env::current_exe().expect("the test's own path"), &program).expect("it can be copied");
    std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root gives folders away");
    job.by(program).by_user(NOBODY)
}

#[cfg(unix)]
#[test]
fn h04_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-rights");
    let folder = scratch.path().join("cache");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    let job = as_ordinary_user(job(&device, &folder), &scratch);
    let first = job.run();
    assert_eq!((first.warnings(), files::entries(&folder).len()), (0, 3), "{}", first.output());
    // Files that are there and cannot be read: a kernel's, the list, what the device is.
    let environment = files::environment(&folder);
    let [entry, list] = ["bin", "kernels"].map(|ending| files::with_ending(&environment, ending).remove(0));
    for path in [entry, list, environment.join("device.txt")] {
        mode(&path, 0o000);
        let done = job.run();
        done.assert_quiet();
        assert_eq!((done.fact("checked"), done.fact("keeps")), (3, 1), "{}: {}", path.display(), done.output());
        let again = job.run();
        let misses = again.fact("text_misses").max(again.fact("driver_misses"));
        assert_eq!((misses, again.warnings()), (0, 0), "{} is made again: {}", path.display(), again.output());
    }
    // Folders that cannot be written: nothing is kept, which one line says.
    let root = folder.join("kiln-v1");
    let contents = files::all(&folder);
    for path in [&environment, &root] {
        mode(path, 0o500);
        let done = job.clone().with("JOB_KERNELS", "0..6").with("JOB_OPENS", "2").run();
        mode(path, 0o700);
        assert_eq!((done.warnings(), done.fact("checked")), (1, 6), "{}", done.output());
        assert_eq!(files::all(&folder), contents);
    }
    // Nor made at all.
    let closed = scratch.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    mode(&closed, 0o555);
    let done = job.clone().with("KILN_CACHE_DIR", closed.join("below")).run();
    assert_eq!((done.warnings(), done.fact("keeps")), (1, 0), "{}", done.output());
}

#[cfg(unix)]
#[test]
fn h04_no_home_and_no_name() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-nobody");
    let plain = job(&device, scratch.path()).without("KILN_CACHE_DIR").without("XDG_CACHE_HOME").without("HOME");
    let job = as_ordinary_user(plain.with("JOB_OPENS", "2"), &scratch);
    if !job.is_by_another_user() {
        return not_run("H04", "HOME unset: the list of users has a folder of this one's");
    }
    for (name, value) in [("HOME", None), ("HOME", Some("")), ("XDG_CACHE_HOME", Some(""))] {
        let job = value.map_or_else(|| job.clone(), |value| job.clone().with(name, value));
        let done = job.run();
        assert_eq!((done.fact("checked"), done.fact("keeps"), done.warnings()), (3, 0, 1), "{}", done.output());
        assert!(done.output().contains("the system names no folder for caches"), "{}", done.output());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn h04_an_entry_that_gives_an_error_when_it_is_read() {
    use std::process::{Command, Stdio};
    let Some((device, _turn)) = device("H04") else { return };
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let scratch = Scratch::new("h04-eio");
    job(&device, scratch.path()).run();
    for ending in ["bin", "kernels"] {
        let path = files::with_ending(scratch.path(), ending).remove(0);
        // The memory of a process is a file whose first byte cannot be read.
        let memory = format!("/proc/{}/mem", std::process::id());
        let mut mount = Command::new("mount");
        mount.args(["--bind", &memory]).arg(&path).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            return not_run("H04", "an entry with a reading error: this user may mount nothing");
        }
        let mounted = Mounted(&path);
        fs::read(&path).expect_err("it cannot be read");
        for warm in ["0", "1"] {
            let done = job(&device, scratch.path()).with("JOB_WARM", warm).with("JOB_OPENS", "2").run();
            done.assert_quiet();
            assert_eq!((done.fact("checked"), done.fact("keeps")), (3, 1), "{}", done.output());
        }
        drop(mounted);
        files::assert_good(scratch.path());
        assert_eq!(job(&device, scratch.path()).run().warnings(), 0);
    }
}

#[test]
fn h04_a_write_that_failed_is_not_tried_at_each_call() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-retries");
    let done = Job::new("failed write", &device, scratch.path()).with("JOB_KERNELS", "1..9").run();
    assert_eq!((done.fact("before"), done.fact("after")), (1, 1), "no write is tried again\n{}", done.output());
    assert_eq!((done.fact("touched"), done.warnings()), (0, 1), "{}", done.output());
    // The next process writes again.
    let done = job(&device, scratch.path()).run();
    assert_eq!((done.warnings(), files::entries(scratch.path()).len()), (0, 3), "{}", done.output());
}
