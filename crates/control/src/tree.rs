//! The one question that replication control asks about the tree: what lies above an object?
//!
//! The tree itself stays with the caller. Names, attributes and data never enter.

use std::collections::BTreeSet;
use vfs::ObjectId;

/// This replica's copy of the tree, as it is at the moment of the call.
pub trait Tree {
    /// The directories that hold a link to `object`, one for each link; empty for the root and for an
    /// object this copy does not know. A directory has at most one.
    fn parents(&self, object: ObjectId) -> Vec<ObjectId>;
}

/// A tree in which one object has other links.
pub(crate) struct Overlay<'a, T> {
    tree: &'a T,
    object: ObjectId,
    parents: Vec<ObjectId>,
}

impl<'a, T: Tree> Overlay<'a, T> {
    pub(crate) fn new(tree: &'a T, object: ObjectId, parents: Vec<ObjectId>) -> Overlay<'a, T> {
        Overlay {
            tree,
            object,
            parents,
        }
    }
}

impl<T: Tree> Tree for Overlay<'_, T> {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        if object == self.object {
            return self.parents.clone();
        }
        self.tree.parents(object)
    }
}

/// The directories above `object` over every link, each once, nearest first where there is one link.
pub(crate) fn above(tree: &impl Tree, object: ObjectId) -> Vec<ObjectId> {
    let mut found = tree.parents(object);
    found.dedup();
    let mut next = 0;
    while let Some(directory) = found.get(next).copied() {
        for parent in tree.parents(directory) {
            if !found.contains(&parent) {
                found.push(parent);
            }
        }
        next += 1;
    }
    found
}

/// All directories above `object`, over every link.
pub fn ancestors(tree: &impl Tree, object: ObjectId) -> BTreeSet<ObjectId> {
    let mut found = BTreeSet::new();
    let mut unexplored = tree.parents(object);
    while let Some(directory) = unexplored.pop() {
        if found.insert(directory) {
            unexplored.extend(tree.parents(directory));
        }
    }
    found
}

/// The directory `start` and those above it, nearest first.
pub(crate) fn chain(tree: &impl Tree, start: ObjectId) -> Vec<ObjectId> {
    let mut above = vec![start];
    let mut next = tree.parents(start).first().copied();
    while let Some(directory) = next.filter(|directory| !above.contains(directory)) {
        above.push(directory);
        next = tree.parents(directory).first().copied();
    }
    above
}
