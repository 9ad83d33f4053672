//! The tree as the home shows it to its own clients and to other metadata servers, some of which have copies.
//!
//! No caller is answered before all copies that contradict the answer are invalid. So a client never sees something new and then something
//! older at another server.
//!
//! What must never enter: which servers have copies.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    AbsentClients, AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials,
    DirectoryChange, DirectoryPage, Extent, FileSystem, Holdings, LockConflict, LockKind,
    LockOwner, Name, NewObject, ObjectId, OpenOwner, Properties, ReadData, RequestGroup, Result,
    SeekTarget, SetAttributes, Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use crate::holders::{Holders, Since};

struct Shown {
    holders: Arc<Holders>,
    below: Arc<dyn FileSystem>,
}

impl Holders {
    /// The home's tree, as all callers must see it.
    #[must_use]
    pub fn file_system(self: &Arc<Self>, below: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        Arc::new(Shown {
            holders: Arc::clone(self),
            below,
        })
    }
}

impl Shown {
    /// Returns the result of an operation after copies of these objects, and of those that it led to, are settled.
    async fn settled<T, const N: usize>(
        &self,
        objects: [ObjectId; N],
        led_to: impl Fn(&T) -> Vec<ObjectId>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let since = self.holders.begin();
        self.settled_since(since, objects, led_to, work).await
    }

    /// The same for a change. A named request may have been made before: then the store answers for it, and its invalidations may still be
    /// under way.
    async fn changed<T, const N: usize>(
        &self,
        who: &Credentials,
        objects: [ObjectId; N],
        led_to: impl Fn(&T) -> Vec<ObjectId>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let since = match who.request.is_some() {
            true => self.holders.begin_again(),
            false => self.holders.begin(),
        };
        self.settled_since(since, objects, led_to, work).await
    }

    async fn settled_since<T, const N: usize>(
        &self,
        since: Since,
        objects: [ObjectId; N],
        led_to: impl Fn(&T) -> Vec<ObjectId>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let outcome = work.await;
        if !self.holders.is_idle() {
            let mut objects = objects.to_vec();
            objects.extend(outcome.iter().flat_map(led_to));
            self.holders.settled(since, &objects).await;
        }
        outcome
    }
}

fn nothing_else<T>(_: &T) -> Vec<ObjectId> {
    Vec::new()
}

fn itself(found: &Attributes) -> Vec<ObjectId> {
    vec![found.id]
}

fn entries(page: &DirectoryPage) -> Vec<ObjectId> {
    page.entries
        .iter()
        .map(|entry| entry.attributes.id)
        .collect()
}

fn made(created: &Created) -> Vec<ObjectId> {
    vec![created.attributes.id]
}

#[async_trait]
impl FileSystem for Shown {
    fn properties(&self) -> &Properties {
        self.below.properties()
    }

    async fn space(&self) -> Result<Space> {
        self.below.space().await
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        self.settled([id], nothing_else, self.below.attributes(id))
            .await
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        let work = self.below.set_attributes(access, id, set);
        self.changed(access.credentials(), [id], nothing_else, work)
            .await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        let work = self.below.lookup(who, directory, name);
        self.settled([directory], itself, work).await
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        let work = self.below.parent(who, directory);
        self.settled([directory], itself, work).await
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        let work = self
            .below
            .read_directory(who, directory, after, max_entries);
        self.settled([directory], entries, work).await
    }

    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        let work = self.below.create(who, directory, name, new, set);
        self.changed(who, [directory], made, work).await
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let work = self.below.remove(who, directory, name);
        self.changed(who, [directory], nothing_else, work).await
    }

    async fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let work = self.below.rename(who, from, to);
        self.changed(who, [from.0, to.0], nothing_else, work).await
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let work = self.below.link(who, id, directory, name);
        self.changed(who, [id, directory], nothing_else, work).await
    }

    async fn read_link(&self, who: &Credentials, id: ObjectId) -> Result<Bytes> {
        let work = self.below.read_link(who, id);
        self.settled([id], nothing_else, work).await
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        let work = self.below.open(access, id, owner, share);
        self.settled([id], nothing_else, work).await
    }

    async fn open_made(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        self.below.open_made(who, id, owner, share).await
    }

    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.below.downgrade(id, owner, share).await
    }

    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let work = self.below.close(id, owner);
        self.settled([id], nothing_else, work).await
    }

    async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let work = self.below.leave(id, owner);
        self.settled([id], nothing_else, work).await
    }

    async fn may_be_elsewhere(&self, client: &[u8]) -> bool {
        self.below.may_be_elsewhere(client).await
    }

    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        self.below.lock(id, owner, range, kind).await?;
        if kind == LockKind::Read {
            // It may replace a write lock.
            self.holders.locks_changed_here(id);
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
        self.below.test_lock(id, owner, range, kind).await
    }

    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        self.below.unlock(id, owner, range).await?;
        self.holders.locks_changed_here(id);
        Ok(())
    }

    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool> {
        self.below.holds_lock(id, owner).await
    }

    async fn holds_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<bool> {
        self.below.holds_denial(id, owner).await
    }

    async fn read(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        let work = self.below.read(access, id, offset, count);
        self.settled([id], nothing_else, work).await
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let work = self.below.write(access, id, offset, data, stability);
        self.settled([id], nothing_else, work).await
    }

    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment> {
        let work = self.below.commit(id, offset, count);
        self.settled([id], nothing_else, work).await
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        let work = self.below.seek(access, id, offset, target);
        self.settled([id], nothing_else, work).await
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        let work = self.below.allocate(access, id, extent);
        self.settled([id], nothing_else, work).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        let work = self.below.deallocate(access, id, extent);
        self.settled([id], nothing_else, work).await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        let work = self.below.xattr(who, id, name);
        self.settled([id], nothing_else, work).await
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        let work = self.below.set_xattr(who, id, name, value, mode);
        self.changed(who, [id], nothing_else, work).await
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        let work = self.below.remove_xattr(who, id, name);
        self.changed(who, [id], nothing_else, work).await
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        let work = self.below.xattrs(who, id, cookie, max_bytes);
        self.settled([id], nothing_else, work).await
    }

    fn holdings(&self) -> Holdings {
        self.below.holdings()
    }

    async fn give_up(&self, holdings: &Holdings) -> Result<()> {
        self.below.give_up(holdings).await
    }

    fn on_clients_asked(&self, absent: AbsentClients) {
        self.below.on_clients_asked(absent);
    }

    fn others_went_on(&self, of: ObjectId) -> bool {
        self.below.others_went_on(of)
    }

    fn others_reclaim(&self) -> bool {
        self.holders.claims.are_open()
    }

    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        self.holders.on_lock_change(listener.clone());
        self.below.on_lock_change(listener);
    }

    fn keeps_requests(&self) -> bool {
        self.below.keeps_requests()
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        self.below.end_requests(ended).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        let Some(elsewhere) = self.holders.sessions_elsewhere() else {
            return Ok(());
        };
        let alive: HashSet<RequestGroup> = alive.union(&elsewhere).copied().collect();
        self.holders.note_alive(&alive);
        self.below.age_requests(alive).await
    }

    async fn end_reclaim(&self) -> Result<()> {
        // Removed files may be open at another server.
        self.holders.end_reclaim().await;
        self.below.end_reclaim().await
    }

    async fn sync(&self) -> Result<()> {
        self.below.sync().await
    }
}
