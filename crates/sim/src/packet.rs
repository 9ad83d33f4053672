//! The messages between simulated replicas, and their lanes.
//!
//! Only messages of replication control are real; the others stand in for distribution and forwarding.

use crate::network::Lane;
use crate::reading::{Answer, Question};
use crate::replica::{Content, StreamUpdate};
use crate::site::{Heads, Logged, Stable};
use crate::tree::Outcome;
use control::{Envelope, Position, Question as Asked, ReplicaSlot};
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::ObjectId;

/// A message from one replica to another.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Control(Envelope),
    Update(u64, Arc<StreamUpdate>),
    Applied(Position),
    Content(Content),
    Stored(Content),
    /// This content was sent before, perhaps by an earlier incarnation: does the receiver have it?
    Compare(Content),
    /// The receiver does not have it.
    Lacking(Content),
    Forward(u64),
    Returned(u64),
    Finished(u64, Outcome),
    /// A question of a reading client, on its way to the primary or back.
    Question(Question),
    Answer(Question, Answer),
    /// Asks the receiver to join no view without the sender for a while, and reports how far the sender has applied all streams.
    LeaseRequest(Asked, Heads),
    /// Grants the request with this stamp.
    LeaseGrant(Asked),
    /// The number of decisions known at the sender.
    Known,
    /// Reports what the sender has, and asks for what it lacks.
    Hello(Box<Hello>),
    /// Everything that the asking replica lacks.
    Reply(Box<Reply>),
}

/// The question of a replica that synchronises.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub heads: Heads,
    pub whole: bool,
    /// How often its copy was replaced since it was started.
    pub replaced: u64,
    /// The members from which it lacks nothing, if only the agreement of the members keeps it outside the view.
    pub level_with: BTreeSet<ReplicaSlot>,
}

/// The answer, from stable storage.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub settled: bool,
    pub updates: Vec<Logged>,
    /// The versions of all files.
    pub contents: Vec<(ObjectId, u64)>,
    /// How far the stream of the replica that asked has been applied.
    pub yours: u64,
    pub whole: Option<Arc<Stable>>,
    /// The number from the question.
    pub replaced: u64,
}

impl Packet {
    /// The lane it travels on.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Packet::Control(_) => Lane::Control,
            Packet::Update(..) | Packet::Applied(_) => Lane::Stream,
            Packet::Hello(_) | Packet::Reply(_) => Lane::Stream,
            Packet::LeaseRequest(..) | Packet::LeaseGrant(_) | Packet::Known => Lane::Control,
            Packet::Content(_) | Packet::Stored(_) => Lane::Data,
            Packet::Compare(_) | Packet::Lacking(_) => Lane::Data,
            Packet::Forward(_) | Packet::Returned(_) | Packet::Finished(..) => Lane::Forward,
            Packet::Question(_) | Packet::Answer(..) => Lane::Forward,
        }
    }

    /// Whether it cannot change what the invariants check.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(
            self,
            Packet::LeaseRequest(..) | Packet::LeaseGrant(_) | Packet::Hello(_)
        )
    }

    /// Whether it may reach a later incarnation of its receiver than intended.
    pub(crate) fn outlives_receiver(&self) -> bool {
        matches!(self, Packet::LeaseGrant(_))
    }

    /// Whether it carries part of a stream.
    pub(crate) fn is_of_stream(&self) -> bool {
        matches!(
            self,
            Packet::Update(..) | Packet::Content(_) | Packet::Compare(_)
        )
    }
}
