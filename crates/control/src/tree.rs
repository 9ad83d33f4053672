//! The one question of replication control about the tree: what is above an object?
//!
//! The tree itself stays with the caller. What must never enter: names, attributes and data.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use vfs::ObjectId;

/// This replica's copy of the tree, at the moment of the call.
pub trait Tree {
    /// The directories that hold a link to `object`, one for each link. Empty for the root and for an object that this
    /// copy does not know. A directory has at most one.
    fn parents(&self, object: ObjectId) -> Vec<ObjectId>;

    /// The directories above `object` over every link, each once. Nearest first if there is only one link.
    fn above(&self, object: ObjectId) -> Rc<[ObjectId]> {
        let mut seen = BTreeSet::new();
        let mut found = self.parents(object);
        found.retain(|parent| seen.insert(*parent));
        let mut next = 0;
        while let Some(directory) = found.get(next).copied() {
            for parent in self.parents(directory) {
                if seen.insert(parent) {
                    found.push(parent);
                }
            }
            next += 1;
        }
        found.into()
    }
}

/// A tree in which one new object has a link, or has none.
pub struct Overlay<'a, T> {
    tree: &'a T,
    object: ObjectId,
    parent: Option<ObjectId>,
}

impl<'a, T: Tree> Overlay<'a, T> {
    /// The tree with a link from `parent` to `object`, or without any.
    pub fn new(tree: &'a T, object: ObjectId, parent: Option<ObjectId>) -> Overlay<'a, T> {
        Overlay {
            tree,
            object,
            parent,
        }
    }
}

impl<T: Tree> Tree for Overlay<'_, T> {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        if object == self.object {
            return self.parent.into_iter().collect();
        }
        self.tree.parents(object)
    }

    /// Nothing is below an object that is being created.
    fn above(&self, object: ObjectId) -> Rc<[ObjectId]> {
        match self.parent {
            Some(parent) if object == self.object => chain(self.tree, parent).collect(),
            None if object == self.object => Rc::default(),
            _ => self.tree.above(object),
        }
    }
}

/// A tree that is asked only once about each path, for the time of one call of the core. Looking up a directory may
/// cost its owner more than everything that the core does with the answer.
pub(crate) struct Remembered<'a, T> {
    tree: &'a T,
    paths: RefCell<Vec<(ObjectId, Rc<[ObjectId]>)>>,
}

/// The maximum number of remembered paths: for one or two objects, their directories, and the objects that they
/// conflict with.
const REMEMBERED: usize = 16;

impl<'a, T: Tree> Remembered<'a, T> {
    pub(crate) fn new(tree: &'a T) -> Remembered<'a, T> {
        Remembered {
            tree,
            paths: RefCell::default(),
        }
    }

    fn known(&self, object: ObjectId) -> Option<Rc<[ObjectId]>> {
        let paths = self.paths.borrow();
        let found = paths.iter().find(|(other, _)| *other == object);
        found.map(|(_, path)| Rc::clone(path))
    }

    fn remember(&self, object: ObjectId, path: Rc<[ObjectId]>) {
        let mut paths = self.paths.borrow_mut();
        if paths.len() == REMEMBERED {
            paths.clear();
        }
        paths.push((object, path));
    }
}

impl<T: Tree> Tree for Remembered<'_, T> {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        self.tree.parents(object)
    }

    fn above(&self, object: ObjectId) -> Rc<[ObjectId]> {
        if let Some(path) = self.known(object) {
            return path;
        }
        let parents = self.tree.parents(object);
        let path: Rc<[ObjectId]> = match parents.as_slice() {
            [] => Rc::default(),
            [parent] => {
                let rest = self.known(*parent).unwrap_or_else(|| {
                    let rest = self.tree.above(*parent);
                    self.remember(*parent, Rc::clone(&rest));
                    rest
                });
                std::iter::once(*parent)
                    .chain(rest.iter().copied())
                    .collect()
            }
            _ => self.tree.above(object),
        };
        self.remember(object, Rc::clone(&path));
        path
    }
}

/// All directories above `object`, over every link.
pub fn ancestors(tree: &impl Tree, object: ObjectId) -> BTreeSet<ObjectId> {
    tree.above(object).iter().copied().collect()
}

/// The directory `start` and the directories above it, nearest first.
pub(crate) fn chain(tree: &impl Tree, start: ObjectId) -> impl Iterator<Item = ObjectId> {
    let path = tree.above(start);
    let length = path.len();
    std::iter::once(start).chain((0..length).map(move |place| path[place]))
}
