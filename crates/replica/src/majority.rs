//! Who is needed for `majority`, and who of them has what.
//!
//! What must never enter: when that is asked for.

use vfs::{ObjectId, ReplicaSlot};

use crate::shipping::Backlog;
use crate::turn::Ledger;

impl Ledger {
    /// Whether a majority has applied our stream up to `position`.
    pub(crate) fn majority_applied(&self, position: u64) -> bool {
        self.majority_has(|slot, _| self.applied.get(&slot).is_some_and(|at| *at >= position))
    }

    /// Whether a majority has all of a file, and knows it.
    pub(crate) fn majority_holds(&self, file: ObjectId) -> bool {
        self.majority_has(|slot, backlog| {
            !backlog.lacks(file) && !self.unconfirmed.contains(&(slot, file))
        })
    }

    /// Whether everybody who takes part has what was answered in earlier configurations of the set: then the configuration
    /// may change again. A majority of one need not have a member in common with those of its neighbours' neighbours.
    pub(crate) fn is_settled_in_configuration(&self, contents: bool) -> bool {
        let Some((since, position)) = self.configured else {
            return false;
        };
        let mut others = (self.unshipped.peers()).filter(|(slot, _)| self.active.contains(slot));
        others.all(|(slot, backlog)| {
            let applied = self.applied.get(&slot).is_some_and(|at| *at >= position);
            let shipped = !backlog.keeps_contents() || backlog.files_since_before(since) == 0;
            applied && (shipped || !contents)
        })
    }

    /// Whether enough others have something to make a majority together with this replica. Where the set has a
    /// witness, which holds nothing, everybody else who takes part is needed (rule 36).
    pub(crate) fn majority_has(&self, has: impl Fn(ReplicaSlot, &Backlog) -> bool) -> bool {
        let peers = || self.unshipped.peers();
        if peers().all(|(_, backlog)| backlog.keeps_contents()) {
            let having = peers().filter(|(slot, backlog)| has(*slot, backlog));
            return having.count() >= peers().count().div_ceil(2);
        }
        let mut needed = peers()
            .filter(|(slot, backlog)| backlog.keeps_contents() && self.active.contains(slot));
        needed.all(|(slot, backlog)| has(slot, backlog))
    }
}

#[cfg(test)]
mod tests {
    use control::{Moment, Position};

    use super::*;
    use crate::shipping::{Settings, Unshipped};

    const FILE: ObjectId = ObjectId::from_u64(7);
    const NEAR: ReplicaSlot = ReplicaSlot(2);
    const FAR: ReplicaSlot = ReplicaSlot(3);

    /// What replica 1 knows that has made one update with content, in a set where the far one is a witness or not.
    fn ledger(witness: bool) -> Ledger {
        let mut unshipped = Unshipped::new(Settings::default());
        unshipped.add_peer(NEAR);
        match witness {
            true => unshipped.add_witness(FAR),
            false => drop(unshipped.add_peer(FAR)),
        }
        unshipped.changed(Moment(0), FILE, 0..10, Position(1));
        let mut ledger = Ledger::new(unshipped);
        ledger.active = [ReplicaSlot(1), NEAR, FAR].into();
        ledger
    }

    fn deliver(ledger: &mut Ledger, to: ReplicaSlot) {
        let backlog = ledger.unshipped.peer(to).unwrap();
        let piece = backlog.next(Moment(u64::MAX)).unwrap();
        assert_eq!(backlog.acknowledged(piece.id), Some(FILE));
    }

    #[test]
    fn a_majority_of_three_is_any_other_one() {
        let mut ledger = ledger(false);
        assert!(!ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        ledger.applied.insert(FAR, 1);
        deliver(&mut ledger, FAR);
        assert!(ledger.majority_applied(1) && ledger.majority_holds(FILE));
    }

    #[test]
    fn with_a_witness_everybody_else_in_the_view_is_needed() {
        let mut ledger = ledger(true);
        ledger.applied.insert(FAR, 1);
        assert!(!ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        ledger.applied.insert(NEAR, 1);
        assert!(ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        deliver(&mut ledger, NEAR);
        assert!(ledger.majority_holds(FILE));
        ledger.unconfirmed.insert((NEAR, FILE));
        assert!(!ledger.majority_holds(FILE), "the other does not know it");
        ledger.active.remove(&NEAR);
        assert!(ledger.majority_applied(9) && ledger.majority_holds(FILE));
    }
}
