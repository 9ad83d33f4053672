//! One own control of this replica, from proposal to end, and the collection of all of them.
//!
//! Pure bookkeeping; `core` decides when to propose and when to let go.

use crate::claim::{Depth, Proposal};
use crate::command::{Mark, OperationId};
use crate::election::Election;
use crate::moment::Moment;
use crate::name::{ControlName, Position};
use crate::tree::Tree;
use crate::update::{Asker, Need, NeedKind, Update};
use std::collections::{BTreeMap, BTreeSet};
use vfs::ObjectId;

/// The state of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Proposed; no majority has acknowledged it yet.
    Undecided,
    /// In force.
    Held,
    /// Its time after a revoke is over: nothing more is admitted under it. It ends as soon as all replicas have what
    /// was done under it.
    Draining,
}

/// A client's operation that waits for an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) operation: OperationId,
    pub(crate) update: Update,
    pub(crate) asker: Asker,
}

/// How this replica came to propose a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Operations wait for it.
    Demanded,
    /// Announced for a file that own deep control already covers; no operation waits.
    Announced,
    /// Came with the creation of the object, under this control of its directory.
    Inherited(ControlName),
    /// Proposed because of many own controls below; no operation waits.
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
    waiting: Vec<Waiting>,
    /// When this replica's own acknowledgement is durable.
    pub(crate) durable: Mark,
    pub(crate) last_used: Moment,
    pub(crate) last_update: Position,
    pub(crate) revoked_until: Option<Moment>,
    /// When it is examined again.
    pub(crate) scheduled: Option<Moment>,
    /// The number of operations under it that are still running.
    pub(crate) held: u32,
    /// Controls of objects that were moved out of its reach in the meantime. They are held as long as it is.
    pub(crate) hold_with: Vec<u64>,
}

impl OwnControl {
    pub(crate) fn new(
        now: Moment,
        proposal: Proposal,
        needs: Vec<Need>,
        origin: Origin,
        state: State,
        waiting: Vec<Waiting>,
    ) -> OwnControl {
        OwnControl {
            proposal,
            needs,
            origin,
            state,
            election: Election::default(),
            waiting,
            durable: Mark(0),
            last_used: now,
            last_update: Position(0),
            revoked_until: None,
            scheduled: None,
            held: 0,
            hold_with: Vec::new(),
        }
    }

    /// Whether updates may have been made under it. Then other replicas must know it before a control that overlaps it
    /// ends. A proposal that operations still wait for covers nothing.
    pub(crate) fn is_in_use(&self) -> bool {
        self.state != State::Undecided || self.origin != Origin::Demanded
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.proposal.claims.iter().map(|claim| claim.object)
    }

    /// The directories that it covers deeply.
    pub(crate) fn deep_objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let claims = self.proposal.claims.iter();
        let deep = claims.filter(|claim| claim.depth == Depth::Deep);
        deep.map(|claim| claim.object)
    }

    /// Whether this control, in any state, meets a need by a claim of exactly that object.
    pub(crate) fn meets_alone(&self, need: &Need) -> bool {
        match need.kind {
            NeedKind::MovedDirectory => self.is_deep_at(need.object) && !self.proposal.downgradable,
            _ => self.claims_object(need.object),
        }
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.deep_objects().next().is_some()
    }

    pub(crate) fn is_deep_at(&self, object: ObjectId) -> bool {
        self.deep_objects().any(|directory| directory == object)
    }

    pub(crate) fn claims_object(&self, object: ObjectId) -> bool {
        self.objects().any(|claimed| claimed == object)
    }
}

/// The end of an own control. It is repeated until every replica has noted it.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// `None`: aborted. `Some`: released, with the waiter it names.
    pub(crate) released: Option<Option<Proposal>>,
    pub(crate) objects: Vec<ObjectId>,
    pub(crate) unaware: BTreeSet<vfs::ReplicaSlot>,
}

/// All own controls, indexed by number and by object.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnControls {
    /// Boxed, because controls are large and the map moves its values.
    by_number: BTreeMap<u64, Box<OwnControl>>,
    by_object: BTreeMap<ObjectId, BTreeSet<u64>>,
    deep_at: BTreeMap<ObjectId, BTreeSet<u64>>,
    waiting: usize,
}

impl OwnControls {
    pub(crate) fn insert(&mut self, control: OwnControl) {
        let number = control.proposal.name.number;
        for object in control.objects() {
            self.by_object.entry(object).or_default().insert(number);
        }
        for object in control.deep_objects() {
            self.deep_at.entry(object).or_default().insert(number);
        }
        self.waiting += control.waiting.len();
        self.by_number.insert(number, Box::new(control));
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<OwnControl> {
        let control = self.by_number.remove(&number)?;
        for object in control.objects() {
            take(&mut self.by_object, object, number);
        }
        for object in control.deep_objects() {
            take(&mut self.deep_at, object, number);
        }
        self.waiting -= control.waiting.len();
        Some(*control)
    }

    pub(crate) fn find(&self, number: u64) -> Option<&OwnControl> {
        self.by_number.get(&number).map(Box::as_ref)
    }

    pub(crate) fn find_mut(&mut self, number: u64) -> Option<&mut OwnControl> {
        self.by_number.get_mut(&number).map(Box::as_mut)
    }

    /// Makes operations wait for a control.
    pub(crate) fn wait_for(&mut self, number: u64, operations: Vec<Waiting>) {
        if let Some(control) = self.by_number.get_mut(&number) {
            self.waiting += operations.len();
            control.waiting.extend(operations);
        }
    }

    /// Ends the waiting of the operations that waited for a control.
    pub(crate) fn take_waiting(&mut self, number: u64) -> Vec<Waiting> {
        let control = self.by_number.get_mut(&number);
        let taken = control.map_or_else(Vec::new, |control| std::mem::take(&mut control.waiting));
        self.waiting -= taken.len();
        taken
    }

    /// The number of waiting operations.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &OwnControl)> {
        self.by_number
            .iter()
            .map(|(number, control)| (*number, control.as_ref()))
    }

    pub(crate) fn first_number(&self) -> Option<u64> {
        self.by_number.keys().next().copied()
    }

    /// Own controls, in any state, that claim exactly this object.
    pub(crate) fn at(&self, object: ObjectId) -> impl Iterator<Item = (u64, &OwnControl)> {
        let numbers = self.by_object.get(&object).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.find(*number)?)))
    }

    /// Own deep controls on these directories.
    pub(crate) fn deep_at(&self, directories: impl IntoIterator<Item = ObjectId>) -> Vec<u64> {
        let directories = directories.into_iter();
        let deep = directories.filter_map(|directory| self.deep_at.get(&directory));
        deep.flatten().copied().collect()
    }

    /// Own deep controls of a directory above `object`, nearest first. No walk when there are none.
    pub(crate) fn deep_above(&self, tree: &impl Tree, object: ObjectId) -> Vec<u64> {
        if self.deep_at.is_empty() {
            return Vec::new();
        }
        self.deep_at(tree.above(object).iter().copied())
    }

    /// The controls that meet `need`, nearest first: those of the object itself, then deep ones above.
    pub(crate) fn meeting(&self, tree: &impl Tree, need: &Need) -> Vec<(u64, &OwnControl)> {
        let own = self.at(need.object);
        let own = own.filter(|(_, control)| control.meets_alone(need));
        let mut found: Vec<(u64, &OwnControl)> = own.collect();
        if matches!(need.kind, NeedKind::File | NeedKind::Directory) {
            let deep = self.deep_above(tree, need.object).into_iter();
            found.extend(deep.filter_map(|number| Some((number, self.find(number)?))));
        }
        found
    }
}

/// Removes a number from an index without empty entries.
pub(crate) fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: K, number: u64) {
    if let Some(numbers) = index.get_mut(&key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(&key);
        }
    }
}
