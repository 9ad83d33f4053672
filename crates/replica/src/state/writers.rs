//! The replica that last changed each file while this replica took no part: this replica asks it for contents.
//!
//! What must never enter: when that is noted.

use std::collections::BTreeMap;

use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::Table;

/// The last writer is remembered for at most this many files; for other files, a sender of an older version reads again.
const REMEMBERED: usize = 65_536;

/// The last writers of files.
#[derive(Debug, Default)]
pub(crate) struct Writers(Table<BTreeMap<ObjectId, ReplicaSlot>>);

impl Writers {
    /// `writer` has changed the data of these files.
    pub(crate) fn note(&self, writer: ReplicaSlot, files: &[ObjectId]) {
        let mut writers = self.0.lock();
        writers.extend(files.iter().map(|file| (*file, writer)));
        while writers.len() > REMEMBERED {
            writers.pop_first();
        }
    }

    /// The replica that last changed the data of a file, as far as it was noted.
    pub(crate) fn last(&self, file: ObjectId) -> Option<ReplicaSlot> {
        self.0.lock().get(&file).copied()
    }

    /// A removed replica no longer counts.
    pub(crate) fn forget(&self, writer: ReplicaSlot) {
        self.0.lock().retain(|_, last| *last != writer);
    }

    /// Everything is here now; the writers do not matter any more.
    pub(crate) fn forget_all(&self) {
        self.0.lock().clear();
    }
}
