//! Frames: a fixed prefix, a header that may be extended, and a payload that is never copied.
//!
//! ```text
//! 0        4        8        12
//! +--------+--------+--------+----------------+-----------------+
//! | header | payload| CRC-32C| header         | payload         |
//! | length | length | header | (protobuf)     | (raw or zstd)   |
//! +--------+--------+--------+----------------+-----------------+
//! ```
//!
//! All integers of the prefix are big-endian. The checksum of the payload is in the header. It covers the payload
//! before compression, so that it also detects a fault of compression or of memory.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::WireError;
use crate::message::Message;

/// Length of the prefix.
pub(crate) const FRAME_PREFIX_BYTES: usize = 12;

/// The longest header: the largest body and space for its other fields.
const HEADER_BYTES_MAX: usize = Message::MAX_BODY_BYTES + 1024;

/// The role of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Role {
    /// Nothing: acknowledgement, credit, keepalive.
    Quiet = 0,
    /// A message that expects no reply.
    OneWay = 1,
    /// A request; its reply carries the same `request`.
    Request = 2,
    /// The reply of a request that was executed.
    Reply = 3,
    /// The request was not executed; the body says why.
    Refused = 4,
    /// The request was not executed, because too many requests are in progress.
    Busy = 5,
}

/// The header of every frame after the hello. Fields may be added; an unknown one is skipped. Tag 1 was used before.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Header {
    /// Counts the messages of this lane from 1; 0 in a quiet frame.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// Every message up to this one has arrived.
    #[prost(uint64, tag = "3")]
    pub acknowledged: u64,
    /// How many bytes the receiver of this frame may have sent since the session began.
    #[prost(uint64, tag = "4")]
    pub credit: u64,
    /// See [`Role`].
    #[prost(enumeration = "Role", tag = "5")]
    pub role: i32,
    /// Links a request and its reply.
    #[prost(uint64, tag = "6")]
    pub request: u64,
    /// The handler's kind of message.
    #[prost(uint32, tag = "7")]
    pub kind: u32,
    /// The handler's body.
    #[prost(bytes = "bytes", tag = "8")]
    pub body: Bytes,
    /// CRC-32C of the payload before compression.
    #[prost(fixed32, tag = "9")]
    pub payload_checksum: u32,
    /// Length of the payload before compression with zstd; 0 when it is not compressed.
    #[prost(uint32, tag = "10")]
    pub plain_bytes: u32,
    /// Asks for an echo of this number; 0 means no ping.
    #[prost(uint64, tag = "11")]
    pub ping: u64,
    /// Echoes a ping.
    #[prost(uint64, tag = "12")]
    pub pong: u64,
}

/// A frame as read: lengths and the header's checksum are verified, the payload is not yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub header: Header,
    /// As it was transmitted.
    pub payload: Bytes,
}

/// Appends prefix and header of a frame to `out`. The payload is written separately.
pub(crate) fn encode_frame(header: &Header, payload_bytes: usize, out: &mut BytesMut) {
    let start = out.len();
    out.put_bytes(0, FRAME_PREFIX_BYTES);
    header
        .encode(out)
        .expect("a BytesMut grows, so encoding into it cannot run out of space");
    let body = &out[start + FRAME_PREFIX_BYTES..];
    let (length, checksum) = (wire_length(body.len()), crc32c::crc32c(body));
    let mut prefix = &mut out[start..start + FRAME_PREFIX_BYTES];
    prefix.put_u32(length);
    prefix.put_u32(wire_length(payload_bytes));
    prefix.put_u32(checksum);
}

fn wire_length(bytes: usize) -> u32 {
    u32::try_from(bytes)
        .expect("bodies and payloads are bounded far below 4 GiB before they are sent")
}

/// Header numbers that grow during a session, and with them the length of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which message of its lane this is, from 1.
    pub sequence: u64,
    /// How many messages of the other side have arrived.
    pub acknowledged: u64,
    /// How many bytes the other side may have sent since the session began.
    pub credit: u64,
}

/// The length of the frame of a one-way message, prefix and header included, before compression and TLS. For measuring
/// the cost of a protocol without sending anything.
#[must_use]
pub fn frame_bytes(message: &Message, progress: Progress) -> usize {
    let header = Header {
        sequence: progress.sequence,
        acknowledged: progress.acknowledged,
        credit: progress.credit,
        role: Role::OneWay.into(),
        kind: message.kind,
        body: message.body.clone(),
        payload_checksum: crc32c::crc32c(&message.payload),
        ..Header::default()
    };
    let mut frame = BytesMut::new();
    encode_frame(&header, message.payload.len(), &mut frame);
    frame.len() + message.payload.len()
}

/// Reads one frame whose payload has at most `payload_bytes_max` bytes.
///
/// # Errors
/// Broken connections, and all malformed frames ([`WireError`]).
pub(crate) async fn read_frame<R: AsyncRead + Unpin>(
    reader: &mut R,
    payload_bytes_max: usize,
) -> Result<Frame, WireError> {
    let header_length = reader.read_u32().await? as usize;
    let payload_length = reader.read_u32().await? as usize;
    let checksum = reader.read_u32().await?;
    check_length("header", header_length, HEADER_BYTES_MAX)?;
    check_length("payload", payload_length, payload_bytes_max)?;
    let header = read_bytes(reader, header_length).await?;
    if crc32c::crc32c(&header) != checksum {
        return Err(WireError::Checksum("header"));
    }
    let header = Header::decode(header).map_err(|_| WireError::Malformed("header"))?;
    let payload = read_bytes(reader, payload_length).await?;
    Ok(Frame { header, payload })
}

fn check_length(part: &'static str, announced: usize, allowed: usize) -> Result<(), WireError> {
    if announced > allowed {
        return Err(WireError::TooLong {
            part,
            announced: announced as u64,
            allowed: allowed as u64,
        });
    }
    Ok(())
}

/// Reads exactly `length` bytes without clearing the memory first.
async fn read_bytes<R: AsyncRead + Unpin>(
    reader: &mut R,
    length: usize,
) -> Result<Bytes, WireError> {
    let mut bytes = BytesMut::with_capacity(length);
    let mut limited = reader.take(length as u64);
    while bytes.len() < length {
        if limited.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    fn encoded(header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        encode_frame(header, payload.len(), &mut out);
        out.extend_from_slice(payload);
        out.to_vec()
    }

    fn sample() -> Header {
        Header {
            sequence: 9,
            body: Bytes::from_static(b"body"),
            kind: 3,
            ..Header::default()
        }
    }

    #[test]
    fn a_frame_reads_back_as_written() {
        let bytes = encoded(&sample(), b"payload");
        let frame = run(read_frame(&mut &bytes[..], 100)).expect("decodes");
        assert_eq!(frame.header, sample());
        assert_eq!(&frame.payload[..], b"payload");
    }

    #[test]
    fn a_frame_keeps_its_bytes() {
        let bytes = encoded(&sample(), b"");
        assert_eq!(&bytes[..8], [0, 0, 0, 10, 0, 0, 0, 0]);
        assert_eq!(&bytes[12..], b"\x10\x09\x38\x03\x42\x04body");
    }

    #[test]
    fn the_length_that_is_told_is_that_of_the_frame() {
        let message = Message::new(1, &b"body"[..]).with_payload(&b"payload"[..]);
        let progress = Progress {
            sequence: 300,
            acknowledged: 2,
            credit: 4 << 20,
        };
        // A tag before each: sequence, acknowledged, credit, role, kind, body with its length, checksum.
        let header = 3 + 2 + 5 + 2 + 2 + (2 + 4) + 5;
        let expected = FRAME_PREFIX_BYTES + header + b"payload".len();
        assert_eq!(frame_bytes(&message, progress), expected);
    }

    #[test]
    fn truncation_at_every_byte_is_an_end_of_file() {
        let bytes = encoded(&sample(), b"payload");
        for length in 0..bytes.len() {
            let error = run(read_frame(&mut &bytes[..length], 100)).expect_err("too short");
            assert!(matches!(error, WireError::Broken(_)), "{error}");
        }
    }

    #[test]
    fn lengths_are_judged_before_anything_is_read() {
        for prefix in [[0xff; 12], [0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 0]] {
            let error = run(read_frame(&mut &prefix[..], 100)).expect_err("too long");
            assert!(matches!(error, WireError::TooLong { .. }), "{error}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let good = encoded(&sample(), b"");
        for bit in FRAME_PREFIX_BYTES * 8..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let error = run(read_frame(&mut &bad[..], 100)).expect_err("checksum");
            assert!(matches!(error, WireError::Checksum("header")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics_and_never_exceeds_the_bound(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            short_lengths in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if short_lengths && bytes.len() > FRAME_PREFIX_BYTES {
                let header = (bytes.len() - FRAME_PREFIX_BYTES) / 2;
                let checksum = crc32c::crc32c(&bytes[FRAME_PREFIX_BYTES..][..header]);
                bytes[..4].copy_from_slice(&(header as u32).to_be_bytes());
                bytes[4..8].copy_from_slice(&20u32.to_be_bytes());
                bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
            }
            if let Ok(frame) = run(read_frame(&mut &bytes[..], 64)) {
                prop_assert!(frame.payload.len() <= 64);
            }
        }
    }
}
