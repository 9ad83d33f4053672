//! How values become bytes, in messages and in facts that the store keeps.
//!
//! What must never enter: what a value means.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Invariant: these types have no maps, floats or unsized sequences; only those could fail.
    postcard::to_allocvec(value).expect("a message of plain values can be encoded")
}

/// Decodes bytes of a peer.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    Ok(postcard::from_bytes(bytes)?)
}

/// Bytes that no replica of this version sends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a message cannot be decoded: {0}")]
    Encoding(#[from] postcard::Error),
    #[error("{0}")]
    Meaning(&'static str),
}

/// For bytes of the store.
impl From<Malformed> for vfs::Error {
    fn from(error: Malformed) -> vfs::Error {
        vfs::Error::Io(error.to_string())
    }
}
