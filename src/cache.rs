//! The cache of compiled kernels: what a program compiled, kept for its next process.
//!
//! Nothing needs to be done for it. Kernels are kept in the system's folder for caches, apart for each adapter, driver and
//! version of Kiln; what cannot be read is made again, and what cannot be written is not kept. `KILN_CACHE=0` or
//! [`Options::cache`] turn it off, `KILN_CACHE_DIR` or [`Options::cache_folder`] move it, and it stays below
//! [`Options::cache_bytes`].
//!
//! A program can bring a warm cache with it: [`export`] on one machine, [`import`] on another with the same adapter and
//! driver. Whoever made such a file decides what the driver runs; import only what you trust.

use std::path::Path;

use kiln_array::{Device, ErrorKind, Result};
pub use kiln_wgpu::cache::{Counters, Stored, Verified};

use crate::Options;
use crate::wgpu::backend;

fn said(op: &'static str, message: String) -> kiln_array::Error {
    ErrorKind::Backend { op, message }.into()
}

/// The folder of all files, which need not exist.
///
/// # Errors
/// The environment has a word that it should not have, or the system names no folder for caches.
pub fn folder(options: Options) -> Result<std::path::PathBuf> {
    options.cache_options_with_env()?.folder().map_err(|reason| said("cache folder", reason))
}

/// What is kept, by adapter, driver and version.
///
/// # Errors
/// As [`folder`], or the folder is not this user's alone.
pub fn list(options: Options) -> Result<Vec<Stored>> {
    kiln_wgpu::cache::list(&options.cache_options_with_env()?).map_err(|reason| said("list the cache", reason))
}

/// Checks every file; changes nothing.
///
/// # Errors
/// As [`list`].
pub fn verify(options: Options) -> Result<Verified> {
    kiln_wgpu::cache::verify(&options.cache_options_with_env()?).map_err(|reason| said("verify the cache", reason))
}

/// Removes everything that is kept.
///
/// # Errors
/// As [`list`], or a file cannot be removed.
pub fn clear(options: Options) -> Result<()> {
    kiln_wgpu::cache::clear(&options.cache_options_with_env()?).map_err(|reason| said("clear the cache", reason))
}

/// What the cache of a device did so far; `None` for devices that keep nothing.
#[must_use]
pub fn counters(device: &Device) -> Option<Counters> {
    backend(device)?.cache_counters()
}

/// Writes the compiled kernels of a device, and the list of those that the program used, to one file. Returns the number
/// of kernels.
///
/// # Errors
/// The device keeps nothing, or the file cannot be written.
pub fn export(device: &Device, path: impl AsRef<Path>) -> Result<usize> {
    let backend = backend(device).ok_or_else(|| said("export", format!("{} keeps no kernels", device.info())))?;
    backend.export_cache(path)
}

/// Takes over the kernels of a file that [`export`] wrote on the same adapter, driver and version of Kiln. Returns the
/// number of kernels.
///
/// # Errors
/// The device keeps nothing, or the file is damaged, of another device, driver or version, or no export.
pub fn import(device: &Device, path: impl AsRef<Path>) -> Result<usize> {
    let backend = backend(device).ok_or_else(|| said("import", format!("{} keeps no kernels", device.info())))?;
    backend.import_cache(path)
}
