//! Why a file system refuses or fails an operation.

use crate::{DirectoryChange, LockConflict, NameError, ObjectId};
use serde::{Deserialize, Serialize};

/// Why arguments are invalid. With this alias derived code does not borrow the text from the decoder's input.
type Reason = &'static str;

/// The result of a file system operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation did not happen. When one of these is returned, nothing has changed, except for [`Error::Uncertain`] and
/// [`Error::Removed`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// No entry has that name.
    #[error("no such entry")]
    NotFound,
    /// The object of a filehandle is gone, or was never part of this tree.
    #[error("the object no longer exists")]
    Stale,
    /// The mode bits do not allow this to the user (POSIX `EACCES`).
    #[error("permission denied")]
    AccessDenied,
    /// Only the owner or the superuser may do this (POSIX `EPERM`).
    #[error("operation not permitted")]
    NotPermitted,
    /// The entry exists already.
    #[error("the entry exists")]
    Exists,
    /// The operation needs a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The operation needs an object other than a directory.
    #[error("is a directory")]
    IsDirectory,
    /// The object is a symbolic link, which cannot be opened or read as a file.
    #[error("is a symbolic link")]
    IsSymlink,
    /// The object's kind does not support the operation.
    #[error("the object is of the wrong kind")]
    WrongKind,
    /// The directory still has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Malformed or contradictory arguments.
    #[error("invalid argument: {0}")]
    Invalid(#[serde(with = "reason")] Reason),
    /// The bytes are not a valid name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// An offset or length beyond the maximum file size.
    #[error("the file would become too large")]
    TooLarge,
    /// The object already has the maximum number of names.
    #[error("the object has too many links")]
    TooManyLinks,
    /// No space is left for data, except the reserve for removals.
    #[error("no space left")]
    NoSpace,
    /// The tree cannot be changed.
    #[error("read-only file system")]
    ReadOnly,
    /// No directory page contains such a cookie.
    #[error("the directory cookie is not valid")]
    BadCookie,
    /// The object has no such extended attribute.
    #[error("no such extended attribute")]
    NoXattr,
    /// The extended attribute, or all of the object's together, would be too large.
    #[error("the extended attribute is too large")]
    XattrTooLarge,
    /// Another owner's share reservation conflicts with the open or the I/O.
    #[error("denied by another open")]
    ShareDenied,
    /// Another owner's byte-range lock conflicts with the lock or the I/O.
    #[error("a byte-range lock is in the way")]
    Locked(Box<LockConflict>),
    /// The operation is allowed only after clients have had time to reclaim their locks.
    #[error("in grace after a failure")]
    Grace,
    /// No answer is possible now; the client should retry later.
    #[error("try again later")]
    Delay,
    /// The file system has no such operation.
    #[error("not supported")]
    NotSupported,
    /// The request is a pure repeat, and as far as known it was not carried out before.
    #[error("the request was not carried out before")]
    NotCarriedOut,
    /// It is not known yet whether the change was made, and the client must not be told that it was not. The client should repeat the
    /// same request later.
    #[error("what became of the operation is not known yet")]
    Uncertain,
    /// The storage below failed. The text is for the log, not for clients.
    #[error("input/output error: {0}")]
    Io(String),
    /// The request was carried out before, but the object that it created has been removed since.
    #[error("what the request has made no longer exists")]
    Removed {
        /// The created object.
        object: ObjectId,
        /// The change of the directory at that time.
        directory: DirectoryChange,
    },
    /// The operation concerns objects of several homes of a pool, and cannot be done at one of them.
    #[error("the objects lie at different homes")]
    CrossHome,
}

/// Reasons are text for the log of the server that found them; other servers get a general text.
mod reason {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        _: &&'static str,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<&'static str, D::Error> {
        <()>::deserialize(from)?;
        Ok("refused by another server")
    }
}

impl Error {
    /// The error of work whose task has ended before it: [`Error::Delay`] if the task was cancelled because the program stops, which says nothing
    /// about the data, and [`Error::Io`] otherwise.
    #[must_use]
    pub fn broken_off(was_cancelled: bool, why: &impl std::fmt::Display) -> Error {
        match was_cancelled {
            true => Error::Delay,
            false => Error::Io(format!("it was broken off: {why}")),
        }
    }
}
