//! What replicas need of a store, besides records of its own changes: changes of others, the bytes
//! that belong to them, rows that only this copy keeps, and a copy of everything for a new replica.
//!
//! What must never enter: who may change what, who is connected, or how any of this travels.

mod ancestry;
mod apply;
mod base;
mod facts;
mod foreign_row;
mod held;
mod incomplete;
mod merging;
mod passed;
mod resync;
mod torn;
mod unshipped;
mod updates;

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use vfs::{Extent, ObjectId, OpenOwner, ReplicaSlot, Result, Share};

pub use base::{BasePlace, BaseScan, BaseState};
pub(crate) use incomplete::Incomplete;
pub use merging::MergedRows;
pub(crate) use unshipped::MarkedFiles;

use crate::committer::Ticket;
use crate::recording::RowChange;
use crate::store::Store;

/// What [`crate::decode_as_anything`] says, of notes about contents.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = incomplete::Mark::decode(bytes);
    let _ = resync::Remembered::decode(bytes);
}

/// One update that another replica made as the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignUpdate {
    /// Whose stream of updates it belongs to.
    pub from: ReplicaSlot,
    /// Its place in that stream; later updates have larger ones.
    pub position: u64,
    /// The rows as they are after it.
    pub changes: Vec<RowChange>,
    /// The files whose data it changes, and whose content comes separately.
    pub incomplete: Vec<ObjectId>,
}

/// A name that appears or disappears, seen from the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// What the name leads to.
    pub object: ObjectId,
    /// The directory it lies in.
    pub parent: ObjectId,
    /// Whether it appears.
    pub added: bool,
}

/// Part of the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPiece {
    /// Bytes.
    Data {
        /// Where the first one lies.
        offset: u64,
        /// All of them.
        bytes: Bytes,
    },
    /// Nothing is stored there, it reads as zeros.
    Hole(Extent),
}

/// Decides about an update that is being applied: gets the names that appear and disappear, and what
/// commits the update.
pub type BeforeCommit<'o> =
    dyn FnMut(&[LinkChange], &mut dyn FnMut() -> Result<()>) -> Result<()> + Send + 'o;

impl Store {
    /// Has changes recorded for other replicas from here on. Every operation that makes some needs a [`CommitHook`], see
    /// [`Store::with_hook`], and fails without one.
    ///
    /// `keeps_removed` says whether clients of other replicas may have a file open that loses its last name here; then it is
    /// kept without one until [`Store::bury`]. It is asked with the writer's lock held and must not wait.
    pub fn replicate(&self, keeps_removed: impl Fn() -> bool + Send + Sync + 'static) {
        if self
            .inner
            .keeps_removed
            .set(Box::new(keeps_removed))
            .is_err()
        {
            tracing::error!("a store is replicated already; please report it");
        }
    }

    /// The position up to which every record of this store is stable; none below will still appear.
    #[must_use]
    pub fn stable_position(&self) -> watch::Receiver<u64> {
        self.inner.commits.stable_position()
    }

    /// Removes update records up to this position, which nobody needs any more.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn trim_updates(&self, through: u64) -> Result<()> {
        self.inner.trim_updates(through).await
    }

    /// Returns when everything up to this ticket is on stable storage.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_stable(&self, ticket: Ticket) -> Result<()> {
        self.inner.commits.wait(ticket, &self.inner.health).await
    }

    /// The same without asking for it: the ticket becomes stable together with what others ask for, or
    /// within a second.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_stable_lazily(&self, ticket: Ticket) -> Result<()> {
        let inner = &self.inner;
        inner.commits.wait_lazily(ticket, &inner.health).await
    }

    /// The directories that hold an object, one for each of its names, so a directory may be there
    /// twice; nothing for the root and for what does not exist. Takes no lock that changes take.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn parents(&self, id: ObjectId) -> Result<Vec<ObjectId>> {
        self.inner.parents(id)
    }

    /// One path of an object from the root of the tree, for people to read. An object without a name has
    /// none, which is said in place of it.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] for what does not exist; [`vfs::Error::Io`] when rows cannot be read.
    pub fn path_of(&self, id: ObjectId) -> Result<String> {
        self.inner.path_of(id)
    }

    /// Every object that own update records behind a position speak of, removed ones too, and every file on the
    /// list of [`Store::unshipped`]; in the order of identifiers. What others may not have of this store.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn changed_after(&self, position: u64) -> Result<Vec<ObjectId>> {
        self.inner.changed_after(position)
    }

    /// Takes over rows that another primary changed, in one batch with the new position in its stream.
    /// A position that was applied already changes nothing.
    ///
    /// `before_commit` is called with the writer's lock held; it gets the names that appear and disappear,
    /// and a closure that commits, which it must call. Only what this copy alone knows of an object
    /// stays: whether it has a data file, and whether a file is still open here that has lost its
    /// last name.
    ///
    /// The content of files comes separately, see [`Store::put_content`].
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] for rows that cannot be; [`vfs::Error::NoSpace`] on a full disk;
    /// [`vfs::Error::Io`] when storage fails; and what `before_commit` returns. Nothing has changed then.
    pub async fn apply(
        &self,
        update: ForeignUpdate,
        before_commit: &mut BeforeCommit<'_>,
    ) -> Result<Ticket> {
        self.inner.apply(update, before_commit).await
    }

    /// The position of the last update of a replica's stream that was applied here; 0 for none.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when the row cannot be read.
    pub fn applied(&self, from: ReplicaSlot) -> Result<u64> {
        self.inner.applied(from)
    }

    /// Says that a replica's stream is applied here up to a position that no update has: positions have gaps. Returns
    /// when it is there, stable or not.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn reached(&self, from: ReplicaSlot, position: u64) -> Result<Ticket> {
        self.inner.reached(from, position).await
    }

    /// How far the streams of all other replicas have been applied, of those too that are in the set no longer.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn applied_all(&self) -> Result<Vec<(ReplicaSlot, u64)>> {
        self.inner.applied_all()
    }

    /// Part of the content of a file as it is now, in order, clipped at its size. Asks for no permission
    /// and notes no access. It reads from the disk and may block for as long as that takes.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`].
    pub fn content(&self, id: ObjectId, offset: u64, count: u64) -> Result<Vec<ContentPiece>> {
        self.inner.content(id, offset, count)
    }

    /// Where the next data of a file is behind `offset`, or at it; the size of the file where there is none. It may block.
    ///
    /// # Errors
    /// As [`Store::content`].
    pub fn hole_end(&self, id: ObjectId, offset: u64) -> Result<u64> {
        self.inner.hole_end(id, offset)
    }

    /// Takes over part of the content of a file, clipped at the size in its row. It is stable on return.
    /// Many of these at once share their trips to the disk. Neither the version nor a time of
    /// the file changes.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] for what does not exist; [`vfs::Error::NoSpace`]; [`vfs::Error::Io`].
    pub async fn put_content(&self, id: ObjectId, piece: ContentPiece) -> Result<()> {
        self.inner.put_content(id, piece).await
    }

    /// Returns when the content of a file, as it is now, is on stable storage.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn make_content_stable(&self, id: ObjectId) -> Result<()> {
        let released = self.inner.stabilise(id).await?;
        self.wait_stable(released).await
    }

    /// Returns when everything that was changed so far is on stable storage.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_all_stable(&self) -> Result<()> {
        self.wait_stable(self.inner.commits.committed()).await
    }

    /// Takes up the locks and denials that stood when the store was closed, at whichever replica they were taken. To
    /// be called once, before anything is changed, where there are other replicas: without them clients say after
    /// a restart what they hold.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub async fn take_up_held(&self) -> Result<()> {
        self.inner.take_up_held().await
    }

    /// Changes rows that only this copy keeps, for those above the store: each a key of 1 to 64 bytes and
    /// a value, or `None` for a row to remove. All of one call happen together; calls in order.
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] for a key too long; [`vfs::Error::Io`] when storage fails.
    pub async fn put_facts(&self, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<Ticket> {
        self.inner.put_facts(rows).await
    }

    /// The rows of [`Store::put_facts`] whose keys start with `prefix`, in the order of keys.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn facts(&self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        self.inner.facts(prefix)
    }

    /// Says that all content of a file has come, and is stable here, that belongs to updates of a primary's stream
    /// up to a position; the primary says so. Cheap where nothing is missing. It becomes stable with whatever
    /// comes next, so a crash may forget it.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn note_complete(
        &self,
        file: ObjectId,
        from: ReplicaSlot,
        position: u64,
    ) -> Result<()> {
        self.inner.note_complete(file, from, position).await
    }

    /// The files that lack data of this primary, see [`ForeignUpdate::incomplete`]: each with the position in its
    /// stream through which all content is here, and that of the last update whose content may be missing.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn incomplete_files(&self, from: ReplicaSlot) -> Result<Vec<(ObjectId, u64, u64)>> {
        self.inner.incomplete_files(from)
    }

    /// Whether data of a file is missing here, so that it must not be served. A file that lost its last name like
    /// that stays so.
    #[must_use]
    pub fn is_incomplete(&self, file: ObjectId) -> bool {
        self.inner.incomplete.contains(file) || self.inner.unfetched.contains(file)
    }

    /// The primaries whose data of a file is missing here. A crash may have forgotten that it came.
    #[must_use]
    pub fn lacks_data_of(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        self.inner.incomplete.primaries(file)
    }

    /// Whether all data of a file is to be fetched, see [`Store::files_to_fetch`].
    #[must_use]
    pub fn is_to_fetch(&self, file: ObjectId) -> bool {
        self.inner.unfetched.contains(file)
    }

    /// Files whose data has changed under an update record since [`Store::forget_unshipped`].
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn unshipped(&self) -> Result<Vec<ObjectId>> {
        self.inner.unshipped_files()
    }

    /// Takes files off the list of [`Store::unshipped`] of which `shipped` says that every replica has their
    /// data. It is asked while nobody can change them, with the writer's lock held, like a [`CommitHook`], and
    /// must not wait.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn forget_unshipped(
        &self,
        ids: &[ObjectId],
        shipped: &mut (dyn FnMut(ObjectId) -> bool + Send),
    ) -> Result<()> {
        self.inner.forget_unshipped(ids, shipped).await
    }

    /// Files whose unstable data a crash of this copy may have lost, and whose version no longer says what
    /// their data is. Each stays on the list until [`Store::renew`] or its removal.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn recovered(&self) -> Result<Vec<ObjectId>> {
        self.inner.recovered()
    }

    /// Gives such a file a new version, which is a [`crate::Change::Data`] like any other and marks all
    /// of its data as unshipped; one that is gone is taken off the list.
    ///
    /// # Errors
    /// What the commit hook returns; [`vfs::Error::Io`] when storage fails.
    pub async fn renew(&self, id: ObjectId) -> Result<()> {
        self.inner.renew(id).await
    }

    /// Tells of files whose locks or denials were released or replaced by an applied update, so that who
    /// waits for them can ask again.
    #[must_use]
    pub fn lock_changes(&self) -> broadcast::Receiver<ObjectId> {
        self.inner.lock_changes.subscribe()
    }

    /// The replica that removed a file which lives on here because it is, or may be, open; its home. `None` for all that has a
    /// name, and for what is not here.
    #[must_use]
    pub fn orphan_home(&self, file: ObjectId) -> Option<ReplicaSlot> {
        self.inner.orphans.home(file)
    }

    /// All files that live on here without a name, with their homes.
    #[must_use]
    pub fn orphans(&self) -> Vec<(ObjectId, ReplicaSlot)> {
        self.inner.orphans.all()
    }

    /// Those that clients of this replica have open, or may yet reclaim, no matter who removed them;
    /// and the [`Store::orphans_version`] that this has at least.
    #[must_use]
    pub fn orphans_held(&self) -> (u64, Vec<ObjectId>) {
        self.inner.orphans_held()
    }

    /// Counts what may change which such files clients of this replica have open, since the store was opened, from 1 on.
    /// What an update changes is counted when it has been applied.
    #[must_use]
    pub fn orphans_version(&self) -> u64 {
        self.inner.orphans.version()
    }

    /// Changes with whatever may change the answers of [`Store::orphans`] and [`Store::orphans_held`].
    #[must_use]
    pub fn orphan_changes(&self) -> watch::Receiver<u64> {
        self.inner.orphans.changes()
    }

    /// Lets files without a name go that no other replica has open: those that are not open here, and that nobody may
    /// reclaim here.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn bury(&self, files: &[ObjectId]) -> Result<()> {
        self.inner.bury(files).await
    }

    /// Registers an open that denies nothing and whose permission another replica decides about, before it does so. From
    /// here on a removal that is applied keeps the file for it; of the file itself nothing need be here yet. Returns
    /// what the owner had open before, for [`Store::take_back_open`].
    ///
    /// # Errors
    /// [`vfs::Error::ShareDenied`] and [`vfs::Error::Delay`] as of [`vfs::FileSystem::open`].
    pub fn register_open(
        &self,
        file: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Option<Share>> {
        self.inner.register_open(file, owner, share)
    }

    /// Undoes [`Store::register_open`]: the open was refused.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn take_back_open(
        &self,
        file: ObjectId,
        owner: &OpenOwner,
        before: Option<Share>,
    ) -> Result<()> {
        self.inner.take_back_open(file, owner, before).await
    }

    /// A copy of all rows that replicas keep, as they are at one moment. It tells also which files are abandoned or
    /// lack data of others here, and so will where the copy goes.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub async fn base(&self) -> Result<BaseScan> {
        self.inner.base().await
    }

    /// Whether the store holds a whole tree.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn base_state(&self) -> Result<BaseState> {
        self.inner.base_state()
    }

    /// Begins to take over the tree of another replica, on a store that holds nothing but its root or what
    /// an unfinished attempt left. Until [`Store::finish_base`] nobody else may use the store.
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] when the store holds a tree of its own, or data files of one;
    /// [`vfs::Error::Io`].
    pub async fn begin_base(&self) -> Result<()> {
        self.inner.begin_base().await
    }

    /// The same on a store that holds a tree, which the other replica's takes the place of: an old or a diverged
    /// copy of it, or one that an unfinished attempt left. Data files stay, and what version of a file each
    /// holds is remembered. Own update records go, and so do files that were open here without a name.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails. The attempt can be begun again.
    pub async fn begin_resync(&self) -> Result<()> {
        self.inner.begin_resync().await
    }

    /// After [`Store::begin_resync`] and [`Store::finish_base`], in the order of identifiers: the files whose content
    /// is to be fetched from another replica, with [`Store::put_content`]. Until then they are incomplete.
    /// All other files have the content that belongs to their new rows.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn files_to_fetch(&self) -> Result<Vec<ObjectId>> {
        self.inner.files_to_fetch()
    }

    /// Takes files off that list, whose content is stable here. It becomes stable with whatever comes next, so a
    /// crash may put them back.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn note_fetched(&self, files: &[ObjectId]) -> Result<()> {
        self.inner.note_fetched(files).await
    }

    /// Takes over one page of a [`BaseScan`].
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] when nothing was begun, or for rows that cannot be;
    /// [`vfs::Error::NoSpace`]; [`vfs::Error::Io`].
    pub async fn install_base(&self, rows: Vec<RowChange>) -> Result<()> {
        self.inner.install_base(rows).await
    }

    /// Ends what [`Store::begin_base`] or [`Store::begin_resync`] began: from here on the store is a replica that has applied the
    /// given positions. It is stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] when nothing was begun; [`vfs::Error::Io`].
    pub async fn finish_base(&self, positions: Vec<(ReplicaSlot, u64)>) -> Result<()> {
        self.inner.finish_base(positions).await
    }

    /// The size of an object in bytes, as its row has it; of anything but a file it says nothing.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] for what does not exist; [`vfs::Error::Io`].
    pub fn file_size(&self, id: ObjectId) -> Result<u64> {
        Ok(self.inner.object(id)?.size)
    }

    /// The bytes that the content of a file takes on the disk here, as its row has it.
    ///
    /// # Errors
    /// As [`Store::file_size`].
    pub fn file_space(&self, id: ObjectId) -> Result<u64> {
        Ok(self.inner.object(id)?.space_used)
    }

    /// Regular files behind `after` in the order of identifiers with their sizes, at most `count`.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn files(&self, after: Option<ObjectId>, count: usize) -> Result<Vec<(ObjectId, u64)>> {
        self.inner.files_after(after, count)
    }
}
