//! What a set has agreed on, and what each decision does to it. Pure: time comes from the decision.
//!
//! Every replica applies the same decisions in the same order and must reach the same state, so nothing in
//! here may depend on this machine: no clock, no chance, no order of a hash table. What must never enter:
//! Raft, sockets, disks. The order of fields is the format of snapshots: new ones are added at the end.

mod apply;
mod replace;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::audit::AuditEntry;
use crate::decision::Settlement;

/// So many replicas can be configured, witnesses included.
pub const MEMBERS_MAX: usize = 9;

/// What a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The whole tree.
    Data,
    /// Identifiers and parents only; it votes, and never counts as holding an update.
    Witness,
}

/// What a set has agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewState {
    /// The number of the view, from 1; 0 before the set was founded. Every decision that changes something
    /// adds one, except [`crate::Decision::Settle`] and [`crate::Decision::Note`].
    pub epoch: u64,
    /// The configured replicas.
    pub members: BTreeMap<ReplicaSlot, MemberState>,
    /// Replicas that left the view with controls that may still stand, removed ones included.
    pub losses: BTreeMap<ReplicaSlot, Loss>,
    /// The last decisions, oldest first; at most [`crate::AUDIT_ENTRIES_MAX`].
    pub audit: VecDeque<AuditEntry>,
    /// How many settlements there have been.
    pub settlements: u64,
    /// Slots that were configured once and must never be again.
    pub removed: BTreeSet<ReplicaSlot>,
}

/// One configured replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// What it holds.
    pub kind: Kind,
    /// Whether it takes part in the view.
    pub active: bool,
    /// The epoch that began with the last change of `active`, with its last admission, also as a later
    /// incarnation, or with its configuration.
    pub since_epoch: u64,
    /// The incarnation last admitted; 0 if unknown.
    pub incarnation: u64,
    /// Whether it was ever active; if not, it is a newcomer, and does not vote yet.
    pub was_active: bool,
    /// Why it is not active, if it was excluded.
    pub excluded: Option<Exclusion>,
}

/// How a replica left the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// The replica that asked for it.
    pub by: ReplicaSlot,
    /// Why, for people.
    pub reason: String,
}

/// A replica that left the view, and which of its controls have ended since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Who was lost.
    pub slot: ReplicaSlot,
    /// The incarnation last admitted; 0 if unknown.
    pub incarnation: u64,
    /// When it left, in seconds since 1970.
    pub since_unix_s: u64,
    /// Which controls have ended, oldest first.
    pub settled: Vec<Settlement>,
}

impl ViewState {
    /// How many of the configured replicas are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Whether `slot` takes part in the view.
    #[must_use]
    pub fn is_active(&self, slot: ReplicaSlot) -> bool {
        self.members.get(&slot).is_some_and(|member| member.active)
    }

    /// Whether it was decided to go on without what `slot`, which is out of the view, alone has.
    #[must_use]
    pub fn is_settled(&self, slot: ReplicaSlot) -> bool {
        let loss = self.losses.get(&slot);
        loss.is_some_and(|loss| !loss.settled.is_empty())
    }

    /// Whether `slot` is a member that keeps a copy of the data.
    #[must_use]
    pub fn holds_data(&self, slot: ReplicaSlot) -> bool {
        let member = self.members.get(&slot);
        member.is_some_and(|member| member.kind == Kind::Data)
    }

    /// The replicas that take part in the view.
    pub fn active(&self) -> impl Iterator<Item = ReplicaSlot> + '_ {
        let active = self.members.iter().filter(|(_, member)| member.active);
        active.map(|(slot, _)| *slot)
    }

    /// The member that was never active yet. There is one at most.
    #[must_use]
    pub fn newcomer(&self) -> Option<ReplicaSlot> {
        let mut members = self.members.iter();
        let (slot, _) = members.find(|(_, member)| !member.was_active)?;
        Some(*slot)
    }

    /// The members that vote about views: all but the newcomer.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<ReplicaSlot> {
        let voters = self.members.iter().filter(|(_, member)| member.was_active);
        voters.map(|(slot, _)| *slot).collect()
    }
}
