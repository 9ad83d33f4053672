//! Who is told of files whose locks have changed at another site.

use std::sync::Arc;

use vfs::ObjectId;

use crate::state::locks::Table;

/// Told of a file.
type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// All who are told.
#[derive(Default)]
pub(crate) struct LockListeners(Table<Vec<LockListener>>);

impl LockListeners {
    /// Has somebody told of files whose locks have changed elsewhere.
    pub(crate) fn add(&self, listener: LockListener) {
        self.0.lock().push(listener);
    }

    /// The locks of a file have changed for somebody of another site.
    pub(crate) fn tell(&self, file: ObjectId) {
        // They take locks of their own.
        let listeners = self.0.lock().clone();
        listeners.iter().for_each(|listener| listener(file));
    }
}
