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

/// Folders without kernels are kept as long as this.
const LATELY: Duration = Duration::from_secs(24 * 3600);

/// How far in the future no clock of another machine is.
const FAR: Duration = Duration::from_secs(3600);

/// A use is noted on a file at most this often.
const TOUCH: Duration = Duration::from_secs(12 * 3600);

/// A file of more bytes is not one of ours.
const MOST_BYTES: u64 = 160 << 20;

/// A folder that is ours alone. Those above it are not looked at: they must be the user's or the system's.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The user's number, where there is one.
    user: u32,
}

/// Whether a file has a name that Kiln gives to files: only those are ever removed.
pub(crate) fn is_own(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split(NEW).next().unwrap_or_default();
    match name.rsplit_once('.') {
        Some((stem, "bin")) => is_key(stem),
        Some((stem, "kernels" | "last")) => !stem.is_empty(),
        Some((stem, "txt")) => stem == "device",
        _ => name == "trial",
    }
}

/// Whether a file has the name of one that is being written.
pub(crate) fn is_under_way(name: &str) -> bool {
    name.contains(NEW)
}

/// 32 hexadecimal digits.
pub(crate) fn is_key(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// How a file was put in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// As always.
    Plainly,
    /// Where an empty folder lay.
    OverFolder,
}

/// Why a file was not put in place.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Nothing can be written to the folder.
    Folder(io::Error),
    /// Something that has the file's name is in the way. Other files can be written.
    Name(io::Error),
}

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Folder(error) | Self::Name(error)) = self;
        error.fmt(f)
    }
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
        let own = Self { path: path.to_path_buf(), user: 0 };
        let meta = fs::symlink_metadata(path).map_err(said)?;
        if !meta.is_dir() {
            return Err(format!("{}: it is no folder", path.display()));
        }
        // Whether it can be written, and as whom: a file tells both.
        let (trial, file) = own.begin("trial").map_err(said)?;
        let user = file.metadata().map(|meta| user_of(&meta)).map_err(said);
        drop(file);
        let _ = fs::remove_file(trial);
        let user = user?;
        private(&meta, user).map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok(Self { user, ..own })
    }

    /// A folder in it.
    pub(crate) fn inner(&self, name: &str) -> Result<Self, String> {
        Self::open(&self.path.join(name))
    }

    /// A folder in it, if there is one: a damaged file may name any.
    pub(crate) fn inner_if_there(&self, name: &str) -> Option<Self> {
        let there = fs::symlink_metadata(self.path.join(name)).is_ok_and(|meta| meta.is_dir());
        if there { self.inner(name).ok() } else { None }
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
        if user_of(&file.metadata()?) != self.user {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user owns it"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(meta.len()).unwrap_or(0))?;
        (&mut file).take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts a file in place, whole. An empty folder of its name gives way, which the result tells; anything else stays.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<Written, Unwritten> {
        let (new, mut file) = self.begin(name).map_err(Unwritten::Folder)?;
        let written = file.write_all(bytes).map_err(Unwritten::Folder).and_then(|()| {
            drop(file);
            let path = self.path.join(name);
            match fs::rename(&new, &path) {
                Ok(()) => Ok(Written::Plainly),
                // Fails for what is no folder, or has something in it.
                Err(_) if fs::remove_dir(&path).is_ok() => {
                    fs::rename(&new, &path).map(|()| Written::OverFolder).map_err(Unwritten::Name)
                }
                Err(error) => Err(Unwritten::Name(error)),
            }
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

    /// Kiln's files in it and in the folders in it, links left out.
    pub(crate) fn files(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut folders = vec![(self.path.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(meta) = item.metadata() else { continue };
                let inner = item.file_name().to_str().is_some_and(is_key);
                if meta.is_dir() && inner && depth == 0 {
                    folders.push((item.path(), depth + 1));
                } else if meta.is_file() && is_own(&item.path()) {
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
            let under_way = is_under_way(&name);
            // A time in the future says nothing about age, unless it is far: then a clock went back.
            let stale = match now.duration_since(file.used) {
                Ok(age) => age > STALE,
                Err(ahead) => ahead.duration() > FAR,
            };
            let stale = under_way && stale;
            if stale {
                let _ = fs::remove_file(&file.path);
            }
            !under_way
        });
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        // Kernels go; the small files beside them stay as long as there are any.
        files.retain(|file| file.path.extension().is_some_and(|ending| ending == "bin"));
        // A time far in the future is none: a clock went back since.
        let known = |file: &Found| file.used.duration_since(now).map_or(true, |ahead| ahead <= FAR);
        files.sort_by_key(|file| if known(file) { file.used } else { SystemTime::UNIX_EPOCH });
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
        self.remove_empty(total > cap);
        evicted
    }

    /// Removes folders of environments that have no kernel left and were not used lately, or at all if there is no room.
    fn remove_empty(&self, at_once: bool) {
        for item in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let inner = item.file_name().to_str().is_some_and(is_key) && item.file_type().is_ok_and(|ty| ty.is_dir());
            if !inner {
                continue;
            }
            let folder = Self { path: item.path(), user: self.user };
            let files = folder.files();
            let kernels = files.iter().any(|file| file.path.extension().is_some_and(|ending| ending == "bin"));
            let lately = files.iter().any(|file| file.used.elapsed().map_or(true, |age| age < LATELY));
            if !kernels && (at_once || !lately) {
                files.iter().for_each(|file| drop(fs::remove_file(&file.path)));
                // Another process may have begun to fill it: then it stays.
                let _ = fs::remove_dir(&folder.path);
            }
        }
    }

    /// Removes Kiln's files and the folders that are empty then.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for file in self.files() {
            match fs::remove_file(&file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.remove_empty(true);
        // Whatever else is in it is not ours.
        let _ = fs::remove_dir(&self.path);
        Ok(())
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

/// Whether a folder is the user's alone.
#[cfg(unix)]
fn private(folder: &fs::Metadata, user: u32) -> Result<(), &'static str> {
    use std::os::unix::fs::MetadataExt;
    if folder.uid() != user {
        return Err("another user owns it");
    }
    if folder.mode() & 0o022 != 0 {
        return Err("other users may write to it");
    }
    Ok(())
}

#[cfg(unix)]
fn user_of(file: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(file)
}

/// Windows gives each user a folder of their own; its access lists are not looked at.
#[cfg(not(unix))]
fn private(_: &fs::Metadata, _: u32) -> Result<(), &'static str> {
    Ok(())
}

#[cfg(not(unix))]
fn user_of(_: &fs::Metadata) -> u32 {
    0
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
        folder.write("x.last", b"one").unwrap();
        folder.write("x.last", b"two").unwrap();
        assert_eq!(folder.read("x.last").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(folder.files().len(), 1, "nothing is left under way");
        folder.remove("x.last");
        folder.remove("x.last");
        assert_eq!(folder.files().len(), 0);
    }

    #[test]
    fn a_sweep_keeps_what_was_used_last() {
        let scratch = Scratch::new("sweep");
        let folder = Folder::open(&scratch.0).unwrap();
        let past = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
        let name = |digit: char| format!("{}.bin", String::from(digit).repeat(32));
        let (old, older, new, future) = (name('1'), name('2'), name('3'), name('4'));
        let dead = format!("{old}.new-1-1");
        for (name, hours) in [(&old, 30), (&older, 40), (&new, 1), (&dead, 50)] {
            folder.write(name, &[0; 100]).unwrap();
            let file = OpenOptions::new().append(true).open(scratch.0.join(name)).unwrap();
            file.set_modified(past(hours)).unwrap();
        }
        // A little ahead, as a file server's clock may be: it counts as used last.
        folder.write(&future, &[0; 100]).unwrap();
        let file = OpenOptions::new().append(true).open(scratch.0.join(&future)).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        folder.touch(&older);
        // What has another name is somebody else's.
        fs::write(scratch.0.join("theirs.txt"), [0; 1000]).unwrap();
        assert_eq!(folder.sweep(300), 1);
        assert!(scratch.0.join("theirs.txt").exists());
        let mut names: Vec<_> =
            folder.files().iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, [older, new, future]);
        folder.clear().unwrap();
        assert!(folder.files().is_empty() && scratch.0.join("theirs.txt").exists());
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
        assert_eq!(folder.write("name", b"ours").unwrap(), Written::Plainly);
        assert_eq!(fs::read(&file).unwrap(), b"x", "the link was replaced, not followed");
    }
}
