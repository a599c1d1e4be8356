//! What a program compiled, kept for its next process.
//!
//! ```text
//! FOLDER/kiln-v1/ENVIRONMENT/device.txt             what the environment is, for people
//!                           /APPLICATION.kernels   which kernels the program used (manifest)
//!                           /KEY.bin               a kernel's lowered text and the driver's form of it (entry)
//! FOLDER/kiln-v1/APPLICATION.last                   the program's last environment, to read ahead while the driver loads
//! ```
//! An environment is everything that a kernel's files depend on: Kiln's version, what naga makes of a known kernel, the
//! adapter, its driver, the features, the system. A key is the hash of a kernel's WGSL. So a file that is found is right,
//! and one of another version, driver or device is never looked at; old ones go when room is needed.
//!
//! A cache can cost time, never correctness: what cannot be read is made again, what cannot be written is not kept, and
//! one line in the log says why.

mod entry;
mod folder;
mod manifest;
mod place;
mod saver;
mod stored;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use kiln_array::kernel::KernelSpec;

pub(crate) use entry::{Entry, hash};
use folder::{Folder, Unwritten, Written};
use manifest::Manifest;
pub(crate) use manifest::Used;
use saver::Saver;
pub use stored::{Stored, Verified, clear, list, verify};

use crate::error::lock;

/// Files that are read ahead.
const AHEAD: usize = 64;

/// Bytes of all files, unless the options say otherwise.
const MAX_BYTES: u64 = 256 << 20;

/// Entries after which the folder's size is looked at again.
const SWEEP_EVERY: u64 = 32;

/// Where and whether kernels are kept.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Whether anything is read or written.
    pub enabled: bool,
    /// The folder; the system's folder for caches if `None`.
    pub folder: Option<PathBuf>,
    /// The program's name in it; that of the executable if `None`.
    pub application: Option<String>,
    /// Bytes of all files at most, when a device is closed; a little more meanwhile.
    pub max_bytes: u64,
}

impl Default for CacheOptions {
    /// In the system's folder for caches, 256 MiB.
    fn default() -> Self {
        Self { enabled: true, folder: None, application: None, max_bytes: MAX_BYTES }
    }
}

impl CacheOptions {
    /// Nothing is read or written.
    #[must_use]
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// The folder of all files.
    ///
    /// # Errors
    /// The system names no folder for caches.
    pub fn folder(&self) -> Result<PathBuf, String> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => place::of_system().ok_or_else(|| "the system names no folder for caches".to_owned())?,
        };
        // The program may change its working directory later.
        let folder = std::path::absolute(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder.join("kiln-v1"))
    }

    /// The program's name, made of letters, digits, dots, dashes and underscores.
    fn application(&self) -> String {
        let name = self.application.clone().or_else(|| {
            let program = std::env::current_exe().ok()?;
            Some(program.file_stem()?.to_string_lossy().into_owned())
        });
        let name = name.unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !name.is_empty() && name.len() <= 64 && name.chars().all(plain) {
            name
        } else {
            format!("program-{:032x}", hash(name.as_bytes()))
        }
    }
}

/// What was read while the driver loaded.
pub(crate) struct Ahead {
    root: Result<Folder, String>,
    application: String,
    max_bytes: u64,
    /// What naga makes of a known kernel.
    naga: u128,
    last: Option<(u128, List, HashMap<u128, Vec<u8>>)>,
}

impl Ahead {
    /// Reads the files of the environment that the program had last.
    pub(crate) fn read(options: &CacheOptions) -> Self {
        let application = options.application();
        let root = options.folder().and_then(|path| Folder::open(&path));
        let last = root.as_ref().ok().and_then(|root| {
            let name = String::from_utf8(root.read(&format!("{application}.last")).ok()??).ok()?;
            let environment = u128::from_str_radix(name.trim(), 16).ok()?;
            let folder = root.inner_if_there(&format!("{environment:032x}"))?;
            let list = List::read(&folder, &application);
            let files = list.manifest.by_use().into_iter().take(AHEAD).filter_map(|used| {
                let bytes = folder.read(&file_of(used.text)).ok()??;
                Some((used.text, bytes))
            });
            let files = files.collect();
            Some((environment, list, files))
        });
        Self { root, application, max_bytes: options.max_bytes, naga: kiln_shaders::fingerprint(), last }
    }
}

/// What the cache did so far: hits and misses of each layer, files and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Kernels in the program's list when the device was opened.
    pub manifest_kernels: u64,
    /// Kernels whose lowered text was there.
    pub text_hits: u64,
    /// Kernels whose text was lowered and will be kept. Neither where wgpu translates the text.
    pub text_misses: u64,
    /// Kernels for which the driver was given its own form.
    pub driver_hits: u64,
    /// Kernels that the driver compiled and whose form will be kept. Neither where wgpu cannot ask for it.
    pub driver_misses: u64,
    /// Entries and lists that were damaged or of another kind, and are made again.
    pub rejected: u64,
    /// Files that were removed for want of room.
    pub evicted: u64,
    /// Bytes of the entries that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

/// The counters as they count.
#[derive(Debug, Default)]
pub(crate) struct CacheCounters {
    pub(crate) manifest_kernels: AtomicU64,
    pub(crate) text_hits: AtomicU64,
    pub(crate) text_misses: AtomicU64,
    pub(crate) driver_hits: AtomicU64,
    pub(crate) driver_misses: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
}

impl CacheCounters {
    pub(crate) fn now(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            manifest_kernels: get(&self.manifest_kernels),
            text_hits: get(&self.text_hits),
            text_misses: get(&self.text_misses),
            driver_hits: get(&self.driver_hits),
            driver_misses: get(&self.driver_misses),
            rejected: get(&self.rejected),
            evicted: get(&self.evicted),
            bytes_read: get(&self.bytes_read),
            bytes_written: get(&self.bytes_written),
        }
    }
}

/// What is to be written.
#[derive(Default)]
struct Unsaved {
    entries: Vec<(u128, Entry)>,
    used: Vec<(Arc<KernelSpec>, u128)>,
}

/// The files of one device.
pub(crate) struct Cache {
    root: Folder,
    folder: Folder,
    environment: u128,
    application: String,
    max_bytes: u64,
    ahead: Mutex<HashMap<u128, Vec<u8>>>,
    manifest: Manifest,
    unsaved: Mutex<Unsaved>,
    /// Held while files are written.
    saving: Mutex<u64>,
    /// Saves behind the program.
    saver: Arc<Saver>,
    /// Set by the first failure to write that is not one file's own: it is not tried again.
    gave_up: AtomicBool,
    counters: CacheCounters,
}

impl Cache {
    /// The cache of an environment, which `description` tells, a line for each fact; `None`, and a line in the log, where
    /// there is no folder.
    pub(crate) fn open(ahead: Ahead, description: &str) -> Option<Self> {
        let description = format!("{description}naga: {:032x}\n", ahead.naga);
        let environment = hash(description.as_bytes());
        let opened = ahead.root.and_then(|root| {
            let folder = root.inner(&format!("{environment:032x}"))?;
            Ok((root, folder))
        });
        let (root, folder) = match opened {
            Ok(folders) => folders,
            Err(reason) => {
                warn_once(&reason);
                return None;
            }
        };
        let (list, files) = match ahead.last {
            Some((last, list, files)) if last == environment => (list, files),
            _ => (List::read(&folder, &ahead.application), HashMap::new()),
        };
        let cache = Self {
            root,
            folder,
            environment,
            application: ahead.application,
            max_bytes: ahead.max_bytes,
            ahead: Mutex::new(files),
            manifest: list.manifest,
            unsaved: Mutex::default(),
            saving: Mutex::new(0),
            saver: Arc::default(),
            gave_up: AtomicBool::new(false),
            counters: CacheCounters::default(),
        };
        cache.counters.manifest_kernels.store(cache.manifest.len() as u64, Ordering::Relaxed);
        cache.counters.rejected.store(list.damaged.into(), Ordering::Relaxed);
        if !matches!(cache.folder.read(stored::DEVICE), Ok(Some(known)) if known == description.as_bytes()) {
            cache.put_file(&cache.folder, stored::DEVICE, description.as_bytes());
        }
        log::debug!("kiln: kernels are kept in {}", cache.folder.path().display());
        Some(cache)
    }

    pub(crate) fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// The kernels that the program used, the latest and most used first.
    pub(crate) fn used_before(&self) -> Vec<Used> {
        self.manifest.by_use()
    }

    /// What is kept under a key.
    pub(crate) fn get(&self, key: u128) -> Option<Entry> {
        let ahead = lock(&self.ahead).remove(&key);
        let bytes = match ahead {
            Some(bytes) => bytes,
            None => match self.folder.read(&file_of(key)) {
                Ok(bytes) => bytes?,
                Err(error) => {
                    log::debug!("kiln: {}: {error}", file_of(key));
                    return None;
                }
            },
        };
        self.counters.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        match Entry::decode(&bytes, self.environment, key) {
            Ok(entry) => Some(entry),
            Err(reason) => {
                log::debug!("kiln: {} is made again: {reason}", file_of(key));
                self.counters.rejected.fetch_add(1, Ordering::Relaxed);
                self.folder.remove(&file_of(key));
                None
            }
        }
    }

    /// Keeps an entry, once [`save`](Self::save) is called.
    pub(crate) fn put(&self, key: u128, entry: Entry) {
        lock(&self.unsaved).entries.push((key, entry));
    }

    /// Notes that the program used a kernel.
    pub(crate) fn note(&self, spec: &Arc<KernelSpec>, key: u128) {
        lock(&self.unsaved).used.push((Arc::clone(spec), key));
    }

    /// Makes [`save_soon`](Self::save_soon) cheap for who calls it.
    pub(crate) fn stand_by(this: &Arc<Self>) {
        this.saver.stand_by(this);
    }

    /// Saves in a moment, on a thread of its own.
    pub(crate) fn save_soon(this: &Arc<Self>) {
        this.saver.request(this);
    }

    /// Writes what is to be written. Several threads may call it; one at a time writes.
    pub(crate) fn save(&self) {
        let mut written = lock(&self.saving);
        // What nobody asked for by now can be read when somebody does.
        lock(&self.ahead).clear();
        let Unsaved { entries, used } = std::mem::take(&mut *lock(&self.unsaved));
        let before = *written;
        for (key, entry) in entries {
            if let Some(bytes) = entry.encode(self.environment, key) {
                self.put_file(&self.folder, &file_of(key), &bytes);
                *written += 1;
            }
        }
        if !used.is_empty() {
            // Other processes of the program write theirs: what they added since is read first.
            let mut manifest = List::read(&self.folder, &self.application).manifest;
            let day =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
            for (spec, key) in used {
                manifest.add(&spec, key, day);
                // What only a warm-up compiled is not used.
                self.folder.touch(&file_of(key));
            }
            manifest.forget(day);
            self.put_file(&self.folder, &manifest_of(&self.application), manifest.write().as_bytes());
            let environment = format!("{:032x}", self.environment);
            self.put_file(&self.root, &format!("{}.last", self.application), environment.as_bytes());
        }
        // The first entries of a process, and every few after.
        if *written > before && (before == 0 || *written / SWEEP_EVERY > before / SWEEP_EVERY) {
            self.bound();
        }
    }

    /// Leaves the folder within its bounds.
    pub(crate) fn close(&self) {
        self.save();
        if *lock(&self.saving) > 0 {
            self.bound();
        }
    }

    /// Removes what is too much.
    fn bound(&self) {
        let evicted = self.root.sweep(self.max_bytes);
        self.counters.evicted.fetch_add(evicted, Ordering::Relaxed);
    }

    fn put_file(&self, folder: &Folder, name: &str, bytes: &[u8]) {
        if self.gave_up.load(Ordering::Relaxed) {
            return;
        }
        match write(folder, name, bytes) {
            Ok(true) => drop(self.counters.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed)),
            Ok(false) => {}
            Err(reason) => {
                if !self.gave_up.swap(true, Ordering::Relaxed) {
                    warn_once(&reason);
                }
            }
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.saver.close();
    }
}

/// Writes a file. `false`, and a line in the log, where something that is not ours has its name: it is passed by. Why
/// nothing can be written otherwise.
fn write(folder: &Folder, name: &str, bytes: &[u8]) -> Result<bool, String> {
    let path = || folder.path().join(name);
    match folder.write(name, bytes) {
        Ok(Written::Plainly) => Ok(true),
        Ok(Written::OverFolder) => {
            say_once(&format!("an empty folder gave way to a file of the cache: {}", path().display()));
            Ok(true)
        }
        Err(Unwritten::Name(error)) => {
            say_once(&format!("a file of the cache is not kept: {}: {error}", path().display()));
            Ok(false)
        }
        Err(Unwritten::Folder(error)) => Err(format!("{}: {error}", path().display())),
    }
}

/// Says why nothing is kept.
fn warn_once(reason: &str) {
    say_once(&format!("compiled kernels are not kept: {reason}"));
}

/// A warning, once in a process: a program may open many devices.
fn say_once(what: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let level = if WARNED.swap(true, Ordering::Relaxed) { log::Level::Debug } else { log::Level::Warn };
    log::log!(level, "kiln: {what}");
}

fn file_of(key: u128) -> String {
    format!("{key:032x}.bin")
}

fn manifest_of(application: &str) -> String {
    format!("{application}.kernels")
}

/// A program's list of kernels as it was found.
struct List {
    /// Empty where there is none that can be read.
    manifest: Manifest,
    /// Whether there was one that could not.
    damaged: bool,
}

impl List {
    fn read(folder: &Folder, application: &str) -> Self {
        let name = manifest_of(application);
        let text = match folder.read(&name) {
            Ok(None) => return Self { manifest: Manifest::default(), damaged: false },
            Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match text.and_then(|text| Manifest::read(&text).map_err(str::to_owned)) {
            Ok((manifest, strange)) => {
                if strange > 0 {
                    log::debug!("kiln: {name}: {strange} kernels of another version are left out");
                }
                Self { manifest, damaged: false }
            }
            Err(reason) => {
                log::debug!("kiln: {name} is begun anew: {reason}");
                Self { manifest: Manifest::default(), damaged: true }
            }
        }
    }
}
