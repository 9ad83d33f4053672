//! What travels between simulated replicas, and on which lane.
//!
//! Only messages of replication control are real; the rest stands in for distribution and forwarding.

use crate::network::Lane;
use crate::replica::{Content, StreamUpdate};
use crate::tree::Outcome;
use control::{Envelope, Position};

/// What is under way from one replica to another.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Control(Envelope),
    Update(u64, StreamUpdate),
    Applied(Position),
    Content(Content),
    Stored(Content),
    Forward(u64),
    Returned(u64),
    Finished(u64, Outcome),
}

impl Packet {
    /// The lane it travels on.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Packet::Control(_) => Lane::Control,
            Packet::Update(..) | Packet::Applied(_) => Lane::Stream,
            Packet::Content(_) | Packet::Stored(_) => Lane::Data,
            Packet::Forward(_) | Packet::Returned(_) | Packet::Finished(..) => Lane::Forward,
        }
    }
}
