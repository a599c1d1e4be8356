//! Folders where files of the cache should be: case L18. Whatever can be kept is kept, and one line says what cannot.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{self, Scratch};
use crate::process::{Device, Job, device};

/// Kernels of the job.
const KERNELS: usize = 11;

fn job(device: &Device, folder: &Path) -> Job {
    Job::new("kernels", device, folder).with("JOB_KERNELS", "0..11")
}

/// The files of a cache with all kernels, relative to its folder: the list, the device, the last environment, an entry.
fn names(device: &Device) -> [(&'static str, PathBuf); 4] {
    let scratch = Scratch::new("l18-names");
    job(device, scratch.path()).run();
    assert_eq!(files::entries(scratch.path()).len(), KERNELS);
    let one = |ending: &str| {
        let path = files::with_ending(scratch.path(), ending).remove(0);
        path.strip_prefix(scratch.path()).expect("it lies there").to_path_buf()
    };
    [("the list", one("kernels")), ("device.txt", one("txt")), ("the last", one("last")), ("an entry", one("bin"))]
}

#[test]
fn l18_a_folder_named_as_a_file_of_the_cache() {
    let Some((device, _turn)) = device("L18") else { return };
    for (what, name) in names(&device) {
        for filled in [false, true] {
            let scratch = Scratch::new("l18");
            let folder = scratch.path().join(&name);
            fs::create_dir_all(&folder).expect("a folder");
            let treasure = folder.join("treasure");
            if filled {
                files::write(&treasure, b"treasure");
            }
            let what = format!("{what}, filled {filled}");
            let lost = usize::from(filled && what.starts_with("an entry"));
            let done = job(&device, scratch.path()).run();
            assert_eq!(done.warnings(), 1, "{what}\n{}", done.output());
            assert_eq!(files::entries(scratch.path()).len(), KERNELS - lost, "{what}\n{}", done.output());
            assert!(files::under_way(scratch.path()).is_empty(), "{what}: nothing half written stays");
            files::assert_good(scratch.path());
            // An empty folder gave way; what is in a filled one is somebody's.
            assert_eq!(folder.is_file(), !filled, "{what}");
            let again = job(&device, scratch.path()).run();
            let hits = again.fact("text_hits").max(again.fact("driver_hits"));
            assert_eq!(hits, (KERNELS - lost) as u64, "{what}\n{}", again.output());
            // The device is described by the first process; the others are written again.
            assert_eq!(again.warnings(), usize::from(filled), "{what}\n{}", again.output());
            let listed = if filled && what.starts_with("the list") { 0 } else { KERNELS as u64 };
            assert_eq!(again.fact("manifest_kernels"), listed, "{what}");
            if filled {
                assert_eq!(files::read(&treasure), b"treasure", "{what}");
            }
            let stored = kiln::cache::list(kiln::Options::new().cache_folder(scratch.path())).expect("it can be read");
            assert_eq!(stored.iter().map(|stored| stored.kernels).sum::<usize>(), KERNELS - lost, "{what}");
        }
    }
}

/// An import passes by what is in the way, too.
#[test]
fn l18_an_import_with_a_folder_in_the_way() {
    let Some((device, _turn)) = device("L18") else { return };
    let scratch = Scratch::new("l18-import");
    let (from, to, file) = (scratch.path().join("from"), scratch.path().join("to"), scratch.path().join("file"));
    job(&device, &from).with("JOB_EXPORT", &file).run();
    let entry = files::entries(&from).remove(0);
    let odd = to.join(entry.strip_prefix(&from).expect("it lies there"));
    fs::create_dir_all(&odd).expect("a folder");
    files::write(&odd.join("treasure"), b"treasure");
    let done = Job::new("kernels", &device, &to).with("JOB_IMPORT", &file).run();
    assert_eq!((done.fact("imported"), done.warnings()), (KERNELS as u64 - 1, 1), "{}", done.output());
    assert_eq!(files::entries(&to).len(), KERNELS - 1);
}
