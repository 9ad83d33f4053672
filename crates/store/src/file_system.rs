//! The store as a [`FileSystem`]: each operation is passed to the module that implements it.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials, DirectoryChange,
    DirectoryPage, Extent, FileSystem, Holdings, LockConflict, LockKind, LockOwner, Name,
    NewObject, ObjectId, OpenOwner, Properties, ReadData, RequestGroup, Result, SeekTarget,
    SetAttributes, Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use crate::namespace::Place;
use crate::open_store::blocking;
use crate::store::Store;

#[async_trait]
impl FileSystem for Store {
    fn properties(&self) -> &Properties {
        &self.operation.properties
    }

    async fn space(&self) -> Result<Space> {
        self.operation.headroom.space(self.statistics().objects)
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        Ok(self.operation.object(id)?.attributes(id))
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        self.operation.set_attributes(access, id, set).await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        self.operation.lookup(who, directory, name)
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        self.operation.parent(who, directory)
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        self.store
            .read_directory(who, directory, after, max_entries)
    }

    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        self.operation.create(who, directory, name, new, set).await
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        self.operation.remove(who, directory, name).await
    }

    async fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let from = Place {
            directory: from.0,
            name: from.1,
        };
        let to = Place {
            directory: to.0,
            name: to.1,
        };
        self.operation.rename(who, from, to).await
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        self.operation.link(who, id, directory, name).await
    }

    async fn read_link(&self, _who: &Credentials, id: ObjectId) -> Result<Bytes> {
        self.operation.read_link(id)
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        self.operation.open(access, id, owner, share).await
    }

    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.operation.downgrade(id, owner, share).await
    }

    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.operation.close(id, owner).await
    }

    async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.operation.leave(id, owner).await
    }

    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        self.operation.lock(id, owner, range, kind).await
    }

    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>> {
        self.operation.test_lock(id, owner, range, kind)
    }

    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        self.operation.unlock(id, owner, range).await
    }

    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool> {
        Ok(self.operation.locks().holds(id, owner))
    }

    async fn holds_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<bool> {
        let denials = self.operation.shares().denials(id);
        Ok(denials.iter().any(|(holder, _)| holder == owner))
    }

    fn holdings(&self) -> Holdings {
        let denials = self.operation.shares().all_denials();
        Holdings {
            locks: self.operation.locks().holders(),
            denials,
        }
    }

    async fn read(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        self.operation.read(access, id, offset, count).await
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        self.operation
            .write(access, id, offset, data, stability)
            .await
    }

    async fn commit(&self, id: ObjectId, _offset: u64, _count: u32) -> Result<Commitment> {
        self.operation.commit_data(id).await
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        self.operation.seek(access, id, offset, target).await
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        self.operation.allocate(access, id, extent).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        self.operation.deallocate(access, id, extent).await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        self.operation.xattr(who, id, name)
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        self.operation.set_xattr(who, id, name, value, mode).await
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        self.operation.remove_xattr(who, id, name).await
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        self.operation.xattrs(who, id, cookie, max_bytes)
    }

    fn keeps_requests(&self) -> bool {
        true
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        let store = self.operation.store.clone();
        blocking(move || store.end_requests(&ended)).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        let store = self.operation.store.clone();
        blocking(move || store.age_requests(&alive)).await
    }

    async fn end_reclaim(&self) -> Result<()> {
        self.operation.end_reclaim().await
    }

    async fn sync(&self) -> Result<()> {
        self.operation.sync().await
    }
}
