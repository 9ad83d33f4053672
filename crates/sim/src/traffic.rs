//! What was sent between replicas, for callers that count it.
//!
//! It notes what the cores and their stand-ins sent, and when. What must never enter: sizes in
//! bytes, which are up to the crates that own the connections, and anything that changes what
//! happens.

use crate::packet::Packet;
use control::{Envelope, Moment, ReplicaSlot};

/// Something that one replica sent to another.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When it left.
    pub at: Moment,
    /// Who sent it.
    pub from: ReplicaSlot,
    /// To whom.
    pub to: ReplicaSlot,
    /// What it is.
    pub cargo: Cargo,
}

/// What is sent. Only messages of replication control are real; of the others nothing but their number means something.
#[derive(Clone, Debug)]
pub enum Cargo {
    /// A message of replication control, as the core made it.
    Control(Envelope),
    /// An update record, or how far records were applied.
    Stream,
    /// Contents of a file.
    Contents,
    /// That they were stored, or are compared by their versions.
    Data,
    /// An operation on its way to the primary, back unserved, or its outcome.
    Forward,
    /// What only leases, views, rejoining replicas and reading clients send.
    Other,
}

impl Cargo {
    pub(crate) fn of(packet: &Packet) -> Cargo {
        match packet {
            Packet::Control(envelope) => Cargo::Control(envelope.clone()),
            Packet::Update(..) | Packet::Applied(_) => Cargo::Stream,
            Packet::Content(_) => Cargo::Contents,
            Packet::Stored(_) | Packet::Compare(_) | Packet::Lacking(_) => Cargo::Data,
            Packet::Forward(_) | Packet::Returned(_) | Packet::Finished(..) => Cargo::Forward,
            Packet::Question(_) | Packet::Answer(..) => Cargo::Other,
            Packet::LeaseRequest(..) | Packet::LeaseGrant(_) | Packet::Known => Cargo::Other,
            Packet::Hello(_) | Packet::Reply(_) => Cargo::Other,
        }
    }
}
