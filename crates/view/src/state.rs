//! The agreed state of a set, and the effect of each decision. Pure: the time comes from the decision.
//!
//! Every replica applies the same decisions in the same order and must reach the same state. So the result must not
//! depend on this machine: no clock, no random numbers, no order of a hash table. What must never enter: Raft, sockets,
//! disks. The order of fields is the format of snapshots: new ones are added at the end.

mod apply;
mod junctions;
mod removing;
mod replace;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::audit::AuditEntry;
use crate::decision::{Referral, Settlement};

/// The maximum number of configured replicas, witnesses included.
pub const MEMBERS_MAX: usize = 9;

/// The kind of a member, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The whole tree.
    Data,
    /// Only identifiers and parents. It votes, and never counts as holding an update.
    Witness,
}

/// The agreed state of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewState {
    /// The number of the view, from 1; 0 before the set was founded. Every decision that changes something increments
    /// it, except [`crate::DecisionKind::Settle`], [`crate::DecisionKind::Note`] and [`crate::DecisionKind::Junction`].
    pub epoch: u64,
    /// The configured replicas.
    pub members: BTreeMap<ReplicaSlot, MemberState>,
    /// Replicas that left the view, whose controls may still be valid. A removed replica is among them only if it was
    /// given up with the majority ([`crate::DecisionKind::Recover`]), until that is settled.
    pub losses: BTreeMap<ReplicaSlot, Loss>,
    /// The last decisions, oldest first; at most [`crate::AUDIT_ENTRIES_MAX`].
    pub audit: VecDeque<AuditEntry>,
    /// The number of settlements so far.
    pub settlements: u64,
    /// Slots that were used and must never be used again.
    pub removed: BTreeSet<ReplicaSlot>,
    /// Removed replicas with settled losses: how their streams ended. None of their controls is valid any more.
    pub stream_ends: BTreeMap<ReplicaSlot, StreamEnd>,
    /// Names in the root of the domain, and the trees of other servers that they lead to.
    pub junctions: BTreeMap<String, Vec<Referral>>,
    /// For each active replica, the number of settlements when it came into the view; 0 if it is missing.
    pub settled_before: BTreeMap<ReplicaSlot, u64>,
}

/// How the stream of a lost replica ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// The last valid position; `u64::MAX` if everything that arrived is valid.
    pub through: u64,
    /// The number of the settlement that decided this.
    pub settlement: u64,
}

/// One configured replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// Its kind.
    pub kind: Kind,
    /// Whether it is active in the view.
    pub active: bool,
    /// The epoch that began with its configuration, with the last change of `active`, or with its last admission,
    /// including one as a later incarnation.
    pub since_epoch: u64,
    /// The incarnation last admitted; 0 if unknown.
    pub incarnation: u64,
    /// Whether it was ever active. If not, it is a newcomer and does not vote yet.
    pub was_active: bool,
    /// Why it is inactive, if it was excluded.
    pub excluded: Option<Exclusion>,
}

/// How a replica left the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// The time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The replica that asked for it.
    pub by: ReplicaSlot,
    /// The reason, for people.
    pub reason: String,
}

/// A replica that left the view, and its controls that have ended since then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The lost replica.
    pub slot: ReplicaSlot,
    /// The incarnation last admitted; 0 if unknown.
    pub incarnation: u64,
    /// When it left the view, in seconds since 1970.
    pub since_unix_s: u64,
    /// The settlements of its controls, oldest first.
    pub settled: Vec<Settlement>,
}

impl Settlement {
    fn end(&self) -> StreamEnd {
        StreamEnd {
            through: self.through,
            settlement: self.id,
        }
    }
}

impl ViewState {
    /// The number of voting members that is a majority. A newcomer is counted only after its admission, so no decision
    /// waits for it, however long its copy takes.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters().len() / 2 + 1
    }

    /// Whether `slot` is active in the view.
    #[must_use]
    pub fn is_active(&self, slot: ReplicaSlot) -> bool {
        self.members.get(&slot).is_some_and(|member| member.active)
    }

    /// Whether it was decided to continue without the data that only `slot`, which is out of the view, has.
    #[must_use]
    pub fn is_settled(&self, slot: ReplicaSlot) -> bool {
        let loss = self.losses.get(&slot);
        loss.is_some_and(|loss| !loss.settled.is_empty()) || self.stream_ends.contains_key(&slot)
    }

    /// Whether `slot` has been active since before the settlement of this number.
    #[must_use]
    pub fn was_active_at(&self, slot: ReplicaSlot, settlement: u64) -> bool {
        let before = self.settled_before.get(&slot).copied().unwrap_or_default();
        self.is_active(slot) && before < settlement
    }

    /// Whether `slot` was removed and nothing about it remains to be decided.
    #[must_use]
    pub fn is_gone(&self, slot: ReplicaSlot) -> bool {
        self.removed.contains(&slot) && !self.losses.contains_key(&slot)
    }

    /// The end of the stream of `slot`, which is out of the view or removed, by the last settlement.
    #[must_use]
    pub fn stream_end(&self, slot: ReplicaSlot) -> Option<StreamEnd> {
        let removed = self.stream_ends.get(&slot).copied();
        removed.or_else(|| Some(self.losses.get(&slot)?.settled.last()?.end()))
    }

    /// Every remembered settlement: the replica, and the end of its stream.
    pub fn settled_streams(&self) -> impl Iterator<Item = (ReplicaSlot, StreamEnd)> + '_ {
        let removed = self.stream_ends.iter().map(|(slot, end)| (*slot, *end));
        let losses = self.losses.iter().flat_map(|(slot, loss)| {
            let settled = loss.settled.iter();
            settled.map(|settlement| (*slot, settlement.end()))
        });
        removed.chain(losses)
    }

    /// Whether `slot` is a member that keeps a copy of the data.
    #[must_use]
    pub fn holds_data(&self, slot: ReplicaSlot) -> bool {
        let member = self.members.get(&slot);
        member.is_some_and(|member| member.kind == Kind::Data)
    }

    /// The active replicas.
    pub fn active(&self) -> impl Iterator<Item = ReplicaSlot> + '_ {
        let active = self.members.iter().filter(|(_, member)| member.active);
        active.map(|(slot, _)| *slot)
    }

    /// The member that has never been active. There is at most one.
    #[must_use]
    pub fn newcomer(&self) -> Option<ReplicaSlot> {
        let mut members = self.members.iter();
        let (slot, _) = members.find(|(_, member)| !member.was_active)?;
        Some(*slot)
    }

    /// The members that vote about views: all except the newcomer.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<ReplicaSlot> {
        let voters = self.members.iter().filter(|(_, member)| member.was_active);
        voters.map(|(slot, _)| *slot).collect()
    }
}
