//! Which files all replicas have, and which peers have to be told so.
//!
//! What must never enter: how contents are sent, and how peers are told (`completed`).

use std::collections::BTreeSet;
use std::ops::Range;

use control::Position;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::Guard;

/// A range that no file reaches.
const NOTHING: Range<u64> = u64::MAX - 1..u64::MAX;

impl Guard<'_> {
    /// Checks whether all replicas have all content of a file, after something was acknowledged or removed.
    pub(super) fn settle_content(&mut self, file: ObjectId) {
        if self.ledger.pins.contains_key(&file) || !self.ledger.complete_at_active(file) {
            return;
        }
        self.data_shipped(file);
        if self.ledger.unshipped.complete_everywhere(file) {
            self.ledger.shipped.insert(file);
            self.ledger.resized.remove(&file);
        }
        self.ledger.note_handed_over(file);
        self.settle_previous();
    }

    /// A change of data that needs no content to be sent, such as a truncation, is complete at peers at once; they are told so.
    pub(super) fn note_complete_without_content(&mut self, file: ObjectId) {
        if self.ledger.pins.contains_key(&file) {
            return;
        }
        let peers = self.ledger.unshipped.peers();
        let keeping = peers.filter(|(_, backlog)| backlog.keeps_contents());
        let keeping = keeping.map(|(slot, backlog)| (slot, backlog.lacks(file)));
        let keeping: Vec<(ReplicaSlot, bool)> = keeping.collect();
        if keeping.iter().any(|(_, lacks)| *lacks) {
            let place = self.ledger.last_position;
            self.ledger.resized.insert(file, place);
        }
        for (slot, lacks) in keeping {
            let is_active = self.ledger.active.contains(&slot);
            if is_active {
                // If the last piece is on its way, it names an earlier place.
                self.ledger.note_unconfirmed(slot, file);
            }
            match is_active {
                _ if lacks => {}
                true => self.ledger.tell_soon(slot, file),
                false => self.tell_later(slot, file),
            }
        }
    }

    /// A peer that takes no part has all of a file, and is told so when it is back: the account pretends that it lacks something behind the end.
    fn tell_later(&mut self, slot: ReplicaSlot, file: ObjectId) {
        let (now, follows) = (self.now, Position(self.ledger.last_position));
        if let Some(backlog) = self.ledger.unshipped.peer(slot) {
            backlog.changed(now, file, NOTHING, follows);
        }
    }

    /// Reports that replicas outside the view could not get are sent when these are back.
    pub(super) fn put_off_telling(&mut self) {
        let ledger = &mut self.ledger;
        let away = |slot: &ReplicaSlot| !ledger.active.contains(slot);
        let late: Vec<(ReplicaSlot, ObjectId)> = (ledger.unconfirmed.keys())
            .filter(|(slot, _)| away(slot))
            .copied()
            .collect();
        let active = &ledger.active;
        ledger.complete.retain(|(slot, _), _| active.contains(slot));
        for (slot, file) in late {
            self.ledger.unconfirmed.remove(&(slot, file));
            self.tell_later(slot, file);
        }
    }

    /// The same for all files, when other replicas take part than before.
    pub(super) fn settle_all_contents(&mut self) {
        let backlogs = self.ledger.unshipped.peers();
        let mut files: BTreeSet<ObjectId> = backlogs
            .flat_map(|(_, backlog)| backlog.lacking())
            .collect();
        if let Some(previous) = &self.ledger.previous {
            files.extend(&previous.files);
        }
        files.into_iter().for_each(|file| self.settle_content(file));
        self.settle_previous();
    }
}
