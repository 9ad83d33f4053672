//! Why a file system refuses or fails an operation.

use crate::{DirectoryChange, LockConflict, NameError, ObjectId};
use serde::{Deserialize, Serialize};

/// Why arguments are invalid. By this name, so that derived code does not borrow it from what it decodes.
type Reason = &'static str;

/// The result of a file system operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation did not happen. Nothing has changed when one of these is returned, [`Error::Uncertain`] and
/// [`Error::Removed`] excepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// No entry has that name.
    #[error("no such entry")]
    NotFound,
    /// The object of a filehandle is gone, or was never of this tree.
    #[error("the object no longer exists")]
    Stale,
    /// The mode bits do not let this user do that (POSIX `EACCES`).
    #[error("permission denied")]
    AccessDenied,
    /// Only the owner or the superuser may do that (POSIX `EPERM`).
    #[error("operation not permitted")]
    NotPermitted,
    /// The entry is there already.
    #[error("the entry exists")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Something other than a directory was needed.
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
    /// The bytes cannot be a name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// An offset or length beyond what a file can hold.
    #[error("the file would become too large")]
    TooLarge,
    /// One more name than an object can have.
    #[error("the object has too many links")]
    TooManyLinks,
    /// No space is left for data, apart from what is kept back so that things can be removed.
    #[error("no space left")]
    NoSpace,
    /// The tree cannot be changed at all.
    #[error("read-only file system")]
    ReadOnly,
    /// A cookie that no directory page could have held.
    #[error("the directory cookie is not valid")]
    BadCookie,
    /// The object has no such extended attribute.
    #[error("no such extended attribute")]
    NoXattr,
    /// The extended attribute, or all of the object's together, would be too large.
    #[error("the extended attribute is too large")]
    XattrTooLarge,
    /// Another owner's share reservation stands against the open or the I/O.
    #[error("denied by another open")]
    ShareDenied,
    /// Another owner's byte-range lock stands against the lock or the I/O.
    #[error("a byte-range lock is in the way")]
    Locked(Box<LockConflict>),
    /// The operation is allowed only after clients had time to reclaim their locks.
    #[error("in grace after a failure")]
    Grace,
    /// The answer is not to be had now; the client should ask again later.
    #[error("try again later")]
    Delay,
    /// The file system has no such operation.
    #[error("not supported")]
    NotSupported,
    /// The request is one to be answered only if it was carried out, and it was not, as far as is known.
    #[error("the request was not carried out before")]
    NotCarriedOut,
    /// It is not known yet whether the change was made, and nobody is to be told that it was not: the same request should
    /// come again later.
    #[error("what became of the operation is not known yet")]
    Uncertain,
    /// The storage below failed. The text is for the log, not for clients.
    #[error("input/output error: {0}")]
    Io(String),
    /// The request was carried out before, and the object that it made has been removed since.
    #[error("what the request has made no longer exists")]
    Removed {
        /// What it made.
        object: ObjectId,
        /// How the directory changed then.
        directory: DirectoryChange,
    },
    /// The operation is about objects of several homes of a pool, and cannot be done in one.
    #[error("the objects lie at different homes")]
    CrossHome,
}

/// Reasons are written for the log of the server that found them; elsewhere a general one stands in.
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
