//! Listeners for files whose locks have changed at another site.

use std::sync::Arc;

use vfs::ObjectId;

use crate::state::locks::Table;

/// Called with a file.
type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// All listeners.
#[derive(Default)]
pub(crate) struct LockListeners(Table<Vec<LockListener>>);

impl LockListeners {
    /// Adds a listener for files whose locks have changed elsewhere.
    pub(crate) fn add(&self, listener: LockListener) {
        self.0.lock().push(listener);
    }

    /// Another site has changed the locks of a file.
    pub(crate) fn tell(&self, file: ObjectId) {
        // The listeners take locks of their own.
        let listeners = self.0.lock().clone();
        listeners.iter().for_each(|listener| listener(file));
    }
}
