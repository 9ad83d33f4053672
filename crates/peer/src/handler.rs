//! The handler's side of the transport: what it is asked and what it is handed.

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
    /// Its place in the set, proven by its certificate.
    pub slot: ReplicaSlot,
    /// The start of the peer in which it speaks.
    pub incarnation: Incarnation,
}

/// A message as it arrived: complete, in order, with its checksums verified, for the first time.
///
/// The credit for its bytes returns to the sender when this value is dropped. Keep it until the bytes
/// are stored or copied, and memory stays bounded by the windows of [`crate::Settings`].
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
/// The order that is promised, for each peer: `session_began`, then messages of that incarnation, then
/// `session_ended` once the last `receive` has returned, then `session_began` of the next. Requests not
/// yet handed up when a session ends are dropped; those being answered go on. Within the
/// control lane and within the metadata lane the next message is handed up when the handler of the
/// one before has returned. Requests are answered side by side; those of one ordered lane are admitted
/// in the order in which they were sent.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// May this replica talk to us at all? Called for every connection, before anything is handed up; the reason
    /// of a refusal is sent to the peer.
    ///
    /// # Errors
    /// The reason for refusing, which ends the connection.
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        let _ = peer;
        Ok(())
    }

    /// What this replica says of its past when it meets a peer, in the handler's own form; at most 32 KiB. Asked for
    /// whenever a control lane is connected.
    fn introduce(&self, to: ReplicaSlot) -> Bytes {
        let _ = to;
        Bytes::new()
    }

    /// Judges what a peer says of its past, before a session with it begins and whenever its
    /// control lane is connected anew. Called for each peer that has a certificate of the set,
    /// before [`MessageHandler::admit_session`].
    ///
    /// # Errors
    /// Why no connection is made, and what the peer's handler is to know of it.
    fn meet(&self, peer: Sender, introduction: &Bytes) -> Result<(), TurnedAway> {
        let _ = (peer, introduction);
        Ok(())
    }

    /// A peer has refused a connection, for what its handler says there; nothing when the transport refused.
    fn turned_away(&self, by: ReplicaSlot, evidence: &Bytes) {
        let _ = (by, evidence);
    }

    /// May a message of this kind be handed up, from this sender? A refused message is dropped, a refused request
    /// answered with the reason.
    ///
    /// # Errors
    /// The reason for refusing.
    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        let _ = (from, kind);
        Ok(())
    }

    /// Takes a message. While it has not returned, the next of an ordered lane waits; do not wait here
    /// for anything that only a later message of the same lane could bring.
    async fn receive(&self, incoming: Incoming);

    /// Answers a request. It is not cancelled when its sender goes away, so that an operation once begun
    /// is completed.
    ///
    /// # Errors
    /// A refusal says that the request was not executed.
    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal>;

    /// A new incarnation of a peer is there. Nothing sent to an earlier one will reach it.
    fn session_began(&self, peer: Sender) {
        let _ = peer;
    }

    /// An incarnation is gone; whatever it had not received before is lost with it.
    fn session_ended(&self, peer: Sender) {
        let _ = peer;
    }
}
