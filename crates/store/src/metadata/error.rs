//! Errors of the embedded store and its files, with the operating system's error if there is one.
//!
//! What must never enter: how errors are handled.

use std::io;

use crate::malformed::Malformed;

/// The embedded store refused or failed. If this happens in a write, this process writes no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata store: {what}")]
pub(crate) struct MetadataError {
    what: String,
    /// The error number of the operating system.
    code: Option<i32>,
}

impl MetadataError {
    pub(super) fn new(what: impl Into<String>) -> MetadataError {
        let what = what.into();
        MetadataError { what, code: None }
    }

    /// The error when `action` failed in the operating system or in the code that reads a file.
    pub(super) fn of(action: impl std::fmt::Display, error: &io::Error) -> MetadataError {
        MetadataError {
            what: format!("cannot {action}: {error}"),
            code: error.raw_os_error(),
        }
    }

    /// The error of the operating system, if that was the cause.
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

/// The error of the operating system that caused an error of the embedded store.
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
