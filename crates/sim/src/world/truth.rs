//! The knowledge of an observer who sees everything: the existing versions, their makers, and what was given up.
//!
//! The invariants compare replicas with it; no replica may look at it.

use super::{World, place};
use crate::history::Decision;
use crate::site::{Logged, head};
use crate::tree::{Edit, Intent};
use control::{ReplicaSlot, Tree};
use std::collections::BTreeSet;
use vfs::ObjectId;

impl World {
    /// From now on other replicas can see a version; no replica may make it again.
    pub(super) fn note_made(&mut self, object: ObjectId, version: u64, number: u64) {
        if !self.failures {
            return;
        }
        let first = *self.made.entry((object, version)).or_insert(number);
        if first != number {
            let sight = format!(
                "operations {first} and {number} both made version {version:#x} of {object}"
            );
            self.report("I3 (versions are not made twice)", sight);
        }
    }

    /// What was not stable at a crashed replica does not exist any more.
    pub(super) fn note_crash(&mut self, slot: ReplicaSlot) {
        let unseen = self.objects_made_by(slot);
        let stable = &self.replicas[&slot].site.stable.tree;
        for object in unseen {
            let others = self.replicas.values();
            let others = others.filter(|other| other.slot != slot && self.holds_data(other.slot));
            let versions = others.filter_map(|other| other.tree.version(object));
            let newest = versions.chain(stable.version(object)).max();
            self.newest.insert(object, newest.unwrap_or(0));
        }
        let lost: Vec<Logged> = {
            let replica = &self.replicas[&slot];
            let kept = place(replica.site.stable_head(slot));
            let stream = replica.stream.iter().enumerate().skip(kept);
            stream
                .map(|(index, update)| (slot, index as u64 + 1, update.clone()))
                .collect()
        };
        self.find_closed_again(slot, &lost);
    }

    fn objects_made_by(&self, slot: ReplicaSlot) -> Vec<ObjectId> {
        let made = self.maker.iter().filter(|(_, maker)| **maker == slot);
        made.map(|(object, _)| *object).collect()
    }

    /// Files named in lost updates are again where the stable copy of `slot` has them.
    fn find_closed_again(&mut self, slot: ReplicaSlot, lost: &[Logged]) {
        let edits = lost.iter().flat_map(|(_, _, update)| &update.edits);
        let files: BTreeSet<ObjectId> = edits
            .filter_map(|edit| match *edit {
                Edit::Enter { object, .. } | Edit::Leave { object, .. } => Some(object),
                Edit::Version { .. } | Edit::Lock { .. } => None,
            })
            .collect();
        for file in files {
            let directories = self.replicas[&slot].site.stable.tree.parents(file);
            if directories.is_empty() {
                self.closed.remove(&file);
            } else if let Some(closed) = self.closed.get_mut(&file) {
                closed.directories = directories;
            }
        }
    }

    /// What only the replica that is given up has does not exist any more.
    pub(super) fn note_decision(&mut self, decision: &Decision) {
        if let Decision::View(view) = decision {
            self.locks.note_view(&view.active, self.now);
        }
        let Decision::Settled { lost, through, .. } = *decision else {
            return;
        };
        let survivors: Vec<ReplicaSlot> = self.agreed.present().active.iter().copied().collect();
        let Some(witness) = survivors.first().copied() else {
            return;
        };
        let stream = self.replicas[&lost].stream.iter().enumerate();
        let given_up = stream.skip(place(through));
        let given_up: Vec<Logged> = given_up
            .map(|(index, update)| (lost, index as u64 + 1, update.clone()))
            .collect();
        self.check_nothing_answered(&given_up);
        let numbers = given_up.iter().map(|(_, _, update)| update.origin);
        self.discarded.extend(numbers);
        self.forget_discarded_locks();
        for object in self.objects_made_by(lost) {
            let versions = survivors
                .iter()
                .filter(|slot| self.holds_data(**slot))
                .filter_map(|slot| self.replicas[slot].tree.version(object));
            let kept = versions.max();
            self.check_nothing_closed(object, kept);
            self.newest.insert(object, kept.unwrap_or(0));
            match (kept, self.closed.get_mut(&object)) {
                (Some(kept), Some(closed)) => closed.version = closed.version.min(kept),
                (None, Some(_)) => drop(self.closed.remove(&object)),
                _ => {}
            }
        }
        for (number, operation) in (0..).zip(&self.operations) {
            let Intent::Write(file) = operation.intent else {
                continue;
            };
            if self.maker.get(&file) == Some(&lost) {
                self.discarded.insert(number);
            }
        }
        // What it still has on its disk does not count any more, not even when it crashes.
        self.maker.retain(|_, maker| *maker != lost);
        self.find_closed_in(witness, &given_up);
    }

    fn find_closed_in(&mut self, witness: ReplicaSlot, given_up: &[Logged]) {
        let edits = given_up.iter().flat_map(|(_, _, update)| &update.edits);
        let mut files = BTreeSet::new();
        for edit in edits {
            if let Edit::Enter { object, .. } | Edit::Leave { object, .. } = *edit {
                files.insert(object);
            }
        }
        for file in files {
            let directories = self.replicas[&witness].tree.parents(file);
            self.removed.remove(&file);
            if directories.is_empty() {
                self.closed.remove(&file);
            } else if let Some(closed) = self.closed.get_mut(&file) {
                closed.directories = directories;
            }
        }
    }

    /// How far a replica has applied a stream.
    pub(super) fn head_of(&self, slot: ReplicaSlot, origin: ReplicaSlot) -> u64 {
        head(&self.replicas[&slot].site.stable.heads, origin)
    }

    /// Whether all these members have the same part of a lost replica's stream, and the same contents that it sent.
    pub(super) fn have_the_same(&self, lost: ReplicaSlot, active: &[ReplicaSlot]) -> bool {
        let made = self.objects_made_by(lost);
        let has = |slot: &ReplicaSlot| {
            let replica = &self.replicas[slot];
            let versions = made.iter().map(|object| replica.tree.version(*object));
            (replica.applied.get(&lost), versions.collect::<Vec<_>>())
        };
        let mut holders = active.to_vec();
        holders.retain(|slot| self.holds_data(*slot));
        let applied = |slot: &ReplicaSlot| self.replicas[slot].applied.get(&lost);
        let stable = |slot: &ReplicaSlot| {
            self.replicas[slot].applied.get(&lost).copied().unwrap_or(0)
                == self.head_of(*slot, lost)
        };
        holders
            .windows(2)
            .all(|pair| has(&pair[0]) == has(&pair[1]))
            && active
                .windows(2)
                .all(|pair| applied(&pair[0]) == applied(&pair[1]))
            && active.iter().all(stable)
    }

    /// Survivors of a lost replica send each other what they have of its stream, in the usual way.
    pub(super) fn bring_together(&mut self, lost: ReplicaSlot, active: &[ReplicaSlot]) {
        let longest = active.iter().max_by_key(|slot| self.head_of(**slot, lost));
        let Some(longest) = longest.copied() else {
            return;
        };
        let stable = self.replicas[&longest].site.stable.clone();
        let made = self.objects_made_by(lost);
        for slot in active {
            let replica = self.replica(*slot);
            for (origin, position, update) in &stable.history {
                if *origin == lost {
                    let place = (*origin, *position);
                    replica.arrived.insert(place, update.clone());
                }
            }
            let applied = replica.applied.get(&lost).copied().unwrap_or(0);
            let arrived = &mut replica.arrived;
            arrived.retain(|(origin, position), _| *origin != lost || *position > applied);
            self.settle(*slot);
        }
        let mut holders = active.to_vec();
        holders.retain(|slot| self.holds_data(*slot));
        for object in made {
            let versions = holders
                .iter()
                .filter_map(|slot| self.replicas[slot].site.stable.tree.version(object));
            let Some(version) = versions.max() else {
                continue;
            };
            for slot in &holders {
                let replica = self.replica(*slot);
                let own = replica.tree.version(object);
                let is_file = replica.tree.entries(object).is_none();
                if is_file && own.is_some_and(|own| own < version) {
                    replica.tree.apply(&Edit::Version { object, version });
                    let change = crate::site::Change::Stored(object, version);
                    self.store(*slot, change);
                }
            }
        }
    }
}
