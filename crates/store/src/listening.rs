//! Notifies a listener before and after objects change, whatever the cause.
//!
//! What must never enter: why they change.

use std::sync::Arc;

use vfs::ObjectId;

use crate::open_store::OpenStore;

/// Receives every change of attributes and names, except access times, which make no new version.
pub trait ChangeListener: Send + Sync + 'static {
    /// Called with the writer's lock of the store held, just before the change of these objects, or of names in these
    /// directories, becomes visible. It must not wait.
    fn changing(&self, objects: &[ObjectId]);

    /// Called afterwards with the same objects: the change is visible, or has failed.
    fn changed(&self, objects: &[ObjectId]);
}

impl OpenStore {
    /// Sets the listener. There is at most one.
    pub fn on_changes(&self, listener: Arc<dyn ChangeListener>) {
        // The listener is set only once.
        let _ = self.listener.set(listener);
    }
}
