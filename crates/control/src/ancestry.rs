//! The ancestry table (main paper, section 3.1 and Figure 3): which replicas control something below a directory?
//!
//! One look-up answers this, without a walk through the subtree. A counter counts *links*: a control of a file with two
//! links below a directory counts twice there. So the counters of a subtree can be moved as a whole, by subtraction and
//! addition along two paths, without looking at any control. The ancestors that a proposal announced are counted
//! separately while the control exists, because this replica's copy of the tree may be older than the proposer's.

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

/// Whether a control is added to the counters or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
}

/// Counts, for each directory and replica, the controls below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AncestryTable {
    /// The counters of each directory, sorted by replica.
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

    /// Adds or removes `amounts` at `parent` and at everything above it, for a link that was added or removed there.
    /// The amounts are usually empty, and then nothing is walked.
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

    /// The counters of this replica's own tree for `directory` and below, to move them elsewhere.
    pub(crate) fn below(&self, directory: ObjectId) -> Amounts {
        let counters = self.entries.get(&directory).into_iter().flatten();
        let by_link = counters.map(|counter| (counter.holder, counter.by_link));
        by_link.filter(|(_, amount)| *amount > 0).collect()
    }

    /// The number of controls of `holder` below `directory`, by link or by announcement.
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

    /// The number of counters.
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
            // Invariant: only amounts that were added along the same path before are subtracted.
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
