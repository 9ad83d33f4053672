//! Layouts of a tree with several metadata servers: those that a home gives to its own clients and to clients of other servers, those that
//! the first server gets for both from another home, and those that a joined server gives to its clients.
//!
//! What must never enter: who gets layouts.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use metadata_server::{Holders, Layout, RemoteTree};
use nfs4_server::{
    DeviceId, FileLayout, LayoutAccess, LayoutEvent, LayoutHolder, LayoutProperties, Layouts,
    NoLayout,
};
use striping::Striped;
use vfs::{ObjectId, ReplicaSlot};

use super::homes::{JoinedHomes, event_here};

/// The layouts of a home. A client gets a layout for writing only after all other servers' copies of the file are invalid.
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

    async fn devices(&self) -> Vec<DeviceId> {
        self.striped.devices().await
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

/// The same for clients of other metadata servers.
#[async_trait]
impl metadata_server::Layouts for GivenBehindCopies {
    async fn layout(
        &self,
        file: ObjectId,
        holder: u64,
        writing: bool,
    ) -> Result<Layout, metadata_server::NoLayout> {
        let access = match writing {
            true => LayoutAccess::ReadWrite,
            false => LayoutAccess::Read,
        };
        let given = Layouts::layout(self, file, LayoutHolder(holder), access).await;
        let given = given.map_err(none_there)?;
        Ok(Layout {
            device: given.device.0,
            stripe_unit: given.stripe_unit,
            first_index: given.first_index,
            handles: given.handles,
        })
    }

    async fn returned(&self, file: ObjectId, holder: u64) -> vfs::Result<()> {
        self.striped.returned(file, LayoutHolder(holder)).await
    }

    async fn lost(&self, file: ObjectId, holder: u64) -> vfs::Result<()> {
        self.striped.lost(file, LayoutHolder(holder)).await
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: u64,
        end: Option<u64>,
    ) -> Result<u64, metadata_server::NoLayout> {
        let size = self.striped.commit(file, LayoutHolder(holder), end).await;
        size.map_err(none_there)
    }

    async fn device(&self, device: [u8; 16]) -> Option<Vec<Vec<SocketAddr>>> {
        self.striped.device(DeviceId(device)).await
    }

    async fn devices(&self) -> Vec<[u8; 16]> {
        let all = self.striped.devices().await.into_iter();
        all.map(|device| device.0).collect()
    }
}

/// The layouts of the first metadata server: its own, and those that it gets from joined homes.
pub(super) struct GivenByAll {
    pub(super) own: GivenBehindCopies,
    pub(super) homes: Arc<JoinedHomes>,
}

#[async_trait]
impl Layouts for GivenByAll {
    fn properties(&self) -> LayoutProperties {
        self.own.properties()
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        Layouts::device(&self.own, device).await
    }

    async fn devices(&self) -> Vec<DeviceId> {
        Layouts::devices(&self.own).await
    }

    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout> {
        match self.homes.home_of(file) {
            None => Layouts::layout(&self.own, file, holder, access).await,
            Some(home) => layout_of(&home, file, holder, access).await,
        }
    }

    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        match self.homes.home_of(file) {
            None => Layouts::returned(&self.own, file, holder).await,
            Some(home) => home.end_layout(file, holder.0, false).await,
        }
    }

    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        match self.homes.home_of(file) {
            None => Layouts::lost(&self.own, file, holder).await,
            Some(home) => home.end_layout(file, holder.0, true).await,
        }
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout> {
        match self.homes.home_of(file) {
            None => Layouts::commit(&self.own, file, holder, end).await,
            Some(home) => home
                .commit_layout(file, holder.0, end)
                .await
                .map_err(none_here),
        }
    }

    fn on_event(&self, listener: Arc<dyn Fn(LayoutEvent) + Send + Sync>) {
        Layouts::on_event(&self.own, listener.clone());
        self.homes.on_layout_event(listener);
    }
}

/// The same for clients of other metadata servers.
#[async_trait]
impl metadata_server::Layouts for GivenByAll {
    async fn layout(
        &self,
        file: ObjectId,
        holder: u64,
        writing: bool,
    ) -> Result<Layout, metadata_server::NoLayout> {
        match self.homes.home_of(file) {
            None => metadata_server::Layouts::layout(&self.own, file, holder, writing).await,
            Some(home) => home.layout(file, holder, writing).await,
        }
    }

    async fn returned(&self, file: ObjectId, holder: u64) -> vfs::Result<()> {
        Layouts::returned(self, file, LayoutHolder(holder)).await
    }

    async fn lost(&self, file: ObjectId, holder: u64) -> vfs::Result<()> {
        Layouts::lost(self, file, LayoutHolder(holder)).await
    }

    async fn fence(&self, file: ObjectId, holder: u64) -> vfs::Result<()> {
        match self.homes.home_of(file) {
            None => metadata_server::Layouts::fence(&self.own, file, holder).await,
            Some(home) => home.fence_layout(file, holder).await,
        }
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: u64,
        end: Option<u64>,
    ) -> Result<u64, metadata_server::NoLayout> {
        let size = Layouts::commit(self, file, LayoutHolder(holder), end).await;
        size.map_err(none_there)
    }

    async fn device(&self, device: [u8; 16]) -> Option<Vec<Vec<SocketAddr>>> {
        metadata_server::Layouts::device(&self.own, device).await
    }

    async fn devices(&self) -> Vec<[u8; 16]> {
        metadata_server::Layouts::devices(&self.own).await
    }
}

/// Gets a layout from the home of a file.
async fn layout_of(
    home: &RemoteTree,
    file: ObjectId,
    holder: LayoutHolder,
    access: LayoutAccess,
) -> Result<FileLayout, NoLayout> {
    let writing = access == LayoutAccess::ReadWrite;
    let given = home.layout(file, holder.0, writing).await;
    given.map(layout_here).map_err(none_here)
}

/// Converts a home's layout to the type of the NFS service.
pub(super) fn layout_here(given: Layout) -> FileLayout {
    FileLayout {
        device: DeviceId(given.device),
        stripe_unit: given.stripe_unit,
        first_index: given.first_index,
        handles: given.handles,
    }
}

/// The layouts of a joined metadata server.
pub(super) struct GivenByHome {
    pub(super) tree: Arc<RemoteTree>,
    pub(super) properties: LayoutProperties,
    /// Objects with this slot live here.
    pub(super) own: ReplicaSlot,
    /// The layouts of these objects, if layouts are in use.
    pub(super) files: Option<GivenBehindCopies>,
}

#[async_trait]
impl Layouts for GivenByHome {
    fn properties(&self) -> LayoutProperties {
        self.properties
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        if let Some(files) = &self.files
            && let Some(found) = Layouts::device(files, device).await
        {
            return Some(found);
        }
        self.tree.device(device.0).await
    }

    async fn devices(&self) -> Vec<DeviceId> {
        if let Some(files) = &self.files {
            return Layouts::devices(files).await;
        }
        // A client asks again, or asks for the device of its layout.
        let all = self.tree.devices().await.unwrap_or_default().into_iter();
        all.map(DeviceId).collect()
    }

    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout> {
        if file.slot() == self.own {
            let files = self.files.as_ref().ok_or(NoLayout::Unavailable)?;
            return Layouts::layout(files, file, holder, access).await;
        }
        layout_of(&self.tree, file, holder, access).await
    }

    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        if file.slot() != self.own {
            return self.tree.end_layout(file, holder.0, false).await;
        }
        match &self.files {
            Some(files) => Layouts::returned(files, file, holder).await,
            // It was refused a layout.
            None => Ok(()),
        }
    }

    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        if file.slot() != self.own {
            return self.tree.end_layout(file, holder.0, true).await;
        }
        match &self.files {
            Some(files) => Layouts::lost(files, file, holder).await,
            None => Ok(()),
        }
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout> {
        if file.slot() == self.own {
            let files = self.files.as_ref().ok_or(NoLayout::Gone)?;
            return Layouts::commit(files, file, holder, end).await;
        }
        let size = self.tree.commit_layout(file, holder.0, end).await;
        size.map_err(none_here)
    }

    fn on_event(&self, listener: Arc<dyn Fn(LayoutEvent) + Send + Sync>) {
        if let Some(files) = &self.files {
            Layouts::on_event(files, listener.clone());
        }
        self.tree.on_layout_event(Arc::new(move |event| {
            listener(event_here(event));
        }));
    }
}

fn none_there(reason: NoLayout) -> metadata_server::NoLayout {
    use metadata_server::NoLayout as There;
    match reason {
        NoLayout::Recalled => There::Recalled,
        NoLayout::ThroughServer => There::ThroughServer,
        NoLayout::Unavailable => There::Unavailable,
        NoLayout::Gone => There::Gone,
    }
}

fn none_here(reason: metadata_server::NoLayout) -> NoLayout {
    use metadata_server::NoLayout as There;
    match reason {
        There::Recalled => NoLayout::Recalled,
        There::ThroughServer => NoLayout::ThroughServer,
        There::Unavailable => NoLayout::Unavailable,
        There::Gone => NoLayout::Gone,
    }
}
