//! Admission to a view: what this replica lacks before it may answer, and what it owes to another newly admitted replica.
//!
//! What must never enter: what replicas tell each other about it (`membership::views`).

use std::collections::{BTreeMap, BTreeSet};

use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::{Engine, Guard};
use crate::driver::frozen::Covered;
use crate::driver::lease_state::LeaseState;
use crate::driver::local_replica::LocalReplica;
use crate::state::views::Debt;

/// What this replica, whose copy is whole, waits for before it may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Reports of members of the view.
    Reports,
    /// Data of a lost replica that no control protects any more. The second replica, a member, has it; `None`: then parts of contents are missing.
    OfTheLost(ReplicaSlot, Option<ReplicaSlot>),
    /// What this member owes it.
    OwedBy(ReplicaSlot),
}

impl Engine {
    /// A replica is admitted in the view of number `epoch`: what it lacks now of what was made here before is owed to it.
    pub(crate) fn begin_debt(&self, slot: ReplicaSlot, epoch: u64) -> Debt {
        self.with_core(|guard| {
            let mut given_up = false;
            let files: BTreeSet<ObjectId> = match guard.ledger.unshipped.peer(slot) {
                Some(backlog) => {
                    given_up = backlog.is_given_up();
                    backlog.owe();
                    backlog.lacking().collect()
                }
                None => BTreeSet::new(),
            };
            for file in &files {
                guard.data_unshipped(*file, &[]);
            }
            Debt {
                epoch,
                // What a replica lacks that must take a whole copy is unknown.
                through: match given_up {
                    true => u64::MAX,
                    false => guard.ledger.last_position,
                },
                files,
            }
        })
    }

    /// Removes what has arrived from the debts. Returns the replicas to which nothing is owed any more, each with its view.
    pub(crate) fn settle_debts(
        &self,
        lease: &LeaseState,
        debts: &mut BTreeMap<ReplicaSlot, Debt>,
    ) -> Vec<(ReplicaSlot, u64)> {
        let owed = debts.values().flat_map(|debt| &debt.files);
        let owed: BTreeSet<ObjectId> = owed.copied().collect();
        self.with_core(|guard| {
            let withheld = guard.withheld(lease, owed);
            let ledger = &mut guard.ledger;
            for (slot, debt) in debts.iter_mut() {
                if let Some(backlog) = ledger.unshipped.peer(*slot) {
                    debt.files.retain(|file| backlog.owes(*file));
                }
                // They are frozen, and the replica that ends their control sends them to all. Or they lack a lost replica's data here; all
                // replicas that took part at the change, and all that are level with them, have that data (counterexample 59).
                debt.files.retain(|file| !withheld.contains(file));
            }
            let paid = debts.iter().filter(|(slot, debt)| {
                debt.files.is_empty() && ledger.applied_by(**slot) >= debt.through
            });
            paid.map(|(slot, debt)| (*slot, debt.epoch)).collect()
        })
    }
}

impl LocalReplica {
    /// Returns when everything is here that was made before this replica took part.
    pub(crate) async fn until_arrived(&self) {
        let has_everything =
            |guard: &mut Guard<'_>| self.is_whole() && self.lack_by(guard).is_none();
        self.engine
            .until_core(|guard| has_everything(guard).then_some(()))
            .await;
    }

    /// What this replica lacks, whose copy is whole.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.engine.with_core(|guard| self.lack_by(guard))
    }

    fn lack_by(&self, guard: &Guard<'_>) -> Option<Lack> {
        if !guard.is_settled() {
            return Some(Lack::Reports);
        }
        let left = self.lacks_of_the_lost(guard);
        left.or_else(|| self.owing(guard).map(Lack::OwedBy))
    }

    /// A member that has not yet said that this replica has everything that it owed.
    fn owing(&self, guard: &Guard<'_>) -> Option<ReplicaSlot> {
        let (own, ledger) = (self.slot(), &guard.ledger);
        let arrival = self.state.arrival.lock();
        let mut others = ledger.active.difference(&ledger.witnesses);
        let owing = others.find(|slot| **slot != own && !arrival.caught_up.contains(slot));
        owing.copied()
    }

    /// What this newly admitted replica lacks of lost replicas' data that no control protects any more: updates that others have, and the contents of
    /// files that no frozen control covers. All members of the view had those when the control ended.
    fn lacks_of_the_lost(&self, guard: &Guard<'_>) -> Option<Lack> {
        let epoch = self.lease.view().epoch.0;
        let news = self.state.peers.news();
        let others = guard.ledger.active.difference(&guard.ledger.witnesses);
        let others: Vec<&ReplicaSlot> = others.filter(|slot| **slot != self.slot()).collect();
        self.lost().into_iter().find_map(|lost| {
            let here = self.state.inboxes.acknowledged(lost);
            let said = |slot: &ReplicaSlot| {
                let said = news.get(slot).and_then(|news| news.said.as_ref());
                said.filter(|(request, _)| request.epoch == epoch)
            };
            if !others.iter().all(|slot| said(slot).is_some()) {
                return Some(Lack::Reports);
            }
            let is_ahead = |slot: &&&ReplicaSlot| {
                let beyond = |(of, applied): &(u16, u64)| *of == lost.0 && *applied > here;
                said(slot).is_some_and(|(request, _)| request.applied.iter().any(beyond))
            };
            if let Some(ahead) = others.iter().find(is_ahead) {
                return Some(Lack::OfTheLost(lost, Some(**ahead)));
            }
            let incomplete = self.store.incomplete_files(lost);
            let frozen = Covered::by(guard.frozen_of(lost));
            let is_frozen = |file| frozen.covers(guard, file);
            let whole =
                incomplete.is_ok_and(|files| files.into_iter().all(|(file, ..)| is_frozen(file)));
            (!whole).then_some(Lack::OfTheLost(lost, None))
        })
    }
}
