//! The messages between the control cores of two replicas.
//!
//! `docs/protocol.md` has the same list as a table, with what must be durable before each message is sent. The encoding
//! belongs to the crate that owns the connections.

use crate::claim::{Obstacle, Proposal};
use crate::name::{ControlName, Epoch, Incarnation};
use serde::{Deserialize, Serialize};

/// A message with the view it was sent in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender's view. Proposals and their answers are valid only in their own epoch; the end of a control is valid
    /// in any later one.
    pub epoch: Epoch,
    /// The message.
    pub message: Message,
}

/// Controls that one member of a new view reports to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Controls of replicas outside the view that the sender acknowledges.
    pub lost: Vec<Proposal>,
    /// The sender's own controls in force.
    pub held: Vec<Proposal>,
    /// What the sender had proposed before its restart. It does not know which of these a majority acknowledged.
    pub previous: Vec<Proposal>,
    /// Controls of replicas outside the view that the sender, which joins the view again, had acknowledged before it
    /// left. They count if some member does not have all reports of the previous view.
    pub set_aside: Vec<Proposal>,
    /// The sender is such a member.
    pub unsettled: bool,
}

/// The complete set of messages of replication control. Every message may arrive late, twice or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Proposer to all: acknowledge my control.
    Propose {
        /// The proposal.
        proposal: Proposal,
        /// An earlier proposal that this one replaces. It ends, and passes on its place in the queue.
        replaces: Option<u64>,
        /// Every control of the sender's incarnation with a smaller number has ended at all replicas.
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
        /// Counts the refusals of this acceptor. A refusal that arrives after a later one is outdated.
        turn: u64,
        /// Every conflicting control, highest rank first, at most [`MAX_OBSTACLES`].
        obstacles: Vec<Obstacle>,
    },
    /// Proposer to all it proposed to: I withdraw; I never held this, or do not want it any more.
    Abort {
        /// The proposal that is withdrawn.
        name: ControlName,
        /// As in [`Message::Propose`].
        floor: u64,
    },
    /// Holder to all: I relinquish; all replicas have applied everything that I did under it.
    Release {
        /// The control that ends.
        name: ControlName,
        /// The longest waiter, which every acceptor grants first. It is complete, because it may not have reached every
        /// acceptor yet.
        next: Option<Proposal>,
        /// As in [`Message::Propose`].
        floor: u64,
    },
    /// Acceptor to holder: I have forgotten that control; stop repeating its end.
    Ended {
        /// The control whose end was noted.
        name: ControlName,
    },
    /// Named holder to acceptor: I do not hold that; clear your record. For a lost holder, any member to all others:
    /// this control has ended.
    Disown {
        /// The control that does not exist.
        name: ControlName,
    },
    /// Restarted replica to all: everything of my earlier incarnations has ended; all replicas have applied what was
    /// done under it.
    Renounce {
        /// The present incarnation.
        before: Incarnation,
    },
    /// Acceptor to the restarted replica: I have forgotten all that; stop repeating it.
    Renounced {
        /// As in [`Message::Renounce`].
        before: Incarnation,
    },
    /// Member of a new view to every other one: what I acknowledge of replicas outside it, and what I hold. It comes in
    /// parts, because it may be large. The connection keeps the order of the parts.
    Report {
        /// Counts the parts from 0.
        part: u32,
        /// This is the last part.
        last: bool,
        /// The content of this part.
        told: Told,
    },
    /// To a replica whose view was ahead: I have reached it; repeat what I dropped in the meantime.
    Repeat,
    /// Any replica to the holder: a client here wants what you control; give it up soon.
    Revoke {
        /// The wanted control.
        name: ControlName,
    },
}

/// The maximum number of obstacles in a refusal. The highest ranks come first; they decide.
pub const MAX_OBSTACLES: usize = 32;
