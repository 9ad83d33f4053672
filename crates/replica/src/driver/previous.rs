//! What previous incarnations of this replica made: their controls end when it is everywhere, or when the set decided to continue without it.
//!
//! What must never enter: how it comes to the others.

use std::collections::{BTreeSet, HashSet};

use control::{Position, Proposal};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::{Engine, Guard};
use crate::driver::frozen::Covered;
use crate::state::ledger::Previous;

impl Engine {
    /// Continues with what earlier incarnations left, under these controls of this replica: `marked` are files that some replica may lack, `position`
    /// is the last place of this replica's stream. A control ends only when everything written under it is everywhere, so a file that no previous
    /// control covers has only a mark left.
    pub(crate) fn take_up_previous(&self, own: &[&Proposal], marked: Vec<ObjectId>, position: u64) {
        self.with_core(|guard| {
            guard.ledger.last_position = guard.ledger.last_position.max(position);
            guard.ledger.began_at = position;
            let (now, follows) = (guard.now, Position(position));
            let mut files = HashSet::new();
            let covered = Covered::by(own.iter().copied());
            for file in marked {
                if covered.covers(guard, file) {
                    guard.ledger.unshipped.suspected(now, file, follows);
                    files.insert(file);
                } else {
                    guard.ledger.shipped.insert(file);
                }
            }
            guard.ledger.previous = Some(Previous { position, files });
            guard.settle_previous();
        });
        self.notify_of_contents();
    }

    /// Others lack nothing that was made here.
    pub(crate) fn previous_settled(&self) {
        self.with_core(|guard| guard.previous_settled());
    }

    /// The set decided to continue without what earlier incarnations made, and the local copy is that of the others: nothing is to be handed over.
    pub(crate) fn give_up_previous(&self) {
        self.with_core(|guard| guard.give_up_previous());
    }

    /// Whether all replicas that take part, except the absent ones, have everything that earlier incarnations made.
    pub(crate) fn has_handed_over(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
        self.with_core(|guard| guard.has_handed_over(absent))
    }

    /// Whether nothing that earlier incarnations made keeps this replica outside the view. With some members absent, all others that take part must
    /// have it; otherwise its controls must have ended.
    pub(crate) fn is_previous_settled(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
        self.with_core(|guard| match absent.is_empty() {
            true => guard.ledger.previous.is_none(),
            false => guard.has_handed_over(absent),
        })
    }
}

impl Guard<'_> {
    /// A view is in force. Checks whether previous controls, which may have ended before, end now.
    pub(super) fn look_at_previous(&mut self) {
        if self.ledger.previous.is_none() && !self.has_renounced() {
            self.ledger.take_up_again();
        }
        self.settle_all_contents();
    }

    /// Ends the controls of previous incarnations once everything made under them is everywhere.
    pub(super) fn settle_previous(&mut self) {
        let Some(previous) = &self.ledger.previous else {
            return;
        };
        // Before a view is known, the replicas that need it are unknown.
        let everywhere =
            !self.ledger.active.is_empty() && self.ledger.applied_by_active(previous.position);
        if everywhere && previous.files.is_empty() {
            self.ledger.previous = None;
            self.previous_settled();
        }
    }

    /// The set decided to continue without what earlier incarnations made, and the local copy is that of the others: nothing is to be handed over.
    fn give_up_previous(&mut self) {
        let Some(previous) = self.ledger.previous.take() else {
            return;
        };
        for file in previous.files {
            self.ledger.unshipped.removed(file);
            self.settle_content(file);
        }
        self.ledger.last_position = 0;
        self.previous_settled();
    }

    /// Whether all replicas that take part, except the absent ones, have everything that earlier incarnations made.
    pub(super) fn has_handed_over(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
        let Some(previous) = &self.ledger.previous else {
            return true;
        };
        let ledger = &self.ledger;
        let counts = |slot: &ReplicaSlot| ledger.active.contains(slot) && !absent.contains(slot);
        let lacks = |file: &ObjectId| ledger.unshipped.lacking(*file).any(|slot| counts(&slot));
        let peers = ledger.unshipped.peers().map(|(slot, _)| slot);
        let mut peers = peers.filter(counts).peekable();
        let applied = |slot: ReplicaSlot| ledger.applied.get(&slot).copied().unwrap_or(0);
        peers.peek().is_some()
            && peers.all(|slot| applied(slot) >= previous.position)
            && !previous.files.iter().any(lacks)
    }

    /// Another primary has changed a file: what a previous incarnation of this replica would have shipped of it is outdated, except what this
    /// incarnation owes to peers that asked for the whole file.
    pub(super) fn give_up_previous_of(&mut self, file: ObjectId) {
        let previous = self.ledger.previous.as_ref();
        if previous.is_some_and(|previous| previous.files.contains(&file)) {
            self.ledger.unshipped.owed_only(file);
            self.settle_content(file);
        }
    }
}
