//! Errors of the transport, as a handler sees them. Malformed bytes have their own type in [`crate::wire`], refused
//! certificates and tokens in [`crate::set`].

use bytes::Bytes;

use crate::identity::Incarnation;
use crate::message::{Lane, Message};

/// A message was not accepted for sending. No part of it reached the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No incarnation of the peer has been met since this replica started.
    #[error(
        "the peer has not been reached since this server started; check its address and that it runs"
    )]
    NoSession,
    /// The incarnation that the message was meant for is gone.
    #[error("incarnation {0} of the peer has ended; take the session of the next one")]
    Ended(Incarnation),
    /// The bytes queued for this lane have reached its window.
    #[error("the {0} lane is full; wait until the peer has taken what is queued")]
    Full(Lane),
    /// Body or payload is larger than the lane allows.
    #[error(
        "a message of {body_bytes} + {payload_bytes} bytes is too large for the {lane} lane; split the payload"
    )]
    TooLarge {
        /// The requested lane.
        lane: Lane,
        /// Length of the body; the limit is [`Message::MAX_BODY_BYTES`].
        body_bytes: usize,
        /// Length of the payload; the limit is [`Lane::max_payload_bytes`].
        payload_bytes: usize,
    },
}

impl SendError {
    /// Refuses a message that the lane cannot carry.
    pub(crate) fn check_size(lane: Lane, message: &Message) -> Result<(), SendError> {
        if message.body.len() > Message::MAX_BODY_BYTES
            || message.payload.len() > lane.max_payload_bytes()
        {
            return Err(SendError::TooLarge {
                lane,
                body_bytes: message.body.len(),
                payload_bytes: message.payload.len(),
            });
        }
        Ok(())
    }
}

/// A request was not answered with a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request was never sent.
    #[error(transparent)]
    NotSent(#[from] SendError),
    /// No reply in time. The peer may have executed the request, or may still do so.
    #[error("no reply before the deadline; the peer may have executed the request")]
    Deadline,
    /// The incarnation that had the request is gone. Whether it executed the request is unknown. Repeat only a request
    /// that may be executed twice or that the peer recognises by its origin.
    #[error("incarnation {0} of the peer ended; whether it executed the request is unknown")]
    OutcomeUnknown(Incarnation),
    /// The peer did not execute the request.
    #[error("the peer refused the request: {0}")]
    Refused(Refusal),
    /// The peer works on too many of our requests. It did not execute this one.
    #[error("the peer works on too many requests; ask again later")]
    Busy,
}

/// Why a handler refuses a message or a request. For people: what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Why a handler makes no connection with a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TurnedAway {
    /// Another attempt soon may succeed.
    pub again: bool,
    /// For people: what is wrong and what to do.
    pub reason: String,
    /// For the handler of the peer, in the handler's own form; at most 32 KiB.
    pub evidence: Bytes,
}
