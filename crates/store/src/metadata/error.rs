//! What the embedded store, and its files, refuse, and what the operating system said of that.
//!
//! What must never enter: what becomes of it.

use std::io;

use crate::malformed::Malformed;

/// The embedded store refused or failed. Writes are over for this process when a write met it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata store: {what}")]
pub(crate) struct MetadataError {
    what: String,
    /// What the operating system said, as a number.
    code: Option<i32>,
}

impl MetadataError {
    pub(super) fn new(what: impl Into<String>) -> MetadataError {
        let what = what.into();
        MetadataError { what, code: None }
    }

    /// The operating system, or the code that read, refused `action`.
    pub(super) fn of(action: impl std::fmt::Display, error: &io::Error) -> MetadataError {
        MetadataError {
            what: format!("cannot {action}: {error}"),
            code: error.raw_os_error(),
        }
    }

    /// What the operating system said, if it was that.
    pub(crate) fn os_error(&self) -> Option<io::Error> {
        self.code.map(io::Error::from_raw_os_error)
    }
}

impl From<fjall::Error> for MetadataError {
    fn from(error: fjall::Error) -> Self {
        match os_error(&error) {
            Some(refused) => MetadataError::of("use its files", refused),
            None => MetadataError::new(error.to_string()),
        }
    }
}

/// What the operating system said at the bottom of an error of the embedded store.
pub(super) fn os_error(error: &fjall::Error) -> Option<&io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

impl From<Malformed> for MetadataError {
    fn from(error: Malformed) -> Self {
        MetadataError::new(error.to_string())
    }
}
