//! The pool of a set's member: clients read a file at its data servers while the member itself may answer readers of the file, and write
//! through the member (rule 11).
//!
//! What must never enter: who may change what in the set, and what a layout is.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use nfs4_server::{
    DeviceId, FileLayout, LayoutAccess, LayoutEvent, LayoutHolder, LayoutProperties, Layouts,
    NoLayout,
};
use replica::{Readers, Replica};
use striping::Striped;
use vfs::ObjectId;

/// Between two attempts at what the home cannot do now.
const AGAIN: Duration = Duration::from_millis(100);

/// The member's replica, once it has begun. Until then, clients do not read at data servers.
#[derive(Default)]
pub(super) struct Sharing(OnceLock<Weak<Replica>>);

impl Sharing {
    /// The replica has begun.
    pub(super) fn is_by(&self, replica: &Arc<Replica>) {
        // It begins once.
        let _ = self.0.set(Arc::downgrade(replica));
    }

    fn replica(&self) -> Option<Arc<Replica>> {
        self.0.get()?.upgrade()
    }

    /// How long clients may still read at data servers if nothing more is granted.
    pub(super) fn clients_left(&self) -> Duration {
        let replica = self.replica();
        replica.map_or(Duration::ZERO, |replica| replica.readers_left())
    }

    fn is_read_here(&self, file: ObjectId) -> bool {
        let replica = self.replica();
        replica.is_some_and(|replica| replica.is_read_here(file))
    }
}

/// The layouts of the member's tree.
pub(super) struct GivenForReading {
    pub(super) striped: Arc<Striped>,
    pub(super) sharing: Arc<Sharing>,
}

#[async_trait]
impl Layouts for GivenForReading {
    fn properties(&self) -> LayoutProperties {
        self.striped.properties()
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        self.striped.device(device).await
    }

    async fn devices(&self) -> Vec<DeviceId> {
        self.striped.devices().await
    }

    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout> {
        if access == LayoutAccess::ReadWrite {
            return Err(NoLayout::Unavailable);
        }
        let is_let = || self.sharing.is_read_here(file);
        self.striped.layout_while(file, holder, is_let).await
    }

    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        self.striped.returned(file, holder).await
    }

    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        self.striped.lost(file, holder).await
    }

    async fn commit(&self, _: ObjectId, _: LayoutHolder, _: Option<u64>) -> Result<u64, NoLayout> {
        Err(NoLayout::ThroughServer)
    }

    fn on_event(&self, listener: Arc<dyn Fn(LayoutEvent) + Send + Sync>) {
        self.striped.on_event(listener);
    }
}

/// The clients that have these layouts, in the form for the replica.
pub(super) struct AtDataServers(pub(super) Arc<Striped>);

#[async_trait]
impl Readers for AtDataServers {
    async fn earlier_ended(&self) {
        while self.0.earlier_over().await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn files(&self) -> Vec<ObjectId> {
        self.0.held()
    }

    async fn end(&self, file: ObjectId) {
        // If stable storage has failed, the server ends, and the caller waits until then.
        while let Err(error) = self.0.fence(file).await {
            tracing::debug!(%file, %error, "layouts cannot be ended now");
            tokio::time::sleep(AGAIN).await;
        }
    }
}
