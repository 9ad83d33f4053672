//! The store as clients see it when other clients write directly at data servers: attributes are up to date, and changes through the home
//! meet no direct writes ([`crate::settling`]). The store does everything else.
//!
//! What must never enter: where bytes lie.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use vfs::permission::{SET_GROUP_ID, SET_USER_ID};
use vfs::{
    AbsentClients, AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials,
    DirectoryChange, DirectoryPage, Extent, FileSystem, Holdings, LockConflict, LockKind,
    LockOwner, Name, NewObject, ObjectId, OpenOwner, Properties, ReadData, RequestGroup, Result,
    SeekTarget, SetAttributes, Share, Space, Stability, Written, XattrMode, XattrName, XattrPage,
};

use crate::settling::Ending;
use crate::striped::{Striped, StripedFiles};

struct Settled {
    files: Arc<StripedFiles>,
    below: Arc<dyn FileSystem>,
}

impl Striped {
    /// The store that got this value, as clients that may get layouts must see it.
    #[must_use]
    pub fn file_system(&self, store: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        Arc::new(Settled {
            files: Arc::clone(&self.files),
            below: store,
        })
    }
}

impl Settled {
    /// The given attributes if they are complete, or else current ones.
    async fn settled(&self, found: Attributes) -> Result<Attributes> {
        match self.files.driver()?.is_unsettled(found.id) {
            true => self.attributes(found.id).await,
            false => Ok(found),
        }
    }
}

#[async_trait]
impl FileSystem for Settled {
    fn properties(&self) -> &Properties {
        self.below.properties()
    }

    async fn space(&self) -> Result<Space> {
        Ok(self.files.free_space(self.below.space().await?))
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        self.files.settle(id).await?;
        self.below.attributes(id).await
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        // Set-id bits go when a layout for writing is given, and not again under it.
        let sets_id = set
            .mode
            .is_some_and(|mode| mode & (SET_USER_ID | SET_GROUP_ID) != 0);
        let _alone = match set.size.is_some() || sets_id {
            true => Some(self.files.alone(id, Ending::Recalled).await?),
            // Earlier writes count as older than times that are set now.
            false => {
                self.files.settle(id).await?;
                None
            }
        };
        self.below.set_attributes(access, id, set).await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        let found = self.below.lookup(who, directory, name).await?;
        self.settled(found).await
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        self.below.parent(who, directory).await
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        let below = &self.below;
        let page = below.read_directory(who, directory, after, max_entries);
        let mut page = page.await?;
        for entry in &mut page.entries {
            match self.settled(entry.attributes.clone()).await {
                Ok(attributes) => entry.attributes = attributes,
                // It was removed meanwhile, and existed when the page was read.
                Err(vfs::Error::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        let _creating = {
            let creations = self.files.creations.lock();
            creations
                .unwrap_or_else(PoisonError::into_inner)
                .subscribe()
        };
        let created = self.below.create(who, directory, name, new, set).await?;
        Ok(Created {
            attributes: self.settled(created.attributes.clone()).await?,
            ..created
        })
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        self.below.remove(who, directory, name).await
    }

    async fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        self.below.rename(who, from, to).await
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        self.below.link(who, id, directory, name).await
    }

    async fn read_link(&self, who: &Credentials, id: ObjectId) -> Result<Bytes> {
        self.below.read_link(who, id).await
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        self.files.settle(id).await?;
        self.below.open(access, id, owner, share).await
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
        self.below.close(id, owner).await
    }

    async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.below.leave(id, owner).await
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
        self.below.lock(id, owner, range, kind).await
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
        self.below.unlock(id, owner, range).await
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
        self.files.settle(id).await?;
        self.below.read(access, id, offset, count).await
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let _alone = self.files.alone(id, Ending::Fenced).await?;
        self.below.write(access, id, offset, data, stability).await
    }

    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment> {
        self.below.commit(id, offset, count).await
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        self.files.settle(id).await?;
        self.below.seek(access, id, offset, target).await
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        let _alone = self.files.alone(id, Ending::Recalled).await?;
        self.below.allocate(access, id, extent).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        let _alone = self.files.alone(id, Ending::Recalled).await?;
        self.below.deallocate(access, id, extent).await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        self.below.xattr(who, id, name).await
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        self.below.set_xattr(who, id, name, value, mode).await
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        self.below.remove_xattr(who, id, name).await
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        self.below.xattrs(who, id, cookie, max_bytes).await
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

    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        self.below.on_lock_change(listener);
    }

    fn keeps_requests(&self) -> bool {
        self.below.keeps_requests()
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        self.below.end_requests(ended).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        self.below.age_requests(alive).await
    }

    async fn end_reclaim(&self) -> Result<()> {
        self.below.end_reclaim().await
    }

    async fn sync(&self) -> Result<()> {
        self.below.sync().await
    }
}
