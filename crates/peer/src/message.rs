//! Messages that a handler sends, and the kinds of lane that carry them.
//!
//! The meaning of `kind` and `body` is the handler's; nothing in here may look into them.

use std::fmt;

use bytes::Bytes;

/// One message of the handler. It is sent once and handed up once, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The kind of this message in the handler's protocol.
    pub kind: u32,
    /// The handler's encoding of everything except bulk bytes; at most [`Message::MAX_BODY_BYTES`].
    pub body: Bytes,
    /// Bulk bytes, written to the socket without an extra copy. The lane limits their size.
    pub payload: Bytes,
}

impl Message {
    /// The largest body. Data whose size grows with a file or a directory belongs in the payload.
    pub const MAX_BODY_BYTES: usize = 48 * 1024;

    /// The credit that a message costs beyond its bytes, so that the number of empty messages is bounded too.
    pub const OVERHEAD_BYTES: u64 = 256;

    /// A message without a payload.
    #[must_use]
    pub fn new(kind: u32, body: impl Into<Bytes>) -> Message {
        Message {
            kind,
            body: body.into(),
            payload: Bytes::new(),
        }
    }

    /// The same message with bulk bytes beside it.
    #[must_use]
    pub fn with_payload(mut self, payload: impl Into<Bytes>) -> Message {
        self.payload = payload.into();
        self
    }

    /// What the message counts against credit, in bytes, before compression. Both ends compute the same value.
    #[must_use]
    pub fn cost(&self) -> u64 {
        Self::OVERHEAD_BYTES + self.body.len() as u64 + self.payload.len() as u64
    }
}

/// The kinds of lane. The control lane and the metadata lane each keep the order of messages. There is no order between
/// lanes, or among data messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Replication control and other small urgent messages.
    Control,
    /// The ordered stream of updates, and requests that follow it.
    Metadata,
    /// File contents. The least loaded of several connections is chosen.
    Data,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lane::Control => "control",
            Lane::Metadata => "metadata",
            Lane::Data => "data",
        })
    }
}

impl Lane {
    /// The largest payload that a lane of this kind carries, in bytes.
    #[must_use]
    pub const fn max_payload_bytes(self) -> usize {
        match self {
            Lane::Control => 64 * 1024,
            Lane::Metadata => 1024 * 1024,
            Lane::Data => 2 * 1024 * 1024,
        }
    }

    /// The largest cost of one message here; no window may be smaller.
    #[must_use]
    pub const fn max_message_cost(self) -> u64 {
        Message::OVERHEAD_BYTES + Message::MAX_BODY_BYTES as u64 + self.max_payload_bytes() as u64
    }
}
