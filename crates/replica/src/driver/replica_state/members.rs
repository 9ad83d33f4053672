//! Who is in the set, who was, and what each of them is to this replica, as it knows at present.

use std::collections::BTreeSet;

use peer::set::MemberList;
use vfs::ReplicaSlot;

use super::ReplicaState;
use crate::state::locks::TableGuard;
use crate::state::members::{Hearer, Membership, Speaker};

impl ReplicaState {
    fn membership(&self) -> TableGuard<'_, Membership> {
        self.membership.lock()
    }

    /// Whether a replica belongs to the set.
    pub(crate) fn is_member(&self, slot: ReplicaSlot) -> bool {
        self.membership().current.contains(&slot)
    }

    /// What another replica is, as far as is known here.
    pub(crate) fn speaker(&self, slot: ReplicaSlot) -> Speaker {
        {
            let membership = self.membership();
            if membership.removed.contains(&slot) {
                return Speaker::Removed;
            }
            if !membership.current.contains(&slot) {
                return Speaker::Stranger;
            }
            if membership.list.is_witness(slot.0) {
                return Speaker::Witness;
            }
        }
        match self.lease.has_in_view(slot) {
            true => Speaker::InView,
            false => Speaker::Outside,
        }
    }

    /// What this replica is.
    pub(crate) fn hearer(&self) -> Hearer {
        if self.is_removed() {
            return Hearer::Removed;
        }
        if self.is_witness {
            return Hearer::Witness;
        }
        match self.lease.has_in_view(self.slot()) {
            true => Hearer::InView,
            false => Hearer::Outside,
        }
    }

    /// Whether this replica knows that it was removed from the set.
    pub(crate) fn is_removed(&self) -> bool {
        self.membership().removed.contains(&self.slot())
    }

    /// The members as far as this replica knows.
    pub(crate) fn member_list(&self) -> MemberList {
        self.membership().list.clone()
    }

    /// Takes over a list of members, and who of it are members now.
    pub(crate) fn set_members(&self, current: BTreeSet<ReplicaSlot>, list: MemberList) {
        let mut membership = self.membership();
        let revoked = list.members.iter().filter(|member| member.revoked);
        let revoked = revoked.map(|member| ReplicaSlot(member.slot));
        membership.removed.extend(revoked);
        membership.current = current;
        membership.list = list;
    }

    /// A replica is a member no more. Says whether this one is alone now.
    pub(crate) fn drop_member(&self, slot: ReplicaSlot) -> bool {
        let mut membership = self.membership();
        membership.current.remove(&slot);
        membership.current.len() <= 1
    }

    /// It was agreed that these are members no more, whatever the list says. Says whether that is new of anybody.
    pub(crate) fn note_removed(&self, slots: &BTreeSet<ReplicaSlot>) -> bool {
        let mut membership = self.membership();
        let is_news = !slots.is_subset(&membership.removed);
        membership.removed.extend(slots);
        is_news
    }

    /// Who was a member and is none any more.
    pub(crate) fn removed(&self) -> BTreeSet<ReplicaSlot> {
        self.membership().removed.clone()
    }

    /// A peer has shown its list of members, and what is new in it is known here.
    pub(crate) fn note_greeted(&self, peer: ReplicaSlot) {
        let mut membership = self.membership();
        membership.greeted.insert(peer);
    }

    /// Whether a peer has shown its list of members since this replica started.
    pub(crate) fn has_greeted(&self, peer: ReplicaSlot) -> bool {
        self.membership().greeted.contains(&peer)
    }

    /// A peer has shown a list that the authority did not sign. Says whether for the first time.
    pub(crate) fn note_forger(&self, peer: ReplicaSlot) -> bool {
        let mut membership = self.membership();
        membership.forgers.insert(peer)
    }

    /// The other members of the set.
    pub(crate) fn others(&self) -> Vec<ReplicaSlot> {
        let membership = self.membership();
        let others = membership.current.iter();
        others
            .filter(|slot| **slot != self.slot())
            .copied()
            .collect()
    }
}
