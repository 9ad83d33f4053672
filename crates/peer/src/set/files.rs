//! Files of a set on disk: readable by their handler only, replaced whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::SetError;

pub(crate) fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> SetError {
    let path = path.to_owned();
    move |error| SetError::Io { path, error }
}

pub(crate) fn damaged(path: &Path, reason: impl std::fmt::Display) -> SetError {
    SetError::Damaged {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Makes a directory that only its handler may enter.
pub(crate) fn make_directory(path: &Path) -> Result<(), SetError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error(path))
}

/// Replaces a file; a crash leaves the old or the new content.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), SetError> {
    let new = path.with_extension("new");
    // Left over from a crash; it might be readable by others if someone else made it.
    match fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error(&new)(error)),
    }
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        let parent = path.parent().unwrap_or_else(|| Path::new("."));
        File::open(parent)?.sync_all()
    };
    write().map_err(io_error(path))
}

/// Removes a file, if it is there, for good.
pub(crate) fn remove(path: &Path) -> Result<(), SetError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(io_error(path))?,
    }
    let parent = path.parent().unwrap_or_else(|| Path::new("."));
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(io_error(path))
}

/// Reads a file whole.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, SetError> {
    fs::read(path).map_err(io_error(path))
}

/// Reads a file of text whole.
pub(crate) fn read(path: &Path) -> Result<String, SetError> {
    fs::read_to_string(path).map_err(io_error(path))
}

/// Keeps other processes from changing the set's files while it lives.
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Waits until nobody else changes the files of this directory.
    pub(crate) fn acquire(directory: &Path) -> Result<DirectoryLock, SetError> {
        let path: PathBuf = directory.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io_error(&path))?;
        file.lock().map_err(io_error(&path))?;
        Ok(DirectoryLock { _file: file })
    }
}
