//! The durability settings of directories, as far as they were read.
//!
//! What must never enter: where they are read, and what waits for them.

use std::collections::HashMap;

use vfs::ObjectId;

use crate::state::settings::Durability;

/// At most this many directories are remembered. At the limit all are forgotten.
const REMEMBERED: usize = 1 << 16;

/// Settings of directories that were needed lately.
#[derive(Default)]
pub(crate) struct KnownDurability {
    pub(crate) own: HashMap<ObjectId, Option<Durability>>,
    /// Counts changes, so that no setting is learnt that was read before the latest change.
    pub(crate) generation: u64,
}

impl KnownDurability {
    /// The setting of a directory may have changed; `None`: of any directory.
    pub(crate) fn forget(&mut self, directory: Option<ObjectId>) {
        self.generation += 1;
        match directory {
            Some(directory) => drop(self.own.remove(&directory)),
            None => self.own.clear(),
        }
    }

    pub(crate) fn learn(&mut self, generation: u64, directory: ObjectId, own: Option<Durability>) {
        if self.own.len() >= REMEMBERED {
            self.own.clear();
        }
        if self.generation == generation {
            self.own.insert(directory, own);
        }
    }
}
