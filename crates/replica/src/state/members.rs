//! The present and former members of the set, and what each of them is to this replica.
//!
//! What must never enter: how lists of members travel, and what follows from a change (`membership::members`).

use std::collections::BTreeSet;

use peer::set::MemberList;
use vfs::ReplicaSlot;

use crate::state::locks::{Table, TableGuard};

/// The message about a removed replica for people.
pub(crate) const REMOVED: &str = "this server was removed from the set and serves nobody; what only it has is still in its data directory. To return, let it join with a new invitation and a new data directory";

/// The members of the set.
#[derive(Default)]
struct Membership {
    current: BTreeSet<ReplicaSlot>,
    list: MemberList,
    /// Former members, by the list or by agreement. They never come back.
    removed: BTreeSet<ReplicaSlot>,
    /// Peers that have shown their lists since this replica started.
    greeted: BTreeSet<ReplicaSlot>,
    /// Peers that have shown a list that the authority did not sign.
    forgers: BTreeSet<ReplicaSlot>,
}

/// The present and former members of the set, and what is known of each, under one lock.
pub(crate) struct Members {
    /// This replica.
    own: ReplicaSlot,
    known: Table<Membership>,
}

impl Members {
    pub(crate) fn new(own: ReplicaSlot) -> Members {
        Members {
            own,
            known: Table::default(),
        }
    }

    fn membership(&self) -> TableGuard<'_, Membership> {
        self.known.lock()
    }

    /// What a replica is by the list and by agreement; `None` for a member that keeps contents.
    pub(crate) fn speaker(&self, slot: ReplicaSlot) -> Option<Speaker> {
        let membership = self.membership();
        if membership.removed.contains(&slot) {
            return Some(Speaker::Removed);
        }
        if !membership.current.contains(&slot) {
            return Some(Speaker::Stranger);
        }
        (membership.list.is_witness(slot.0)).then_some(Speaker::Witness)
    }

    /// Whether a replica belongs to the set.
    pub(crate) fn is_member(&self, slot: ReplicaSlot) -> bool {
        self.membership().current.contains(&slot)
    }

    /// Whether this replica knows that it was removed from the set.
    pub(crate) fn is_removed(&self) -> bool {
        self.was_removed(self.own)
    }

    /// Whether a replica is known to have been removed from the set.
    pub(crate) fn was_removed(&self, slot: ReplicaSlot) -> bool {
        self.membership().removed.contains(&slot)
    }

    /// The members, as far as this replica knows.
    pub(crate) fn list(&self) -> MemberList {
        self.membership().list.clone()
    }

    /// Adopts a list of members, and which of them are members now.
    pub(crate) fn set(&self, current: BTreeSet<ReplicaSlot>, list: MemberList) {
        let mut membership = self.membership();
        let revoked = list.members.iter().filter(|member| member.revoked);
        let revoked = revoked.map(|member| ReplicaSlot(member.slot));
        membership.removed.extend(revoked);
        membership.current = current;
        membership.list = list;
    }

    /// A replica is no longer a member. Returns whether this one is alone now.
    pub(crate) fn drop_member(&self, slot: ReplicaSlot) -> bool {
        let mut membership = self.membership();
        membership.current.remove(&slot);
        membership.current.len() <= 1
    }

    /// The set agreed that these are no longer members, whatever the list says. Returns whether that is new for any of them.
    pub(crate) fn note_removed(&self, slots: &BTreeSet<ReplicaSlot>) -> bool {
        let mut membership = self.membership();
        let is_news = !slots.is_subset(&membership.removed);
        membership.removed.extend(slots);
        is_news
    }

    /// The former members.
    pub(crate) fn removed(&self) -> BTreeSet<ReplicaSlot> {
        self.membership().removed.clone()
    }

    /// A peer has shown its list of members, and its news is known here.
    pub(crate) fn note_greeted(&self, peer: ReplicaSlot) {
        let mut membership = self.membership();
        membership.greeted.insert(peer);
    }

    /// Whether a peer has shown its list of members since this replica started.
    pub(crate) fn has_greeted(&self, peer: ReplicaSlot) -> bool {
        self.membership().greeted.contains(&peer)
    }

    /// A peer has shown a list that the authority did not sign. Returns whether it is the first time.
    pub(crate) fn note_forger(&self, peer: ReplicaSlot) -> bool {
        let mut membership = self.membership();
        membership.forgers.insert(peer)
    }

    /// The other members of the set.
    pub(crate) fn others(&self) -> Vec<ReplicaSlot> {
        let membership = self.membership();
        let others = membership.current.iter();
        others.filter(|slot| **slot != self.own).copied().collect()
    }
}

/// What the sender of a message is, as far as the receiver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A member that keeps contents and takes part in the receiver's view.
    InView,
    /// A member that keeps contents and takes no part in it, or has never taken part.
    Outside,
    /// A member that votes and keeps no contents, in the view or outside it.
    Witness,
    /// It was a member.
    Removed,
    /// It has a certificate of the set, but the receiver does not know it.
    Stranger,
}

/// What the receiver of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearer {
    /// It takes part in its view.
    InView,
    /// It takes no part.
    Outside,
    /// It is a witness, in the view or outside it.
    Witness,
    /// It knows that it was removed.
    Removed,
}
