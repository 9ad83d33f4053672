//! Which opens of clients here matter beyond this server: opens for writing, and opens that deny.

use std::collections::{HashMap, HashSet};

use vfs::{ObjectId, OpenOwner};

use crate::state::locks::{Table, TableGuard};

#[derive(Default)]
struct Tables {
    writers: HashMap<ObjectId, HashSet<OpenOwner>>,
    denials: HashSet<(ObjectId, OpenOwner)>,
}

/// The opens to remember; bounded by the opens that the NFS service and the primaries allow.
#[derive(Default)]
pub(crate) struct Opens(Table<Tables>);

impl Opens {
    fn tables(&self) -> TableGuard<'_, Tables> {
        self.0.lock()
    }

    /// Notes an open for writing; returns whether it is new.
    pub(crate) fn note_writer(&self, id: ObjectId, owner: &OpenOwner) -> bool {
        let mut tables = self.tables();
        tables.writers.entry(id).or_default().insert(owner.clone())
    }

    pub(crate) fn is_writer(&self, id: ObjectId, owner: &OpenOwner) -> bool {
        let tables = self.tables();
        tables
            .writers
            .get(&id)
            .is_some_and(|owners| owners.contains(owner))
    }

    /// Whether a client here has the file open for writing.
    pub(crate) fn has_writer(&self, id: ObjectId) -> bool {
        self.tables().writers.contains_key(&id)
    }

    /// Returns whether there was an open to forget.
    pub(crate) fn forget_writer(&self, id: ObjectId, owner: &OpenOwner) -> bool {
        let mut tables = self.tables();
        let Some(owners) = tables.writers.get_mut(&id) else {
            return false;
        };
        let found = owners.remove(owner);
        if owners.is_empty() {
            tables.writers.remove(&id);
        }
        found
    }

    /// Notes an open that denies others something.
    pub(crate) fn note_denial(&self, id: ObjectId, owner: &OpenOwner) {
        self.tables().denials.insert((id, owner.clone()));
    }

    pub(crate) fn denies(&self, id: ObjectId, owner: &OpenOwner) -> bool {
        let tables = self.tables();
        !tables.denials.is_empty() && tables.denials.contains(&(id, owner.clone()))
    }

    pub(crate) fn forget_denial(&self, id: ObjectId, owner: &OpenOwner) {
        self.tables().denials.remove(&(id, owner.clone()));
    }
}
