//! Bytes between replicas: frames, their headers, and the hello that opens a connection.
//!
//! All input is untrusted until it has been decoded: lengths are checked before memory is allocated, checksums are
//! verified before anything is handed up, and nothing panics. What must never enter: sockets, sessions, the meaning of
//! a message.

mod frame;
mod hello;

pub(crate) use frame::{Frame, Header, Role, encode_frame, read_frame};
pub use frame::{Progress, frame_bytes};
pub(crate) use hello::{
    Hello, HelloReply, RefusalCode, WireRefusal, agree_on_version, read_short, write_short,
};

use std::io;

use prost::Message as _;

/// Decodes arbitrary bytes as everything that a connection carries, for fuzzing. The result is discarded.
///
/// # Errors
/// Those of decoding a frame.
pub(crate) async fn decode_as_anything(bytes: &[u8]) -> Result<(), WireError> {
    const PAYLOAD_BYTES_MAX: usize = 1 << 16;
    drop(Hello::decode(bytes));
    drop(HelloReply::decode(bytes));
    drop(Header::decode(bytes));
    drop(read_short::<_, Hello>(&mut &*bytes).await);
    let mut stream = bytes;
    while !stream.is_empty() {
        read_frame(&mut stream, PAYLOAD_BYTES_MAX).await?;
    }
    Ok(())
}

/// Bytes or messages that no correct peer sends. The connection is closed. Messages in flight are sent again over the
/// next one.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection broke or was closed.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// Nothing arrived for three keepalive intervals.
    #[error("the peer was silent for too long")]
    Silent,
    /// A length above the limit of the lane.
    #[error("a frame announced {announced} bytes of {part}, more than the {allowed} allowed")]
    TooLong {
        /// Which part of the frame.
        part: &'static str,
        /// The length in the frame.
        announced: u64,
        /// The limit of the lane.
        allowed: u64,
    },
    /// A header or payload does not match its checksum.
    #[error("the checksum of a {0} does not match; it will be sent again")]
    Checksum(&'static str),
    /// A header or hello that does not decode.
    #[error("a {0} does not decode")]
    Malformed(&'static str),
    /// It decodes, but breaks the rules of the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
}
