//! How far the streams of updates have come: this replica's stream at the others, and theirs here.
//!
//! What must never enter: how streams are sent and received.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::{Moment, Position};
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::driver::engine::{Engine, Guard};
use crate::driver::local_replica::LocalReplica;
use crate::state::copies::{TRIMMED, trimmed_before};
use crate::state::peers::Peer;
use crate::state::settings::Durability;
use crate::state::wire::{LeaseRequest, Shipped};

/// What a replica reports about itself with each request for a lease, as of one moment.
pub(crate) struct OwnReport {
    pub(crate) epoch: u64,
    /// Whether it takes part, and every member of that view has reported.
    pub(crate) settled: bool,
    /// Whether the configuration of the set may change again, see [`Engine::is_steady`].
    pub(crate) steady: bool,
    pub(crate) up_to_date: bool,
    /// The place of the last update made here.
    pub(crate) position: u64,
    /// The replicas that answer with today's durability, each since a place in its stream; what has come under `majority` up to `position` is noted.
    pub(crate) aware: Vec<(u16, u64)>,
    /// How many files lack more at the peer than fresh changes; `None` if that is no longer known.
    pub(crate) owed: Option<u64>,
}

impl LocalReplica {
    /// What this replica reports to a peer. Changes made within `lately` need not have arrived there.
    pub(crate) fn report_to(&self, peer: ReplicaSlot, lately: Duration) -> OwnReport {
        let contents = self.state.settings.durability == Durability::Majority;
        self.engine.with_core(|guard| {
            let position = guard.ledger.last_position;
            OwnReport {
                epoch: guard.epoch().0,
                settled: self.takes_part() && guard.is_settled(),
                steady: guard.is_steady_with(contents),
                up_to_date: self.lease.is_up_to_date(),
                position,
                // Read after the position.
                aware: self.state.losses.awareness().known(),
                owed: guard.owed_to(peer, lately),
            }
        })
    }
}

impl LocalReplica {
    /// A peer requests a lease. Returns the last request of it such that all other members have the contents that this replica changed before it,
    /// except silent ones that lack some. `None` while another member or this replica is newly admitted, or this replica has not handed over what
    /// earlier incarnations made: then it is unknown since when they lack what they lack. A member that was started anew, and a copy of this replica
    /// from before its start, lack nothing that is not known here.
    pub(crate) fn shipped(
        &self,
        from: ReplicaSlot,
        request: &LeaseRequest,
        silent: &BTreeSet<ReplicaSlot>,
    ) -> Option<Shipped> {
        let now = self.engine.with_core(|guard| guard.now);
        let noted = |peer: &mut Peer| peer.questions.note(request.incarnation, request.asked, now);
        self.state.peers.with(from, noted);
        let active = self.lease.view().active;
        let debtors: Vec<ReplicaSlot> = self.state.debts.lock().keys().copied().collect();
        let anew = |slot: &ReplicaSlot| active.contains(slot) && !self.has_complete(*slot);
        let newcomers: BTreeSet<ReplicaSlot> = debtors.into_iter().filter(anew).collect();
        if !self.is_complete() || !newcomers.is_subset(silent) {
            return None;
        }
        let behind = |guard: &mut Guard<'_>| {
            let lacks = |slot: &ReplicaSlot| newcomers.contains(slot) || guard.may_lack(*slot);
            let without = silent.iter().copied().filter(lacks).collect();
            let (epoch, until) = guard.shipped(&without)?;
            Some((epoch, until, without))
        };
        let (epoch, until, without) = self.engine.with_core(behind)?;
        let asked = |peer: &mut Peer| peer.questions.until(until);
        Some(Shipped {
            epoch,
            asked: self.state.peers.with(from, asked)?,
            without: without.into_iter().map(|slot| slot.0).collect(),
        })
    }
}

impl LocalReplica {
    /// The last record that is no longer kept.
    pub(crate) fn trimmed(&self) -> u64 {
        self.state.trimmed.load(Ordering::Acquire)
    }

    /// What an earlier incarnation has noted.
    pub(crate) fn remember_trimmed(&self) -> Result<()> {
        let noted = trimmed_before(&self.store)?;
        self.state.trimmed.store(noted, Ordering::Release);
        Ok(())
    }

    /// This replica's stream up to here is no longer kept, or never was kept in this copy, which replaced another: a replica that lacks some of it
    /// cannot get that here.
    pub(crate) async fn note_trimmed(&self, position: u64) -> Result<()> {
        if position > self.trimmed() {
            let rows = vec![(TRIMMED.to_vec(), Some(position.to_be_bytes().to_vec()))];
            let ticket = self.store.put_facts(rows).await?;
            self.store.wait_stable(ticket).await?;
            self.state.trimmed.fetch_max(position, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Reads from the store how far streams have been applied. Updates may also follow updates of removed members.
    pub(crate) fn note_applied_streams(&self) -> vfs::Result<()> {
        let applied = self.store.applied_all()?;
        self.engine.note_applied_here(applied);
        Ok(())
    }
}

impl Engine {
    /// The place of the last update made here.
    pub(crate) fn last_position(&self) -> u64 {
        self.with_core(|guard| guard.ledger.last_position)
    }

    /// A peer has applied this replica's stream up to here, stably.
    pub(crate) fn applied_by(&self, peer: ReplicaSlot, position: u64) {
        self.with_core(|guard| {
            let applied = guard.ledger.applied.entry(peer).or_default();
            *applied = position.max(*applied);
            guard.applied_by(peer, Position(position));
            guard.settle_previous();
            guard.notifies = true;
        });
    }

    /// Forgets how far a peer has applied this replica's stream; its next report counts.
    pub(crate) fn forget_applied(&self, peer: ReplicaSlot) {
        self.with_core(|guard| {
            guard.ledger.applied.remove(&peer);
            guard.core.forget_applied(peer);
        });
    }

    /// The streams of others are applied here up to these places.
    pub(crate) fn note_applied_here(&self, streams: impl IntoIterator<Item = (ReplicaSlot, u64)>) {
        self.with_core(|guard| guard.ledger.heard.extend(streams));
    }

    /// Returns when a majority has applied this replica's stream up to a place.
    pub(crate) async fn until_majority_applied(&self, position: u64) {
        self.until_core(|guard| guard.ledger.majority_applied(position).then_some(()))
            .await;
    }

    /// Returns when a majority has all of a file, and knows it.
    pub(crate) async fn until_majority_holds(&self, file: ObjectId) {
        self.until_core(|guard| guard.ledger.majority_holds(file).then_some(()))
            .await;
    }

    /// The other replicas that do not count towards a majority that has all of a file, each with the reason.
    pub(crate) fn obstacles(&self, file: ObjectId) -> Vec<(ReplicaSlot, &'static str)> {
        self.with_core(|guard| guard.ledger.obstacles(file))
    }

    /// The other replicas that are not known to have applied this replica's stream up to `position`.
    pub(crate) fn behind(&self, position: u64) -> Vec<ReplicaSlot> {
        self.with_core(|guard| guard.ledger.behind(position))
    }

    /// Whether the members of the view in `having`, together with this replica, are a majority.
    pub(crate) fn is_majority(&self, having: &BTreeSet<ReplicaSlot>) -> bool {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            ledger.majority_has(|slot| ledger.active.contains(&slot) && having.contains(&slot))
        })
    }

    /// The place up to which updates need not be kept: all replicas have them, or a replica outside the view lacks them and they are not among the
    /// last `kept`.
    pub(crate) fn needed_by_nobody(&self, kept: impl Fn(ReplicaSlot) -> u64) -> u64 {
        self.with_core(|guard| guard.ledger.needed_by_nobody(kept))
    }
}

impl Guard<'_> {
    pub(super) fn is_steady_with(&self, contents: bool) -> bool {
        self.is_steady() && self.ledger.is_settled_in_configuration(contents)
    }

    /// Whether a member that keeps contents may lack something that was changed here.
    fn may_lack(&self, slot: ReplicaSlot) -> bool {
        let ledger = &self.ledger;
        let is_level = |slot| {
            let backlog = ledger.unshipped.backlog(slot);
            backlog.is_some_and(|backlog| backlog.is_exact() && backlog.oldest().is_none())
        };
        let keeps = ledger.active.contains(&slot) && !ledger.witnesses.contains(&slot);
        keeps && (ledger.previous.is_some() || !is_level(slot))
    }

    /// The epoch, and since when another member lacks something that was changed here, without these members.
    fn shipped(&self, without: &BTreeSet<ReplicaSlot>) -> Option<(u64, Moment)> {
        let ledger = &self.ledger;
        if !self.has_handed_over(without) {
            return None;
        }
        let mut until = self.now;
        let keepers = ledger.active.difference(&ledger.witnesses);
        let counts = |slot: &&ReplicaSlot| **slot != ledger.slot && !without.contains(slot);
        for slot in keepers.filter(counts) {
            let backlog = ledger.unshipped.backlog(*slot)?;
            if !backlog.is_exact() {
                return None;
            }
            until = backlog.oldest().map_or(until, |oldest| oldest.min(until));
        }
        Some((self.epoch().0, until))
    }

    /// A replica that writes all the time always owes something; fresh changes do not count.
    fn owed_to(&self, peer: ReplicaSlot, lately: Duration) -> Option<u64> {
        let lately = Moment(self.now.0.saturating_sub(lately.as_micros() as u64));
        let Some(backlog) = self.ledger.unshipped.backlog(peer) else {
            return Some(0);
        };
        (!backlog.is_given_up()).then(|| backlog.files_since_before(lately) as u64)
    }
}
