//! The replicated tree as a [`FileSystem`]: which copy answers, and which replica changes what.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::Store;
use vfs::{
    AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials, DirectoryChange,
    DirectoryPage, Error, Extent, FileSystem, LockConflict, LockKind, LockOwner, Name, NewObject,
    ObjectId, OpenOwner, Properties, ReadData, RequestGroup, Result, SeekTarget, SetAttributes,
    Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use super::ReplicatedFileSystem;
use super::pin::Effect;
use crate::frontend::absent_clients;
use crate::frontend::durability;
use crate::frontend::free_space;
use crate::frontend::reclaim;
use crate::state::forward::Operation as O;
use crate::state::removed::Place;

#[async_trait]
impl FileSystem for ReplicatedFileSystem {
    fn properties(&self) -> &Properties {
        self.replica.store.properties()
    }

    async fn space(&self) -> Result<Space> {
        let own = self.replica.store.space_for_contents()?;
        Ok(free_space::common_space(&self.replica, own))
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        let store = &self.replica.store;
        self.look(&[id], || store.attributes(id), || O::Attributes(id))
            .await
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        let attempt = |store: Store| async move { store.set_attributes(access, id, set).await };
        let operation = || O::SetAttributes(access.into(), id, set.clone());
        match set.size {
            Some(size) => {
                self.change_data(id, Effect::Cut(size), attempt, operation)
                    .await
            }
            None => self.change(id, attempt, operation).await,
        }
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        self.look_up(who, directory, name).await
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        let attempt = || self.replica.store.parent(who, directory);
        let operation = || O::Parent(who.clone(), directory);
        self.look(&[directory], attempt, operation).await
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        self.list(who, directory, after, max_entries).await
    }

    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        let attempt = |store: Store| {
            let new = new.clone();
            async move {
                self.admit_new(who, 0)?;
                store.create(who, directory, name, new, set).await
            }
        };
        let operation = || {
            let (who, name) = (who.clone(), name.clone());
            O::Create(who, directory, name, new.clone(), set.clone())
        };
        self.change(directory, attempt, operation).await
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let attempt = |store: Store| async move { store.remove(who, directory, name).await };
        let operation = || O::Remove(who.clone(), directory, name.clone());
        let beside = || self.beside_removed(directory, name);
        self.change_beside((directory, &[]), beside, attempt, operation)
            .await
    }

    async fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let replica = &self.replica;
        let attempt = |store: Store| async move {
            let renamed = store.rename(who, from, to);
            durability::change_place(replica, (from.0, to.0), renamed).await
        };
        let operation = || {
            let (source, target) = ((from.0, from.1.clone()), (to.0, to.1.clone()));
            O::Rename(who.clone(), source, target)
        };
        let beside = || self.beside_renamed(from, to);
        self.change_beside((from.0, &[to.0]), beside, attempt, operation)
            .await
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let attempt = |store: Store| async move {
            self.admit_new(who, 0)?;
            store.link(who, id, directory, name).await
        };
        let operation = || O::Link(who.clone(), id, directory, name.clone());
        let beside = || std::future::ready(Some(Self::beside_linked(id, directory)));
        self.change_beside((directory, &[id]), beside, attempt, operation)
            .await
    }

    async fn read_link(&self, who: &Credentials, id: ObjectId) -> Result<Bytes> {
        let attempt = || self.replica.store.read_link(who, id);
        self.look(&[id], attempt, || O::ReadLink(who.clone(), id))
            .await
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        self.open_file(access, id, owner, share).await
    }

    async fn open_made(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        self.open_made_file(who, id, owner, share).await
    }

    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.downgrade_open(id, owner, share).await
    }

    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.close_file(id, owner).await
    }

    async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.leave_file(id, owner).await
    }

    async fn may_be_elsewhere(&self, client: &[u8]) -> bool {
        absent_clients::may_be_elsewhere(&self.replica, client).await
    }

    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        let attempt = |store: Store| async move { store.lock(id, owner, range, kind).await };
        let operation = || O::Lock(id, owner.clone(), range, kind);
        self.change(id, attempt, operation).await?;
        if self.is_forwarded() {
            // The client's server goes on after a crash of this one, and never repeats this.
            self.replica.store.wait_all_stable().await?;
        }
        Ok(())
    }

    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>> {
        let attempt = || self.replica.store.test_lock(id, owner, range, kind);
        let operation = || O::TestLock(id, owner.clone(), range, kind);
        self.look(&[id], attempt, operation).await
    }

    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        // What was written under the lock must be known before another client gets it (rule 19).
        if !self.is_forwarded() && self.replica.state.opens.has_writer(id) {
            self.settle(id).await?;
        }
        let attempt = |store: Store| async move { store.unlock(id, owner, range).await };
        let operation = || O::Unlock(id, owner.clone(), range);
        self.change(id, attempt, operation).await?;
        if self.is_forwarded() {
            self.replica.state.lock_listeners.tell(id);
        }
        Ok(())
    }

    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool> {
        let attempt = || self.replica.store.holds_lock(id, owner);
        self.look(&[id], attempt, || O::HoldsLock(id, owner.clone()))
            .await
    }

    async fn holds_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<bool> {
        let attempt = || self.replica.store.holds_denial(id, owner);
        self.look(&[id], attempt, || O::HoldsDenial(id, owner.clone()))
            .await
    }

    async fn read(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        self.read_once(access, id, offset, count).await
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let end = offset.saturating_add(data.len() as u64);
        let attempt = |store: Store| {
            let data = data.clone();
            async move {
                let _work = self.replica.state.load.begin();
                store.write(access, id, offset, data, stability).await
            }
        };
        let operation = || O::Write(access.into(), id, offset, data.clone(), stability);
        let effect = Effect::Range(offset..end, data.len() as u64);
        let written = self.change_data(id, effect, attempt, operation).await?;
        if written.stability >= Stability::Data {
            durability::hold_content_by_majority(&self.replica, id).await;
        }
        Ok(written)
    }

    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment> {
        let attempt = || async {
            let _work = self.replica.state.load.begin();
            self.replica.store.commit(id, offset, count).await
        };
        let committed = self
            .look(&[id], attempt, || O::Commit(id, offset, count))
            .await?;
        if let Some(Place::At(_)) = self.removed_place(id) {
            // The local copy also follows its home on the disk.
            self.replica.store.commit(id, offset, count).await?;
        }
        durability::hold_content_by_majority(&self.replica, id).await;
        Ok(committed)
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        let attempt = || self.replica.store.seek(access, id, offset, target);
        let operation = || O::Seek(access.into(), id, offset, target);
        self.look(&[id], attempt, operation).await
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        let attempt = |store: Store| async move { store.allocate(access, id, extent).await };
        let operation = || O::Allocate(access.into(), id, extent);
        let effect = stretch(extent, extent.length);
        self.change_data(id, effect, attempt, operation).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        let attempt = |store: Store| async move { store.deallocate(access, id, extent).await };
        let operation = || O::Deallocate(access.into(), id, extent);
        self.change_data(id, stretch(extent, 0), attempt, operation)
            .await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        let attempt = || self.replica.store.xattr(who, id, name);
        let operation = || O::Xattr(who.clone(), id, name.clone());
        self.look(&[id], attempt, operation).await
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        let attempt = |store: Store| {
            let value = value.clone();
            async move {
                self.admit_new(who, value.len() as u64)?;
                let set = store.set_xattr(who, id, name, value, mode);
                durability::change_attribute(&self.replica, (id, name), set).await
            }
        };
        let operation = || O::SetXattr(who.clone(), id, name.clone(), value.clone(), mode);
        self.change(id, attempt, operation).await
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        let attempt = |store: Store| async move {
            let removed = store.remove_xattr(who, id, name);
            durability::change_attribute(&self.replica, (id, name), removed).await
        };
        let operation = || O::RemoveXattr(who.clone(), id, name.clone());
        self.change(id, attempt, operation).await
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        let attempt = || self.replica.store.xattrs(who, id, cookie, max_bytes);
        let count = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let operation = || O::Xattrs(who.clone(), id, cookie, count);
        self.look(&[id], attempt, operation).await
    }

    fn holdings(&self) -> vfs::Holdings {
        self.replica.store.holdings()
    }

    async fn give_up(&self, holdings: &vfs::Holdings) -> Result<()> {
        let mut outcome = Ok(());
        // What a lost replica decides about waits for that replica, and keeps nothing else waiting.
        let waits = |id: ObjectId| self.holder(id).is_some_and(|holder| self.is_lost(holder));
        for (id, owner) in &holdings.locks {
            if waits(*id) {
                outcome = Err(Error::Delay);
                continue;
            }
            let done = self.within_patience(self.unlock(*id, owner, ByteRange::EVERYTHING));
            outcome = outcome.and(done.await);
            self.replica.state.lock_listeners.tell(*id);
        }
        for (id, owner) in &holdings.denials {
            if waits(*id) {
                outcome = Err(Error::Delay);
                continue;
            }
            let done = self.within_patience(self.close_denial(*id, owner));
            outcome = outcome.and(done.await);
            self.replica.state.lock_listeners.tell(*id);
        }
        outcome
    }

    fn on_clients_asked(&self, absent: vfs::AbsentClients) {
        self.replica.state.servers.set(absent);
    }

    fn others_went_on(&self, _: ObjectId) -> bool {
        let others_went_on = &self.replica.state.others_went_on;
        others_went_on.load(std::sync::atomic::Ordering::Acquire)
    }

    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        self.replica.state.lock_listeners.add(listener);
    }

    fn keeps_requests(&self) -> bool {
        self.replica.store.keeps_requests()
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        self.replica.store.end_requests(ended).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        match self.may_answer() {
            true => self.replica.store.age_requests(alive).await,
            false => Err(Error::Delay),
        }
    }

    async fn end_reclaim(&self) -> Result<()> {
        reclaim::forget_others_went_on(&self.replica).await?;
        self.replica.store.end_reclaim().await
    }

    async fn sync(&self) -> Result<()> {
        self.replica.store.sync().await
    }
}

impl ReplicatedFileSystem {
    /// Takes space for what an operation adds, unless the request may only get the answer of an earlier execution.
    fn admit_new(&self, who: &Credentials, bytes: u64) -> Result<()> {
        match who.request {
            Some(request) if request.repeat_only => Ok(()),
            _ => free_space::admit_bytes(&self.replica, bytes),
        }
    }
}

fn stretch(extent: Extent, bytes: u64) -> Effect {
    let end = extent.offset.saturating_add(extent.length);
    Effect::Range(extent.offset..end, bytes)
}
