//! What is kept on disk, for people and for shipping: lists, checks, removal, export and import.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::entry::{Entry, hash};
use super::folder::{Folder, is_key, is_under_way};
use super::manifest::Manifest;
use super::{Cache, CacheOptions, List, manifest_of, write};

/// The file that says what an environment is.
pub(crate) const DEVICE: &str = "device.txt";

/// What an export calls the program's list, whatever the program is called.
const LIST: &str = "kernels";

const MAGIC: &[u8; 8] = b"KILNEX\x01\n";

/// The files of one environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The environment's folder.
    pub folder: PathBuf,
    /// What it is, a line for each fact.
    pub device: String,
    /// The programs that have used it.
    pub applications: Vec<String>,
    /// Kernels.
    pub kernels: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

/// What a check of all files found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files whose checksum is right.
    pub good: usize,
    /// Files that will be made again, and why.
    pub bad: Vec<(PathBuf, String)>,
}

fn root(options: &CacheOptions) -> Result<Option<Folder>, String> {
    let path = options.folder()?;
    if path.exists() { Folder::open(&path).map(Some) } else { Ok(None) }
}

/// Folders of environments in a root, by name.
fn environments(root: &Folder) -> Vec<(u128, PathBuf)> {
    let items = fs::read_dir(root.path()).into_iter().flatten().flatten();
    let mut found: Vec<_> = items
        .filter_map(|item| {
            let name = item.file_name().into_string().ok().filter(|name| is_key(name))?;
            Some((u128::from_str_radix(&name, 16).ok()?, item.path()))
        })
        .collect();
    found.sort();
    found
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension == ending)
}

/// What is kept, by environment.
///
/// # Errors
/// The folder is not this user's alone.
pub fn list(options: &CacheOptions) -> Result<Vec<Stored>, String> {
    let Some(root) = root(options)? else { return Ok(Vec::new()) };
    let stored = environments(&root).into_iter().filter_map(|(_, path)| {
        let folder = Folder::open(&path).ok()?;
        let files = folder.files();
        let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let mut applications: Vec<_> =
            files.iter().filter(|file| has_ending(&file.path, "kernels")).filter_map(|file| stem(&file.path)).collect();
        applications.sort();
        Some(Stored {
            // What is no file of ours says nothing.
            device: String::from_utf8_lossy(&folder.read(DEVICE).ok().flatten().unwrap_or_default()).into_owned(),
            applications,
            kernels: files.iter().filter(|file| has_ending(&file.path, "bin")).count(),
            bytes: files.iter().map(|file| file.bytes).sum(),
            folder: path,
        })
    });
    Ok(stored.collect())
}

/// Checks every file's checksum; changes none. Files that are being written do not count.
///
/// # Errors
/// The folder is not this user's alone.
pub fn verify(options: &CacheOptions) -> Result<Verified, String> {
    let mut verified = Verified::default();
    let Some(root) = root(options)? else { return Ok(verified) };
    for (environment, path) in environments(&root) {
        let folder = Folder::open(&path)?;
        for file in folder.files() {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // One that is being written, or was removed meanwhile, is neither.
            let bytes = match folder.read(&name) {
                _ if is_under_way(&name) => continue,
                Ok(None) => continue,
                Ok(Some(bytes)) => Ok(bytes),
                Err(error) => Err(error.to_string()),
            };
            match bytes.and_then(|bytes| check(&name, &bytes, environment)) {
                Ok(()) => verified.good += 1,
                Err(reason) => verified.bad.push((file.path, reason)),
            }
        }
    }
    Ok(verified)
}

/// Whether a file of an environment is what it should be.
fn check(name: &str, bytes: &[u8], environment: u128) -> Result<(), String> {
    match name.rsplit_once('.') {
        Some((key, "bin")) => {
            let key = u128::from_str_radix(key, 16).ok().filter(|_| is_key(key)).ok_or("its name is no key")?;
            Entry::decode(bytes, environment, key).map(drop).map_err(str::to_owned)
        }
        Some((_, "kernels")) => {
            let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
            Manifest::read(text).map(drop).map_err(str::to_owned)
        }
        _ if name == DEVICE && hash(bytes) == environment => Ok(()),
        _ if name == DEVICE => Err("it describes another environment".to_owned()),
        _ => Err("it is no cache file".to_owned()),
    }
}

/// Removes everything that is kept, and nothing else that lies there.
///
/// # Errors
/// The folder is not this user's alone, or a file cannot be removed.
pub fn clear(options: &CacheOptions) -> Result<(), String> {
    let Some(root) = root(options)? else { return Ok(()) };
    root.clear().map_err(|error| format!("{}: {error}", root.path().display()))
}

impl Cache {
    /// Writes the kernels of this environment and the program's list of them to one file.
    pub(crate) fn export(&self, path: &Path) -> Result<usize, String> {
        self.save();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.environment.to_le_bytes());
        let mut count = 0;
        let manifest = manifest_of(&self.application);
        for file in self.folder.files() {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !has_ending(&file.path, "bin") && name != manifest {
                continue;
            }
            let Ok(Some(contents)) = self.folder.read(&name) else { continue };
            if check(&name, &contents, self.environment).is_ok() {
                let name = if name == manifest { LIST } else { &name };
                for part in [name.as_bytes(), &contents] {
                    bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
                    bytes.extend(part);
                }
                count += usize::from(name != LIST);
            }
        }
        let sum = hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        let written = fs::File::create(path).and_then(|mut file| file.write_all(&bytes));
        written.map(|()| count).map_err(|error: io::Error| format!("{}: {error}", path.display()))
    }

    /// Takes over the kernels of a file that [`export`](Self::export) wrote on a device like this one.
    pub(crate) fn import(&self, path: &Path) -> Result<usize, String> {
        let said = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let bytes = fs::read(path).map_err(|error| said(&error))?;
        let body = bytes.len().checked_sub(16).map(|at| bytes.split_at(at));
        let Some((body, _)) = body.filter(|(body, sum)| hash(body).to_le_bytes() == *sum && body.starts_with(MAGIC))
        else {
            return Err(said(&"it is no export, or damaged"));
        };
        let Some((environment, mut rest)) = body[MAGIC.len()..].split_at_checked(16) else {
            return Err(said(&"it is too short"));
        };
        if environment != self.environment.to_le_bytes() {
            return Err(said(&"it comes from another device, driver or version of Kiln"));
        }
        // Everything is looked at before anything is written.
        let mut files = Vec::new();
        while !rest.is_empty() {
            let name = part(&mut rest).and_then(|name| str::from_utf8(name).ok()).ok_or_else(|| said(&"a bad name"))?;
            let contents = part(&mut rest).ok_or_else(|| said(&"it ends too early"))?;
            // Names come from somebody else's file: only those of a key and of the list are taken.
            let key = name.strip_suffix(".bin").is_some_and(is_key);
            if !key && name != LIST {
                return Err(said(&format!("{name:?} is no kernel")));
            }
            let own = if key { name.to_owned() } else { manifest_of(&self.application) };
            check(&own, contents, self.environment).map_err(|reason| said(&format!("{name:?}: {reason}")))?;
            files.push((key, own, contents));
        }
        let mut count = 0;
        for (key, own, contents) in files {
            let contents = if key { contents.to_vec() } else { self.merged(contents) };
            let written = write(&self.folder, &own, &contents)?;
            count += usize::from(key && written);
        }
        self.bound();
        Ok(count)
    }
}

impl Cache {
    /// The program's list with that of an import.
    fn merged(&self, text: &[u8]) -> Vec<u8> {
        let mut manifest = List::read(&self.folder, &self.application).manifest;
        if let Ok((imported, _)) = str::from_utf8(text).map_err(|_| "").and_then(Manifest::read) {
            manifest.merge(imported);
        }
        manifest.write().into_bytes()
    }
}

/// Takes the next part with its length before it.
fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    let (part, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(part)
}
