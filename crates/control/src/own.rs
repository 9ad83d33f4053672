//! One control of this replica's own, from proposal to end, and all of them together.
//!
//! Pure bookkeeping; when to propose and when to let go is decided in `core`.

use crate::claim::{Depth, Proposal};
use crate::command::{Mark, OperationId};
use crate::election::Election;
use crate::moment::Moment;
use crate::name::{ControlName, Position};
use crate::tree::{Tree, ancestors};
use crate::update::{Need, NeedKind, Update};
use std::collections::{BTreeMap, BTreeSet};
use vfs::ObjectId;

/// Where a control stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Proposed; a majority has not acknowledged yet.
    Undecided,
    /// In force.
    Held,
    /// Its time after a revoke is over: nothing more is admitted under it, and it ends as soon as what
    /// was admitted is everywhere.
    Draining,
}

/// A client's operation that waits for an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) operation: OperationId,
    pub(crate) update: Update,
}

/// How this replica came to propose a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// For operations that wait for it.
    Demanded,
    /// Announced for a file that own deep control covers already; nobody waits.
    Announced,
    /// Brought along by the creation of the object, under this control of its directory.
    Inherited(ControlName),
    /// Many own controls below suggest it; nobody waits.
    Upgrade,
}

/// A control that this replica proposes or holds.
#[derive(Clone, Debug)]
pub(crate) struct OwnControl {
    pub(crate) proposal: Proposal,
    pub(crate) needs: Vec<Need>,
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) election: Election,
    pub(crate) waiting: Vec<Waiting>,
    /// When this replica's own acknowledgement is durable.
    pub(crate) durable: Mark,
    pub(crate) last_used: Moment,
    pub(crate) last_update: Position,
    pub(crate) revoked_until: Option<Moment>,
    /// So many operations admitted under it are still being carried out.
    pub(crate) held: u32,
}

impl OwnControl {
    /// Whether this control, in whatever state, is one under which `need` is met.
    pub(crate) fn meets(&self, need: &Need, above: &BTreeSet<ObjectId>) -> bool {
        self.proposal.claims.iter().any(|claim| {
            let deep = claim.depth == Depth::Deep;
            let own = claim.object == need.object;
            match need.kind {
                NeedKind::LoneFile => own,
                NeedKind::MovedDirectory => own && deep && !self.proposal.downgradable,
                NeedKind::File | NeedKind::Directory => {
                    own || (deep && above.contains(&claim.object))
                }
            }
        })
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.proposal
            .claims
            .iter()
            .any(|claim| claim.depth == Depth::Deep)
    }

    pub(crate) fn is_deep_at(&self, object: ObjectId) -> bool {
        let mut claims = self.proposal.claims.iter();
        claims.any(|claim| claim.object == object && claim.depth == Depth::Deep)
    }

    pub(crate) fn claims_object(&self, object: ObjectId) -> bool {
        self.proposal
            .claims
            .iter()
            .any(|claim| claim.object == object)
    }
}

/// The end of an own control, repeated until everyone has noted it.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// `None`: aborted. `Some`: released, with the waiter it names.
    pub(crate) released: Option<Option<Proposal>>,
    pub(crate) objects: Vec<ObjectId>,
    pub(crate) unaware: BTreeSet<vfs::ReplicaSlot>,
}

/// All own controls, findable by number and by object.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnControls {
    by_number: BTreeMap<u64, OwnControl>,
    by_object: BTreeMap<ObjectId, BTreeSet<u64>>,
}

impl OwnControls {
    pub(crate) fn insert(&mut self, control: OwnControl) {
        let number = control.proposal.name.number;
        for claim in &control.proposal.claims {
            self.by_object
                .entry(claim.object)
                .or_default()
                .insert(number);
        }
        self.by_number.insert(number, control);
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<OwnControl> {
        let control = self.by_number.remove(&number)?;
        for claim in &control.proposal.claims {
            if let Some(numbers) = self.by_object.get_mut(&claim.object) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.by_object.remove(&claim.object);
                }
            }
        }
        Some(control)
    }

    pub(crate) fn find(&self, number: u64) -> Option<&OwnControl> {
        self.by_number.get(&number)
    }

    pub(crate) fn find_mut(&mut self, number: u64) -> Option<&mut OwnControl> {
        self.by_number.get_mut(&number)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &OwnControl)> {
        self.by_number
            .iter()
            .map(|(number, control)| (*number, control))
    }

    pub(crate) fn first_number(&self) -> Option<u64> {
        self.by_number.keys().next().copied()
    }

    /// Own controls, in any state, that claim exactly this object.
    pub(crate) fn at(&self, object: ObjectId) -> impl Iterator<Item = (u64, &OwnControl)> {
        let numbers = self.by_object.get(&object).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.by_number.get(number)?)))
    }

    /// The controls that meet `need`, nearest first: those of the object itself, then deep ones above.
    pub(crate) fn meeting(&self, tree: &impl Tree, need: &Need) -> Vec<(u64, &OwnControl)> {
        let none = BTreeSet::new();
        let own = self
            .at(need.object)
            .filter(|(_, control)| control.meets(need, &none));
        let mut found: Vec<(u64, &OwnControl)> = own.collect();
        let may_be_covered = matches!(need.kind, NeedKind::File | NeedKind::Directory);
        if may_be_covered && !self.by_number.is_empty() {
            let above = ancestors(tree, need.object);
            let candidates = above.iter().flat_map(|directory| self.at(*directory));
            found.extend(candidates.filter(|(_, control)| control.meets(need, &above)));
        }
        found
    }
}
