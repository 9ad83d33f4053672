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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use vfs::{Extent, ObjectId, ReplicaSlot, Result};

pub use base::{BasePlace, BaseScan, BaseState};
pub(crate) use incomplete::Incomplete;
pub use merging::MergedRows;
pub(crate) use unshipped::MarkedFiles;

use crate::committer::Ticket;
use crate::open_store::OpenStore;
use crate::recording::RowChange;

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

impl OpenStore {
    /// Has changes recorded for other replicas from here on. Every operation that makes some needs a [`crate::CommitHook`], see
    /// [`crate::Store::with_hook`], and fails without one.
    ///
    /// `keeps_removed` says whether clients of other replicas may have a file open that loses its last name here; then it is
    /// kept without one until [`crate::OpenStore::bury`]. Called again whenever that changes.
    pub fn replicate(&self, keeps_removed: bool) {
        let known = self.keeps_removed.get_or_init(AtomicBool::default);
        known.store(keeps_removed, Ordering::Release);
    }

    /// The position up to which every record of this store is stable; none below will still appear.
    #[must_use]
    pub fn stable_position(&self) -> watch::Receiver<u64> {
        self.commits.stable_position()
    }

    /// Returns when everything up to this ticket is on stable storage.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_stable(&self, ticket: Ticket) -> Result<()> {
        self.commits.wait(ticket, &self.health).await
    }

    /// The same without asking for it: the ticket becomes stable together with what others ask for, or
    /// within a second.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_stable_lazily(&self, ticket: Ticket) -> Result<()> {
        let store = self;
        store.commits.wait_lazily(ticket, &store.health).await
    }

    /// Returns when the content of a file, as it is now, is on stable storage.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn make_content_stable(self: &Arc<Self>, id: ObjectId) -> Result<()> {
        let released = self.stabilise(id).await?;
        self.wait_stable(released).await
    }

    /// Returns when everything that was changed so far is on stable storage.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_all_stable(&self) -> Result<()> {
        self.wait_stable(self.commits.committed()).await
    }

    /// Whether data of a file is missing here, so that it must not be served. A file that lost its last name like
    /// that stays so.
    #[must_use]
    pub fn is_incomplete(&self, file: ObjectId) -> bool {
        self.incomplete.contains(file) || self.unfetched.contains(file)
    }

    /// The primaries whose data of a file is missing here. A crash may have forgotten that it came.
    #[must_use]
    pub fn lacks_data_of(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        self.incomplete.primaries(file)
    }

    /// Whether all data of a file is to be fetched, see [`crate::OpenStore::files_to_fetch`].
    #[must_use]
    pub fn is_to_fetch(&self, file: ObjectId) -> bool {
        self.unfetched.contains(file)
    }

    /// Tells of files whose locks or denials were released or replaced by an applied update, so that who
    /// waits for them can ask again.
    #[must_use]
    pub fn lock_changes(&self) -> broadcast::Receiver<ObjectId> {
        self.lock_changes.subscribe()
    }

    /// The replica that removed a file which lives on here because it is, or may be, open; its home. `None` for all that has a
    /// name, and for what is not here.
    #[must_use]
    pub fn orphan_home(&self, file: ObjectId) -> Option<ReplicaSlot> {
        self.orphans.home(file)
    }

    /// Whether the own copy decides about a file that lives on here without a name: it is at home here, or has lost its home.
    #[must_use]
    pub fn orphan_is_here(&self, file: ObjectId) -> bool {
        self.orphans.home(file) == Some(self.slot) || self.orphans.is_alone(file)
    }

    /// All files that live on here without a name, with their homes.
    #[must_use]
    pub fn orphans(&self) -> Vec<(ObjectId, ReplicaSlot)> {
        self.orphans.all()
    }

    /// Counts what may change which such files clients of this replica have open, since the store was opened, from 1 on.
    /// What an update changes is counted when it has been applied.
    #[must_use]
    pub fn orphans_version(&self) -> u64 {
        self.orphans.version()
    }

    /// Changes with whatever may change the answers of [`crate::OpenStore::orphans`] and [`crate::OpenStore::orphans_held`].
    #[must_use]
    pub fn orphan_changes(&self) -> watch::Receiver<u64> {
        self.orphans.changes()
    }

    /// The size of an object in bytes, as its row has it; of anything but a file it says nothing.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] for what does not exist; [`vfs::Error::Io`].
    pub fn file_size(&self, id: ObjectId) -> Result<u64> {
        Ok(self.object(id)?.size)
    }

    /// The bytes that the content of a file takes on the disk here, as its row has it.
    ///
    /// # Errors
    /// As [`crate::OpenStore::file_size`].
    pub fn file_space(&self, id: ObjectId) -> Result<u64> {
        Ok(self.object(id)?.space_used)
    }
}
