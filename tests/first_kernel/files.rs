//! Folders of the cache, and what is done to their files.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use kiln::Options;

use crate::process::Random;

/// A folder that is gone at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kiln-first-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder takes a folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every file of a folder and of those in it, in the order of their paths.
pub(crate) fn all(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match item.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(item.path()),
                Ok(_) => files.push(item.path()),
                Err(_) => {}
            }
        }
    }
    files.sort();
    files
}

/// The files with this ending.
pub(crate) fn with_ending(folder: &Path, ending: &str) -> Vec<PathBuf> {
    all(folder).into_iter().filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

/// The entries: a file for each kernel.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    with_ending(folder, "bin")
}

/// Files that are being written, or were when their process died.
pub(crate) fn under_way(folder: &Path) -> Vec<PathBuf> {
    let under_way = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".new-"));
    all(folder).into_iter().filter(under_way).collect()
}

/// The folders of environments.
pub(crate) fn environments(folder: &Path) -> Vec<PathBuf> {
    let items = fs::read_dir(folder.join("kiln-v1")).into_iter().flatten().flatten();
    let mut found: Vec<_> = items.map(|item| item.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// The one environment of a folder.
#[track_caller]
pub(crate) fn environment(folder: &Path) -> PathBuf {
    let mut found = environments(folder);
    assert_eq!(found.len(), 1, "environments: {found:?}");
    found.remove(0)
}

/// Bytes of all files.
pub(crate) fn bytes(folder: &Path) -> u64 {
    all(folder).iter().filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).sum()
}

/// Asserts that every file is what it should be, and that there are some.
#[track_caller]
pub(crate) fn assert_good(folder: &Path) {
    let verified = kiln::cache::verify(Options::new().cache_folder(folder)).expect("the folder can be checked");
    assert!(verified.bad.is_empty() && verified.good > 0, "{verified:?}");
}

/// Moves the time of a file's last use, which is the age of one under way.
pub(crate) fn set_time(path: &Path, time: SystemTime) {
    let file = OpenOptions::new().append(true).open(path);
    file.and_then(|file| file.set_modified(time)).expect("the time of a file can be set");
}

/// As old as that.
pub(crate) fn age(path: &Path, age: Duration) {
    set_time(path, SystemTime::now() - age);
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Cuts a file.
pub(crate) fn truncate(path: &Path, length: u64) {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file: File| file.set_len(length)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Flips one bit, counted from the start; a multiple of the file's size is taken off.
pub(crate) fn flip(path: &Path, bit: usize) {
    let mut bytes = read(path);
    if bytes.is_empty() {
        return;
    }
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    write(path, &bytes);
}

/// Damages every file of a folder, in ways that the numbers choose.
pub(crate) fn damage(folder: &Path, random: &mut Random) {
    for path in all(folder) {
        let length = read(&path).len();
        match random.below(6) {
            0 | 1 => flip(&path, random.below(length * 8)),
            2 => truncate(&path, random.below(length) as u64),
            3 => {
                let noise: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).unwrap_or(0)).collect();
                write(&path, &noise);
            }
            4 => fs::remove_file(&path).expect("it is there"),
            _ => {}
        }
    }
}
