//! Reliable TLS connections between servers: the replicas of one set, or the servers of one pool.
//!
//! An [`Endpoint`] listens and dials. Each incarnation of a [`Peer`] has a [`Session`], which survives its connections:
//! a message is sent once and handed to the [`MessageHandler`] once, in the order of its [`Lane`], however often
//! connections break. When either side restarts, the session ends, and its undelivered messages are lost. Requests then
//! end with [`RequestError::OutcomeUnknown`].
//!
//! Read on in [`MessageHandler`] (what is handed up, and the order), [`Settings`] (windows and times), [`set`] (the
//! authority, invitations, joining), and inside in `flow` (sequence numbers, acknowledgement, credit),
//! `wire` (bytes), `connection` (one connection of one lane) and `tls`.
//!
//! What must never enter: the meaning of a message. Replication control, views and files belong to the handler. Here a
//! message is a number, a body and a payload. Its arrival says nothing about storage.

mod accept;
mod callers;
mod compression;
mod connection;
mod delivery;
mod dial;
mod endpoint;
mod error;
mod flow;
mod handler;
mod handshake;
mod identity;
mod keepalive;
mod message;
mod peers;
mod session;
pub mod set;
mod settings;
mod signing;
mod status;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

/// Decodes arbitrary bytes as everything that a connection, a token or the files of a set can contain, for fuzzing. The
/// result is discarded. It reads from memory, so it never waits.
#[doc(hidden)]
pub async fn decode_as_anything(bytes: &[u8]) {
    drop(wire::decode_as_anything(bytes).await);
    set::decode_as_anything(bytes);
}

pub use endpoint::Endpoint;
pub use error::{Refusal, RequestError, SendError, TurnedAway};
pub use handler::{Incoming, MessageHandler, Sender};
pub use identity::{Incarnation, SetId};
pub use message::{Lane, Message};
pub use peers::Peer;
pub use session::Session;
pub use settings::{MAX_DATA_LANES, PROTOCOL_VERSIONS, Settings};
pub use signing::{Signatures, Unproven};
pub use status::PeerStatus;
pub use tls::{Identity, IdentityError};
pub use wire::{Progress, frame_bytes};
