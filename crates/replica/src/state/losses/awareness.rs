//! The place in each replica's stream from which on the replica has answered with today's durability.
//!
//! Survivors continue by themselves with what `majority` protects. Something may have come under `majority` only a moment ago, or even after its
//! primary was lost. Then that primary answered changes as `relaxed`, and no other replica has them. So the survivors continue only with what comes
//! from a primary that knew of the setting, and only if they have everything that this primary had made before it knew.
//!
//! What must never enter: which durability applies where (`durability`), and what happens to a lost replica's objects.

use std::collections::BTreeMap;

use vfs::ReplicaSlot;

use crate::state::wire::LeaseRequest;

/// What is known of all replicas.
#[derive(Debug, Default)]
pub(crate) struct Awareness {
    /// The last place in each replica's stream where something came under `majority`.
    changed: BTreeMap<ReplicaSlot, u64>,
    /// The replicas that know of all these changes, each with the place of its own last update when it knew.
    since: BTreeMap<ReplicaSlot, u64>,
    /// How many changes are under way that may turn out to bring something under `majority`.
    undecided: usize,
}

impl Awareness {
    /// Everything up to here may have brought something under `majority`; what the other replicas know of it is unknown.
    pub(crate) fn begin(&mut self, applied: impl Iterator<Item = (ReplicaSlot, u64)>) {
        self.changed = applied.collect();
        self.since.clear();
    }

    /// A change is under way that may bring something under `majority`: nothing is known of any replica until [`Awareness::decided`].
    pub(super) fn undecided(&mut self) {
        self.undecided += 1;
    }

    /// Such a change is over. If it brought something under `majority`, that has been noted.
    pub(super) fn decided(&mut self) {
        self.undecided -= 1;
    }

    /// An update of `by` has brought something under `majority`; `by` itself knew at once.
    pub(crate) fn changed(&mut self, by: ReplicaSlot, position: u64) {
        let last = self.changed.entry(by).or_default();
        *last = position.max(*last);
        let author = self.since.remove(&by);
        self.since.clear();
        if author.is_some() {
            self.since.insert(by, position);
        }
    }

    /// A replica reports its positions, its setting, and when other replicas knew.
    pub(crate) fn heard(
        &mut self,
        from: ReplicaSlot,
        request: &LeaseRequest,
        majority_by_default: bool,
    ) {
        let knows = self.changed.iter().all(|(by, position)| {
            let applied = request.applied.iter().find(|(of, _)| *of == by.0);
            let known = match *by == from {
                true => Some(request.position),
                false => applied.map(|(_, applied)| *applied),
            };
            // The entry of this replica, or of a replica that has left the set, may be missing.
            known.is_none_or(|known| known >= *position)
        });
        if !knows || (majority_by_default && !request.majority_by_default) {
            return;
        }
        self.note(from, request.position);
        for (of, position) in &request.aware {
            self.note(ReplicaSlot(*of), *position);
        }
    }

    fn note(&mut self, of: ReplicaSlot, position: u64) {
        let since = self.since.entry(of).or_insert(position);
        *since = position.min(*since);
    }

    /// The replica has answered with today's durability since this place; `None` if that is unknown.
    pub(crate) fn since(&self, of: ReplicaSlot) -> Option<u64> {
        match self.undecided {
            0 => self.since.get(&of).copied(),
            _ => None,
        }
    }

    /// A replica has left the set, and every replica has all of its changes.
    pub(crate) fn forget(&mut self, slot: ReplicaSlot) {
        self.changed.remove(&slot);
        self.since.remove(&slot);
    }

    /// For the other replicas.
    pub(crate) fn known(&self) -> Vec<(u16, u64)> {
        match self.undecided {
            0 => self.since.iter().map(|(of, at)| (of.0, *at)).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ReplicaSlot = ReplicaSlot(1);
    const B: ReplicaSlot = ReplicaSlot(2);
    const C: ReplicaSlot = ReplicaSlot(3);

    fn ask(position: u64, applied: &[(u16, u64)]) -> LeaseRequest {
        LeaseRequest {
            position,
            applied: applied.to_vec(),
            majority_by_default: true,
            ..LeaseRequest::default()
        }
    }

    #[test]
    fn who_has_applied_the_change_knows_from_its_next_word_on() {
        let mut awareness = Awareness::default();
        awareness.begin([(A, 10), (B, 20)].into_iter());
        assert_eq!(awareness.since(A), None);
        awareness.heard(A, &ask(12, &[(2, 19)]), false);
        assert_eq!(awareness.since(A), None, "it lacks an update of B");
        awareness.heard(A, &ask(15, &[(2, 20)]), false);
        awareness.heard(A, &ask(30, &[(2, 25)]), false);
        assert_eq!(awareness.since(A), Some(15), "the first time counts");
        awareness.changed(B, 26);
        assert_eq!(awareness.since(A), None);
        awareness.heard(A, &ask(40, &[(2, 26)]), false);
        assert_eq!(awareness.since(A), Some(40));
    }

    /// The tree has the setting a moment before it is noted here.
    #[test]
    fn while_the_setting_is_being_made_nothing_is_known() {
        let mut awareness = Awareness::default();
        awareness.heard(A, &ask(3, &[]), false);
        awareness.undecided();
        assert_eq!((awareness.since(A), awareness.known()), (None, vec![]));
        awareness.changed(B, 1);
        awareness.decided();
        assert_eq!(awareness.since(A), None, "A has not heard of it");
        awareness.undecided();
        awareness.heard(A, &ask(4, &[(2, 1)]), false);
        awareness.decided();
        assert_eq!(awareness.since(A), Some(4));
    }

    #[test]
    fn the_replica_that_made_the_change_knew_at_once() {
        let mut awareness = Awareness::default();
        awareness.changed(A, 5);
        assert_eq!(awareness.since(A), None, "it may not know of others");
        awareness.heard(A, &ask(4, &[]), false);
        assert_eq!(awareness.since(A), None, "that was said before");
        awareness.heard(A, &ask(6, &[]), false);
        awareness.heard(C, &ask(0, &[(1, 6)]), false);
        awareness.changed(A, 9);
        assert_eq!((awareness.since(A), awareness.since(C)), (Some(9), None));
    }

    #[test]
    fn what_others_know_counts_when_they_know_everything() {
        let mut awareness = Awareness::default();
        awareness.begin([(A, 10), (C, 7)].into_iter());
        let mut word = ask(3, &[(1, 9), (3, 7)]);
        word.aware = vec![(1, 8)];
        awareness.heard(B, &word, false);
        assert_eq!(awareness.since(A), None);
        word.applied = vec![(1, 10), (3, 7)];
        awareness.heard(B, &word, false);
        assert_eq!((awareness.since(A), awareness.since(B)), (Some(8), Some(3)));
        assert_eq!(awareness.known(), [(1, 8), (2, 3)]);
    }

    #[test]
    fn who_is_configured_otherwise_protects_nothing_by_default() {
        let mut awareness = Awareness::default();
        let mut word = ask(3, &[]);
        word.majority_by_default = false;
        awareness.heard(A, &word, true);
        assert_eq!(awareness.since(A), None);
        awareness.heard(A, &word, false);
        assert_eq!(awareness.since(A), Some(3));
    }
}
