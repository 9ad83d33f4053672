//! The messages sent between replicas, for callers that count them.
//!
//! It records what the cores and their stand-ins sent, and when. What must never enter: sizes in
//! bytes, which the crates with the connections decide, and anything that changes the
//! run.

use crate::packet::Packet;
use control::{Envelope, Moment, ReplicaSlot};

/// A message that one replica sent to another.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When it left.
    pub at: Moment,
    /// The sender.
    pub from: ReplicaSlot,
    /// The receiver.
    pub to: ReplicaSlot,
    /// Its content.
    pub cargo: Cargo,
}

/// The content of a message. Only messages of replication control are real; the others only count.
#[derive(Clone, Debug)]
pub enum Cargo {
    /// A message of replication control, as the core made it.
    Control(Envelope),
    /// An update record, or how far records were applied.
    Stream,
    /// Contents of a file.
    Contents,
    /// An acknowledgement that contents were stored, or a comparison of versions.
    Data,
    /// An operation that is forwarded to the primary or returned unserved, or its outcome.
    Forward,
    /// Messages about leases, views, rejoining replicas and reading clients.
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
