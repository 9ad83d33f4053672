//! The proposals that wait at an acceptor, each with the conflicting granted controls.
//!
//! Conflicts are computed once, when a proposal begins to wait. After that they follow the grants, the ends and the
//! moves. A deep proposal may conflict with the controls of thousands of files, and the end of one must not require a
//! check of all the others. `acceptor` decides which proposal is granted when.

use crate::ancestry::Change;
use crate::claim::{Obstacle, Proposal, Rank};
use crate::moment::Moment;
use crate::name::ControlName;
use crate::table::ControlTable;
use crate::tree::Tree;
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ObjectId, ReplicaSlot};

/// A proposal that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) proposal: Proposal,
    /// The order of arrival here; the smallest number has waited longest.
    pub(crate) arrival: u64,
    /// A release has named it: nothing that conflicts with it is granted first.
    pub(crate) named: bool,
    /// An update made under it has arrived, so a majority has granted it. Reservations do not apply to it.
    pub(crate) won: bool,
    /// A control was given up here for it: until the first moment this replica proposes nothing that it needs, and
    /// until the second moment it is not favoured again.
    pub(crate) favoured: Option<(Moment, Moment)>,
    /// The obstacles that its proposer was last told.
    pub(crate) told: Vec<Obstacle>,
    /// The granted controls that conflict with it, the highest rank last.
    conflicts: BTreeSet<(Rank, ControlName)>,
}

impl Waiter {
    pub(crate) fn new(proposal: Proposal, arrival: u64, named: bool) -> Waiter {
        Waiter {
            proposal,
            arrival,
            named,
            won: false,
            favoured: None,
            told: Vec::new(),
            conflicts: BTreeSet::new(),
        }
    }

    pub(crate) fn has_conflicts(&self) -> bool {
        !self.conflicts.is_empty()
    }

    /// Whether it waits for a control of `holder`.
    pub(crate) fn is_blocked_by(&self, holder: ReplicaSlot) -> bool {
        [false, true].into_iter().any(|firm| {
            let rank = Rank { firm, holder };
            let mut held = self.conflicts.range((rank, FIRST)..=(rank, LAST));
            held.next().is_some()
        })
    }

    pub(crate) fn is_blocked_by_control(&self, control: &Proposal) -> bool {
        self.conflicts.contains(&(control.rank(), control.name))
    }

    /// The conflicting controls of the highest rank, at most `count`.
    pub(crate) fn highest(&self, view: &View, count: usize) -> Vec<Obstacle> {
        let highest = self.conflicts.iter().rev().take(count);
        let described = highest.map(|(rank, name)| Obstacle {
            rank: *rank,
            name: *name,
            frozen: view.has_lost(name.holder),
        });
        described.collect()
    }

    fn note(&mut self, tree: &impl Tree, grant: &Proposal) {
        let key = (grant.rank(), grant.name);
        if self.proposal.conflicts_with(tree, grant) {
            self.conflicts.insert(key);
        } else {
            self.conflicts.remove(&key);
        }
    }

    fn find(&mut self, tree: &impl Tree, table: &ControlTable) {
        let names = table.conflicts(tree, &self.proposal);
        let grants = names.into_iter().filter_map(|name| table.grant(name));
        self.conflicts = grants.map(|grant| (grant.rank(), grant.name)).collect();
    }

    fn lies_at_or_below(&self, tree: &impl Tree, object: ObjectId) -> bool {
        let mut claims = self.proposal.claims.iter();
        claims.any(|claim| claim.object == object || tree.above(claim.object).contains(&object))
    }
}

/// Smaller than every name in a key with any holder.
const FIRST: ControlName = ControlName {
    holder: ReplicaSlot(0),
    incarnation: crate::name::Incarnation(0),
    number: 0,
};

/// Larger than every name.
const LAST: ControlName = ControlName {
    holder: ReplicaSlot(u16::MAX),
    incarnation: crate::name::Incarnation(u64::MAX),
    number: u64::MAX,
};

/// Granted controls, and the proposals that wait for some of them to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    table: ControlTable,
    waiters: BTreeMap<ControlName, Waiter>,
}

impl Waiting {
    pub(crate) fn table(&self) -> &ControlTable {
        &self.table
    }

    /// Records a control. The caller has checked that nothing conflicts.
    pub(crate) fn grant(&mut self, tree: &impl Tree, proposal: Proposal) {
        for waiter in self.waiters.values_mut() {
            waiter.note(tree, &proposal);
        }
        self.table.insert(tree, proposal);
    }

    /// Removes a control, if there is one.
    pub(crate) fn end(&mut self, tree: &impl Tree, name: ControlName) {
        if let Some(previous) = self.table.remove(tree, name) {
            let key = (previous.rank(), name);
            for waiter in self.waiters.values_mut() {
                waiter.conflicts.remove(&key);
            }
        }
    }

    pub(crate) fn add(&mut self, tree: &impl Tree, mut waiter: Waiter) {
        waiter.find(tree, &self.table);
        self.waiters.insert(waiter.proposal.name, waiter);
    }

    pub(crate) fn take(&mut self, name: ControlName) -> Option<Waiter> {
        self.waiters.remove(&name)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&ControlName) -> bool) {
        self.waiters.retain(|name, _| keep(name));
    }

    pub(crate) fn get(&self, name: ControlName) -> Option<&Waiter> {
        self.waiters.get(&name)
    }

    pub(crate) fn get_mut(&mut self, name: ControlName) -> Option<&mut Waiter> {
        self.waiters.get_mut(&name)
    }

    pub(crate) fn contains(&self, name: ControlName) -> bool {
        self.waiters.contains_key(&name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.values()
    }

    /// The waiting proposals of `holder`.
    pub(crate) fn iter_of(&self, holder: ReplicaSlot) -> impl Iterator<Item = &Waiter> {
        let first = ControlName { holder, ..FIRST };
        let last = ControlName { holder, ..LAST };
        self.waiters.range(first..=last).map(|(_, waiter)| waiter)
    }

    /// Records that this replica's tree, which already shows it, gained or lost the link from `parent` to `object`.
    pub(crate) fn note_link(
        &mut self,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
        change: Change,
    ) {
        let moves_others = !self.table.ancestry().below(object).is_empty();
        self.table.note_link(tree, object, parent, change);
        for waiter in self.waiters.values_mut() {
            if moves_others || waiter.lies_at_or_below(tree, object) {
                waiter.find(tree, &self.table);
                continue;
            }
            for name in self.table.at_object(object) {
                if let Some(grant) = self.table.grant(name) {
                    waiter.note(tree, grant);
                }
            }
        }
    }

    /// Whether the ancestry table and the conflicts of every waiter equal a new computation (I6).
    pub(crate) fn is_exact(&self, tree: &impl Tree) -> bool {
        let exact = |waiter: &Waiter| {
            let mut afresh = waiter.clone();
            afresh.find(tree, &self.table);
            afresh.conflicts == waiter.conflicts
        };
        self.table.ancestry_is_exact(tree) && self.waiters.values().all(exact)
    }

    /// The whole tree was replaced.
    pub(crate) fn note_replaced(&mut self, tree: &impl Tree) {
        self.table.recount(tree);
        for waiter in self.waiters.values_mut() {
            waiter.find(tree, &self.table);
        }
    }
}
