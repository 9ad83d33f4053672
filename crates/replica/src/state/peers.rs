//! What is known of each other member since this replica started, under one lock: who was removed is forgotten with all of it.
//!
//! Apart from it stands what ends with something else: with a session (`conversations`, `outbound`), a stream (`arrivals`), a copy (`copies`);
//! what the core is asked under (debts, `ledger`), and what one decision takes from all members at once (`free_space`).
//!
//! What must never enter: what follows from it.

use std::collections::BTreeMap;

use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::{Table, TableGuard};
use crate::state::nonsense::Nonsense;
use crate::state::rejoins::{Rejoin, RejoinView};
use crate::state::shipments::Shipments;
use crate::state::views::News;

/// What is known of one member.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// `None` before it was heard.
    pub(crate) news: Option<News>,
    /// What it sent that no member sends.
    pub(crate) nonsense: Nonsense,
    pub(crate) rejoin: Rejoin,
    /// Its lack of room for contents.
    pub(crate) shipments: Shipments,
    /// Files that are complete there, as it is told next, with the places of the own stream up to which they are.
    pub(crate) completed: BTreeMap<ObjectId, u64>,
}

/// What is known of all members.
#[derive(Debug, Default)]
pub(crate) struct Peers(Table<BTreeMap<ReplicaSlot, Peer>>);

impl Peers {
    fn all(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Peer>> {
        self.0.lock()
    }

    /// Notes something of a member, or looks at it.
    pub(crate) fn with<T>(&self, slot: ReplicaSlot, work: impl FnOnce(&mut Peer) -> T) -> T {
        work(self.all().entry(slot).or_default())
    }

    /// The same of every member of which something is known.
    pub(crate) fn with_each(&self, mut work: impl FnMut(ReplicaSlot, &mut Peer)) {
        let mut all = self.all();
        all.iter_mut().for_each(|(slot, peer)| work(*slot, peer));
    }

    /// What the members have said lately.
    pub(crate) fn news(&self) -> BTreeMap<ReplicaSlot, News> {
        let all = self.all();
        let heard = all.iter();
        heard
            .filter_map(|(slot, peer)| Some((*slot, peer.news.clone()?)))
            .collect()
    }

    /// How far this replica is on its way back into the view, as the members say.
    pub(crate) fn own_rejoin(&self) -> Option<RejoinView> {
        let all = self.all();
        Rejoin::own(all.values().map(|peer| &peer.rejoin))
    }

    /// Nothing that was known of a removed member counts any more.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.all().remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_removed_member_is_forgotten_with_all_that_was_known_of_it() {
        let (peers, slot, now) = (Peers::default(), ReplicaSlot(3), Instant::now());
        peers.with(slot, |peer| {
            peer.news = Some(News::new());
            peer.nonsense.note_relayed("junk");
            peer.shipments.refused(7, now);
            peer.completed.insert(ObjectId::ROOT, 5);
        });
        assert!(peers.news().contains_key(&slot));
        peers.forget(slot);
        assert!(peers.news().is_empty());
        peers.with(slot, |peer| {
            assert_eq!(peer.nonsense.told(), None);
            assert_eq!(peer.shipments.refused_bytes(), 0);
            assert!(peer.completed.is_empty());
        });
    }
}
