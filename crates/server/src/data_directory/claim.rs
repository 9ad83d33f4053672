//! The claim of one process on a data directory, which keeps all other processes out.
//!
//! What must never enter: the content of the directory, except for its owner.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plain_file::ReadError;

use super::place::{expect_directory, not_made};
use super::{
    CLIENTS, CONTROL_SOCKET, DAMAGED, DataDirectoryError, IDENTITY, INCARNATION, MADE, MEMBER,
    POOL, SET, SHELF, TREES,
};

const LOCK: &str = "lock";
/// The entries that a data directory may have before it has an identity; `lost+found` belongs to the file system.
const KNOWN: [&str; 15] = [
    LOCK,
    IDENTITY,
    "identity.unfinished",
    INCARNATION,
    CLIENTS,
    TREES,
    MADE,
    SET,
    MEMBER,
    POOL,
    SHELF,
    "aside",
    CONTROL_SOCKET,
    DAMAGED,
    "lost+found",
];

/// A directory on which only this process works.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    /// Locked. The lock ends with the process, however that ends. A directory that is only read may have none.
    _lock: Option<File>,
}

impl Claim {
    /// Claims a directory, and creates it first if it does not exist.
    ///
    /// # Errors
    /// [`DataDirectoryError`], each with what to do next.
    pub(crate) fn make(path: &Path) -> Result<Claim, DataDirectoryError> {
        if path.as_os_str().is_empty() {
            return Err(not_made(path, io::ErrorKind::NotFound.into()));
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| not_made(path, error))?;
        Claim::take(path)
    }

    /// Claims an existing directory.
    pub(super) fn existing(path: &Path) -> Result<Claim, DataDirectoryError> {
        expect_directory(path)?;
        Claim::take(path)
    }

    /// Keeps other processes out of an existing directory without writing anything in it.
    pub(super) fn unchanged(path: &Path) -> Result<Claim, DataDirectoryError> {
        expect_directory(path)?;
        refuse_foreign(path)?;
        let lock = match plain_file::open(&path.join(LOCK)).map_err(ReadError::into_io) {
            Ok(mut file) => {
                hold(path, &mut file, File::try_lock_shared)?;
                Some(file)
            }
            // A server creates this file before anything else.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(DataDirectoryError::io("read", &path.join(LOCK))(error)),
        };
        Ok(Claim {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    fn take(path: &Path) -> Result<Claim, DataDirectoryError> {
        refuse_another_users(path)?;
        refuse_foreign(path)?;
        Ok(Claim {
            path: path.to_owned(),
            _lock: Some(lock(path)?),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses a directory that another program fills.
fn refuse_foreign(path: &Path) -> Result<(), DataDirectoryError> {
    if super::exists(&path.join(IDENTITY))? {
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

/// Refuses to let the superuser write to a directory of another user, because the server of that user could not change
/// the new files. A directory that does not exist has no owner.
pub(crate) fn refuse_another_users(path: &Path) -> Result<(), DataDirectoryError> {
    let Ok(owner) = fs::metadata(path).map(|found| found.uid()) else {
        return Ok(());
    };
    match rustix::process::geteuid().is_root() && owner != 0 {
        true => Err(DataDirectoryError::OfAnotherUser {
            path: path.to_owned(),
            user: user_name(owner),
        }),
        false => Ok(()),
    }
}

/// Whether the machine's user list contains this name.
pub(crate) fn has_user(name: &str) -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    users
        .lines()
        .any(|line| line.split(':').next() == Some(name))
}

/// The name of a user in the machine's user list.
pub(crate) fn user_name(user: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("#{user}"))
}

/// Whether a process has claimed a directory. The question does not disturb a starting server, as an attempt to claim
/// the directory would.
pub(crate) fn is_claimed(directory: &Path) -> bool {
    let Ok(lock) = fs::metadata(directory.join(LOCK)) else {
        return false;
    };
    let (device, inode) = (lock.dev(), lock.ino());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // Lines such as `7: FLOCK  ADVISORY  WRITE 4242 fd:01:5505049 0 EOF`, see proc_locks(5).
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut locks = locks.lines();
    locks.any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"FLOCK") && words.contains(&place.as_str())
    })
}

/// Locks the directory against other processes and writes down which process has it.
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
    hold(directory, &mut file, File::try_lock)?;
    let note = format!("process {}\n", std::process::id());
    let noted = file.set_len(0).and_then(|()| file.rewind());
    let noted = noted.and_then(|()| file.write_all(note.as_bytes()));
    if let Err(error) = noted {
        // Only the lock matters, and it also works on a full disk.
        tracing::debug!(%error, "no note says who has the data directory");
    }
    Ok(file)
}

/// Locks the file, or says which process has it.
fn hold(
    directory: &Path,
    file: &mut File,
    try_lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<(), DataDirectoryError> {
    match try_lock(file) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            // A process that only reads writes nothing.
            let holder = match file.try_lock_shared() {
                Ok(()) => Some("a check".to_owned()),
                Err(_) => noted_holder(file),
            };
            let holder = holder.unwrap_or_else(|| "another process".to_owned());
            Err(DataDirectoryError::InUse {
                path: directory.to_owned(),
                holder,
            })
        }
        Err(TryLockError::Error(error)) => {
            Err(DataDirectoryError::io("lock", &directory.join(LOCK))(error))
        }
    }
}

fn noted_holder(file: &mut File) -> Option<String> {
    let mut holder = String::new();
    file.take(100).read_to_string(&mut holder).ok()?;
    Some(holder.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_looks_is_named_and_leaves_no_note() {
        let directory = tempfile::tempdir().unwrap();
        drop(Claim::make(directory.path()).unwrap());
        let note = fs::read(directory.path().join(LOCK)).unwrap();
        let looking = Claim::unchanged(directory.path()).unwrap();
        let error = Claim::existing(directory.path()).unwrap_err().to_string();
        assert!(error.contains("in use by a check"), "{error}");
        assert_eq!(fs::read(directory.path().join(LOCK)).unwrap(), note);
        drop(looking);
        let _held = Claim::existing(directory.path()).unwrap();
        let error = Claim::unchanged(directory.path()).unwrap_err().to_string();
        assert!(error.contains("in use by process"), "{error}");
    }

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

    /// The superuser created an invitation in the directory of the service's user. Then the server could not read its own files any more.
    #[test]
    fn root_leaves_nothing_in_a_directory_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(directory.path(), Some(65_534), None).unwrap();
        for claim in [Claim::make, Claim::existing] {
            let error = claim(directory.path()).unwrap_err().to_string();
            assert!(error.contains("belongs to the user"), "{error}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        drop(Claim::unchanged(directory.path()).unwrap());
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(u32::MAX - 7), "#4294967288");
    }

    #[test]
    fn whether_a_directory_is_claimed_can_be_seen() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_claimed(directory.path()));
        let claim = Claim::make(directory.path()).unwrap();
        assert!(is_claimed(directory.path()));
        drop(claim);
        assert!(
            !is_claimed(directory.path()),
            "the lock stays, and nobody has it"
        );
    }
}
