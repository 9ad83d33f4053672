//! The controls that one replica has acknowledged, its own included, and what conflicts with them.
//!
//! Grants and the ancestry table change together, and only here. What must never enter: elections, queues and messages.

use crate::ancestry::{Amounts, AncestryTable, Change};
use crate::claim::{Claim, Depth, Proposal};
use crate::name::{ControlName, Incarnation};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ObjectId, ReplicaSlot};

/// Grants, indexed by name, by object and by ancestors.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlTable {
    grants: BTreeMap<ControlName, Proposal>,
    by_object: BTreeMap<ObjectId, BTreeSet<ControlName>>,
    deep_at: BTreeMap<ObjectId, BTreeSet<ControlName>>,
    ancestry: AncestryTable,
    held_by: BTreeMap<ReplicaSlot, usize>,
}

impl ControlTable {
    pub(crate) fn contains(&self, name: ControlName) -> bool {
        self.grants.contains_key(&name)
    }

    pub(crate) fn grant(&self, name: ControlName) -> Option<&Proposal> {
        self.grants.get(&name)
    }

    pub(crate) fn grants(&self) -> impl Iterator<Item = &Proposal> {
        self.grants.values()
    }

    /// The number of controls of replicas other than `slot` that are acknowledged here.
    pub(crate) fn foreign_to(&self, slot: ReplicaSlot) -> usize {
        self.grants.len() - self.held_by.get(&slot).copied().unwrap_or(0)
    }

    /// The controls that `holder` got before an incarnation.
    pub(crate) fn held_before(
        &self,
        holder: ReplicaSlot,
        before: Incarnation,
    ) -> impl Iterator<Item = ControlName> {
        let first = |incarnation| ControlName {
            holder,
            incarnation,
            number: 0,
        };
        let range = self.grants.range(first(Incarnation(0))..first(before));
        range.map(|(name, _)| *name)
    }

    pub(crate) fn ancestry(&self) -> &AncestryTable {
        &self.ancestry
    }

    /// Records a control. The caller has checked that nothing conflicts.
    pub(crate) fn insert(&mut self, tree: &impl Tree, proposal: Proposal) {
        let name = proposal.name;
        for claim in &proposal.claims {
            self.count(tree, name.holder, claim, Change::Add);
            self.by_object.entry(claim.object).or_default().insert(name);
            if claim.depth == Depth::Deep {
                self.deep_at.entry(claim.object).or_default().insert(name);
            }
        }
        *self.held_by.entry(name.holder).or_default() += 1;
        self.grants.insert(name, proposal);
    }

    /// Removes a control and returns it, if there was one.
    pub(crate) fn remove(&mut self, tree: &impl Tree, name: ControlName) -> Option<Proposal> {
        let proposal = self.grants.remove(&name)?;
        if let Some(held) = self.held_by.get_mut(&name.holder) {
            *held -= 1;
        }
        for claim in &proposal.claims {
            self.count(tree, name.holder, claim, Change::Remove);
            for index in [&mut self.by_object, &mut self.deep_at] {
                if let Some(names) = index.get_mut(&claim.object) {
                    names.remove(&name);
                    if names.is_empty() {
                        index.remove(&claim.object);
                    }
                }
            }
        }
        Some(proposal)
    }

    fn count(&mut self, tree: &impl Tree, holder: ReplicaSlot, claim: &Claim, change: Change) {
        let Claim {
            object, ancestors, ..
        } = claim;
        let announced = ancestors.as_slice();
        self.ancestry
            .count(tree, *object, announced, holder, change);
    }

    /// Records that this replica's tree gained or lost the link from `parent` to `object`. The path above `parent` must
    /// be the same before and after.
    pub(crate) fn note_link(
        &mut self,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
        change: Change,
    ) {
        let mut amounts: Amounts = self.ancestry.below(object);
        let at = self.by_object.get(&object).into_iter();
        amounts.extend(at.flatten().map(|name| (name.holder, 1)));
        self.ancestry.count_along(tree, parent, &amounts, change);
    }

    /// The controls of others that conflict with `proposal` by Figure 2.
    pub(crate) fn conflicts(&self, tree: &impl Tree, proposal: &Proposal) -> BTreeSet<ControlName> {
        let asker = proposal.name.holder;
        let claims = proposal.claims.iter();
        let covered = claims.flat_map(|claim| {
            let mut names = self.at(claim.object, asker);
            names.extend(self.deep_above(tree, claim, asker));
            names.extend(self.below(tree, claim, asker));
            names
        });
        covered.collect()
    }

    /// Controls of `object` itself.
    pub(crate) fn at_object(&self, object: ObjectId) -> impl Iterator<Item = ControlName> {
        let names = self.by_object.get(&object).into_iter();
        names.flatten().copied()
    }

    /// Controls of `object` itself that others than `asker` hold.
    fn at(&self, object: ObjectId, asker: ReplicaSlot) -> Vec<ControlName> {
        let names = self.at_object(object);
        names.filter(|name| name.holder != asker).collect()
    }

    /// Deep controls of others on a directory above the claim. No walk when no other replica holds any.
    fn deep_above(&self, tree: &impl Tree, claim: &Claim, asker: ReplicaSlot) -> Vec<ControlName> {
        if self.deep_at.is_empty() {
            return Vec::new();
        }
        let path = tree.above(claim.object);
        let above = path.iter().chain(&claim.ancestors);
        let deep = above.filter_map(|directory| self.deep_at.get(directory));
        let deep = deep.flatten().filter(|name| name.holder != asker);
        deep.copied().collect()
    }

    /// Controls of others below a deep claim. The ancestry table says whether there are any; only a refusal has the
    /// cost of finding out which.
    fn below(&self, tree: &impl Tree, claim: &Claim, asker: ReplicaSlot) -> Vec<ControlName> {
        if claim.depth == Depth::Shallow || !self.ancestry.others_below(claim.object, asker) {
            return Vec::new();
        }
        let others = self
            .grants
            .values()
            .filter(|held| held.name.holder != asker);
        let below = others.filter(|held| {
            let mut claims = held.claims.iter();
            claims.any(|theirs| theirs.is_below(tree, claim.object))
        });
        below.map(|held| held.name).collect()
    }

    /// Counts everything again, for another tree.
    pub(crate) fn recount(&mut self, tree: &impl Tree) {
        self.ancestry = self.counted_afresh(tree);
    }

    /// Whether the ancestry table equals a new count from the grants and the tree (I6).
    pub(crate) fn ancestry_is_exact(&self, tree: &impl Tree) -> bool {
        self.counted_afresh(tree) == self.ancestry
    }

    fn counted_afresh(&self, tree: &impl Tree) -> AncestryTable {
        let mut recounted = AncestryTable::default();
        for grant in self.grants.values() {
            for claim in &grant.claims {
                let announced = claim.ancestors.as_slice();
                recounted.count(
                    tree,
                    claim.object,
                    announced,
                    grant.name.holder,
                    Change::Add,
                );
            }
        }
        recounted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Links(BTreeMap<u64, Vec<u64>>);

    impl Tree for Links {
        fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
            let parents = self.0.get(&object.as_u64()).into_iter().flatten();
            parents.copied().map(ObjectId::from_u64).collect()
        }
    }

    /// Root 1 with directory a (2); in it b (3) and c (4); f1 (5) and d1 (6) in b, f2 (7) and d2 (8) in c.
    fn figure_tree() -> Links {
        let links = [(2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (8, 4)];
        Links(BTreeMap::from(
            links.map(|(child, parent)| (child, vec![parent])),
        ))
    }

    fn with_shallow(tree: &Links, controls: &[(u16, u64)]) -> ControlTable {
        let mut table = ControlTable::default();
        for (number, (holder, object)) in (1..).zip(controls) {
            let claim = Claim::new(tree, ObjectId::from_u64(*object), Depth::Shallow);
            let name = ControlName {
                holder: ReplicaSlot(*holder),
                incarnation: Incarnation(1),
                number,
            };
            let proposal = Proposal {
                name,
                claims: vec![claim],
                downgradable: false,
                behind: Vec::new(),
            };
            table.insert(tree, proposal);
        }
        table
    }

    fn below(table: &ControlTable, directory: u64, holder: u16) -> u32 {
        let directory = ObjectId::from_u64(directory);
        table.ancestry().count_of(directory, ReplicaSlot(holder))
    }

    #[test]
    fn figure_3_counts_controls_below_each_directory() {
        let table = with_shallow(&figure_tree(), &[(0, 5), (0, 6), (1, 7), (2, 8)]);
        let root_to_c = [
            (1, [2, 1, 1]),
            (2, [2, 1, 1]),
            (3, [2, 0, 0]),
            (4, [0, 1, 1]),
            (6, [0, 0, 0]),
        ];
        for (directory, counters) in root_to_c {
            let counted = [0, 1, 2].map(|holder| below(&table, directory, holder));
            assert_eq!(counted, counters, "entry of {directory}");
        }
    }

    #[test]
    fn figure_3_counts_follow_moves_and_links() {
        let mut tree = figure_tree();
        let mut table = with_shallow(&tree, &[(0, 5)]);
        let id = ObjectId::from_u64;
        // The directory b moves into c.
        tree.0.insert(3, vec![4]);
        table.note_link(&tree, id(3), id(2), Change::Remove);
        table.note_link(&tree, id(3), id(4), Change::Add);
        assert_eq!(below(&table, 4, 0), 1);
        // A second link of f1 in d2, then the first one goes.
        tree.0.insert(5, vec![3, 8]);
        table.note_link(&tree, id(5), id(8), Change::Add);
        assert_eq!(below(&table, 4, 0), 2, "two links below c");
        tree.0.insert(5, vec![8]);
        table.note_link(&tree, id(5), id(3), Change::Remove);
        assert_eq!(below(&table, 4, 0), 1);
        assert!(table.ancestry_is_exact(&tree));
    }
}
