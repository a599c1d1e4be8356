//! Folders that cannot be had: case H04. Everything computes, and at most one line says that nothing is kept.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::files::{self, Scratch};
use crate::process::{Device, Done, Job, device, not_run};

/// Two devices in one process, in this folder.
fn job(device: &Device, folder: &Path) -> Job {
    Job::new("kernels", device, folder).with("JOB_KERNELS", "0..3,s1").with("JOB_OPENS", "2")
}

#[track_caller]
fn keeps_nothing(done: &Done) {
    assert_eq!(done.warnings(), 1, "one line says why nothing is kept\n{}", done.output());
}

#[test]
fn h04_a_file_where_the_folder_should_be() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-file");
    let file = scratch.path().join("file");
    files::write(&file, b"somebody's");
    keeps_nothing(&job(&device, &file).run());
    keeps_nothing(&job(&device, &file.join("below")).run());
    assert_eq!(files::read(&file), b"somebody's");
    // One level further down.
    let folder = scratch.path().join("folder");
    fs::create_dir(&folder).expect("a folder");
    files::write(&folder.join("kiln-v1"), b"somebody's");
    keeps_nothing(&job(&device, &folder).run());
    assert_eq!(files::read(&folder.join("kiln-v1")), b"somebody's");
}

#[test]
fn h04_missing_parents_are_made() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-parents");
    let folder = scratch.path().join("not/there/yet");
    for _ in 0..2 {
        assert_eq!(job(&device, &folder).run().warnings(), 0);
    }
    files::assert_good(&folder);
    // Relative to wherever the process is.
    let done = job(&device, Path::new("")).with("KILN_CACHE_DIR", scratch.path().join("a/./b/../c")).run();
    assert_eq!(done.warnings(), 0, "{}", done.output());
}

#[test]
fn h04_a_folder_or_an_odd_file_where_an_entry_should_be() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-entry");
    job(&device, scratch.path()).run();
    let entry = files::entries(scratch.path()).remove(0);
    fs::remove_file(&entry).expect("it is there");
    fs::create_dir(&entry).expect("a folder");
    job(&device, scratch.path()).run().assert_quiet();
    assert!(entry.is_file(), "an empty folder gives way");
    let done = job(&device, scratch.path()).run();
    assert_eq!(done.warnings(), 0, "{}", done.output());
    files::assert_good(scratch.path());
}

#[cfg(unix)]
#[test]
fn h04_odd_bytes_in_the_name() {
    use std::os::unix::ffi::OsStringExt;
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-name");
    for name in [b"\xff\xfe odd".to_vec(), b"two words\n".to_vec(), "çåché 🔥".into()] {
        let folder = scratch.path().join(OsString::from_vec(name));
        if let Err(error) = fs::create_dir(&folder) {
            not_run("H04", &format!("the file system takes no name {}: {error}", folder.display()));
            continue;
        }
        assert_eq!(job(&device, &folder).run().warnings(), 0);
        let done = job(&device, &folder).run();
        assert_eq!((done.fact("text_misses"), done.fact("driver_misses"), done.warnings()), (0, 0, 0));
    }
    keeps_nothing(&job(&device, &scratch.path().join("long".repeat(200))).run());
}

#[cfg(unix)]
#[test]
fn h04_links_are_not_followed_into_other_folders() {
    use std::os::unix::fs::symlink;
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-link");
    let (link, own, elsewhere) = (scratch.path().join("link"), scratch.path().join("own"), scratch.path().join("it"));
    fs::create_dir_all(&own).expect("a folder");
    fs::create_dir_all(&elsewhere).expect("a folder");
    // The folder that the user names may be a link: the user says so.
    symlink(&elsewhere, &link).expect("a link");
    assert_eq!(job(&device, &link).run().warnings(), 0);
    files::assert_good(&elsewhere);
    // Kiln's own folder in it may not.
    let far = scratch.path().join("far");
    fs::create_dir(&far).expect("a folder");
    symlink(&far, own.join("kiln-v1")).expect("a link");
    keeps_nothing(&job(&device, &own).run());
    assert!(files::all(&far).is_empty());
    // Nor may a file of it: what the link names stays as it is.
    let entry = files::entries(&elsewhere).remove(0);
    let treasure = scratch.path().join("treasure");
    files::write(&treasure, b"treasure");
    fs::remove_file(&entry).expect("it is there");
    symlink(&treasure, &entry).expect("a link");
    job(&device, &elsewhere).run().assert_quiet();
    assert_eq!(files::read(&treasure), b"treasure");
    files::assert_good(&elsewhere);
    symlink(scratch.path().join("nowhere"), scratch.path().join("dangling")).expect("a link");
    keeps_nothing(&job(&device, &scratch.path().join("dangling")).run());
}

#[cfg(unix)]
#[test]
fn h04_folders_of_others_and_open_ones_are_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-open");
    let folder = scratch.path().join("kiln-v1");
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("the mode can be set");
    fs::create_dir(&folder).expect("a folder");
    mode(0o777);
    keeps_nothing(&job(&device, scratch.path()).run());
    assert!(files::all(scratch.path()).is_empty());
    mode(0o500);
    if fs::write(folder.join("trial"), b"").is_ok() {
        not_run("H04", "a folder without permission to write: this user may write everywhere");
        fs::remove_file(folder.join("trial")).expect("it is there");
        return;
    }
    keeps_nothing(&job(&device, scratch.path()).run());
    mode(0o700);
}

#[cfg(target_os = "linux")]
#[test]
fn h04_where_the_system_refuses_files() {
    let Some((device, _turn)) = device("H04") else { return };
    // Nobody may make files here, whoever they are.
    for folder in ["/proc/self", "/sys/kernel", "/dev/null"] {
        keeps_nothing(&job(&device, Path::new(folder)).run());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn h04_a_full_disk() {
    use std::process::{Command, Stdio};
    let Some((device, _turn)) = device("H04") else { return };
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let scratch = Scratch::new("h04-full");
    for size in ["4k", "16k", "40k"] {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(scratch.path()).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            return not_run("H04", "a full disk: this user may mount nothing");
        }
        let _mounted = Mounted(scratch.path());
        for _ in 0..2 {
            let done = job(&device, scratch.path()).with("JOB_KERNELS", "0..12").run();
            done.assert_quiet();
            assert!(files::under_way(scratch.path()).is_empty(), "nothing half written stays");
        }
        let verified = kiln::cache::verify(kiln::Options::new().cache_folder(scratch.path()));
        assert!(verified.is_ok_and(|verified| verified.bad.is_empty()), "{size}");
    }
}

#[test]
fn h04_no_home() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("h04-home");
    let file = scratch.path().join("file");
    files::write(&file, b"");
    let job = |home: &Path| job(&device, home).without("KILN_CACHE_DIR").without("XDG_CACHE_HOME").with("HOME", home);
    if cfg!(windows) {
        return not_run("H04", "HOME says nothing there");
    }
    // A home that is none.
    keeps_nothing(&job(&file).run());
    // One that is empty.
    let home = scratch.path().join("home");
    fs::create_dir(&home).expect("a folder");
    assert_eq!(job(&home).run().warnings(), 0);
    assert!(!files::entries(&home).is_empty());
    // No variable at all: the system's list of users has one, which is not ours to write to.
    let done = job(&home).without("HOME").with("KILN_CACHE", "0").run();
    assert_eq!((done.warnings(), done.fact("keeps")), (0, 0));
    let cached = job(&home).without("HOME").with("XDG_CACHE_HOME", home.join("xdg")).run();
    assert_eq!(cached.warnings(), 0);
}
