//! What travels between simulated replicas, and on which lane.
//!
//! Only messages of replication control are real; the rest stands in for distribution and forwarding.

use crate::network::Lane;
use crate::reading::{Answer, Question};
use crate::replica::{Content, StreamUpdate};
use crate::site::{Heads, Logged, Stable};
use crate::tree::Outcome;
use control::{Envelope, Position, Question as Asked, ReplicaSlot};
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::ObjectId;

/// What is under way from one replica to another.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Control(Envelope),
    Update(u64, Arc<StreamUpdate>),
    Applied(Position),
    Content(Content),
    Stored(Content),
    /// This was sent before, or by a previous incarnation: is it there?
    Compare(Content),
    /// It is not.
    Lacking(Content),
    Forward(u64),
    Returned(u64),
    Finished(u64, Outcome),
    /// What a client that reads asks, on its way to the primary or back.
    Question(Question),
    Answer(Question, Answer),
    /// I ask you to join no view without me for a while; so far have I applied all streams.
    LeaseRequest(Asked, Heads),
    /// I grant what you asked for with this.
    LeaseGrant(Asked),
    /// How many decisions are known here.
    Known,
    /// I have so much; what do I lack?
    Hello(Box<Hello>),
    /// Everything you lack.
    Reply(Box<Reply>),
}

/// What somebody asks who synchronises.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub heads: Heads,
    pub whole: bool,
    /// How often its copy was replaced by another one since it was started.
    pub replaced: u64,
    /// It could take part but for the other members: of these it lacks nothing.
    pub level_with: BTreeSet<ReplicaSlot>,
}

/// What is answered, from stable storage.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub settled: bool,
    pub updates: Vec<Logged>,
    /// The versions of all files.
    pub contents: Vec<(ObjectId, u64)>,
    /// How far the stream of the replica that asked has been applied.
    pub yours: u64,
    pub whole: Option<Arc<Stable>>,
    /// What was said with the question.
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

    /// Whether it cannot change what the invariants look at.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(
            self,
            Packet::LeaseRequest(..) | Packet::LeaseGrant(_) | Packet::Hello(_)
        )
    }

    /// Whether it may come to a later start of its receiver than the one it was meant for.
    pub(crate) fn outlives_receiver(&self) -> bool {
        matches!(self, Packet::LeaseGrant(_))
    }

    /// Whether it carries what was changed.
    pub(crate) fn is_of_stream(&self) -> bool {
        matches!(
            self,
            Packet::Update(..) | Packet::Content(_) | Packet::Compare(_)
        )
    }
}
