//! The replication interface of a store, besides the records of its own changes: changes of other replicas, the bytes
//! that belong to them, rows that only this copy keeps, and a copy of everything for a new replica.
//!
//! What must never enter: who may change what, who is connected, and how data travels.

mod ancestry;
mod apply;
mod base;
mod facts;
mod foreign_row;
mod held;
mod incomplete;
mod mark;
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
use vfs::{Extent, ObjectId, ReplicaSlot, Result, WriteVerifier};

pub use base::{BasePlace, BaseScan, BaseState};
pub(crate) use incomplete::Incomplete;
pub use mark::VersionBefore;
pub use merging::MergedRows;
pub use torn::Fate;
pub(crate) use unshipped::MarkedFiles;

use crate::committer::Ticket;
use crate::open_store::OpenStore;
use crate::recording::RowChange;

/// The part of [`crate::decode_as_anything`] for marks and remembered contents.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = mark::Mark::decode(bytes);
    let _ = resync::Remembered::decode(bytes);
}

/// One update that another replica made as the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignUpdate {
    /// The replica whose stream of updates contains it.
    pub from: ReplicaSlot,
    /// Its position in that stream; later updates have larger ones.
    pub position: u64,
    /// The rows as they are after the update.
    pub changes: Vec<RowChange>,
    /// The files whose data the update changes and whose content comes separately.
    pub incomplete: Vec<ObjectId>,
}

/// A name that appears or disappears, seen from the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The object that has the name.
    pub object: ObjectId,
    /// The directory that holds the name.
    pub parent: ObjectId,
    /// Whether the name appears.
    pub added: bool,
}

/// Part of the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPiece {
    /// Bytes.
    Data {
        /// The offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// A hole: nothing is stored there, it reads as zeros.
    Hole(Extent),
}

/// Decides about an update that is being applied. Gets the names that appear and disappear, and the closure
/// that commits the update.
pub type BeforeCommit<'o> =
    dyn FnMut(&[LinkChange], &mut dyn FnMut() -> Result<()>) -> Result<()> + Send + 'o;

impl OpenStore {
    /// From here on changes are recorded for other replicas. Every operation that makes changes needs a [`crate::CommitHook`], see
    /// [`crate::Store::with_hook`], and fails without one.
    ///
    /// `keeps_removed` says whether clients of other replicas may have a file open when it loses its last name here. Then the file is
    /// kept without a name until [`crate::OpenStore::bury`]. Call this again whenever that changes.
    pub fn replicate(&self, keeps_removed: bool) {
        let known = self.keeps_removed.get_or_init(AtomicBool::default);
        known.store(keeps_removed, Ordering::Release);
    }

    /// The position up to which every record of this store is stable; no lower record will still appear.
    #[must_use]
    pub fn stable_position(&self) -> watch::Receiver<u64> {
        self.commits.stable_position()
    }

    /// Returns when everything up to this ticket is stable.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_stable(&self, ticket: Ticket) -> Result<()> {
        self.commits.wait(ticket, &self.health).await
    }

    /// Returns when everything that was committed until now is stable.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_committed(&self) -> Result<()> {
        self.wait_stable(self.commits.committed()).await
    }

    /// The same, without requesting a flush: within a second.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_committed_lazily(&self) -> Result<()> {
        self.wait_stable_lazily(self.commits.committed()).await
    }

    /// Like [`Self::wait_stable`], without requesting a flush: the ticket becomes stable with the next flush that another task requests, or
    /// within a second.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_stable_lazily(&self, ticket: Ticket) -> Result<()> {
        let store = self;
        store.commits.wait_lazily(ticket, &store.health).await
    }

    /// Returns when the content of a file is stable, as read since [`OpenStore::verifier`] returned `since`.
    ///
    /// # Errors
    /// [`vfs::Error::Delay`] when some of it may have been lost since then; [`vfs::Error::Io`] when storage fails.
    pub async fn make_content_stable(
        self: &Arc<Self>,
        id: ObjectId,
        since: WriteVerifier,
    ) -> Result<()> {
        let released = self.stabilise_sent(id, since).await?;
        self.wait_stable(released).await
    }

    /// Returns when all changes so far are stable.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn wait_all_stable(&self) -> Result<()> {
        self.wait_stable(self.commits.committed()).await
    }

    /// Whether data of a file is missing here, so that it must not be served. A file that loses its last name in this
    /// state stays incomplete.
    #[must_use]
    pub fn is_incomplete(&self, file: ObjectId) -> bool {
        self.incomplete.contains(file) || self.unfetched.contains(file)
    }

    /// The primaries whose data of a file is missing here. After a crash the list may name data that has already arrived.
    #[must_use]
    pub fn lacks_data_of(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        self.incomplete.primaries(file)
    }

    /// Whether all data of a file is to be fetched, see [`crate::OpenStore::files_to_fetch`].
    #[must_use]
    pub fn is_to_fetch(&self, file: ObjectId) -> bool {
        self.unfetched.contains(file)
    }

    /// Reports files whose locks or denials an applied update released or replaced, so that
    /// waiting clients can be told to retry.
    #[must_use]
    pub fn lock_changes(&self) -> broadcast::Receiver<ObjectId> {
        self.lock_changes.subscribe()
    }

    /// The home of a removed file that still exists here because it is, or may be, open: the replica that removed it. `None` for objects
    /// with a name, and for objects that are not here.
    #[must_use]
    pub fn orphan_home(&self, file: ObjectId) -> Option<ReplicaSlot> {
        self.orphans.home(file)
    }

    /// Whether this copy decides about a file that exists here without a name: its home is this replica, or its home is lost.
    #[must_use]
    pub fn orphan_is_here(&self, file: ObjectId) -> bool {
        self.orphans.home(file) == Some(self.slot) || self.orphans.is_alone(file)
    }

    /// All files that exist here without a name, with their homes.
    #[must_use]
    pub fn orphans(&self) -> Vec<(ObjectId, ReplicaSlot)> {
        self.orphans.all()
    }

    /// Counts events that may change which of these files clients of this replica have open, since the store was opened; starts at 1.
    /// A change by an update is counted after the update has been applied.
    #[must_use]
    pub fn orphans_version(&self) -> u64 {
        self.orphans.version()
    }

    /// Changes whenever the answers of [`crate::OpenStore::orphans`] and [`crate::OpenStore::orphans_held`] may change.
    #[must_use]
    pub fn orphan_changes(&self) -> watch::Receiver<u64> {
        self.orphans.changes()
    }

    /// The size in bytes in the row of an object; meaningless for anything but a file.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] if the object does not exist; [`vfs::Error::Io`].
    pub fn file_size(&self, id: ObjectId) -> Result<u64> {
        Ok(self.object(id)?.size)
    }

    /// The bytes that the content of a file takes on the disk here, according to its row.
    ///
    /// # Errors
    /// As [`crate::OpenStore::file_size`].
    pub fn file_space(&self, id: ObjectId) -> Result<u64> {
        Ok(self.object(id)?.space_used)
    }
}
