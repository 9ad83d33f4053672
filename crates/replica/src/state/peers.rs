//! What is known of each other member since this replica started, under one lock: a removed member is forgotten with all of it.
//!
//! Kept elsewhere: what ends with a session (`conversations`, `outbound`), a stream (`arrivals`), or a copy (`copies`); what is used under the core's
//! lock (debts, `ledger`); and what one decision takes from all members at once (`free_space`).
//!
//! What must never enter: what follows from it.

use std::collections::BTreeMap;

use control::ClockDifference;
use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::state::locks::{Table, TableGuard};
use crate::state::nonsense::Nonsense;
use crate::state::questions::Questions;
use crate::state::rejoins::{Rejoin, RejoinView};
use crate::state::shipments::Shipments;
use crate::state::views::{News, ShippedThere};
use crate::state::wire::LeaseRequest;

/// What is known of one member.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// `None` until it is heard.
    pub(crate) news: Option<News>,
    /// Invalid messages that it sent.
    pub(crate) nonsense: Nonsense,
    pub(crate) rejoin: Rejoin,
    /// Its lack of space for contents.
    pub(crate) shipments: Shipments,
    /// When it has asked for leases.
    pub(crate) questions: Questions,
}

/// What is known of all members.
#[derive(Debug, Default)]
pub(crate) struct Peers(Table<BTreeMap<ReplicaSlot, Peer>>);

impl Peers {
    fn all(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Peer>> {
        self.0.lock()
    }

    /// Notes or reads something about a member.
    pub(crate) fn with<T>(&self, slot: ReplicaSlot, work: impl FnOnce(&mut Peer) -> T) -> T {
        work(self.all().entry(slot).or_default())
    }

    /// The same for every member of which something is known.
    pub(crate) fn with_each(&self, mut work: impl FnMut(ReplicaSlot, &mut Peer)) {
        let mut all = self.all();
        all.iter_mut().for_each(|(slot, peer)| work(*slot, peer));
    }

    /// Recent reports of the members.
    pub(crate) fn news(&self) -> BTreeMap<ReplicaSlot, News> {
        let all = self.all();
        let heard = all.iter();
        heard
            .filter_map(|(slot, peer)| Some((*slot, peer.news.clone()?)))
            .collect()
    }

    fn note_news<T>(&self, slot: ReplicaSlot, note: impl FnOnce(&mut News) -> T) -> T {
        self.with(slot, |peer| note(peer.news.get_or_insert_with(News::new)))
    }

    /// A peer has answered a request just now.
    pub(crate) fn note_heard(&self, slot: ReplicaSlot) {
        self.note_news(slot, |news| news.heard = Instant::now());
    }

    /// A peer's answer has shown how far its time of day differs from the local one.
    pub(crate) fn note_clock(&self, slot: ReplicaSlot, difference: ClockDifference) {
        self.note_news(slot, |news| news.clock.note(difference));
    }

    /// A peer reports which of its contents all members of a view have; its earlier report may cover more.
    pub(crate) fn note_shipped(&self, slot: ReplicaSlot, shipped: ShippedThere) {
        self.note_news(slot, |news| {
            let covers = |known: &ShippedThere| {
                let alike = known.epoch == shipped.epoch && known.without == shipped.without;
                alike && known.before > shipped.before
            };
            if !news.shipped.as_ref().is_some_and(covers) {
                news.shipped = Some(shipped);
            }
        });
    }

    /// Notes a peer's report about itself. Returns whether it differs from the one before.
    pub(crate) fn note_said(&self, slot: ReplicaSlot, request: LeaseRequest) -> bool {
        self.note_news(slot, |news| {
            let before = news.said.as_ref();
            let differs = before.is_none_or(|(before, _)| before.differs(&request));
            news.said = Some((request, Instant::now()));
            differs
        })
    }

    /// Bytes that users may still write at a peer, by its last report.
    pub(crate) fn available_at(&self, slot: ReplicaSlot) -> Option<u64> {
        self.with(slot, |peer| {
            let (request, _) = peer.news.as_ref()?.said.as_ref()?;
            Some(request.available)
        })
    }

    /// A silence during which peers could not be heard does not count.
    pub(crate) fn forget_silence(&self) {
        self.with_each(|_, peer| {
            if let Some(news) = &mut peer.news {
                news.heard = Instant::now();
            }
        });
    }

    /// How far this replica is on its way back into the view, by the members' reports.
    pub(crate) fn own_rejoin(&self) -> Option<RejoinView> {
        let all = self.all();
        Rejoin::own(all.values().map(|peer| &peer.rejoin))
    }

    /// Forgets everything about a removed member.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.all().remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_member_is_forgotten_with_all_that_was_known_of_it() {
        let (peers, slot, now) = (Peers::default(), ReplicaSlot(3), Instant::now());
        peers.with(slot, |peer| {
            peer.news = Some(News::new());
            peer.nonsense.note_relayed("junk");
            peer.shipments.refused(7, now);
        });
        assert!(peers.news().contains_key(&slot));
        peers.forget(slot);
        assert!(peers.news().is_empty());
        peers.with(slot, |peer| {
            assert_eq!(peer.nonsense.told(), None);
            assert_eq!(peer.shipments.refused_bytes(), 0);
        });
    }
}
