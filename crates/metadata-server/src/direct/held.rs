//! One layout of this server, and the tasks that end it.
//!
//! What must never enter: which layouts there are.

use std::sync::{Arc, OnceLock, Weak};

use vfs::{Error, ObjectId};

use super::{AGAIN, Device, IDLE, PAUSE};
use crate::layouts::Layout;
use crate::remote_tree::RemoteTree;

/// A layout of this server. It is returned with the last reference, unless it was ended before.
pub(crate) struct Held {
    pub(super) tree: Weak<RemoteTree>,
    pub(super) file: ObjectId,
    pub(super) holder: u64,
    pub(super) writing: bool,
    /// The generation of clients for which it was asked for.
    pub(super) clients: u64,
    pub(crate) layout: Layout,
    pub(crate) device: Device,
    pub(super) is_ended: OnceLock<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let (tree, file, holder) = (self.tree.clone(), self.file, self.holder);
        if self.is_ended.get().is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(give_back(tree, file, holder));
        }
    }
}

async fn give_back(tree: Weak<RemoteTree>, file: ObjectId, holder: u64) {
    while let Some(tree) = tree.upgrade() {
        match tree.end_layout(file, holder, false).await {
            Err(Error::Delay) => {}
            Ok(()) => return,
            Err(error) => return tracing::debug!(%file, %error, "a layout cannot be returned"),
        }
        drop(tree);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Has the home fence a layout under which a write may still happen.
pub(super) async fn fence(tree: Weak<RemoteTree>, held: Arc<Held>) {
    while let Some(tree) = tree.upgrade() {
        match tree.fence_for(held.clients, held.file, held.holder).await {
            Err(Error::Delay) => {}
            ended => {
                if let Err(error) = ended {
                    let file = held.file;
                    tracing::error!(%file, %error, "a layout of this server is not ended");
                }
                return tree.direct.has_ended(held.file);
            }
        }
        drop(tree);
        tokio::time::sleep(AGAIN).await;
    }
}

/// Returns a layout when it has not been used for a while.
pub(super) async fn expire(tree: Weak<RemoteTree>, file: ObjectId, holder: u64) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(tree) = tree.upgrade() else { return };
        if !tree.direct.is_in_use(file, holder) {
            return tree
                .direct
                .drop_held([PAUSE; 2], |held| held.holder == holder);
        }
    }
}
