//! The local tree as replication control sees it: what lies above an object.
//!
//! Parents are read from the store and remembered. All links change while the core is locked, so what is remembered always equals the store.

use std::cell::RefCell;
use std::collections::HashMap;

use control::Subject;
use store::{Store, Touched, TouchedKind};
use vfs::{Attributes, ObjectId};

/// The parents of at most this many objects are remembered. At the limit all are forgotten.
const REMEMBERED: usize = 1 << 17;

/// Parents that were needed lately.
#[derive(Default)]
pub(crate) struct Parents(RefCell<HashMap<ObjectId, Vec<ObjectId>>>);

impl Parents {
    /// The links of an object have changed.
    pub(crate) fn forget(&self, object: ObjectId) {
        self.0.borrow_mut().remove(&object);
    }
}

/// The tree as it is while the core is locked.
pub(crate) struct LocalTree<'a> {
    pub(crate) store: &'a Store,
    pub(crate) parents: &'a Parents,
}

impl control::Tree for LocalTree<'_> {
    fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
        if object == ObjectId::ROOT {
            return Vec::new();
        }
        if let Some(known) = self.parents.0.borrow().get(&object) {
            return known.clone();
        }
        let found = self.store.parents(object).unwrap_or_else(|error| {
            // The store fails every later operation as well, so this admits nothing.
            tracing::error!(%error, "cannot read what lies above an object");
            Vec::new()
        });
        let mut remembered = self.parents.0.borrow_mut();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        if !found.is_empty() {
            remembered.insert(object, found.clone());
        }
        found
    }
}

/// An object as replication control sees it.
pub(crate) fn subject_of(attributes: &Attributes) -> Subject {
    match (attributes.is_directory(), attributes.links) {
        (true, _) => Subject::Directory(attributes.id),
        (false, 0 | 1) => Subject::File(attributes.id),
        (false, _) => Subject::LinkedFile(attributes.id),
    }
}

/// The same for an object that the store is about to change.
pub(crate) fn touched_subject(touched: Touched) -> Subject {
    match touched.kind {
        TouchedKind::Directory => Subject::Directory(touched.id),
        TouchedKind::File => Subject::File(touched.id),
        TouchedKind::LinkedFile => Subject::LinkedFile(touched.id),
    }
}
