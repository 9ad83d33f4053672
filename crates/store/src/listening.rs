//! Who hears which objects are about to look different, whatever changes them.
//!
//! What must never enter: why they change.

use std::sync::Arc;

use vfs::ObjectId;

use crate::open_store::OpenStore;

/// Hears of every change of attributes and names, but for times of last read, which are no new version.
pub trait ChangeListener: Send + Sync + 'static {
    /// Called with the writer's lock of the store held, just before somebody can see that these objects have changed, or names in these
    /// directories. It must not wait.
    fn changing(&self, objects: &[ObjectId]);

    /// Called behind it with the same objects: the change can be seen, or has failed.
    fn changed(&self, objects: &[ObjectId]);
}

impl OpenStore {
    /// Names a listener, the only one there ever is.
    pub fn on_changes(&self, listener: Arc<dyn ChangeListener>) {
        // Nobody else has set it.
        let _ = self.listener.set(listener);
    }
}
