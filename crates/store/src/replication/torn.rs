//! Files of which a lost primary had sent a part, once it is decided that nobody waits for the rest.
//!
//! Until then the file is marked as lacking data of that primary (`incomplete`). The decision turns the mark into one
//! that names nobody: the file is *abandoned*, and neither read nor written, until one of the replicas
//! adopts it. That one gives it a new version, which all others take over like any other: the version before, if all of
//! that was there, or else what there is, with the file marked as *torn* in its row. A torn file cannot be read.
//!
//! What must never enter: who decides, and who adopts.

use std::sync::Arc;

use vfs::{Error, ObjectId, ReplicaSlot, Result};

use super::incomplete::{Mark, NOBODY};
use crate::commit_hook::Change;
use crate::counters::Sequence;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::rows::key;

/// The key of the row that says which decisions have been carried out, before a replica's slot.
const DECIDED: &[u8] = b"abandoned";

/// More versions than a lost replica can have shown its clients beyond what it had sent.
const SKIPPED_VERSIONS: u64 = 1 << 30;

/// What is known of a torn file that cannot be read.
const TORN: &str = "part of this file was lost with a server: restore it from elsewhere, or truncate it; see the alarm `torn-files`";

impl OpenStore {
    /// Abandoned files that nobody has adopted as far as this replica knows, in the order of identifiers; each with the size up
    /// to which its data is that of the version before, if nothing of the missing data had come.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage has failed.
    pub fn abandoned(&self) -> Result<Vec<(ObjectId, Option<u64>)>> {
        self.health.check()?;
        let marks = self.incomplete.of_primary(NOBODY).into_iter();
        Ok(marks.map(|(file, mark)| (file, mark.whole)).collect())
    }

    /// Whether a file is abandoned, so that it can be neither read nor written yet.
    #[must_use]
    pub fn is_abandoned(&self, file: ObjectId) -> bool {
        self.incomplete.mark((file, NOBODY)).is_some()
    }

    /// The torn files, in the order of identifiers.
    #[must_use]
    pub fn torn(&self) -> Vec<ObjectId> {
        self.torn.all()
    }

    /// Whether a file is one of those.
    #[must_use]
    pub fn is_torn(&self, file: ObjectId) -> bool {
        self.torn.contains(file)
    }

    /// The size up to which the data of a file is that of the version before the one whose data is missing, when
    /// nothing of the missing data has come; see [`crate::OpenStore::incomplete_files`].
    #[must_use]
    pub fn whole_before(&self, file: ObjectId, from: ReplicaSlot) -> Option<u64> {
        self.incomplete.whole((file, from))
    }

    /// All data of a file that lacks some of a lost primary's is now that of another replica, which says as in
    /// [`crate::OpenStore::whole_before`] what that is.
    pub fn note_level(&self, file: ObjectId, lost: ReplicaSlot, whole: Option<u64>) {
        self.incomplete.restored((file, lost), whole);
    }
}

impl OpenStore {
    /// It is decided to go on without what a lost primary alone has: files that lack data of it are abandoned, and
    /// versions made here from now on are none that it may have shown anybody. Once for each decision, whose
    /// numbers grow. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn abandon(self: &Arc<Self>, lost: ReplicaSlot, decision: u64) -> Result<()> {
        let row = [DECIDED, &lost.0.to_be_bytes()].concat();
        let known = self.metadata.row(Table::System, &row)?;
        let known = known.map_or(Ok(0), |known| key::parse_number(&known))?;
        if decision <= known {
            return Ok(());
        }
        let mut mutation = self.begin_maintenance().await?;
        mutation.put_local(Table::System, &row, &key::number(decision));
        for (file, mark) in self.incomplete.of_primary(lost) {
            let change = match mutation.object(file) {
                Ok(row) => row.change.0,
                Err(Error::Stale) => continue,
                Err(error) => return Err(error),
            };
            // Here the mark waits for a later version, not for a place in a stream.
            let abandoned = Mark {
                complete_through: 0,
                marked_at: change,
                given_way: false,
                ..mark
            };
            let of = (file, lost);
            mutation.remove_local(Table::Incomplete, &key::incomplete(of));
            let row = abandoned.encode();
            mutation.put_local(Table::Incomplete, &key::incomplete((file, NOBODY)), &row);
            mutation.then(move |store, _| {
                store.incomplete.set(of, None);
                store.incomplete.set((file, NOBODY), Some(abandoned));
            });
        }
        let last = mutation.last(Sequence::Changes);
        mutation.raise(Sequence::Changes, last.saturating_add(SKIPPED_VERSIONS));
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await
    }
}

impl Operation {
    /// Gives an abandoned file a new version with the data that is here, as a [`crate::Change::Data`] like any other that
    /// marks all of it as unshipped. As `torn` it cannot be read anywhere, until it is truncated to nothing.
    ///
    /// # Errors
    /// What the commit hook returns; [`vfs::Error::Io`] when storage fails.
    pub async fn adopt(&self, file: ObjectId, torn: bool) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        self.unmark_abandoned(&mut mutation, file);
        let touched = match mutation.touched(file) {
            Err(Error::Stale) => return mutation.commit_local().map(|_| ()),
            touched => touched?,
        };
        mutation.touch(file, Touch::Content)?;
        mutation.object_mut(file)?.file_mut()?.torn |= torn;
        mutation.change_data(file);
        let ticket = mutation.commit(&Change::Data(touched))?;
        self.settle(ticket).await
    }
}

impl OpenStore {
    /// All data of a file's version is here: if that is a later one than was abandoned, somebody has adopted it.
    pub(super) fn settle_abandoned(
        &self,
        mutation: &mut Mutation<'_>,
        (file, from): (ObjectId, ReplicaSlot),
    ) -> Result<()> {
        let Some(mark) = self.incomplete.mark((file, NOBODY)) else {
            return Ok(());
        };
        let primaries = self.incomplete.primaries(file).into_iter();
        let mut others = primaries.filter(|slot| *slot != NOBODY && *slot != from);
        if others.next().is_some() {
            return Ok(());
        }
        match mutation.object(file) {
            Ok(row) if row.change.0 <= mark.marked_at => Ok(()),
            Ok(_) | Err(Error::Stale) => {
                self.unmark_abandoned(mutation, file);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn unmark_abandoned(&self, mutation: &mut Mutation<'_>, file: ObjectId) {
        let of = (file, NOBODY);
        mutation.remove_local(Table::Incomplete, &key::incomplete(of));
        mutation.then(move |store, _| store.incomplete.set(of, None));
    }

    /// Refuses to read a torn file.
    pub(crate) fn check_untorn(&self, id: ObjectId) -> Result<()> {
        match self.torn.contains(id) {
            true => Err(Error::Io(TORN.into())),
            false => Ok(()),
        }
    }
}
