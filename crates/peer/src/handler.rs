//! The handler's side of the transport: the questions that it answers and the messages that it gets.

use async_trait::async_trait;
use bytes::Bytes;
use vfs::ReplicaSlot;

use crate::error::{Refusal, TurnedAway};
use crate::flow::Consumed;
use crate::identity::Incarnation;
use crate::message::{Lane, Message};

/// The replica at the other end, as its certificate and its hello name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Its slot in the set, proven by its certificate.
    pub slot: ReplicaSlot,
    /// The incarnation of the peer.
    pub incarnation: Incarnation,
}

/// A message as it arrived: complete, in order, with verified checksums, and only once.
///
/// Dropping this value returns the credit for its bytes to the sender. Keep it until the bytes are stored or copied.
/// Then the windows of [`crate::Settings`] bound the memory.
#[derive(Debug)]
pub struct Incoming {
    /// Who sent it.
    pub from: Sender,
    /// The kind of lane it came by.
    pub lane: Lane,
    /// The message itself.
    pub message: Message,
    /// Returns the credit when dropped.
    pub(crate) consumed: Consumed,
}

impl Incoming {
    /// Takes the message out and returns its credit to the sender now.
    #[must_use]
    pub fn release(self) -> Message {
        drop(self.consumed);
        self.message
    }
}

/// The owner of an [`crate::Endpoint`]: judges peers and messages, and receives them.
///
/// The order is fixed for each peer: `session_began`, then messages of that incarnation, then `session_ended` after the
/// last `receive` has returned, then `session_began` of the next. When a session ends, requests not yet handed up are
/// dropped, and requests being answered continue. Within the control lane and within the metadata lane the next message
/// is handed up after the handler of the previous one has returned. Requests are answered concurrently. Requests of one
/// ordered lane are admitted in the order in which they were sent.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// Whether this peer may talk to us at all. Called for every connection, before anything is handed up. The reason
    /// of a refusal is sent to the peer.
    ///
    /// # Errors
    /// The reason for refusing, which ends the connection.
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        let _ = peer;
        Ok(())
    }

    /// What this replica tells a peer about its history, in the handler's own form, at most 32 KiB. Called whenever a
    /// control lane is connected.
    fn introduce(&self, to: ReplicaSlot) -> Bytes {
        let _ = to;
        Bytes::new()
    }

    /// Judges what a peer says about its history, before a session with it begins and whenever its control lane is
    /// connected again. Called for each peer that has a certificate of the set, before
    /// [`MessageHandler::admit_session`].
    ///
    /// # Errors
    /// Why no connection is made, and what to tell the peer's handler about it.
    fn meet(&self, peer: Sender, introduction: &Bytes) -> Result<(), TurnedAway> {
        let _ = (peer, introduction);
        Ok(())
    }

    /// A peer has refused a connection. `evidence` comes from the peer's handler, and is empty when the transport refused.
    fn turned_away(&self, by: ReplicaSlot, evidence: &Bytes) {
        let _ = (by, evidence);
    }

    /// Whether a message of this kind from this sender may be handed up. A refused message is dropped. A refused
    /// request is answered with the reason.
    ///
    /// # Errors
    /// The reason for refusing.
    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        let _ = (from, kind);
        Ok(())
    }

    /// Takes a message. Until it returns, the next message of an ordered lane waits. Do not wait here for something
    /// that only a later message of the same lane can bring.
    async fn receive(&self, incoming: Incoming);

    /// Answers a request. It is not cancelled when its sender disappears, so that an operation that has begun
    /// completes.
    ///
    /// # Errors
    /// A refusal says that the request was not executed.
    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal>;

    /// A new incarnation of a peer is connected. Nothing sent to an earlier one will reach it.
    fn session_began(&self, peer: Sender) {
        let _ = peer;
    }

    /// An incarnation is gone. What it had not received is lost.
    fn session_ended(&self, peer: Sender) {
        let _ = peer;
    }
}
