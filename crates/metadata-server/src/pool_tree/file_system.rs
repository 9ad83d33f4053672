//! Runs each operation at the home of its object.
//!
//! What must never enter: which home that is.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials, DirectoryChange,
    DirectoryPage, Error, Extent, FileSystem, Forget, LockConflict, LockKind, LockOwner, Name,
    NewObject, ObjectId, OpenOwner, Properties, ReadData, RequestGroup, Result, SeekTarget,
    SetAttributes, Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use super::{Part, PoolTree, locked};

#[async_trait]
impl FileSystem for PoolTree {
    fn properties(&self) -> &Properties {
        self.own.properties()
    }

    async fn space(&self) -> Result<Space> {
        self.at(ObjectId::ROOT).space().await
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        self.at(id).attributes(id).await
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        self.at(id).set_attributes(access, id, set).await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        self.lookup_for(None, who, (directory, name)).await
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        match &self.part {
            Part::First { .. } => {
                let has_name = self.is_elsewhere(directory) && self.names_elsewhere(directory);
                if has_name {
                    return self.parent_elsewhere(who, directory).await;
                }
                self.at(directory).parent(who, directory).await
            }
            Part::Joined { first, .. } => {
                let found = self.at(directory).parent(who, directory).await?;
                match found.id == ObjectId::ROOT && !self.is_elsewhere(directory) {
                    true => first.parent(&Credentials::root(), directory).await,
                    false => Ok(found),
                }
            }
        }
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        let place = (after, max_entries);
        self.read_directory_for(None, who, directory, place).await
    }

    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        if self.makes_here(directory, &new) {
            return self.make_directory(who, directory, name, set).await;
        }
        if self.is_elsewhere(directory) {
            let at = self.at(directory);
            return at.create(who, directory, name, new, set).await;
        }
        let created = {
            let _place = self.take_place((directory, name)).await?;
            self.own.create(who, directory, name, new, set).await
        };
        match created {
            Err(Error::CrossHome) => match self.found_elsewhere(who, (directory, name)).await {
                // The name is gone by now.
                Err(Error::NotFound) => Err(Error::Delay),
                found => found,
            },
            created => created,
        }
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        if self.is_elsewhere(directory) {
            return self.at(directory).remove(who, directory, name).await;
        }
        let removed = {
            let _place = self.take_place((directory, name)).await?;
            self.own.remove(who, directory, name).await
        };
        if removed != Err(Error::CrossHome) {
            return removed;
        }
        let found = self.own.lookup(who, directory, name).await?;
        match found.is_directory() {
            true => self.remove_name_of_elsewhere(who, directory, name).await,
            false => {
                self.remove_name_of_file(who, (directory, name), found.id)
                    .await
            }
        }
    }

    async fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        match (self.is_elsewhere(from.0), self.is_elsewhere(to.0)) {
            // The target's home decides.
            (_, true) => self.at(to.0).rename(who, from, to).await,
            (true, false) => {
                self.check_place(to.0, to.1)?;
                self.move_here(who, from, to).await
            }
            (false, false) => self.rename_here(who, from, to).await,
        }
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        if self.is_elsewhere(directory) {
            return self.at(directory).link(who, id, directory, name).await;
        }
        if self.is_elsewhere(id) {
            return self.link_to_elsewhere(who, id, (directory, name)).await;
        }
        let _place = self.take_place((directory, name)).await?;
        self.own.link(who, id, directory, name).await
    }

    async fn read_link(&self, who: &Credentials, id: ObjectId) -> Result<Bytes> {
        self.at(id).read_link(who, id).await
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        self.at(id).open(access, id, owner, share).await
    }

    async fn open_made(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        self.at(id).open_made(who, id, owner, share).await
    }

    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.at(id).downgrade(id, owner, share).await
    }

    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.at(id).close(id, owner).await
    }

    async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.at(id).leave(id, owner).await
    }

    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        self.at(id).lock(id, owner, range, kind).await
    }

    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>> {
        self.at(id).test_lock(id, owner, range, kind).await
    }

    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        self.at(id).unlock(id, owner, range).await
    }

    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool> {
        self.at(id).holds_lock(id, owner).await
    }

    async fn read(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        self.at(id).read(access, id, offset, count).await
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let at = self.at(id);
        at.write(access, id, offset, data, stability).await
    }

    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment> {
        self.at(id).commit(id, offset, count).await
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        self.at(id).seek(access, id, offset, target).await
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        self.at(id).allocate(access, id, extent).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        self.at(id).deallocate(access, id, extent).await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        self.at(id).xattr(who, id, name).await
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        self.at(id).set_xattr(who, id, name, value, mode).await
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        self.at(id).remove_xattr(who, id, name).await
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        self.at(id).xattrs(who, id, cookie, max_bytes).await
    }

    async fn holds_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<bool> {
        self.at(id).holds_denial(id, owner).await
    }

    fn others_went_on(&self, of: ObjectId) -> bool {
        self.at(of).others_went_on(of)
    }

    fn others_reclaim(&self) -> bool {
        let others = self.others();
        self.own.others_reclaim() || others.iter().any(|other| other.others_reclaim())
    }

    fn on_loss(&self, forget: Forget) {
        locked(&self.forget).push(forget.clone());
        for other in self.others() {
            other.on_loss(forget.clone());
        }
    }

    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        locked(&self.lock_listeners).push(listener.clone());
        for other in self.others() {
            other.on_lock_change(listener.clone());
        }
        self.own.on_lock_change(listener);
    }

    fn keeps_requests(&self) -> bool {
        self.own.keeps_requests()
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        self.end_requests_for(None, ended).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        let mut outcome = self.own.age_requests(alive.clone()).await;
        let alive = match &self.part {
            Part::Joined { .. } => Some(alive),
            // Requests of other servers' clients come through this one.
            Part::First { .. } => self.holders.take_alive(),
        };
        let Some(alive) = alive else { return outcome };
        for other in self.others() {
            outcome = outcome.and(other.age_requests(alive.clone()).await);
        }
        outcome
    }

    async fn end_reclaim(&self) -> Result<()> {
        match &self.part {
            // The first server waits until all have reported, and then reports to other homes. So it must hear this first.
            Part::Joined { first, .. } => {
                let told = first.end_reclaim_at_home().await;
                self.have_reclaimed.store(true, Ordering::Release);
                told.and(self.own.end_reclaim().await)
            }
            Part::First { .. } => {
                let outcome = self.own.end_reclaim().await;
                self.have_reclaimed.store(true, Ordering::Release);
                for other in self.others() {
                    // A home that is away hears it when it is back.
                    let _ = other.end_reclaim_at_home().await;
                }
                outcome
            }
        }
    }

    async fn sync(&self) -> Result<()> {
        self.own.sync().await
    }
}
