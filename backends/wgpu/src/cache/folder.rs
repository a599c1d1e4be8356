//! A private folder of small files that many processes share. With `stored`, the only file of Kiln that touches the disk.
//!
//! What enters: names and bytes. What leaves: bytes that were written whole, or a reason. Decided: a file is written under
//! a name of its own that did not exist, then renamed, so that nobody sees half of one, and a process that is killed
//! leaves at most a file that the next sweep removes. Nothing is read or written through links, or in a folder that
//! another user owns or may write to. Losing a race costs a file, which is made again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// What a name of a file under way contains.
const NEW: &str = ".new-";

/// Files under way that are older than this were left by processes that died.
const STALE: Duration = Duration::from_secs(60);

/// A use is noted on a file at most this often.
const TOUCH: Duration = Duration::from_secs(12 * 3600);

/// A file of more bytes is not one of ours.
const MOST_BYTES: u64 = 160 << 20;

/// A folder that is ours alone.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// A file of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// When it was last used, as far as is known.
    pub(crate) used: SystemTime,
}

impl Folder {
    /// Opens a folder, and makes it and its parents where they are missing. Why it will not do otherwise.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let said = |error: io::Error| format!("{}: {error}", path.display());
        create(path).map_err(said)?;
        let own = Self { path: path.to_path_buf() };
        let meta = fs::symlink_metadata(path).map_err(said)?;
        if !meta.is_dir() {
            return Err(format!("{}: it is no folder", path.display()));
        }
        // Whether it can be written, and as whom: a file tells both.
        let (trial, file) = own.begin("trial").map_err(said)?;
        let checked = private(&meta, &file.metadata().map_err(said)?);
        drop(file);
        let _ = fs::remove_file(trial);
        checked.map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok(own)
    }

    /// A folder in it.
    pub(crate) fn inner(&self, name: &str) -> Result<Self, String> {
        Self::open(&self.path.join(name))
    }

    /// The bytes of a file; `None` where there is none. Links and files of others are not followed.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !meta.is_file() || meta.len() > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of ours"));
        }
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
        (&mut file).take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts a file in place, whole.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (new, mut file) = self.begin(name)?;
        let written = file.write_all(bytes).and_then(|()| {
            drop(file);
            fs::rename(&new, self.path.join(name))
        });
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Removes a file; one that is gone already is no error.
    pub(crate) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }

    /// Notes that a file was used, unless that was done lately.
    pub(crate) fn touch(&self, name: &str) {
        let path = self.path.join(name);
        let now = SystemTime::now();
        let lately = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age < TOUCH);
        let known = fs::symlink_metadata(&path).and_then(|meta| meta.modified()).is_ok_and(lately);
        if !known && let Ok(file) = OpenOptions::new().append(true).open(&path) {
            let _ = file.set_modified(now);
        }
    }

    /// Files in it and in the folders in it, links left out.
    pub(crate) fn files(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut folders = vec![(self.path.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(meta) = item.metadata() else { continue };
                if meta.is_dir() && depth < 3 {
                    folders.push((item.path(), depth + 1));
                } else if meta.is_file() {
                    let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push(Found { path: item.path(), bytes: meta.len(), used });
                }
            }
        }
        found
    }

    /// Removes files that dead processes left, and those used longest ago until at most `cap` bytes remain. Returns
    /// how many were removed for want of room.
    pub(crate) fn sweep(&self, cap: u64) -> u64 {
        let now = SystemTime::now();
        let mut files = self.files();
        files.retain(|file| {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            let under_way = name.contains(NEW);
            // A time in the future says nothing about age: such a file may be younger than it looks, or left behind.
            let stale = under_way && now.duration_since(file.used).map_or(true, |age| age > STALE);
            if stale {
                let _ = fs::remove_file(&file.path);
            }
            !under_way
        });
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        let mut evicted = 0;
        for file in files {
            if total <= cap {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                evicted += 1;
            }
            total -= file.bytes;
        }
        evicted
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file under a name of its own.
    fn begin(&self, name: &str) -> io::Result<(PathBuf, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{name}{NEW}{}-{number}", std::process::id()));
        // Left by a process of the same number that died.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok((path.clone(), options.open(&path)?))
    }
}

fn create(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Whether a folder is the user's alone, whose file this is.
#[cfg(unix)]
fn private(folder: &fs::Metadata, file: &fs::Metadata) -> Result<(), &'static str> {
    use std::os::unix::fs::MetadataExt;
    if folder.uid() != file.uid() {
        return Err("another user owns it");
    }
    if folder.mode() & 0o022 != 0 {
        return Err("other users may write to it");
    }
    Ok(())
}

/// Windows gives each user a folder of their own; its access lists are not looked at.
#[cfg(not(unix))]
fn private(_: &fs::Metadata, _: &fs::Metadata) -> Result<(), &'static str> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new folder, gone at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("kiln-folder-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_replaced_whole_and_read_back() {
        let scratch = Scratch::new("whole");
        let folder = Folder::open(&scratch.0.join("a/b")).unwrap();
        assert_eq!(folder.read("x").unwrap(), None);
        folder.write("x", b"one").unwrap();
        folder.write("x", b"two").unwrap();
        assert_eq!(folder.read("x").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(folder.files().len(), 1, "nothing is left under way");
        folder.remove("x");
        folder.remove("x");
        assert_eq!(folder.files().len(), 0);
    }

    #[test]
    fn a_sweep_keeps_what_was_used_last() {
        let scratch = Scratch::new("sweep");
        let folder = Folder::open(&scratch.0).unwrap();
        let past = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
        for (name, hours) in [("old", 30), ("older", 40), ("new", 1), ("dead.new-1-1", 50)] {
            folder.write(name, &[0; 100]).unwrap();
            let file = OpenOptions::new().append(true).open(scratch.0.join(name)).unwrap();
            file.set_modified(past(hours)).unwrap();
        }
        // One from the future, of a clock that went backwards: it counts as used last.
        folder.write("future", &[0; 100]).unwrap();
        let file = OpenOptions::new().append(true).open(scratch.0.join("future")).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(9999)).unwrap();
        folder.touch("older");
        assert_eq!(folder.sweep(300), 1);
        let mut names: Vec<_> =
            folder.files().iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, ["future", "new", "older"]);
    }

    #[cfg(unix)]
    #[test]
    fn folders_that_others_may_write_and_links_are_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let scratch = Scratch::new("hostile");
        let open = scratch.0.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Folder::open(&open).unwrap_err().contains("other users may write"));
        let link = scratch.0.join("link");
        symlink(scratch.0.join("elsewhere"), &link).unwrap();
        Folder::open(&link).unwrap_err();
        fs::create_dir(scratch.0.join("elsewhere")).unwrap();
        assert!(Folder::open(&link).unwrap_err().contains("no folder"));
        let file = scratch.0.join("file");
        fs::write(&file, b"x").unwrap();
        Folder::open(&file).unwrap_err();
        // A link where a file should be is not followed.
        let folder = Folder::open(&scratch.0.join("own")).unwrap();
        symlink(&file, scratch.0.join("own/name")).unwrap();
        folder.read("name").unwrap_err();
        folder.write("name", b"ours").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"x", "the link was replaced, not followed");
    }
}
