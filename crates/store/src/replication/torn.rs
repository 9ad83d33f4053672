//! Files of which a lost primary had sent only a part, once it is decided not to wait for the rest.
//!
//! Until then the file is marked as lacking data of that primary (`incomplete`). The decision turns the mark into one
//! without a primary: the file is *abandoned* and can be neither read nor written until one of the replicas
//! adopts it. That replica gives the file a new version, which all others take over like any other version: the version before, if
//! all its data was there, or else the data that is there, with the file marked as *torn* in its row. A torn file cannot be read.
//!
//! What must never enter: who decides, and who adopts.

use std::sync::Arc;

use vfs::{AccessCheck, Credentials, Error, ObjectId, ReplicaSlot, Result, SetAttributes};

use super::incomplete::NOBODY;
use super::mark::{Mark, VersionBefore};
use crate::commit_hook::Change;
use crate::counters::Sequence;
use crate::data::Reason;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::rows::key;

/// The prefix of the key of the row that records which decisions have been carried out; a replica's slot follows.
const DECIDED: &[u8] = b"abandoned";

/// More versions than a lost replica can have shown its clients beyond those it had sent.
const SKIPPED_VERSIONS: u64 = 1 << 30;

/// The error text for reads of a torn file.
const TORN: &str = "part of this file was lost with a server: restore it from elsewhere, or truncate it; see the alarm `torn-files`";

/// What becomes of an abandoned file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The version before, of this size, which is here as a whole.
    Before(u64),
    /// What is here: it includes everything that was acknowledged.
    AsItIs,
    /// What is here, but nobody may read it: its state is unknown.
    Torn,
}

impl OpenStore {
    /// Abandoned files that are still to be adopted as far as this replica knows, in the order of identifiers. Each with what is here of the version
    /// before.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage has failed.
    pub fn abandoned(&self) -> Result<Vec<(ObjectId, VersionBefore)>> {
        self.health.check()?;
        let marks = self.incomplete.of_primary(NOBODY).into_iter();
        let marks = marks.filter(|(file, _)| self.is_to_be_adopted(*file));
        Ok(marks.map(|(file, mark)| (file, mark.before)).collect())
    }

    /// Whether a file is abandoned, so that it can be neither read nor written yet.
    #[must_use]
    pub fn is_abandoned(&self, file: ObjectId) -> bool {
        self.incomplete.mark((file, NOBODY)).is_some()
    }

    /// Whether an abandoned file can be adopted here. It cannot if it has a later version, of which another replica's data is on its way, or if other
    /// data has given way.
    #[must_use]
    pub fn is_to_be_adopted(&self, file: ObjectId) -> bool {
        let Some(abandoned) = self.incomplete.mark((file, NOBODY)) else {
            return false;
        };
        let others = self.incomplete.of_others(file);
        (others.iter()).all(|mark| !mark.given_way && mark.version <= abandoned.marked_at)
    }

    /// The torn files, in the order of identifiers.
    #[must_use]
    pub fn torn(&self) -> Vec<ObjectId> {
        self.torn.all()
    }

    /// Whether a file is torn.
    #[must_use]
    pub fn is_torn(&self, file: ObjectId) -> bool {
        self.torn.contains(file)
    }

    /// The size up to which the data of a file is that of the version before the one whose data is missing, if
    /// nothing of the missing data has arrived; see [`crate::OpenStore::incomplete_files`].
    #[must_use]
    pub fn whole_before(&self, file: ObjectId, from: ReplicaSlot) -> Option<u64> {
        self.incomplete.whole((file, from))
    }

    /// The data of a file that lacks data of a lost primary was replaced by that of another replica. `whole` is that replica's answer
    /// to [`crate::OpenStore::whole_before`].
    pub fn note_level(&self, file: ObjectId, lost: ReplicaSlot, whole: Option<u64>) {
        self.incomplete.restored((file, lost), whole);
    }
}

impl OpenStore {
    /// Carries out the decision to continue without data that only a lost primary has. Files that lack its data are abandoned, and
    /// versions made here from now on differ from all versions that it may have shown. Takes effect once for each decision;
    /// decision numbers grow. Stable on return.
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
            // In this mark the position is the version that must be exceeded, not a place in a stream.
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
    /// Gives an abandoned file a new version. The change is an ordinary [`crate::Change::Data`] that marks all data as unshipped. A torn file cannot be
    /// read anywhere until it is truncated to nothing.
    ///
    /// # Errors
    /// [`vfs::Error::Delay`] if another replica has adopted it meanwhile; errors of the commit hook; [`vfs::Error::Io`] when storage fails.
    pub async fn adopt(&self, file: ObjectId, fate: Fate) -> Result<()> {
        if let Fate::Before(size) = fate
            && self.object(file).is_ok_and(|row| row.size != size)
        {
            let access = AccessCheck::Open(&Credentials::root()).into();
            let none = SetAttributes::default();
            let cut = move |operation: Operation| {
                operation.resize(access, file, none, size, Reason::Adopted)
            };
            return self.change_data(file, cut).await.map(|_| ());
        }
        let mut mutation = self.begin_maintenance().await?;
        self.adopted(&mut mutation, file, fate)?;
        let touched = match mutation.touched(file) {
            Err(Error::Stale) => return mutation.commit_local().map(|_| ()),
            touched => touched?,
        };
        mutation.touch(file, Touch::Content)?;
        mutation.object_mut(file)?.file_mut()?.torn |= fate == Fate::Torn;
        mutation.change_data(file);
        let ticket = mutation.commit(&Change::Data(touched))?;
        self.settle(ticket).await
    }
}

impl OpenStore {
    /// Removes the mark of an abandoned file in the batch of its new version, unless another replica has given it one, or it was abandoned again with
    /// another state since its fate was looked at.
    pub(crate) fn adopted(
        &self,
        mutation: &mut Mutation<'_>,
        file: ObjectId,
        fate: Fate,
    ) -> Result<()> {
        let before = match fate {
            Fate::Before(size) => Some(size),
            Fate::AsItIs | Fate::Torn => None,
        };
        let is_so = before.is_none() || self.incomplete.whole((file, NOBODY)) == before;
        if !is_so || !self.is_to_be_adopted(file) {
            return Err(Error::Delay);
        }
        self.unmark_abandoned(mutation, file);
        if before.is_some()
            && let Ok(row) = mutation.object_mut(file)
        {
            // An earlier adoption may have made it torn, and be lost itself before any of its data came.
            row.file_mut()?.torn = false;
        }
        Ok(())
    }

    /// Called when all data of one primary is here. If its version is later than the abandoned one, that replica has adopted the file.
    pub(super) fn settle_abandoned(
        &self,
        mutation: &mut Mutation<'_>,
        (file, from): (ObjectId, ReplicaSlot),
    ) -> Result<()> {
        let Some(mark) = self.incomplete.mark((file, NOBODY)) else {
            return Ok(());
        };
        // Other changes of the row, of its mode for example, are no adoption.
        let is_adopted = (self.incomplete.mark((file, from)))
            .is_some_and(|completed| completed.version > mark.marked_at);
        match mutation.object(file) {
            Ok(_) if !is_adopted => Ok(()),
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
