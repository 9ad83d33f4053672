//! The directory with everything that a server stores: its identity, its clients, its trees.
//!
//! ```text
//! lock           held while a process works on the directory; names that process
//! identity       the identity of the server
//! incarnation    the number of its last start
//! clients/       which clients hold state
//! trees/NAME/    one store for each tree
//! set/           the set of replicas that the server belongs to, if it does
//! member         the replica whose copy the trees are, or the data server whose contents the shelf has
//! pool/          the pool that the server belongs to, if it does
//! shelf/         the contents of a data server of a pool
//! control.sock   where the running server answers `meridian status`
//! damaged/       what a repair has set aside
//! aside/         the data of a member before it joined again
//! ```
//!
//! What must never enter: the inside of a store.

mod claim;
mod client_records;
mod examination;
mod identity;
mod incarnation;
mod made_trees;
mod member;
mod place;
mod sealed_file;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use claim::Claim;
pub(crate) use claim::{has_user, is_claimed, refuse_another_users, user_name};
pub(crate) use client_records::MakeSpace;
pub use client_records::StoredClientRecords;
pub(crate) use examination::{Defect, Examination};
pub use identity::ReplicaIdentity;
pub(crate) use member::MemberOf;
pub(crate) use place::expect_directory;
pub use sealed_file::SealedFileError;
pub(crate) use sealed_file::{Kind as SealedKind, read as read_sealed, write as write_sealed};

/// [`crate::decode_as_anything`] for the files of a data directory.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    sealed_file::decode_as_anything(bytes);
    client_records::decode_as_anything(bytes);
    let _ = ReplicaIdentity::from_text(bytes);
    let _ = std::str::from_utf8(bytes).map(MemberOf::parse);
}

/// Why a data directory cannot be used. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// Another process uses it.
    #[error(
        "the data directory {path} is in use by {holder}; stop that first (`systemctl stop meridian`, or SIGTERM), or choose another directory with --data"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it, by its own record.
        holder: String,
    },
    /// It does not exist.
    #[error("there is no data directory {0}; check the path, or mount the disk that holds it")]
    Missing(PathBuf),
    /// It contains something else.
    #[error(
        "{0} is not empty and is no data directory of Meridian; choose an empty or a new directory with --data"
    )]
    Foreign(PathBuf),
    /// It is not a directory.
    #[error("{0} is not a directory; choose another path with --data")]
    NotADirectory(PathBuf),
    /// It does not exist and cannot be created.
    #[error("cannot make the data directory {path}: {why}; {remedy}")]
    NotMade {
        /// The intended path.
        path: PathBuf,
        /// The problem with that place.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The superuser would create files in it that its own user cannot write.
    #[error(
        "{path} belongs to the user {user}, and what root writes there the server of {user} could not change any more; run this as that user, `sudo -u {user} meridian …`, or let root own the directory if root is to run the server"
    )]
    OfAnotherUser {
        /// The directory.
        path: PathBuf,
        /// Its owner: a name, or a number if there is no name.
        user: String,
    },
    /// The process lacks a necessary permission.
    #[error(
        "cannot {action} {path}: {source}; let the user that runs Meridian own it (`chown -R`), or choose another directory with --data"
    )]
    Permission {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file system is read-only.
    #[error(
        "cannot {action} {path}: {source}; {remedy}", remedy = place::to_write_there()
    )]
    ReadOnly {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The disk or the operating system refused.
    #[error(
        "cannot {action} {path}: {source}; {remedy}", remedy = remedy(source)
    )]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file with the server's identity is damaged.
    #[error(
        "{0}; restore the file from a backup, or run `meridian check --repair`: it makes a new identity, and clients lose their locks once"
    )]
    Identity(SealedFileError),
    /// The file that names the owner of the tree's copy is damaged.
    #[error(
        "{0}; if the rest of the data directory is whole and belongs together, remove this file, and it is made anew"
    )]
    Member(SealedFileError),
    /// A newer program wrote it.
    #[error("{0}")]
    Newer(SealedFileError),
    /// No random bytes for a new identity.
    #[error("the operating system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

/// What to do when the operating system cannot open more files.
pub(crate) const LACKS_DESCRIPTORS: &str =
    "raise the limit of open files (`LimitNOFILE` in the unit, `ulimit -n`), and try again";

/// What to do when the operating system refuses something.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if plain_file::lacks_descriptors(error) => LACKS_DESCRIPTORS,
        io::ErrorKind::AlreadyExists => {
            "something else lies there; `meridian check --repair` sets it aside"
        }
        _ => "look at the disk's free space, and in `dmesg` for what the kernel says of the disk",
    }
}

impl DataDirectoryError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirectoryError {
        move |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::PermissionDenied => DataDirectoryError::Permission {
                    action,
                    path,
                    source,
                },
                io::ErrorKind::ReadOnlyFilesystem => DataDirectoryError::ReadOnly {
                    action,
                    path,
                    source,
                },
                io::ErrorKind::NotADirectory => DataDirectoryError::NotADirectory(path),
                _ => DataDirectoryError::Io {
                    action,
                    path,
                    source,
                },
            }
        }
    }
}

impl From<SealedFileError> for DataDirectoryError {
    fn from(error: SealedFileError) -> DataDirectoryError {
        match error {
            SealedFileError::Io {
                action,
                path,
                source,
            } => DataDirectoryError::io(action, &path)(source),
            newer @ SealedFileError::Newer { .. } => DataDirectoryError::Newer(newer),
            damaged @ SealedFileError::Damaged { .. } => DataDirectoryError::Identity(damaged),
        }
    }
}

const IDENTITY: &str = "identity";
const INCARNATION: &str = "incarnation";
const CLIENTS: &str = "clients";
const TREES: &str = "trees";
const MADE: &str = "made";
const SET: &str = "set";
const MEMBER: &str = "member";
const POOL: &str = "pool";
const SHELF: &str = "shelf";
const CONTROL_SOCKET: &str = "control.sock";
const DAMAGED: &str = "damaged";
/// A data directory on which only this process works.
#[derive(Debug)]
pub struct DataDirectory {
    claim: Claim,
    identity: ReplicaIdentity,
}

impl DataDirectory {
    /// Claims the directory for a server, and creates it first if it does not exist.
    ///
    /// # Errors
    /// [`DataDirectoryError`], each with what to do next.
    pub fn open_or_create(path: &Path) -> Result<DataDirectory, DataDirectoryError> {
        let claim = Claim::make(path)?;
        let identity = identity_of(path)?;
        let trees = path.join(TREES);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&trees);
        made.map_err(DataDirectoryError::io("create", &trees))?;
        sealed_file::sync_directory_of(&trees)?;
        Ok(DataDirectory { claim, identity })
    }

    /// Claims an existing directory.
    ///
    /// # Errors
    /// [`DataDirectoryError`], each with what to do next.
    pub(crate) fn existing(path: &Path) -> Result<DataDirectory, DataDirectoryError> {
        let claim = Claim::existing(path)?;
        let identity = identity_of(path)?;
        Ok(DataDirectory { claim, identity })
    }

    /// The replica whose copy the set's tree here is; `None` before the tree was created.
    ///
    /// # Errors
    /// When the file is unreadable or damaged.
    pub(crate) fn member(&self) -> Result<Option<MemberOf>, DataDirectoryError> {
        member_of(self.path())
    }

    /// Records durably that the tree of the set has been created.
    ///
    /// # Errors
    /// When it cannot be written to stable storage.
    pub(crate) fn note_member(&self, member: MemberOf) -> Result<(), DataDirectoryError> {
        Ok(member.write(&self.path().join(MEMBER))?)
    }

    /// Trees that are created from now on belong to another replica, or to none.
    ///
    /// # Errors
    /// When it cannot be written to stable storage.
    pub(crate) fn forget_member(&self) -> Result<(), DataDirectoryError> {
        Ok(sealed_file::remove(&self.path().join(MEMBER))?)
    }

    /// Whether a tree was ever created here, even if it does not exist any more.
    ///
    /// # Errors
    /// When the list of trees cannot be read.
    pub(crate) fn has_made(&self, tree: &str) -> Result<bool, DataDirectoryError> {
        Ok(made_trees::read_leniently(&self.path().join(MADE))?.contains(tree))
    }

    /// Records durably that a tree has been created here.
    ///
    /// # Errors
    /// When it cannot be written to stable storage.
    pub(crate) fn note_made(&self, tree: &str) -> Result<(), DataDirectoryError> {
        let path = self.path().join(MADE);
        let mut made = made_trees::read_leniently(&path)?;
        match made.insert(tree.to_owned()) {
            true => Ok(made_trees::write(&path, &made)?),
            false => Ok(()),
        }
    }

    /// Writes the entries of the directory to stable storage.
    ///
    /// # Errors
    /// When that fails.
    pub(crate) fn synchronise(&self) -> Result<(), DataDirectoryError> {
        Ok(sealed_file::sync_directory_of(&self.path().join(MEMBER))?)
    }

    /// The path of the client records.
    pub(crate) fn clients(&self) -> PathBuf {
        self.path().join(CLIENTS)
    }

    /// The server's identity.
    #[must_use]
    pub fn identity(&self) -> &ReplicaIdentity {
        &self.identity
    }

    /// Counts this start and returns its number, which differs from all earlier ones.
    ///
    /// # Errors
    /// When the number cannot be written to stable storage.
    pub fn next_incarnation(&self) -> Result<u32, DataDirectoryError> {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let clock = u32::try_from(since_1970.as_secs()).unwrap_or(0);
        Ok(incarnation::next(&self.path().join(INCARNATION), clock)?)
    }

    /// The records of clients that hold state. When the disk is full, `make_space` is asked to free space for another one.
    ///
    /// # Errors
    /// When their directory cannot be created or read.
    pub(crate) fn client_records(
        &self,
        make_space: MakeSpace,
    ) -> Result<StoredClientRecords, DataDirectoryError> {
        Ok(StoredClientRecords::load(self.clients(), make_space)?)
    }

    /// The path of the tree with this name, which may not exist yet.
    #[must_use]
    pub fn tree(&self, name: &str) -> PathBuf {
        tree_path(self.path(), name)
    }

    /// The path of the files of the server's set, if it belongs to one.
    #[must_use]
    pub fn set(&self) -> PathBuf {
        set_path(self.path())
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.claim.path()
    }
}

/// The replica whose copy a data directory contains, even while another process uses it.
pub(crate) fn member_of(data: &Path) -> Result<Option<MemberOf>, DataDirectoryError> {
    MemberOf::read(&data.join(MEMBER)).map_err(|error| match error {
        damaged @ SealedFileError::Damaged { .. } => DataDirectoryError::Member(damaged),
        error => error.into(),
    })
}

/// Whether a file with this name exists.
fn exists(path: &Path) -> Result<bool, DataDirectoryError> {
    path.try_exists()
        .map_err(DataDirectoryError::io("look at", path))
}

/// Whether a directory of a data directory has any entries; it may not exist.
///
/// # Errors
/// When this cannot be determined, which says nothing about the content.
pub(crate) fn is_filled(directory: &Path) -> Result<bool, DataDirectoryError> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(DataDirectoryError::io("read", directory)(error)),
    }
}

/// The path of the tree with this name in that data directory.
pub(crate) fn tree_path(data: &Path, name: &str) -> PathBuf {
    data.join(TREES).join(name)
}

/// The path of the set's files in that data directory.
pub(crate) fn set_path(data: &Path) -> PathBuf {
    data.join(SET)
}

/// The path of the pool's files in that data directory.
pub(crate) fn pool_path(data: &Path) -> PathBuf {
    data.join(POOL)
}

/// The path of a data server's contents in that data directory.
pub(crate) fn shelf_path(data: &Path) -> PathBuf {
    data.join(SHELF)
}

/// The path of the trees in that data directory.
pub(crate) fn trees_path(data: &Path) -> PathBuf {
    data.join(TREES)
}

/// The path of the control socket in that data directory.
pub(crate) fn control_socket(data: &Path) -> PathBuf {
    data.join(CONTROL_SOCKET)
}

/// The identity on disk, or a new one if there is none yet.
fn identity_of(directory: &Path) -> Result<ReplicaIdentity, DataDirectoryError> {
    let path = directory.join(IDENTITY);
    match ReplicaIdentity::read(&path) {
        Err(error) if error.is_missing() => {
            if directory.join(TREES).exists() {
                let path = path.display();
                tracing::warn!(%path, "the identity is missing: the server makes itself a new one");
            }
            let identity = ReplicaIdentity::new().map_err(DataDirectoryError::Random)?;
            identity.write(&path)?;
            Ok(identity)
        }
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_identity_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/data");
        let first = *DataDirectory::open_or_create(&path).unwrap().identity();
        assert_eq!(
            *DataDirectory::open_or_create(&path).unwrap().identity(),
            first
        );
    }

    #[test]
    fn a_damaged_identity_is_not_replaced_behind_anybodys_back() {
        let directory = tempfile::tempdir().unwrap();
        let first = *DataDirectory::open_or_create(directory.path())
            .unwrap()
            .identity();
        let path = directory.path().join(IDENTITY);
        fs::write(&path, "meridian identity 1\nreplica 0\n").unwrap();
        let error = DataDirectory::open_or_create(directory.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("identity is damaged") && error.contains("--repair"),
            "{error}"
        );
        fs::remove_file(&path).unwrap();
        assert_ne!(
            *DataDirectory::open_or_create(directory.path())
                .unwrap()
                .identity(),
            first
        );
    }
}
