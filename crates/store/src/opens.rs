//! Opens and byte-range locks as the file system offers them, and files that exist without a name because they are open.

use std::sync::atomic::Ordering;

use vfs::{
    AccessCheck, Attributes, ByteRange, Error, LockConflict, LockKind, LockOwner, ObjectId,
    OpenOwner, Result, Share,
};

use crate::access::{may_read, may_write};
use crate::commit_hook::Change;
use crate::locks::Locks;
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::mutation::{Mutation, wait_for_space};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::rows::{ObjectRow, decode_denials, encode_denials, encode_locks, key};
use crate::shares::{Denial, Shares};
use crate::space::Demand;

/// How many orphans are read with one view of the table.
const ORPHANS_A_PAGE: usize = 256;

impl Operation {
    /// [`vfs::FileSystem::open`].
    pub(crate) async fn open(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        let denies_more = |held: Share| denied(held.union(share)) != denied(held);
        if self.tells_of(id, owner, denies_more) {
            let mutation = self.begin(Demand::Change).await?;
            return self.change_denials(mutation, id, |shares| {
                let row = self.check_open(check, id, shares.held(id, owner), share)?;
                shares.open(id, owner, share)?;
                Ok(row.attributes(id))
            });
        }
        let mut shares = self.shares();
        let row = self.check_open(check, id, shares.held(id, owner), share)?;
        // Removals check under the same lock whether a file is open, so the row still exists.
        shares.open(id, owner, share)?;
        Ok(row.attributes(id))
    }

    /// The same for a registered open without denials: `before` is the result of [`crate::OpenStore::register_open`].
    /// Access that the owner had before needs no permission, the registered access does.
    ///
    /// # Errors
    /// As [`vfs::FileSystem::open`].
    pub async fn open_registered(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        (before, share): (Option<Share>, Share),
    ) -> Result<Attributes> {
        let mut shares = self.shares();
        let row = self.check_open(check, id, before, share)?;
        shares.open(id, owner, share)?;
        Ok(row.attributes(id))
    }

    /// [`vfs::FileSystem::downgrade`].
    pub(crate) async fn downgrade(
        &self,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        if self.tells_of(id, owner, |held| denied(held) != denied(share)) {
            let mutation = self.begin_release().await?;
            return self.change_denials(mutation, id, |shares| shares.downgrade(id, owner, share));
        }
        self.shares().downgrade(id, owner, share)
    }

    /// [`vfs::FileSystem::close`].
    pub(crate) async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let last = if self.tells_of(id, owner, |held| denied(held) != (false, false)) {
            let mutation = self.begin_release().await?;
            self.change_denials(mutation, id, |shares| Ok(shares.close(id, owner)))?
        } else {
            self.shares().close(id, owner)
        };
        self.closed(id, last).await
    }

    /// [`vfs::FileSystem::leave`].
    pub(crate) async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let last = {
            // Under the writer's lock, so that the row is the one that counts.
            let _mutation = self.begin_maintenance().await?;
            let denials = self.recorded_denials(id)?;
            let mut shares = self.shares();
            let last = shares.close(id, owner);
            shares.follow(id, denials);
            last
        };
        self.closed(id, last).await
    }

    /// The denials of a file that its primary has recorded last.
    fn recorded_denials(&self, id: ObjectId) -> Result<Vec<Denial>> {
        match self.metadata.row(Table::Denials, &key::object(id))? {
            Some(row) => decode_denials(&row).map_err(|Malformed(what)| Error::Io(what.into())),
            None => Ok(Vec::new()),
        }
    }

    /// A removed file goes with its last open.
    async fn closed(&self, id: ObjectId, last: bool) -> Result<()> {
        if last && !self.is_reclaiming() && self.orphans.home(id).is_some() {
            self.let_go(&[id]).await?;
        }
        Ok(())
    }

    /// Undoes [`crate::OpenStore::register_open`] after the open was refused.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn take_back_open(
        &self,
        id: ObjectId,
        owner: &OpenOwner,
        before: Option<Share>,
    ) -> Result<()> {
        match before {
            None => self.close(id, owner).await,
            Some(share) => self.shares().downgrade(id, owner, share),
        }
    }

    /// Changes the opens of a file and records the change for other replicas, unless the commit hook
    /// refuses.
    fn change_denials<T>(
        &self,
        mut mutation: Mutation<'_>,
        id: ObjectId,
        change: impl FnOnce(&mut Shares) -> Result<T>,
    ) -> Result<T> {
        let mut shares = self.shares();
        let mut tried = shares.alone(id);
        let outcome = change(&mut tried)?;
        match mutation.touched(id) {
            Ok(touched) => {
                let denials = tried.denials(id);
                let row = encode_denials(&denials).ok_or(Error::NoSpace)?;
                let row = (!denials.is_empty()).then_some(&row[..]);
                mutation.tell_of(id, Table::Denials, row)?;
                mutation.commit(&Change::Object(touched))?;
            }
            // No other replica has the file, so no record is needed.
            Err(Error::Stale) => drop(mutation),
            Err(error) => return Err(error),
        }
        shares.replace(id, tried);
        Ok(outcome)
    }

    /// [`vfs::FileSystem::lock`]. Does not wait for stable storage.
    pub(crate) async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        if self.is_replicated() {
            // LOCK cannot report a full disk (RFC 8881, section 15.2): the client has to retry.
            let mutation = self.begin(Demand::Change).await.map_err(wait_for_space)?;
            self.object(id)?.file()?;
            return self.change_locks(mutation, id, owner, |locks| {
                locks.lock(id, owner, range, kind)
            });
        }
        // Take the table's lock first: a removal needs it to forget the locks of a removed object.
        let mut locks = self.locks();
        self.object(id)?.file()?;
        locks.lock(id, owner, range, kind)
    }

    /// Changes the locks of an owner in a file and records the change for other replicas, unless the commit hook
    /// refuses.
    fn change_locks(
        &self,
        mut mutation: Mutation<'_>,
        id: ObjectId,
        owner: &LockOwner,
        change: impl FnOnce(&mut Locks) -> Result<()>,
    ) -> Result<()> {
        // All other operations that change locks hold the writer's lock, too.
        let mut tried = self.locks().alone(id, owner);
        change(&mut tried)?;
        let held = tried.of(id).to_vec();
        if self.locks().of(id) == held {
            return Ok(());
        }
        let touched = mutation.touched(id)?;
        let row = encode_locks(&held).ok_or(Error::NoSpace)?;
        let row = (!held.is_empty()).then_some(&row[..]);
        mutation.tell_of(id, Table::Locks, row)?;
        mutation.then(move |store, _| {
            let _changed = store.locks().replace(id, held);
        });
        mutation.commit(&Change::Object(touched)).map(|_| ())
    }

    /// [`vfs::FileSystem::unlock`].
    pub(crate) async fn unlock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
    ) -> Result<()> {
        if self.is_replicated() && self.locks().holds(id, owner) {
            let mutation = self.begin_release().await?;
            return self.change_locks(mutation, id, owner, |locks| locks.unlock(id, owner, range));
        }
        self.locks().unlock(id, owner, range)
    }
}

impl OpenStore {
    /// Checks an open of an owner that has `held` already; returns the row.
    fn check_open(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        held: Option<Share>,
        share: Share,
    ) -> Result<ObjectRow> {
        let row = self.object(id)?;
        row.file()?;
        if let AccessCheck::Credentials(_) = check {
            check_share(check, id, &row, held.unwrap_or_default(), share)?;
        }
        Ok(row)
    }

    /// Registers an open without denials before another replica decides about its permission. From
    /// here on a removal by an applied update keeps the file for it; the file need not exist here yet. Returns
    /// what the owner had open before, for [`crate::Operation::take_back_open`].
    ///
    /// # Errors
    /// [`vfs::Error::ShareDenied`] and [`vfs::Error::Delay`] as in [`vfs::FileSystem::open`].
    pub fn register_open(
        &self,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Option<Share>> {
        let mut shares = self.shares();
        let before = shares.held(id, owner);
        shares.open(id, owner, share)?;
        Ok(before)
    }

    /// Whether a change of an owner's open has to be recorded for other replicas; `denials` decides this from what
    /// the owner holds.
    fn tells_of(&self, id: ObjectId, owner: &OpenOwner, denials: impl Fn(Share) -> bool) -> bool {
        self.is_replicated() && {
            let shares = self.shares();
            let here = shares.held(id, owner);
            let elsewhere = shares.denials(id).into_iter().find(|(who, _)| who == owner);
            denials(
                here.or(elsewhere.map(|(_, share)| share))
                    .unwrap_or_default(),
            )
        }
    }

    /// [`vfs::FileSystem::end_reclaim`].
    pub(crate) async fn end_reclaim(&self) -> Result<()> {
        {
            // Under the writer's lock, so that no removal in progress still keeps a file that is not open.
            let _mutation = self.begin_maintenance().await?;
            self.reclaiming.store(false, Ordering::Release);
        }
        let mut from = Vec::new();
        loop {
            let page = self.orphans_from(&from)?;
            self.let_go(&page).await?;
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

    /// Whether removed files are kept because clients may still reclaim their opens.
    pub(crate) fn is_reclaiming(&self) -> bool {
        self.reclaiming.load(Ordering::Acquire)
    }
}

/// Which access a share denies to others: reading, writing.
fn denied(share: Share) -> (bool, bool) {
    (share.deny_read, share.deny_write)
}

/// Checks the permission for the access that an open adds to what the owner has.
fn check_share(
    check: AccessCheck<'_>,
    id: ObjectId,
    row: &ObjectRow,
    held: Share,
    share: Share,
) -> Result<()> {
    let who = check.credentials();
    let reads = share.read && !held.read;
    // Denying reads to others needs more than read permission: otherwise any user could
    // lock out any other.
    let writes = (share.write && !held.write) || (share.deny_read && !held.deny_read);
    if (reads && !may_read(who, id, row)) || (writes && !may_write(who, id, row)) {
        return Err(Error::AccessDenied);
    }
    Ok(())
}
