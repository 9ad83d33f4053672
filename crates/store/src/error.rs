//! Why a store cannot be opened, made or checked, and how storage failures become answers.
//!
//! Refused operations are [`vfs::Error`]; nothing in here is meant for a client's eyes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plain_file::{ReadError, is_about_contents, lacks_descriptors};

use crate::metadata::MetadataError;

/// Why a directory could not be opened, made or checked as a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused something.
    #[error("cannot {action} {path}: {source}. {}", next_step(source))]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process works on the store.
    #[error("{0} is in use by another process; stop that one first")]
    InUse(PathBuf),
    /// Nothing is there to open.
    #[error("{0} holds no store; create one there first, or mount the disk that holds it")]
    NoStore(PathBuf),
    /// A store is there already.
    #[error("{0} holds a store already; open it, or choose another directory")]
    AlreadyThere(PathBuf),
    /// The directory belongs to something else.
    #[error("{0} is not empty and holds no store; choose an empty directory")]
    Foreign(PathBuf),
    /// Part of the store is gone.
    #[error("{0} is missing from the store; restore it from a backup or replicate the tree anew")]
    MissingPiece(PathBuf),
    /// A newer program wrote the store.
    #[error("{path} has format {found}, this program knows up to {known}; use a newer program")]
    NewerFormat {
        /// The file that says so.
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
        /// The file that says so.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format of this program.
        known: u32,
    },
    /// Data of files lies elsewhere, and nobody said where.
    #[error(
        "files of {0} lie at the data servers of a pool, and this server was not told of one: the files that make it the metadata \
         server of its pool (`pool` in the data directory) are missing. Put back the whole data directory from one backup"
    )]
    Elsewhere(PathBuf),
    /// What is on disk contradicts itself.
    #[error("{path}: {what}; run the check, or restore the store")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The disk no longer has what was stable.
    #[error(
        "{path}: {what}. The disk has changed or lost what was stable. Nothing is served from here, because it would \
         silently be less than was answered. At a member of a set: take this copy anew from another member, with `meridian \
         set rejoin`. Alone: restore a backup{}", giving_up(*can_be_given_up)
    )]
    Rotten {
        /// Where.
        path: PathBuf,
        /// What is known.
        what: String,
        /// [`crate::Store::give_up_damaged`] makes something of it that can be opened.
        can_be_given_up: bool,
    },
    /// The metadata store failed.
    #[error("the metadata in {path} failed: {what}. See the log; free space or replace the disk")]
    Metadata {
        /// Where.
        path: PathBuf,
        /// What the metadata store said.
        what: String,
    },
    /// An option makes no sense.
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

    /// A small file of the store was not read: the operating system refused, or what is there is no such file.
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

/// What to do when the operating system refuses something.
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

/// How long to wait before something is opened again that has to be.
pub(crate) const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(20);

/// An operating system error, as an answer to an operation.
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
