//! Layouts of striped files: clients read and write at the data servers directly (rules 2, 3, 7 and 8).
//!
//! A client that returns a layout for writing is fenced as if it was lost: the client may have given up waiting for a write that is still
//! under way, and it may continue through the home.
//!
//! What must never enter: stateids, callbacks, and which client holds what.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use nfs4_server::{
    DeviceId, FileLayout, LayoutAccess, LayoutEvent, LayoutHolder, LayoutProperties, Layouts,
    NoLayout,
};
use pool::home::{Holder, Outcome, Request};
use pool::{Access, Act, DataServerNumber, DeviceGroupNumber, Placement};
use tokio::time::timeout;
use vfs::{ObjectId, Result};

use crate::striped::{Striped, StripedFiles};

type Listener = Arc<dyn Fn(LayoutEvent) + Send + Sync>;

/// Listeners that are told when layouts must be returned.
#[derive(Default)]
pub(crate) struct Recalls(RwLock<Vec<Listener>>);

impl fmt::Debug for Recalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recalls")
    }
}

impl Recalls {
    pub(crate) fn recall(&self, holder: Holder) {
        self.say(LayoutEvent::Recall(LayoutHolder(holder.0)));
    }

    fn say(&self, event: LayoutEvent) {
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let listeners = listeners.clone();
        listeners.iter().for_each(|listener| listener(event));
    }
}

impl StripedFiles {
    /// The device of a group, with the address of each data server. `None` while an address is unknown: clients could not use the device.
    fn device_of(&self, number: DeviceGroupNumber) -> Option<(DeviceId, Vec<SocketAddr>)> {
        let (view, driver) = (self.view(), self.driver().ok()?);
        let members = view.groups.get(&number)?.members();
        let address = |member: &DataServerNumber| driver.control().address(*member);
        let addresses: Vec<SocketAddr> = members.iter().map(address).collect::<Option<_>>()?;
        // Other addresses make another device (rule 2).
        let mut hasher = blake3::Hasher::new();
        hasher.update(&view.pool.0.to_be_bytes());
        hasher.update(&number.0.to_be_bytes());
        for (member, address) in members.iter().zip(&addresses) {
            hasher.update(&member.0.to_be_bytes());
            hasher.update(format!("{address} ").as_bytes());
        }
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Some((DeviceId(id), addresses))
    }

    /// Clients that could not reach a data server avoid its devices for a while, unless they are told to forget these devices (rule 10). A
    /// client that asks then gets the current address.
    pub(crate) fn server_is_back(&self, server: DataServerNumber) {
        let groups = self.view().groups;
        let has_it = |group: &DeviceGroupNumber| {
            let group = groups.get(group);
            group.is_some_and(|group| group.members().contains(&server))
        };
        let concerned: Vec<DeviceId> = {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            let (gone, kept) = std::mem::take(&mut *given)
                .into_iter()
                .partition(|(_, group)| has_it(group));
            *given = kept;
            let gone: BTreeMap<DeviceId, DeviceGroupNumber> = gone;
            gone.into_keys().collect()
        };
        for device in concerned {
            self.recalls.say(LayoutEvent::DeviceGone(device));
        }
    }

    /// All devices that clients can be told of now. Notes that they were told.
    fn all_devices(&self) -> Vec<(DeviceId, Vec<SocketAddr>)> {
        let groups = self.view().groups;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = groups.keys().filter_map(|number| {
            let device = self.device_of(*number)?;
            given.insert(device.0, *number);
            Some(device)
        });
        devices.collect()
    }

    async fn give(
        self: &Arc<Self>,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> std::result::Result<FileLayout, NoLayout> {
        let for_now = |_| NoLayout::ThroughServer;
        let driver = self.driver().map_err(for_now)?;
        let stored = driver.rows().placement(file).map_err(for_now)?;
        let stored = stored.ok_or(NoLayout::Unavailable)?;
        let placement = Placement::decode(&stored).map_err(|_| NoLayout::Unavailable)?;
        let found = self.find(file, &stored);
        let found = found.map_err(|_| NoLayout::Unavailable)?;
        if found.has_lost() {
            return Err(NoLayout::Unavailable);
        }
        let row = found.row;
        let device = self.device_of(placement.group);
        let (device, _) = device.ok_or(NoLayout::ThroughServer)?;
        let (access, _granting) = match access {
            LayoutAccess::Read => (Access::Read, None),
            LayoutAccess::ReadWrite => {
                let granting = self.granting(file).ok_or(NoLayout::ThroughServer)?;
                // When the layout ends, bytes that lie behind the size would count as the client's. The store cuts them off soon.
                if !driver.rows().tail_is_clean(file).map_err(for_now)? {
                    return Err(NoLayout::ThroughServer);
                }
                (Access::ReadWrite, Some(granting))
            }
        };
        let wanted = self.request(file, Request::Layout(Holder(holder.0), access));
        // A layout that comes too late is returned when the holder ends.
        let given = timeout(self.patience(), wanted).await;
        let now = self.row(file).map_err(for_now)?;
        if now.is_some_and(|now| now.contents != row.contents) {
            // It was moved meanwhile, and has another device.
            return Err(NoLayout::Recalled);
        }
        match given {
            Ok(Ok(Outcome::Layout(handles))) => Ok(FileLayout {
                device,
                stripe_unit: placement.unit.bytes() as u32,
                first_index: placement.first_index.into(),
                handles: handles
                    .iter()
                    .map(|(_, handle)| Bytes::copy_from_slice(handle.as_bytes()))
                    .collect(),
            }),
            Ok(Ok(Outcome::Conflict)) => Err(NoLayout::Recalled),
            Ok(Ok(Outcome::Gone)) => Err(NoLayout::Gone),
            Ok(_) | Err(_) => Err(NoLayout::ThroughServer),
        }
    }
}

impl Striped {
    /// A layout for reading a file that clients may read only while `is_let` holds. Checks `is_let` before the request, and again when
    /// [`Striped::held`] names the file. If reading is forbidden after that, the caller ends this layout together with the others.
    ///
    /// # Errors
    /// [`NoLayout`] says why.
    pub async fn layout_while(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        is_let: impl Fn() -> bool + Send + Sync,
    ) -> std::result::Result<FileLayout, NoLayout> {
        if !is_let() {
            return Err(NoLayout::ThroughServer);
        }
        let given = self.layout(file, holder, LayoutAccess::Read).await?;
        if is_let() {
            return Ok(given);
        }
        // No client has seen this layout. The holder may have an earlier one of the same generation. If it cannot be fenced now, the home
        // keeps the holder, or the server ends.
        self.lost(file, holder).await.ok();
        Err(NoLayout::ThroughServer)
    }

    /// The files for which clients have layouts, or may still be served by a layout that is being ended.
    #[must_use]
    pub fn held(&self) -> Vec<ObjectId> {
        self.files
            .driver()
            .map_or_else(|_| Vec::new(), |driver| driver.held())
    }

    /// Returns when all earlier layouts of a file are invalid.
    pub async fn fence(&self, file: ObjectId) -> Result<()> {
        let fence = Request::Change(Act::Fence);
        self.files.request(file, fence).await.map(|_| ())
    }

    /// Returns when no data server serves clients by a lease of an earlier run of this home any more.
    ///
    /// # Errors
    /// [`vfs::Error::Delay`] before the start.
    pub async fn earlier_over(&self) -> Result<()> {
        self.files.driver()?.earlier_over().await;
        Ok(())
    }
}

#[async_trait]
impl Layouts for Striped {
    fn properties(&self) -> LayoutProperties {
        let unit = self.files.view().new_files.map(|new| new.unit.bytes());
        LayoutProperties {
            // At most 16 MiB.
            stripe_unit: unit.unwrap_or_default() as u32,
            threshold: None,
        }
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        let mut all = self.files.all_devices().into_iter();
        let (_, addresses) = all.find(|(id, _)| *id == device)?;
        Some(addresses.into_iter().map(|address| vec![address]).collect())
    }

    async fn devices(&self) -> Vec<DeviceId> {
        let all = self.files.all_devices().into_iter();
        all.map(|(id, _)| id).collect()
    }

    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> std::result::Result<FileLayout, NoLayout> {
        self.files.give(file, holder, access).await
    }

    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> Result<()> {
        let holder = Holder(holder.0);
        if self.files.driver()?.is_written(file, Some(holder)) {
            let lost = self.files.request(file, Request::Lost(holder));
            return lost.await.map(|_| ());
        }
        // Nothing was written, so there is no wait for data servers that may be away.
        let begun = self.files.begin(file, None, Request::Return(holder));
        begun.map(|_| ())
    }

    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> Result<()> {
        let lost = Request::Lost(Holder(holder.0));
        self.files.request(file, lost).await.map(|_| ())
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> std::result::Result<u64, NoLayout> {
        let not_now = |_| NoLayout::ThroughServer;
        let driver = self.files.driver().map_err(not_now)?;
        // The data servers know the size, whatever the client says.
        let commit = Request::Commit(Holder(holder.0), end.unwrap_or_default());
        let outcome = timeout(self.files.patience(), self.files.request(file, commit)).await;
        let size = driver.rows().size(file).map_err(not_now)?;
        match (outcome, size) {
            (Ok(Ok(Outcome::Size(_))), Some(size)) => Ok(size),
            (Ok(Ok(Outcome::Gone)), _) | (_, None) => Err(NoLayout::Gone),
            _ => Err(NoLayout::ThroughServer),
        }
    }

    fn on_event(&self, listener: Listener) {
        let mut known = (self.files.recalls.0.write()).unwrap_or_else(PoisonError::into_inner);
        known.push(listener);
    }
}
