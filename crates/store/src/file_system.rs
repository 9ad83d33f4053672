//! The store as a [`FileSystem`]: each operation goes to the room that carries it out.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials, DirectoryChange,
    DirectoryPage, Extent, FileSystem, Holdings, LockConflict, LockKind, LockOwner, Name,
    NewObject, ObjectId, OpenOwner, Properties, ReadData, RequestGroup, Result, SeekTarget,
    SetAttributes, Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use crate::inner::blocking;
use crate::namespace::Place;
use crate::store::Store;

#[async_trait]
impl FileSystem for Store {
    fn properties(&self) -> &Properties {
        &self.inner.properties
    }

    async fn space(&self) -> Result<Space> {
        self.inner.headroom.space(self.statistics().objects)
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        Ok(self.inner.object(id)?.attributes(id))
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        self.inner.set_attributes(access, id, set).await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        self.inner.lookup(who, directory, name)
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        self.inner.parent(who, directory)
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        self.inner
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
        self.inner.create(who, directory, name, new, set).await
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        self.inner.remove(who, directory, name).await
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
        self.inner.rename(who, from, to).await
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        self.inner.link(who, id, directory, name).await
    }

    async fn read_link(&self, _who: &Credentials, id: ObjectId) -> Result<Bytes> {
        self.inner.read_link(id)
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        self.inner.open(access, id, owner, share).await
    }

    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.inner.downgrade(id, owner, share).await
    }

    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.inner.close(id, owner).await
    }

    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        self.inner.lock(id, owner, range, kind).await
    }

    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>> {
        self.inner.test_lock(id, owner, range, kind)
    }

    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        self.inner.unlock(id, owner, range).await
    }

    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool> {
        Ok(self.inner.locks().holds(id, owner))
    }

    fn holdings(&self) -> Holdings {
        let denials = self.inner.shares().all_denials();
        Holdings {
            locks: self.inner.locks().holders(),
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
        self.inner.read(access, id, offset, count).await
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        self.inner.write(access, id, offset, data, stability).await
    }

    async fn commit(&self, id: ObjectId, _offset: u64, _count: u32) -> Result<Commitment> {
        self.inner.commit_data(id).await
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        self.inner.seek(access, id, offset, target).await
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        self.inner.allocate(access, id, extent).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        self.inner.deallocate(access, id, extent).await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        self.inner.xattr(who, id, name)
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        self.inner.set_xattr(who, id, name, value, mode).await
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        self.inner.remove_xattr(who, id, name).await
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        self.inner.xattrs(who, id, cookie, max_bytes)
    }

    fn keeps_requests(&self) -> bool {
        true
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        let inner = self.inner.inner.clone();
        blocking(move || inner.end_requests(&ended)).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        let inner = self.inner.inner.clone();
        blocking(move || inner.age_requests(&alive)).await
    }

    async fn end_reclaim(&self) -> Result<()> {
        self.inner.end_reclaim().await
    }

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }
}
