//! The error for stored bytes that cannot be decoded.
//!
//! What must never enter: where the bytes are stored.

/// Stored bytes that no version of this program can have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored row is damaged: {0}")]
pub struct Malformed(pub(crate) &'static str);

impl From<fields::Malformed> for Malformed {
    fn from(fields::Malformed(what): fields::Malformed) -> Self {
        Malformed(what)
    }
}

impl From<Malformed> for vfs::Error {
    fn from(error: Malformed) -> Self {
        vfs::Error::Io(format!("{error}; run the check"))
    }
}
