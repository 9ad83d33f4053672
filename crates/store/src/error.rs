//! Why a store cannot be opened, created or checked, and how storage failures become errors of operations.
//!
//! Refused operations are [`vfs::Error`]; the errors of this module are not shown to clients.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plain_file::{ReadError, is_about_contents, lacks_descriptors};

use crate::metadata::MetadataError;

/// Why a directory could not be opened, created or checked as a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system returned an error.
    #[error("cannot {action} {path}: {source}. {}", next_step(source))]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The path of the action.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process uses the store.
    #[error("{0} is in use by another process; stop that one first")]
    InUse(PathBuf),
    /// There is no store to open.
    #[error("{0} holds no store; create one there first, or mount the disk that holds it")]
    NoStore(PathBuf),
    /// There is a store already.
    #[error("{0} holds a store already; open it, or choose another directory")]
    AlreadyThere(PathBuf),
    /// The directory contains other files.
    #[error("{0} is not empty and holds no store; choose an empty directory")]
    Foreign(PathBuf),
    /// Part of the store is missing.
    #[error("{0} is missing from the store; restore it from a backup or replicate the tree anew")]
    MissingPiece(PathBuf),
    /// A newer program wrote the store.
    #[error("{path} has format {found}, this program knows up to {known}; use a newer program")]
    NewerFormat {
        /// The file with the format.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format this program can read.
        known: u32,
    },
    /// An older program wrote the store, before there was a first release.
    #[error(
        "{path} has format {found}, this program knows only {known}; go back to the older program, or copy the files \
         from a server that runs it"
    )]
    OlderFormat {
        /// The file with the format.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format of this program.
        known: u32,
    },
    /// Data of files lies elsewhere, and the options do not say where.
    #[error(
        "files of {0} lie at the data servers of a pool, and this server was not told of one: the files that make it the metadata \
         server of its pool (`pool` in the data directory) are missing. Put back the whole data directory from one backup"
    )]
    Elsewhere(PathBuf),
    /// The data on disk is inconsistent.
    #[error("{path}: {what}; run the check, or restore the store")]
    Damaged {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The disk lost data that was stable.
    #[error(
        "{path}: {what}. The disk has changed or lost what was stable. Nothing is served from here, because it would \
         silently be less than was answered. At a member of a set: take this copy anew from another member, with `meridian \
         set rejoin`. Alone: restore a backup{}", giving_up(*can_be_given_up)
    )]
    Rotten {
        /// The path.
        path: PathBuf,
        /// What is known.
        what: String,
        /// Whether [`crate::Store::give_up_damaged`] can make the store usable.
        can_be_given_up: bool,
    },
    /// The metadata store failed.
    #[error("the metadata in {path} failed: {what}. See the log; free space or replace the disk")]
    Metadata {
        /// The path.
        path: PathBuf,
        /// The message of the metadata store.
        what: String,
    },
    /// An option has an invalid value.
    #[error("{0}")]
    Option(&'static str),
}

fn giving_up(possible: bool) -> &'static str {
    match possible {
        true => {
            ", or give up what cannot be read with `meridian check --repair --accept-loss`, which says what is lost"
        }
        false => "; what is damaged cannot be given up alone",
    }
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        StoreError::Io {
            action,
            path: path.into(),
            source,
        }
    }

    /// An error while reading a small file of the store: from the operating system, or because the file is not valid.
    pub(crate) fn unread(path: impl Into<PathBuf>, error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => StoreError::io("read", path, error),
            ReadError::NotRegular | ReadError::TooLong => StoreError::Damaged {
                path: path.into(),
                what: error.to_string(),
            },
        }
    }
}

/// What to do after an error of the operating system.
fn next_step(error: &io::Error) -> &'static str {
    if lacks_descriptors(error) {
        "As many files are open as there may be: raise the limit of open files (`LimitNOFILE` in the unit, `ulimit -n`), \
         and start again"
    } else if is_about_contents(error) {
        "Check that the path exists, its permissions and the disk"
    } else {
        "This says nothing of what is stored there: check permissions, space and memory, and try again"
    }
}

/// How long to wait before another attempt to open a file that must be opened.
pub(crate) const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(20);

/// The error of an operation for an error of the operating system.
pub(crate) fn from_os(action: &'static str, error: &io::Error) -> vfs::Error {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    if code == Some(Errno::NOSPC.raw_os_error()) || code == Some(Errno::DQUOT.raw_os_error()) {
        vfs::Error::NoSpace
    } else if code == Some(Errno::FBIG.raw_os_error()) {
        vfs::Error::TooLarge
    } else if lacks_descriptors(error) {
        vfs::Error::Delay
    } else if code == Some(Errno::OPNOTSUPP.raw_os_error()) {
        vfs::Error::NotSupported
    } else {
        vfs::Error::Io(format!("{action}: {error}"))
    }
}

impl From<MetadataError> for vfs::Error {
    fn from(error: MetadataError) -> Self {
        match error.os_error() {
            Some(lack) if lacks_descriptors(&lack) => vfs::Error::Delay,
            _ => vfs::Error::Io(error.to_string()),
        }
    }
}
