//! The ancestry table (main paper, section 3.1 and Figure 3): who controls something below a directory?
//!
//! One look-up answers it, without a walk through the subtree. A counter counts *links*: a control of a
//! file with two links below a directory counts twice there. Because of that a subtree's counters can be
//! moved as a whole, by subtraction and addition along two paths, and no control needs to be looked at.
//! What a proposal announced about its own ancestors is counted beside that, for as long as the control
//! lasts, since this replica's copy of the tree may lag behind the proposer's.

use crate::tree::{Tree, chain};
use std::collections::BTreeMap;
use vfs::{ObjectId, ReplicaSlot};

/// Counters by replica; replicas with zero are left out.
pub(crate) type Counters = BTreeMap<ReplicaSlot, u32>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    by_link: Counters,
    announced: Counters,
}

/// Whether something is counted once more or once less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
}

/// Counts, for each directory and replica, the controls below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AncestryTable {
    entries: BTreeMap<ObjectId, Entry>,
}

impl AncestryTable {
    /// Counts a control of `object` along every path to the root, and for the announced ancestors.
    pub(crate) fn count(
        &mut self,
        tree: &impl Tree,
        object: ObjectId,
        announced: &[ObjectId],
        holder: ReplicaSlot,
        change: Change,
    ) {
        let once = Counters::from([(holder, 1)]);
        for parent in tree.parents(object) {
            self.count_along(tree, parent, &once, change);
        }
        for ancestor in announced {
            self.adjust(*ancestor, change, |entry| &mut entry.announced, &once);
        }
    }

    /// Counts `amounts` at `parent` and everything above it: a link appeared or went there.
    pub(crate) fn count_along(
        &mut self,
        tree: &impl Tree,
        parent: ObjectId,
        amounts: &Counters,
        change: Change,
    ) {
        for directory in chain(tree, parent) {
            self.adjust(directory, change, |entry| &mut entry.by_link, amounts);
        }
    }

    /// What this replica's own tree shows below `directory`, for moving it elsewhere.
    pub(crate) fn below(&self, directory: ObjectId) -> Counters {
        let entry = self.entries.get(&directory);
        entry.map_or_else(Counters::new, |entry| entry.by_link.clone())
    }

    /// How much `holder` controls below `directory`, by link or by announcement.
    pub(crate) fn count_of(&self, directory: ObjectId, holder: ReplicaSlot) -> u32 {
        self.entries.get(&directory).map_or(0, |entry| {
            let counters = [&entry.by_link, &entry.announced];
            let found = counters.map(|counters| counters.get(&holder).copied().unwrap_or(0));
            found[0].max(found[1])
        })
    }

    /// Whether a replica other than `except` controls something below `directory`.
    pub(crate) fn others_below(&self, directory: ObjectId, except: ReplicaSlot) -> bool {
        self.entries.get(&directory).is_some_and(|entry| {
            let mut counted = entry.by_link.keys().chain(entry.announced.keys());
            counted.any(|holder| *holder != except)
        })
    }

    fn adjust(
        &mut self,
        directory: ObjectId,
        change: Change,
        side: impl Fn(&mut Entry) -> &mut Counters,
        amounts: &Counters,
    ) {
        if amounts.is_empty() {
            return;
        }
        let entry = self.entries.entry(directory).or_default();
        let counters = side(entry);
        for (holder, amount) in amounts {
            let counter = counters.entry(*holder).or_default();
            *counter = match change {
                Change::Add => *counter + amount,
                // Invariant: nothing is subtracted that was not added along the same path before.
                Change::Remove => counter
                    .checked_sub(*amount)
                    .expect("a counter holds at least what is taken from it"),
            };
            if *counter == 0 {
                counters.remove(holder);
            }
        }
        if entry.by_link.is_empty() && entry.announced.is_empty() {
            self.entries.remove(&directory);
        }
    }
}
