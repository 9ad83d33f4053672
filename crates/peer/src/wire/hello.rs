//! The first two frames of a connection: the identity of each side, the protocol version, and the state of the lane.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::WireError;

/// The longest hello, with space for fields of later versions.
const HELLO_BYTES_MAX: usize = 64 * 1024;

/// The data of one side about itself and one lane. The dialler sends it; [`HelloReply`] answers it. Tag 6 was used before.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Hello {
    /// Versions of the transport that the sender speaks.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// The set that the sender belongs to.
    #[prost(bytes = "bytes", tag = "3")]
    pub set: Bytes,
    /// The sender's slot; must be that of its certificate.
    #[prost(uint32, tag = "4")]
    pub slot: u32,
    #[prost(uint64, tag = "5")]
    pub incarnation: u64,
    /// Which lane: 0 control, 1 metadata, 2 and up data.
    #[prost(uint32, tag = "7")]
    pub lane: u32,
    /// Data lanes that the sender wants.
    #[prost(uint32, tag = "8")]
    pub data_lanes: u32,
    /// The incarnation of the receiver that `received` and `credit` refer to; 0 when none is known yet.
    #[prost(uint64, tag = "9")]
    pub peer_incarnation: u64,
    /// The sender has every message of this lane up to this one.
    #[prost(uint64, tag = "10")]
    pub received: u64,
    /// Bytes that the receiver may have sent on this lane since the session began.
    #[prost(uint64, tag = "11")]
    pub credit: u64,
    /// The credit of a new session, if this hello begins one.
    #[prost(uint64, tag = "12")]
    pub credit_fresh: u64,
    /// What the sender's handler says about its history, in the handler's own form; only on the control lane.
    #[prost(bytes = "bytes", tag = "13")]
    pub introduction: Bytes,
    /// The sender expects a call that does not come. It wants to hear the reason, and no connection.
    #[prost(bool, tag = "14")]
    pub inquires: bool,
    /// The name of the sender's program, for people; only on the control lane.
    #[prost(string, tag = "15")]
    pub program: String,
}

/// Why a hello was refused, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum RefusalCode {
    /// Try again after a long time: a person has to do what the reason says first.
    Permanent = 0,
    /// Try again soon.
    Transient = 1,
}

/// A refusal with a reason in words.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WireRefusal {
    #[prost(enumeration = "RefusalCode", tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub reason: String,
    /// Data of the refusing handler for the other one, in its own form.
    #[prost(bytes = "bytes", tag = "3")]
    pub evidence: Bytes,
}

impl WireRefusal {
    pub(crate) fn new(code: RefusalCode, reason: impl Into<String>) -> WireRefusal {
        WireRefusal {
            code: code.into(),
            reason: reason.into(),
            evidence: Bytes::new(),
        }
    }

    /// A permanent refusal.
    pub(crate) fn permanent(reason: impl Into<String>) -> WireRefusal {
        WireRefusal::new(RefusalCode::Permanent, reason)
    }

    /// A transient refusal.
    pub(crate) fn transient(reason: impl Into<String>) -> WireRefusal {
        WireRefusal::new(RefusalCode::Transient, reason)
    }

    pub(crate) fn is_transient(&self) -> bool {
        self.code == i32::from(RefusalCode::Transient)
    }
}

/// The answer to a hello: exactly one of the two fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HelloReply {
    #[prost(message, optional, tag = "1")]
    pub hello: Option<Hello>,
    #[prost(message, optional, tag = "2")]
    pub refusal: Option<WireRefusal>,
}

impl HelloReply {
    pub(crate) fn refuse(refusal: WireRefusal) -> HelloReply {
        HelloReply {
            hello: None,
            refusal: Some(refusal),
        }
    }
}

/// The highest version that both sides speak.
///
/// # Errors
/// The reason to send to the peer when there is none.
pub(crate) fn agree_on_version(
    ours: &RangeInclusive<u32>,
    theirs: RangeInclusive<u32>,
) -> Result<u32, String> {
    let highest = *ours.end().min(theirs.end());
    if ours.contains(&highest) && theirs.contains(&highest) {
        return Ok(highest);
    }
    Err(format!(
        "this server speaks versions {} to {} of the protocol between replicas, the other {} to {}; \
         upgrade the older one",
        ours.start(),
        ours.end(),
        theirs.start(),
        theirs.end()
    ))
}

/// Writes one length-prefixed message and flushes the stream.
pub(crate) async fn write_short<W: AsyncWrite + Unpin, M: prost::Message>(
    writer: &mut W,
    message: &M,
) -> Result<(), WireError> {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).map_err(|_| WireError::Malformed("hello"))?;
    writer.write_u32(length).await?;
    writer.write_all(&bytes).await?;
    writer.flush().await?;
    Ok(())
}

/// Reads one length-prefixed message of at most [`HELLO_BYTES_MAX`].
pub(crate) async fn read_short<R: AsyncRead + Unpin, M: prost::Message + Default>(
    reader: &mut R,
) -> Result<M, WireError> {
    let length = reader.read_u32().await? as usize;
    if length > HELLO_BYTES_MAX {
        return Err(WireError::TooLong {
            part: "hello",
            announced: length as u64,
            allowed: HELLO_BYTES_MAX as u64,
        });
    }
    let mut bytes = BytesMut::zeroed(length);
    reader.read_exact(&mut bytes).await?;
    M::decode(bytes.freeze()).map_err(|_| WireError::Malformed("hello"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message as _;

    #[test]
    fn the_highest_common_version_is_spoken() {
        assert_eq!(agree_on_version(&(1..=3), 2..=5), Ok(3));
        assert_eq!(agree_on_version(&(2..=5), 1..=3), Ok(3));
        assert!(agree_on_version(&(1..=1), 2..=5).is_err());
        assert!(agree_on_version(&(2..=5), 1..=1).is_err());
        let reversed = RangeInclusive::new(9, 0);
        assert!(agree_on_version(&(1..=1), reversed).is_err());
    }

    proptest! {
        #[test]
        fn garbage_hellos_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Hello::decode(&bytes[..]);
            let _ = HelloReply::decode(&bytes[..]);
        }
    }
}
