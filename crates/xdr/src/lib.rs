//! External Data Representation (RFC 4506): a bounded reader, a writer that
//! never copies payloads, and macros that write a type once for both directions.
//!
//! The crate knows only the encoding: no RPC, no NFS, no sockets.
//! Input is untrusted; no input causes a panic here or an allocation of more than
//! a small multiple of its size.

#![forbid(unsafe_code)]

mod codec;
mod error;
mod macros;
mod reader;
mod rope;
mod writer;

pub use bytes::Bytes;
pub use codec::{Decode, DecodeBounded, Encode};
pub use error::DecodeError;
#[doc(hidden)]
pub use macros::first_word;
pub use reader::Reader;
pub use rope::Rope;
pub use writer::{Mark, PAYLOAD_MIN, Writer};

/// Bytes of padding that follow `length` bytes of opaque data, so that the next
/// item starts at a multiple of four (RFC 4506, section 3).
///
/// ```
/// assert_eq!(xdr::padding(5), 3);
/// assert_eq!(xdr::padding(8), 0);
/// ```
pub const fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

/// Bytes that a variable-length opaque of `length` bytes takes on the wire:
/// its length word, its content and its padding (RFC 4506, section 4.10).
pub const fn opaque_size(length: usize) -> usize {
    4 + length + padding(length)
}
