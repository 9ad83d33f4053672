//! Layouts of a tree of which other metadata servers have copies: a client that may write past the home is told so when all copies of the
//! file are gone.
//!
//! What must never enter: who gets layouts.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use metadata_server::Holders;
use nfs4_server::{
    DeviceId, FileLayout, LayoutAccess, LayoutEvent, LayoutHolder, LayoutProperties, Layouts,
    NoLayout,
};
use striping::Striped;
use vfs::ObjectId;

/// The layouts of a home.
pub(super) struct GivenBehindCopies {
    pub(super) striped: Arc<Striped>,
    pub(super) holders: Arc<Holders>,
}

#[async_trait]
impl Layouts for GivenBehindCopies {
    fn properties(&self) -> LayoutProperties {
        self.striped.properties()
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        self.striped.device(device).await
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.striped.devices()
    }

    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout> {
        let given = self.striped.layout(file, holder, access).await?;
        if access == LayoutAccess::ReadWrite {
            self.holders.take_back(file).await;
        }
        Ok(given)
    }

    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        self.striped.returned(file, holder).await
    }

    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        self.striped.lost(file, holder).await
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout> {
        self.striped.commit(file, holder, end).await
    }

    fn on_event(&self, listener: Arc<dyn Fn(LayoutEvent) + Send + Sync>) {
        self.striped.on_event(listener);
    }
}
