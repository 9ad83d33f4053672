//! What previous incarnations of this replica made: their controls end when it is everywhere, or when it was decided to go on without it.
//!
//! What must never enter: how it comes to the others.

use std::collections::{BTreeSet, HashSet};

use control::{Position, Proposal};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::{Engine, Guard};
use crate::state::ledger::Previous;

impl Engine {
    /// Goes on with what earlier incarnations left, under these own controls: `marked` are files that not everybody may have, `position` is
    /// the last place of the own stream. A control ends only when everything written under it is everywhere, so a file that no previous
    /// control covers has only a mark left.
    pub(crate) fn take_up_previous(&self, own: &[&Proposal], marked: Vec<ObjectId>, position: u64) {
        self.with_core(|guard| {
            guard.ledger.last_position = guard.ledger.last_position.max(position);
            let (now, follows) = (guard.now, Position(position));
            let mut files = HashSet::new();
            for file in marked {
                if own.iter().any(|grant| guard.covers(grant, file)) {
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

    /// Nothing was made here that others lack.
    pub(crate) fn previous_settled(&self) {
        self.with_core(|guard| guard.previous_settled());
    }

    /// It was decided to go on without what earlier incarnations made, and what is here is the others' copy: nothing is to be handed over.
    pub(crate) fn give_up_previous(&self) {
        self.with_core(|guard| guard.give_up_previous());
    }

    /// Whether all who take part, but for the absent, have everything that earlier incarnations made.
    pub(crate) fn has_handed_over(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
        self.with_core(|guard| guard.has_handed_over(absent))
    }

    /// Whether nothing that earlier incarnations made keeps this replica outside the view. With some members absent it is enough that all others who
    /// take part have it; else its controls have to have ended.
    pub(crate) fn is_previous_settled(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
        self.with_core(|guard| match absent.is_empty() {
            true => guard.ledger.previous.is_none(),
            false => guard.has_handed_over(absent),
        })
    }
}

impl Guard<'_> {
    /// A view is in force. Looks whether previous controls, which may have ended before, are to end now.
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
        // Before a view is known nobody can tell who would miss something.
        let everywhere =
            !self.ledger.active.is_empty() && self.ledger.applied_by_active(previous.position);
        if everywhere && previous.files.is_empty() {
            self.ledger.previous = None;
            self.previous_settled();
        }
    }

    /// It was decided to go on without what earlier incarnations made, and what is here is the others' copy: nothing is to be handed over.
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

    /// Whether all who take part, but for the absent, have everything that earlier incarnations made.
    fn has_handed_over(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
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

    /// Another primary has changed a file: what a previous incarnation of ours wanted to ship of it is out of date, but for what this one owes, to
    /// peers that have asked for all of it.
    pub(super) fn give_up_previous_of(&mut self, file: ObjectId) {
        let previous = self.ledger.previous.as_ref();
        if previous.is_some_and(|previous| previous.files.contains(&file)) {
            self.ledger.unshipped.owed_only(file);
            self.settle_content(file);
        }
    }
}
