//! The only conversion of file system errors into NFS statuses.

use std::time::Instant;

use nfs4::NfsStat4;
use throttle::Throttle;
use vfs::{Error, NameError};

/// Logs failing storage, which makes many operations fail. One for the whole process, like the log itself.
static FAILURES: Throttle = Throttle::new();
const FAILED: throttle::Subject = ("storage failed an operation", 0);

/// Stands for [`Error::Uncertain`] until the request is answered. Only SEQUENCE itself uses this status in answers, and
/// its results are not compared with it.
pub(crate) const UNCERTAIN: NfsStat4 = NfsStat4::RetryUncachedRep;

/// The status that tells a client about `error` (RFC 8881, section 15.1).
pub(crate) fn status_of(error: &Error) -> NfsStat4 {
    match error {
        Error::NotFound => NfsStat4::NoEnt,
        Error::Stale | Error::Removed { .. } => NfsStat4::Stale,
        Error::AccessDenied => NfsStat4::Access,
        Error::NotPermitted => NfsStat4::Perm,
        Error::Exists => NfsStat4::Exist,
        Error::NotDirectory => NfsStat4::NotDir,
        Error::IsDirectory => NfsStat4::IsDir,
        Error::IsSymlink => NfsStat4::Symlink,
        Error::WrongKind => NfsStat4::WrongType,
        Error::NotEmpty => NfsStat4::NotEmpty,
        Error::CrossHome => NfsStat4::XDev,
        Error::Invalid(_) => NfsStat4::Inval,
        Error::Name(name) => status_of_name(*name),
        Error::TooLarge => NfsStat4::FBig,
        Error::TooManyLinks => NfsStat4::MLink,
        Error::NoSpace => NfsStat4::NoSpc,
        Error::ReadOnly => NfsStat4::RoFs,
        Error::BadCookie => NfsStat4::BadCookie,
        Error::NoXattr => NfsStat4::NoXattr,
        Error::XattrTooLarge => NfsStat4::Xattr2Big,
        Error::ShareDenied => NfsStat4::ShareDenied,
        Error::Locked(_) => NfsStat4::Locked,
        Error::Grace => NfsStat4::Grace,
        Error::Delay => NfsStat4::Delay,
        // These two concern the whole request. No operation has such a status; `repeats` decides what SEQUENCE answers.
        Error::NotCarriedOut => NfsStat4::DeadSession,
        Error::Uncertain => UNCERTAIN,
        Error::NotSupported => NfsStat4::NotSupp,
        Error::Io(cause) => {
            if let Some(sum) = FAILURES.failed(FAILED, Instant::now()) {
                tracing::error!(%cause, %sum, "storage failed an operation; clients get an I/O error");
            }
            NfsStat4::Io
        }
    }
}

/// The status for bytes that are not a valid name.
pub(crate) fn status_of_name(error: NameError) -> NfsStat4 {
    match error {
        NameError::Empty => NfsStat4::Inval,
        NameError::TooLong => NfsStat4::NameTooLong,
        NameError::BadCharacter => NfsStat4::BadChar,
        NameError::Reserved => NfsStat4::BadName,
    }
}

/// Converts file system results into operation results.
pub(crate) trait OrStatus<T> {
    /// Maps the error.
    fn or_status(self) -> Result<T, NfsStat4>;
}

impl<T> OrStatus<T> for vfs::Result<T> {
    fn or_status(self) -> Result<T, NfsStat4> {
        self.map_err(|error| status_of(&error))
    }
}
