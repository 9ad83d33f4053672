//! Opens and byte-range locks as the file system offers them, and the files that live on by an open.

use std::sync::atomic::Ordering;

use vfs::{
    Attributes, Authority, ByteRange, Error, LockConflict, LockKind, LockOwner, ObjectId,
    OpenOwner, Result, Share,
};

use crate::access::{may_read, may_write};
use crate::inner::Inner;
use crate::metadata::Table;
use crate::rows::{ObjectRow, key};

/// How many orphans are looked at with one view of the table.
const ORPHANS_A_PAGE: usize = 256;

impl Inner {
    /// [`vfs::FileSystem::open`].
    pub(crate) fn open(
        &self,
        authority: Authority<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        let mut shares = self.shares();
        let row = self.object(id)?;
        row.file()?;
        let held = shares.held(id, owner).unwrap_or_default();
        if let Authority::Credentials(_) = authority {
            check_share(authority, id, &row, held, share)?;
        }
        // Removals decide under the same lock whether a file is open, so the row is still there.
        shares.open(id, owner, share)?;
        Ok(row.attributes(id))
    }

    /// [`vfs::FileSystem::downgrade`].
    pub(crate) fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.shares().downgrade(id, owner, share)
    }

    /// [`vfs::FileSystem::close`].
    pub(crate) async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let last = self.shares().close(id, owner);
        if last && !self.is_reclaiming() && self.object(id).is_ok_and(|row| row.links == 0) {
            self.bury(id).await?;
        }
        Ok(())
    }

    /// Removes an orphan, unless it is open.
    async fn bury(&self, id: ObjectId) -> Result<()> {
        let mut mutation = self.begin_upkeep().await?;
        let shares = self.shares();
        if shares.is_open(id) {
            return Ok(());
        }
        match mutation.object(id) {
            Ok(row) if row.links > 0 => return Ok(()),
            Ok(_) => self.discard(&mut mutation, id)?,
            // Somebody else was faster.
            Err(Error::Stale) => return Ok(()),
            Err(error) => return Err(error),
        }
        mutation.unmark(Table::Orphans, id);
        mutation.then(|inner, _| inner.count_orphans(-1));
        mutation.commit_local().map(|_| ())
    }

    /// [`vfs::FileSystem::end_reclaim`].
    pub(crate) async fn end_reclaim(&self) -> Result<()> {
        {
            // Under the lock, so that no removal under way still makes an orphan of what is not open.
            let _mutation = self.begin_upkeep().await?;
            self.reclaiming.store(false, Ordering::Release);
        }
        let mut from = Vec::new();
        loop {
            let page = self.orphans_from(&from)?;
            for id in &page {
                self.bury(*id).await?;
            }
            match page.last().and_then(|last| last.as_u64().checked_add(1)) {
                Some(next) => from = key::number(next).to_vec(),
                None => return Ok(()),
            }
        }
    }

    fn orphans_from(&self, from: &[u8]) -> Result<Vec<ObjectId>> {
        let view = self.metadata.view();
        let rows = view.scan(Table::Orphans, &[], from).take(ORPHANS_A_PAGE);
        rows.map(|row| Ok(key::parse_object(row?.key())?)).collect()
    }

    /// [`vfs::FileSystem::lock`].
    pub(crate) fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        // The table's lock first: a removal takes it to forget the locks of what is gone.
        let mut locks = self.locks();
        self.object(id)?.file()?;
        locks.lock(id, owner, range, kind)
    }

    /// [`vfs::FileSystem::test_lock`].
    pub(crate) fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>> {
        self.object(id)?.file()?;
        Ok(self.locks().conflict(id, owner, range, kind))
    }

    /// [`vfs::FileSystem::unlock`].
    pub(crate) fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        self.locks().unlock(id, owner, range)
    }

    /// Whether removed files are kept because clients may still reclaim their opens.
    pub(crate) fn is_reclaiming(&self) -> bool {
        self.reclaiming.load(Ordering::Acquire)
    }

    pub(crate) fn count_orphans(&self, step: i64) {
        let count = |orphans: u64| Some(orphans.saturating_add_signed(step));
        // The closure always returns a value, so there is no failure to look at.
        let _former = self
            .orphans
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    }
}

/// Permission for what an open adds to what the owner has.
fn check_share(
    authority: Authority<'_>,
    id: ObjectId,
    row: &ObjectRow,
    held: Share,
    share: Share,
) -> Result<()> {
    let who = authority.credentials();
    let reads = share.read && !held.read;
    // Whoever keeps others from reading needs more than to read: else anybody could lock out anybody.
    let writes = (share.write && !held.write) || (share.deny_read && !held.deny_read);
    if (reads && !may_read(who, id, row)) || (writes && !may_write(who, id, row)) {
        return Err(Error::AccessDenied);
    }
    Ok(())
}
