//! Files of a set on disk: only their owner can read them, and they are replaced completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plain_file::ReadError;

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

/// Whether a file with this name exists. A failed check is an error, not `false`.
pub(crate) fn exists(path: &Path) -> Result<bool, SetError> {
    path.try_exists().map_err(io_error(path))
}

/// Makes a directory that only its owner may enter.
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
    // Left over from a crash. If another user made it, it could be readable by others.
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

/// Removes a file durably, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), SetError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(io_error(path))?,
    }
    let parent = path.parent().unwrap_or_else(|| Path::new("."));
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(io_error(path))
}

/// An upper bound for the size of any file of a set, in bytes. A longer file is not one of ours.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a whole file.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, SetError> {
    plain_file::read(path, FILE_BYTES_MAX).map_err(|error| match error {
        ReadError::Io(error) => io_error(path)(error),
        others => damaged(path, others),
    })
}

/// Reads a whole text file.
pub(crate) fn read(path: &Path) -> Result<String, SetError> {
    String::from_utf8(read_bytes(path)?).map_err(|_| damaged(path, "it is not text"))
}

/// While it exists, other processes cannot change the set's files.
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Waits until no other process changes the files of this directory.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_of_a_set_is_damage_and_holds_up_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(made.unwrap().success());
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("bytes"), [b'a', 0xff, b'b']).unwrap();
        let long = File::create(path("long")).unwrap();
        long.set_len(FILE_BYTES_MAX + 1).unwrap();
        for name in ["fifo", "folder", "bytes", "long"] {
            let error = read(&path(name)).unwrap_err();
            let named =
                matches!(&error, SetError::Damaged { path: told, .. } if *told == path(name));
            assert!(named, "{error}");
        }
        assert!(matches!(
            read(&path("missing")),
            Err(SetError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound
        ));
    }
}
