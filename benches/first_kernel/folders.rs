//! Folders for the caches of children, removed at the end.

use std::fs;
use std::path::{Path, PathBuf};

use crate::columns::Column;
use crate::rows::Row;

/// A folder of temporary files, this user's alone.
pub(crate) struct Folders(PathBuf);

impl Folders {
    pub(crate) fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("kiln-first-kernel-{}", std::process::id()));
        let folders = Self(path);
        create(&folders.0)?;
        Ok(folders)
    }

    /// The folder of a row and column, with one for each cache in it.
    pub(crate) fn of(&self, row: Row, column: Column) -> Result<PathBuf, String> {
        let path = self.0.join(row.name()).join(column.folder());
        for cache in ["kiln", "mesa", "nvidia"] {
            create(&path.join(cache))?;
        }
        Ok(path)
    }
}

fn create(path: &Path) -> Result<(), String> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| format!("{}: {error}", path.display()))
}

impl Drop for Folders {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("first_kernel: {} is left behind: {error}", self.0.display());
        }
    }
}
