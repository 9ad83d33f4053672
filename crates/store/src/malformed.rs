//! Bytes of the store's own that make no sense.
//!
//! What must never enter: where they lie.

/// Bytes on disk that no writer of ours can have produced.
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
