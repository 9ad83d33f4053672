//! What directories ask for, as far as it was read.
//!
//! What must never enter: where it is read, and what waits for it.

use std::collections::HashMap;

use vfs::ObjectId;

use crate::state::settings::Durability;

/// The settings of at most this many directories are remembered. Then all are forgotten.
const REMEMBERED: usize = 1 << 16;

/// Settings of directories that were asked for lately.
#[derive(Default)]
pub(crate) struct KnownDurability {
    pub(crate) own: HashMap<ObjectId, Option<Durability>>,
    /// Counts what was forgotten, so that nothing is learnt that was read before.
    pub(crate) generation: u64,
}

impl KnownDurability {
    /// The setting of a directory may have changed; `None`: of any.
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
