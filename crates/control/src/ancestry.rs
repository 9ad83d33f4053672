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

/// Amounts by replica.
pub(crate) type Amounts = Vec<(ReplicaSlot, u32)>;

/// What one replica controls below one directory; at least one of the two is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    holder: ReplicaSlot,
    by_link: u32,
    announced: u32,
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
    /// The counters of a directory, ascending by replica.
    entries: BTreeMap<ObjectId, Vec<Counter>>,
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
        for parent in tree.parents(object) {
            self.count_along(tree, parent, &[(holder, 1)], change);
        }
        for ancestor in announced {
            self.adjust(*ancestor, holder, change, 1, |counter| {
                &mut counter.announced
            });
        }
    }

    /// Counts `amounts` at `parent` and everything above it: a link appeared or went there. Usually there
    /// are none, and then nothing is walked.
    pub(crate) fn count_along(
        &mut self,
        tree: &impl Tree,
        parent: ObjectId,
        amounts: &[(ReplicaSlot, u32)],
        change: Change,
    ) {
        if amounts.is_empty() {
            return;
        }
        for directory in chain(tree, parent) {
            for (holder, amount) in amounts {
                self.adjust(directory, *holder, change, *amount, |counter| {
                    &mut counter.by_link
                });
            }
        }
    }

    /// What this replica's own tree shows below `directory`, for moving it elsewhere.
    pub(crate) fn below(&self, directory: ObjectId) -> Amounts {
        let counters = self.entries.get(&directory).into_iter().flatten();
        let by_link = counters.map(|counter| (counter.holder, counter.by_link));
        by_link.filter(|(_, amount)| *amount > 0).collect()
    }

    /// How much `holder` controls below `directory`, by link or by announcement.
    pub(crate) fn count_of(&self, directory: ObjectId, holder: ReplicaSlot) -> u32 {
        let mut counters = self.entries.get(&directory).into_iter().flatten();
        let counter = counters.find(|counter| counter.holder == holder);
        counter.map_or(0, |counter| counter.by_link.max(counter.announced))
    }

    /// Whether a replica other than `except` controls something below `directory`.
    pub(crate) fn others_below(&self, directory: ObjectId, except: ReplicaSlot) -> bool {
        let mut counters = self.entries.get(&directory).into_iter().flatten();
        counters.any(|counter| counter.holder != except)
    }

    /// How many counters there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    fn adjust(
        &mut self,
        directory: ObjectId,
        holder: ReplicaSlot,
        change: Change,
        amount: u32,
        side: impl Fn(&mut Counter) -> &mut u32,
    ) {
        let counters = self.entries.entry(directory).or_default();
        let place = match counters.binary_search_by_key(&holder, |counter| counter.holder) {
            Ok(place) => place,
            Err(place) => {
                let (by_link, announced) = (0, 0);
                counters.insert(
                    place,
                    Counter {
                        holder,
                        by_link,
                        announced,
                    },
                );
                place
            }
        };
        let counter = side(&mut counters[place]);
        *counter = match change {
            Change::Add => *counter + amount,
            // Invariant: nothing is subtracted that was not added along the same path before.
            Change::Remove => counter
                .checked_sub(amount)
                .expect("a counter holds at least what is taken from it"),
        };
        if counters[place].by_link == 0 && counters[place].announced == 0 {
            counters.remove(place);
            if counters.is_empty() {
                self.entries.remove(&directory);
            }
        }
    }
}
