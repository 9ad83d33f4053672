//! Replicas that are removed for ever. The others first exclude such a replica from the view, then settle what it had, and only then count
//! majorities without it.
//!
//! The first active member stands in for the founder. An administrator has said that everything that only the removed replica
//! had is given up.

use super::World;
use crate::history::Decision;
use crate::site::head;
use control::ReplicaSlot;

impl World {
    /// A replica stops for ever, and the others ignore it from now on.
    pub(super) fn begin_removing(&mut self, slot: ReplicaSlot) {
        self.crash(slot);
        self.gone.insert(slot);
        for other in self.replicas.values_mut() {
            other.site.waiting.remove(&slot);
        }
    }

    /// Lets the set agree on the next step of a removal.
    pub(super) fn remove_the_gone(&mut self, slot: ReplicaSlot) {
        if self.settle_the_given_up(slot) {
            return;
        }
        let view = self.agreed.present();
        let mut outside = self
            .gone
            .iter()
            .filter(|gone| view.configured.contains(gone) && !view.active.contains(gone));
        let Some(lost) = outside.next().copied() else {
            return;
        };
        let active: Vec<ReplicaSlot> = view.active.iter().copied().collect();
        let everybody_knows = active.iter().all(|slot| self.may_settle(*slot));
        if active.first() != Some(&slot) || !everybody_knows {
            return;
        }
        let of_lost = |slot: &ReplicaSlot| {
            let core = &self.replicas[slot].core;
            !core.is_settled() || core.frozen().any(|control| control.name.holder == lost)
        };
        if self.model.losses_settled_before_removal && active.iter().any(of_lost) {
            let begun = |slot: &ReplicaSlot| self.replicas[slot].site.closed_to.contains(&lost);
            if !active.iter().any(begun) {
                self.begin_settling(lost);
            }
            return;
        }
        if self.is_steady(&active) {
            let view = self.agreed.removing(lost);
            self.decide(slot, Decision::View(view));
        }
    }

    /// Whether all active members know every control, and have everything, of earlier configurations.
    pub(super) fn is_steady(&self, active: &[ReplicaSlot]) -> bool {
        active.iter().all(|slot| {
            let replica = &self.replicas[slot];
            let entered_at = head(&replica.site.heads_at_entry, *slot);
            let mut others = active.iter().filter(|other| *other != slot);
            let applied =
                others.all(|other| head(&replica.site.acknowledged, *other) >= entered_at);
            let mut unshipped = replica.unshipped.values();
            let shipped = unshipped
                .all(|(content, lacking)| lacking.is_empty() || content.follows.0 > entered_at);
            replica.core.is_steady() && applied && (shipped || !self.majority)
        })
    }
}
