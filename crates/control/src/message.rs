//! Everything one replica's control core says to another's.
//!
//! `docs/protocol.md` has the same list as a table, with what must be durable before each is sent. The
//! encoding belongs to the crate that owns the connections.

use crate::claim::{Obstacle, Proposal};
use crate::name::{ControlName, Epoch, Incarnation};
use serde::{Deserialize, Serialize};

/// A message with the view it was sent in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender's view. Proposals and their answers count in their own epoch only; the end of a
    /// control is valid in any later one.
    pub epoch: Epoch,
    /// What is said.
    pub message: Message,
}

/// Controls that one member of a new view tells the others of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Controls of replicas outside the view that the sender acknowledges.
    pub lost: Vec<Proposal>,
    /// The sender's own controls in force.
    pub held: Vec<Proposal>,
    /// What it had asked for before it was started anew. It does not know which of those a majority acknowledged.
    pub previous: Vec<Proposal>,
    /// Controls of replicas outside the view that the sender, which takes part anew, had acknowledged before it left.
    /// They count where somebody has not heard all that was reported in the view before.
    pub set_aside: Vec<Proposal>,
    /// The sender is one who has not.
    pub unsettled: bool,
}

/// The closed vocabulary of replication control. Every message may arrive late, twice or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Proposer to all: acknowledge my control.
    Propose {
        /// What is asked for.
        proposal: Proposal,
        /// An earlier proposal that this one replaces; it ends, and hands on its place in the queue.
        replaces: Option<u64>,
        /// Every control of the sender's incarnation with a smaller number has ended everywhere.
        floor: u64,
    },
    /// Acceptor to proposer: granted, and on stable storage here.
    Acknowledge {
        /// The proposal that was granted.
        name: ControlName,
    },
    /// Acceptor to proposer: waiting here. Sent again whenever the obstacles change.
    Refuse {
        /// The proposal that waits.
        name: ControlName,
        /// Counts the refusals of this acceptor. One that arrives after a later one is out of date.
        turn: u64,
        /// Every control in the way, highest rank first, cut off at [`MAX_OBSTACLES`].
        obstacles: Vec<Obstacle>,
    },
    /// Proposer to all it proposed to: I withdraw; I never held this, or no longer want it.
    Abort {
        /// The proposal that is withdrawn.
        name: ControlName,
        /// As in [`Message::Propose`].
        floor: u64,
    },
    /// Holder to all: I relinquish, everything I did under it has been applied everywhere.
    Release {
        /// The control that ends.
        name: ControlName,
        /// The longest waiter, whom every acceptor grants first; whole, because it may not have
        /// reached every acceptor yet.
        next: Option<Proposal>,
        /// As in [`Message::Propose`].
        floor: u64,
    },
    /// Acceptor to holder: I have forgotten that control; stop repeating its end.
    Ended {
        /// The control whose end was noted.
        name: ControlName,
    },
    /// Named holder to acceptor: I do not hold that; clear your record. Of a holder that is lost, any member to all
    /// others: I have heard that this has ended.
    Disown {
        /// The control that does not exist.
        name: ControlName,
    },
    /// Restarted replica to all: everything of my incarnations before this one has ended; whatever was
    /// done under it has been applied everywhere.
    Renounce {
        /// The present incarnation.
        before: Incarnation,
    },
    /// Acceptor to the restarted replica: I have forgotten all that; stop repeating it.
    Renounced {
        /// As in [`Message::Renounce`].
        before: Incarnation,
    },
    /// Member of a new view to every other: what I acknowledge of replicas that are not in it, and what I
    /// hold. In parts, because there may be much; the order of the parts is kept by the connection.
    Report {
        /// Counts the parts from 0.
        part: u32,
        /// No part follows.
        last: bool,
        /// What this part tells.
        told: Told,
    },
    /// To one whose view was ahead: I have reached it; say again what I dropped meanwhile.
    Repeat,
    /// Anybody to holder: somebody here wants what you control; give it up soon.
    Revoke {
        /// The control that is wanted.
        name: ControlName,
    },
}

/// A refusal lists at most this many obstacles. The highest ranks come first, and they decide.
pub const MAX_OBSTACLES: usize = 32;
