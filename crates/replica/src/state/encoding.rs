//! How values become bytes, of messages and of facts that the store keeps.
//!
//! What must never enter: what a value means.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Invariant: these types have no maps, floats or unsized sequences, which alone could fail.
    postcard::to_allocvec(value).expect("a message of plain values can be encoded")
}

/// Takes bytes of a peer apart.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    Ok(postcard::from_bytes(bytes)?)
}

/// What no replica of this version sends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a message cannot be decoded: {0}")]
    Encoding(#[from] postcard::Error),
    #[error("{0}")]
    Meaning(&'static str),
}

/// Of bytes that are the store's.
impl From<Malformed> for vfs::Error {
    fn from(error: Malformed) -> vfs::Error {
        vfs::Error::Io(error.to_string())
    }
}
