//! Durability `majority`: more than half of the configured replicas have what is answered. So the remaining replicas can by
//! themselves take over what a lost one controlled.
//!
//! A replica is told how far the others have applied its own stream. With every request for a grant, they also report how far they have
//! applied other streams; here the truth stands in for these reports.

use super::{World, place};
use crate::history::Decision;
use crate::site::{Logged, head};
use crate::tree::Outcome;
use control::ReplicaSlot;
use vfs::ObjectId;

impl World {
    /// Whether enough replicas have the changes of an operation, so that it may be answered. It was
    /// carried out, and is stable here.
    pub(super) fn is_held_as_asked(&self, slot: ReplicaSlot, number: u64) -> bool {
        let site = &self.replicas[&slot].site;
        let mut history = site.stable.history.iter();
        let Some((origin, position, _)) = history.find(|(_, _, update)| update.origin == number)
        else {
            return true;
        };
        self.majority_has(slot, |other| {
            let applied = match *origin == slot {
                true => head(&site.acknowledged, other),
                false => self.head_of(other, *origin),
            };
            other == *origin || applied >= *position
        }) || self.is_kept(slot, *origin, *position)
    }

    /// Whether enough replicas have the content of a file that was written last here, so that its
    /// close may be answered.
    pub(super) fn content_is_held(&self, slot: ReplicaSlot, file: ObjectId) -> bool {
        let lacking = self.replicas[&slot].unshipped.get(&file);
        self.majority_has(slot, |other| {
            !lacking.is_some_and(|(_, missing)| missing.contains(&other))
        })
    }

    fn majority_has(&self, slot: ReplicaSlot, has: impl Fn(ReplicaSlot) -> bool) -> bool {
        if !self.majority || !self.model.answers_wait_for_majority {
            return true;
        }
        let view = self.replicas[&slot].core.view();
        if !self.witnesses.is_disjoint(&view.configured) {
            let mut others = view.active.iter().filter(|other| **other != slot);
            return others.all(|other| !self.holds_data(*other) || has(*other));
        }
        // A replica outside the view may give its copy up.
        let others = view.configured.intersection(&view.active);
        let others = others.filter(|other| **other != slot);
        others.filter(|other| has(**other)).count() + 1 >= view.majority()
    }

    /// Whether a decision keeps this place of a lost replica's stream.
    fn is_kept(&self, slot: ReplicaSlot, origin: ReplicaSlot, position: u64) -> bool {
        let known = &self.agreed.decisions[..self.replicas[&slot].site.entered];
        known.iter().any(|decision| {
            matches!(decision, Decision::Settled { lost, through, .. } if *lost == origin && *through >= position)
        })
    }

    /// The first remaining member begins to take over what a lost replica controlled.
    pub(super) fn take_over(&mut self, slot: ReplicaSlot) {
        let core = &self.replicas[&slot].core;
        if !self.majority || core.view().active.first() != Some(&slot) {
            return;
        }
        let begun = |lost: &ReplicaSlot| {
            let mut survivors = core.view().active.iter();
            survivors.any(|other| self.replicas[other].site.closed_to.contains(lost))
        };
        let frozen = core.frozen().map(|control| control.name.holder);
        let lost = frozen.filter(|lost| !begun(lost)).min();
        if let Some(lost) = lost {
            self.begin_settling(lost);
        }
    }

    /// The survivors have more than half of everything, so they must not give up anything that was answered.
    pub(super) fn check_nothing_answered(&mut self, given_up: &[Logged]) {
        let answered = given_up.iter().map(|(_, _, update)| update.origin);
        let answered = answered.filter(|number| {
            let outcome = self.operations[place(*number)].outcome;
            matches!(outcome, Some((Outcome::Done, _)))
        });
        let answered: Vec<u64> = answered.collect();
        if self.majority && !self.recovered && !answered.is_empty() {
            let sight = format!("operations {answered:?} were answered and are given up");
            self.report("I5", sight);
        }
    }

    /// The same for contents: the survivors have this version of a file.
    pub(super) fn check_nothing_closed(&mut self, file: ObjectId, kept: Option<u64>) {
        let closed = self.closed.get(&file).map(|closed| closed.version);
        if self.majority && !self.recovered && closed > kept {
            let sight = format!("{file} was closed as {closed:?}, and {kept:?} is kept");
            self.report("I5", sight);
        }
    }
}
