//! The claim of one process to a data directory, which keeps all others out.
//!
//! What must never enter: what is in the directory, beyond whose it is.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{
    CLIENTS, CONTROL_SOCKET, DAMAGED, DataDirectoryError, IDENTITY, INCARNATION, SET, TREES,
};

const LOCK: &str = "lock";
/// What a data directory may hold before it has an identity; `lost+found` comes with a file system.
const KNOWN: [&str; 10] = [
    LOCK,
    IDENTITY,
    "identity.unfinished",
    INCARNATION,
    CLIENTS,
    TREES,
    SET,
    CONTROL_SOCKET,
    DAMAGED,
    "lost+found",
];

/// A directory that this process, and no other, works on.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Locked; the lock goes when the process ends, however it ends.
    _lock: File,
}

impl Claim {
    /// Claims a directory, and makes it first if there is none.
    pub(super) fn make(path: &Path) -> Result<Claim, DataDirectoryError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(DataDirectoryError::NotADirectory(path.to_owned()));
            }
            made => made.map_err(DataDirectoryError::io("create", path))?,
        }
        Claim::take(path)
    }

    /// Claims a directory that must be there.
    pub(super) fn existing(path: &Path) -> Result<Claim, DataDirectoryError> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Claim::take(path),
            Ok(_) => Err(DataDirectoryError::NotADirectory(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(DataDirectoryError::Missing(path.to_owned()))
            }
            Err(error) => Err(DataDirectoryError::io("open", path)(error)),
        }
    }

    fn take(path: &Path) -> Result<Claim, DataDirectoryError> {
        refuse_foreign(path)?;
        Ok(Claim {
            path: path.to_owned(),
            _lock: lock(path)?,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses a directory that somebody else fills.
fn refuse_foreign(path: &Path) -> Result<(), DataDirectoryError> {
    if path.join(IDENTITY).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(DataDirectoryError::io("read", path))? {
        let entry = entry.map_err(DataDirectoryError::io("read", path))?;
        if KNOWN.iter().all(|known| entry.file_name() != *known) {
            return Err(DataDirectoryError::Foreign(path.to_owned()));
        }
    }
    Ok(())
}

/// Locks the directory against other processes and leaves a note of who has it.
fn lock(directory: &Path) -> Result<File, DataDirectoryError> {
    let path = directory.join(LOCK);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let mut file = options
        .open(&path)
        .map_err(DataDirectoryError::io("write to", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let told = file.take(100).read_to_string(&mut holder).is_ok();
            let holder = Some(holder.trim().to_owned()).filter(|name| told && !name.is_empty());
            let holder = holder.unwrap_or_else(|| "another process".to_owned());
            return Err(DataDirectoryError::InUse {
                path: directory.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(error)) => {
            return Err(DataDirectoryError::io("lock", &path)(error));
        }
    }
    let note = format!("process {}\n", std::process::id());
    let noted = file.set_len(0).and_then(|()| file.rewind());
    let noted = noted.and_then(|()| file.write_all(note.as_bytes()));
    noted.map_err(DataDirectoryError::io("write to", &path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_has_it_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let held = Claim::make(directory.path()).unwrap();
        let error = Claim::existing(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(held);
        Claim::existing(directory.path()).unwrap();
    }

    #[test]
    fn what_belongs_to_others_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("letter"), "dear").unwrap();
        for claim in [Claim::make, Claim::existing] {
            let error = claim(directory.path()).unwrap_err();
            assert!(matches!(error, DataDirectoryError::Foreign(_)), "{error}");
            let error = claim(&directory.path().join("letter")).unwrap_err();
            assert!(
                matches!(error, DataDirectoryError::NotADirectory(_)),
                "{error}"
            );
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let error = Claim::existing(&directory.path().join("nothing")).unwrap_err();
        assert!(matches!(error, DataDirectoryError::Missing(_)), "{error}");
    }
}
