//! Controls of lost replicas, which stand until the set decides how they end; and files that lack a lost replica's data here.
//!
//! What must never enter: which replicas are lost, and when it is decided.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use control::{Depth, Incarnation, Proposal};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::{Engine, Guard};
use crate::driver::lease_state::LeaseState;

/// What some controls cover, for questions about many files: each costs no more than the directories above the file.
#[derive(Debug, Default)]
pub(super) struct Covered {
    objects: HashSet<ObjectId>,
    /// Everything below these, too.
    deep: HashSet<ObjectId>,
}

impl Covered {
    pub(super) fn by<'g>(grants: impl Iterator<Item = &'g Proposal>) -> Covered {
        let mut covered = Covered::default();
        grants.for_each(|grant| covered.add(grant));
        covered
    }

    fn add(&mut self, grant: &Proposal) {
        for claim in &grant.claims {
            self.objects.insert(claim.object);
            if claim.depth == Depth::Deep {
                self.deep.insert(claim.object);
            }
        }
    }

    /// Whether one of the controls covers a file by itself or through a directory above it.
    pub(super) fn covers(&self, guard: &Guard<'_>, file: ObjectId) -> bool {
        let through_a_directory = || {
            let above = control::ancestors(&guard.tree, file);
            above.iter().any(|directory| self.deep.contains(directory))
        };
        self.objects.contains(&file) || (!self.deep.is_empty() && through_a_directory())
    }
}

impl Engine {
    /// The controls of replicas that take no part.
    pub(crate) fn frozen(&self) -> Vec<Proposal> {
        self.with_core(|guard| guard.frozen().cloned().collect())
    }

    /// How many controls of a lost replica stand.
    pub(crate) fn frozen_count(&self, lost: ReplicaSlot) -> usize {
        self.with_core(|guard| guard.frozen_of(lost).count())
    }

    /// What the controls of a lost replica cover: objects, and for each whether everything below it is covered.
    pub(crate) fn frozen_objects(&self, lost: ReplicaSlot) -> Vec<(ObjectId, bool)> {
        self.with_core(|guard| {
            let claims = guard.frozen_of(lost).flat_map(|grant| &grant.claims);
            claims
                .map(|claim| (claim.object, claim.depth == Depth::Deep))
                .collect()
        })
    }

    /// The first incarnation of a lost replica of which no control stands here, derived from the controls that do stand.
    pub(crate) fn frozen_below(&self, lost: ReplicaSlot) -> Option<u64> {
        self.with_core(|guard| {
            let theirs = guard.frozen_of(lost);
            theirs.map(|grant| grant.name.incarnation.0 + 1).max()
        })
    }

    /// Whether controls of a lost replica may stand, here or at a member of the view that has not reported.
    pub(crate) fn may_have_frozen(&self, lost: ReplicaSlot) -> bool {
        self.with_core(|guard| !guard.is_settled() || guard.frozen_of(lost).next().is_some())
    }

    /// Those of these files that a control covers.
    pub(crate) fn covered<T: Copy>(
        &self,
        control: &Proposal,
        files: &[T],
        file: impl Fn(T) -> ObjectId,
    ) -> Vec<T> {
        let covered = Covered::by(std::iter::once(control));
        self.with_core(|guard| {
            let files = files.iter().copied();
            files
                .filter(|one| covered.covers(guard, file(*one)))
                .collect()
        })
    }

    /// All controls end that a lost replica had before this incarnation.
    pub(crate) fn end_controls(&self, lost: ReplicaSlot, below: Incarnation) {
        self.with_core(|guard| {
            guard.loss_settled(lost, below);
            guard.notifies = true;
        });
    }

    /// Whether a lost replica's data of a file is missing here, and a control prevents other changes meanwhile.
    pub(crate) fn lacks_frozen(&self, file: ObjectId) -> bool {
        self.with_core(|guard| guard.lacks_frozen(file))
    }

    /// Whether the local content of a file must not be taken for its present version: a lost replica's data is missing, and a control of that replica
    /// stands, or this replica does not know yet what the others have of it. Otherwise an earlier version that this replica itself wrote would
    /// replace the lost replica's version when that replica is back.
    pub(crate) fn withholds(&self, file: ObjectId) -> bool {
        self.with_core(|guard| guard.withholds(&self.lease, file))
    }
}

impl Guard<'_> {
    pub(super) fn frozen_of(&self, lost: ReplicaSlot) -> impl Iterator<Item = &Proposal> {
        self.frozen().filter(move |grant| grant.name.holder == lost)
    }

    /// Whether data of a file is missing here that a lost replica has.
    fn lacks_frozen(&self, file: ObjectId) -> bool {
        let missing = self.tree.store.lacks_data_of(file);
        !missing.is_empty() && self.is_frozen_by(&missing, file)
    }

    /// Whether a control of one of these lost replicas covers a file. For one file this costs less than an index.
    fn is_frozen_by(&self, lost: &[ReplicaSlot], file: ObjectId) -> bool {
        let theirs = (self.frozen()).filter(|grant| lost.contains(&grant.name.holder));
        let above = control::ancestors(&self.tree, file);
        theirs.flat_map(|grant| &grant.claims).any(|claim| {
            claim.object == file || (claim.depth == Depth::Deep && above.contains(&claim.object))
        })
    }

    fn withholds(&self, lease: &LeaseState, file: ObjectId) -> bool {
        self.withholds_if(lease, file, |missing| self.is_frozen_by(missing, file))
    }

    /// Those of these files that are withheld, see [`Engine::withholds`].
    pub(super) fn withheld(
        &self,
        lease: &LeaseState,
        mut files: BTreeSet<ObjectId>,
    ) -> BTreeSet<ObjectId> {
        let mut covered = BTreeMap::<ReplicaSlot, Covered>::new();
        for grant in self.frozen() {
            covered.entry(grant.name.holder).or_default().add(grant);
        }
        files.retain(|file| {
            self.withholds_if(lease, *file, |missing| {
                let mut theirs = missing.iter().filter_map(|lost| covered.get(lost));
                theirs.any(|theirs| theirs.covers(self, *file))
            })
        });
        files
    }

    /// `is_frozen`: whether a control of one of these lost replicas covers the file.
    fn withholds_if(
        &self,
        lease: &LeaseState,
        file: ObjectId,
        is_frozen: impl Fn(&[ReplicaSlot]) -> bool,
    ) -> bool {
        let missing = self.tree.store.lacks_data_of(file);
        if missing.is_empty() {
            return false;
        }
        let previous = self.ledger.previous.as_ref();
        let own = previous.is_some_and(|previous| previous.files.contains(&file));
        let gone =
            |slot: &ReplicaSlot| !self.ledger.active.contains(slot) && *slot != self.ledger.slot;
        let unknown = || !lease.is_up_to_date() && missing.iter().any(gone);
        !own && (unknown() || is_frozen(&missing))
    }
}
