//! The own controls that should end, and what each of them waits for.
//!
//! Each control waits for one condition at a time, and is examined again only when that condition may be true. So an
//! event costs nothing for unrelated controls, however many wait. `may_end` decides what a control waits for.

use crate::name::Position;
use crate::own::{Origin, OwnControl, take};
use crate::placed::Placed;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use vfs::ObjectId;

/// Own controls that should end, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    all: BTreeSet<u64>,
    to_examine: BTreeSet<u64>,
    positions: BTreeMap<u64, Position>,
    by_position: BTreeSet<(Position, u64)>,
    below_deep: BTreeSet<u64>,
}

impl Candidates {
    pub(super) fn add(&mut self, number: u64) {
        self.all.insert(number);
        self.to_examine.insert(number);
    }

    /// Removes a control that should not end any more, or has ended. Returns whether it was to end.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.to_examine.remove(&number);
        self.stop_waiting(number);
        self.all.remove(&number)
    }

    fn stop_waiting(&mut self, number: u64) {
        if let Some(position) = self.positions.remove(&number) {
            self.by_position.remove(&(position, number));
        }
        self.below_deep.remove(&number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A condition that this control may wait for may be true now.
    pub(super) fn wake(&mut self, number: u64) {
        if self.all.contains(&number) {
            self.to_examine.insert(number);
        }
    }

    pub(super) fn wake_all(&mut self) {
        self.to_examine.clone_from(&self.all);
    }

    /// The next control to examine.
    pub(super) fn next(&mut self) -> Option<u64> {
        let number = self.to_examine.pop_first()?;
        self.stop_waiting(number);
        Some(number)
    }

    /// The control waits until every active replica has applied this replica's stream up to `position`.
    pub(super) fn wait_for_position(&mut self, number: u64, position: Position) {
        self.positions.insert(number, position);
        self.by_position.insert((position, number));
    }

    /// Every active replica has applied this replica's stream up to `position`.
    pub(super) fn reach(&mut self, position: Position) {
        while let Some((_, number)) = self.by_position.first().filter(|(at, _)| *at <= position) {
            let number = *number;
            self.stop_waiting(number);
            self.to_examine.insert(number);
        }
    }

    /// The control waits for the acknowledgements of a deep control above it.
    pub(super) fn wait_for_deep(&mut self, number: u64) {
        self.below_deep.insert(number);
    }

    /// A deep control is known at all replicas, or has ended.
    pub(super) fn wake_below_deep(&mut self) {
        self.to_examine.append(&mut self.below_deep);
    }
}

/// Own controls under which updates may have been made, and which some active replica has not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Unknown {
    placed: Placed<u64>,
    deep_at: BTreeMap<ObjectId, BTreeSet<u64>>,
    heirs: BTreeMap<u64, BTreeSet<u64>>,
}

impl Unknown {
    pub(super) fn contains(&self, number: u64) -> bool {
        self.placed.contains(number)
    }

    /// Adds a control, at the current places of its objects in the tree.
    pub(super) fn insert(&mut self, tree: &impl Tree, number: u64, control: &OwnControl) {
        self.placed.place(tree, number, control.objects());
        for object in control.deep_objects() {
            self.deep_at.entry(object).or_default().insert(number);
        }
        if let Origin::Inherited(from) = control.origin {
            self.heirs.entry(from.number).or_default().insert(number);
        }
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, number: u64, control: &OwnControl) -> bool {
        for object in control.deep_objects() {
            take(&mut self.deep_at, object, number);
        }
        if let Origin::Inherited(from) = control.origin {
            take(&mut self.heirs, from.number, number);
        }
        self.placed.remove(number)
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.placed.keys().collect()
    }

    pub(super) fn any_below(&self, directory: ObjectId) -> bool {
        self.placed.any_below(directory)
    }

    pub(super) fn others_below(&self, directory: ObjectId, number: u64) -> bool {
        self.placed.others_below(directory, number)
    }

    pub(super) fn any_deep(&self) -> bool {
        !self.deep_at.is_empty()
    }

    /// Whether a control other than `number` reaches below `directory`.
    pub(super) fn others_deep_at(&self, directory: ObjectId, number: u64) -> bool {
        let deep = self.deep_at.get(&directory);
        deep.is_some_and(|numbers| numbers.iter().any(|other| *other != number))
    }

    /// Whether a control was inherited from `number`.
    pub(super) fn has_heirs(&self, number: u64) -> bool {
        self.heirs.contains_key(&number)
    }
}
