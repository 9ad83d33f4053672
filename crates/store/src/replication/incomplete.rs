//! Which files lack data that another primary has and that has not arrived yet.
//!
//! A mark names the primary whose data is missing. It is in the same batch as the update that reports the data
//! change. The table is authoritative; memory holds a copy, because every read looks at it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::{Error, ObjectId, ReplicaSlot, Result};

use super::mark::{Mark, VersionBefore};
use crate::metadata::{Metadata, MetadataError, Table};
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::rows::key;

/// Stands for the primary in marks of abandoned files. No replica has this slot.
pub(super) const NOBODY: ReplicaSlot = ReplicaSlot(u16::MAX);

type Of = (ObjectId, ReplicaSlot);

#[derive(Debug, Default)]
struct Marks {
    missing: BTreeMap<Of, Mark>,
    /// Positions that have become complete and are not written yet; only of marked files.
    arrived: BTreeMap<Of, u64>,
    /// Files whose data is that of a later stream position than the rows.
    ahead: BTreeMap<Of, u64>,
}

/// The marked files.
#[derive(Debug, Default)]
pub(crate) struct Incomplete(Mutex<Marks>);

impl Incomplete {
    pub(crate) fn load(metadata: &Metadata) -> std::result::Result<Incomplete, MetadataError> {
        let mut marks = Marks::default();
        for row in metadata.view().scan(Table::Incomplete, &[], &[]) {
            let row = row?;
            let of = key::parse_incomplete(row.key())?;
            let object = metadata.view().row(Table::Objects, &key::object(of.0))?;
            if object.is_none() {
                // It came with a copy of an earlier version, and would be passed on. `meridian check` removes it.
                continue;
            }
            marks.missing.insert(of, Mark::decode(row.value())?);
        }
        Ok(Incomplete(Mutex::new(marks)))
    }

    pub(crate) fn contains(&self, file: ObjectId) -> bool {
        !self.marks().of(file).is_empty()
    }

    /// The primaries whose data of a file is missing.
    pub(crate) fn primaries(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        self.marks().of(file)
    }

    /// Up to this size the data is that of the version before the marked one; `None` if unknown or
    /// if nothing is missing.
    pub(super) fn whole(&self, of: Of) -> Option<u64> {
        match self.marks().missing.get(&of)?.before {
            VersionBefore::Whole(size) => Some(size),
            VersionBefore::Partial | VersionBefore::Unknown => None,
        }
    }

    /// Data that another replica sent is about to change the file.
    pub(crate) fn touched(&self, file: ObjectId) {
        let mut marks = self.marks();
        let of_file = marks.missing.range_mut(all_of(file));
        for ((_, slot), mark) in of_file {
            // What is unknown stays so: a copy is taken in, or the store was opened since. An abandoned file gets data of others.
            mark.before = match mark.before {
                VersionBefore::Whole(_) if *slot == NOBODY => VersionBefore::Unknown,
                VersionBefore::Whole(_) => VersionBefore::Partial,
                before => before,
            };
        }
    }

    /// Whether it is unknown what is here of a version before one of which data is missing.
    fn has_unknown(&self, file: ObjectId) -> bool {
        let marks = self.marks();
        let mut of_file = marks.missing.range(all_of(file));
        of_file.any(|(_, mark)| mark.before == VersionBefore::Unknown)
    }

    /// The marks of a file besides the one that it is abandoned.
    pub(super) fn of_others(&self, file: ObjectId) -> Vec<Mark> {
        let marks = self.marks();
        let of_file = marks.missing.range(all_of(file));
        let others = of_file.filter(|((_, slot), _)| *slot != NOBODY);
        others.map(|(_, mark)| *mark).collect()
    }

    /// All data of the version before is here again, up to this size: a replica that has it sent it.
    pub(super) fn restored(&self, of: Of, whole: Option<u64>) {
        if let Some(mark) = self.marks().missing.get_mut(&of) {
            // Without an answer, that replica has part of the missing data, or does not know.
            mark.before = whole.map_or(VersionBefore::Unknown, VersionBefore::Whole);
        }
    }

    /// The object is gone.
    pub(crate) fn forget(&self, file: ObjectId) {
        let mut marks = self.marks();
        for slot in marks.of(file) {
            marks.missing.remove(&(file, slot));
            marks.arrived.remove(&(file, slot));
        }
    }

    /// Removes all marks.
    pub(crate) fn clear(&self) {
        *self.marks() = Marks::default();
    }

    pub(super) fn mark(&self, of: Of) -> Option<Mark> {
        self.marks().missing.get(&of).copied()
    }

    /// All marks, each with the file and the primary whose data it lacks.
    pub(super) fn all(&self) -> Vec<(Of, Mark)> {
        let marks = self.marks();
        marks
            .missing
            .iter()
            .map(|(of, mark)| (*of, *mark))
            .collect()
    }

    /// The files that lack data of one primary.
    pub(super) fn of_primary(&self, from: ReplicaSlot) -> Vec<(ObjectId, Mark)> {
        let marks = self.marks();
        let missing = marks.missing.iter().filter(|((_, slot), _)| *slot == from);
        missing.map(|((file, _), mark)| (*file, *mark)).collect()
    }

    pub(super) fn set(&self, of: Of, mark: Option<Mark>) {
        let mut marks = self.marks();
        match mark {
            Some(mark) => drop(marks.missing.insert(of, mark)),
            None => drop(marks.missing.remove(&of)),
        }
    }

    /// Notes that data has arrived; false if this is no news.
    fn arrived(&self, of: Of, position: u64) -> bool {
        let mut marks = self.marks();
        let known = marks.missing.get(&of);
        if known.is_none_or(|known| known.given_way || position <= known.complete_through) {
            return false;
        }
        let noted = marks.arrived.entry(of).or_default();
        *noted = position.max(*noted);
        true
    }

    /// From here on the primary's reports about a file count: it was asked to send the data again.
    fn sent_again(&self, of: Of) {
        if let Some(mark) = self.marks().missing.get_mut(&of) {
            mark.given_way = false;
        }
    }

    /// Whether a copy without data of this primary replaced local data.
    fn has_given_way(&self, from: ReplicaSlot, file: Option<ObjectId>) -> bool {
        let marks = self.marks();
        if let Some(file) = file {
            let mark = marks.missing.get(&(file, from));
            return mark.is_some_and(|mark| mark.given_way);
        }
        let mut missing = marks.missing.iter();
        missing.any(|((_, slot), mark)| *slot == from && mark.given_way)
    }

    /// The primaries whose data of a file gave way to a copy without it.
    fn given_way(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        let marks = self.marks();
        let of_file = marks.missing.range(all_of(file));
        let given_way = of_file.filter(|(_, mark)| mark.given_way);
        given_way.map(|((_, slot), _)| *slot).collect()
    }

    /// The data of a file is that of `position`, while the rows are those of `applied`.
    fn note_ahead(&self, of: Of, position: u64, applied: u64) {
        let mut marks = self.marks();
        let (_, from) = of;
        marks
            .ahead
            .retain(|(_, slot), position| *slot != from || *position > applied);
        // The last place of all stands for whatever a lost primary had sent, and not for what it makes when it is back.
        if position > applied && position < u64::MAX {
            marks.ahead.insert(of, position);
        }
    }

    /// Whether the data of a file may be newer than its row was before the update at this position.
    fn is_ahead(&self, of: Of, position: u64) -> bool {
        let ahead = self.marks().ahead.get(&of).copied();
        ahead.is_some_and(|ahead| position <= ahead)
    }

    fn take_arrived(&self) -> BTreeMap<Of, u64> {
        std::mem::take(&mut self.marks().arrived)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marks {
    fn of(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        let all = self.missing.range(all_of(file));
        all.map(|((_, slot), _)| *slot).collect()
    }
}

fn all_of(file: ObjectId) -> RangeInclusive<Of> {
    (file, ReplicaSlot(0))..=(file, ReplicaSlot(u16::MAX))
}

/// The files that lack some of their data after an update, and since when.
pub(super) struct Lacking {
    from: ReplicaSlot,
    position: u64,
    files: Vec<Before>,
}

/// A file before such an update.
struct Before {
    file: ObjectId,
    /// The position through which the file is complete if nothing was missing before.
    complete_through: u64,
    size: u64,
    version: u64,
}

impl OpenStore {
    /// Looks at the files whose data an update changes, before its rows are entered. `applied` is the position
    /// before the update in the stream.
    pub(super) fn lacking(
        &self,
        mutation: &mut Mutation<'_>,
        from: ReplicaSlot,
        (applied, position): (u64, u64),
        files: &[ObjectId],
    ) -> Result<Lacking> {
        let mut lacking = Lacking {
            from,
            position,
            files: Vec::with_capacity(files.len()),
        };
        for file in files.iter().copied() {
            let (complete_through, size, version) = match mutation.object(file) {
                Ok(row) => (applied, row.size, row.change.0),
                Err(Error::Stale) => (0, 0, 0),
                Err(error) => return Err(error),
            };
            lacking.files.push(Before {
                file,
                complete_through,
                size,
                version,
            });
        }
        Ok(lacking)
    }

    /// Marks those of the files that still exist after the update.
    pub(super) fn mark_incomplete(
        &self,
        mutation: &mut Mutation<'_>,
        lacking: Lacking,
    ) -> Result<()> {
        for before in lacking.files {
            let file = before.file;
            let (size, version) = match mutation.object(file) {
                Ok(row) if row.links == 0 => continue,
                Ok(row) if row.file().is_ok() => (row.size, row.change.0),
                Ok(_) => return Err(Error::Invalid("an object has data and is no file")),
                Err(Error::Stale) => continue,
                Err(error) => return Err(error),
            };
            let of = (file, lacking.from);
            let mark = self.incomplete.mark(of).unwrap_or_else(|| Mark {
                complete_through: before.complete_through,
                follows: before.version,
                before: self.known_before(of, lacking.position, before.size),
                ..Mark::default()
            });
            let mark = Mark {
                marked_at: lacking.position,
                resumed: match mark.version == before.version && mark.marked_at > 0 {
                    true => mark.resumed,
                    false => (before.complete_through, before.version),
                },
                version,
                ..mark.resized(size)
            };
            mutation.put_local(Table::Incomplete, &key::incomplete(of), &mark.encode());
            mutation.then(move |store, _| store.incomplete.set(of, Some(mark)));
        }
        Ok(())
    }

    /// What is here of the version before an update, which has this size.
    fn known_before(&self, of: Of, position: u64, size: u64) -> VersionBefore {
        let (file, _) = of;
        if self.unfetched.contains(file) || self.incomplete.has_unknown(file) {
            return VersionBefore::Unknown;
        }
        if self.incomplete.primaries(file) == [NOBODY]
            && let Some(size) = self.incomplete.whole((file, NOBODY))
        {
            // Another replica has adopted it, and nothing of that has come.
            return VersionBefore::Whole(size);
        }
        match self.incomplete.contains(file) || self.incomplete.is_ahead(of, position) {
            true => VersionBefore::Partial,
            false => VersionBefore::Whole(size),
        }
    }

    /// Removes the marks of a removed object.
    pub(crate) fn unmark_incomplete(&self, mutation: &mut Mutation<'_>, file: ObjectId) {
        for slot in self.incomplete.primaries(file) {
            mutation.remove_local(Table::Incomplete, &key::incomplete((file, slot)));
        }
        mutation.then(move |store, _| store.incomplete.forget(file));
    }

    /// All data of a file's version is here after all: removes the marks, except that of an abandoned file that nobody has adopted.
    pub(crate) fn unmark_lacking(&self, mutation: &mut Mutation<'_>, file: ObjectId) {
        let others = self.incomplete.of_others(file);
        let newest = others.iter().map(|mark| mark.version).max();
        let abandoned = self.incomplete.mark((file, NOBODY));
        let is_adopted = abandoned.is_some_and(|mark| newest > Some(mark.marked_at));
        let primaries = self.incomplete.primaries(file).into_iter();
        for slot in primaries.filter(|slot| *slot != NOBODY || is_adopted) {
            let of = (file, slot);
            mutation.remove_local(Table::Incomplete, &key::incomplete(of));
            mutation.then(move |store, _| store.incomplete.set(of, None));
        }
    }

    /// The last version of a file that another replica than this primary made, as far as it is known here; data of the primary that is older lacks that.
    #[must_use]
    pub fn version_of_others(&self, file: ObjectId, than: ReplicaSlot) -> u64 {
        let version = self.object(file).map_or(0, |row| row.change.0);
        match self.incomplete.mark((file, than)) {
            Some(mark) if mark.version == version => mark.resumed.1,
            _ => version,
        }
    }

    /// Notes that all data of a file for a primary's updates up to a position is stable here; the primary reports this.
    /// Cheap if nothing is missing. The note becomes stable with the next flush, so a crash may
    /// lose it.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn note_complete(
        &self,
        file: ObjectId,
        from: ReplicaSlot,
        position: u64,
    ) -> Result<()> {
        self.health.check()?;
        if !self.incomplete.arrived((file, from), position) {
            return Ok(());
        }
        // The task that gets the lock first writes what all others have noted meanwhile.
        let mut mutation = self.begin_maintenance().await?;
        for (of, position) in self.incomplete.take_arrived() {
            let mark = self.incomplete.mark(of);
            // A copy may have replaced the data since that was noted.
            let Some(mark) = mark.filter(|mark| !mark.given_way) else {
                continue;
            };
            let left = mark.after(position);
            if left.is_none() {
                let applied = self.applied(of.1)?;
                mutation.then(move |store, _| store.incomplete.note_ahead(of, position, applied));
                self.settle_abandoned(&mut mutation, of)?;
            }
            match left {
                Some(left) => {
                    mutation.put_local(Table::Incomplete, &key::incomplete(of), &left.encode());
                }
                None => mutation.remove_local(Table::Incomplete, &key::incomplete(of)),
            }
            mutation.then(move |store, _| store.incomplete.set(of, left));
        }
        mutation.commit_local().map(|_| ())
    }

    /// Notes that the local data of a file is about to be replaced by a copy that lacks this primary's data from `through` to `at` of its stream
    /// (see [`crate::OpenStore::incomplete_files`]) and that follows the version `follows`. From here on the file lacks that data here too,
    /// until [`crate::OpenStore::note_complete_again`]. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn note_lacking(
        &self,
        (file, from): (ObjectId, ReplicaSlot),
        (through, at): (u64, u64),
        follows: u64,
    ) -> Result<()> {
        self.health.check()?;
        let of = (file, from);
        let mut mutation = self.begin_maintenance().await?;
        if mutation.object(file).is_err() {
            return Ok(());
        }
        let mark = match self.incomplete.mark(of) {
            Some(known) => known.reaching_back_to(through, at, follows),
            None => Mark {
                complete_through: through,
                marked_at: at,
                follows,
                resumed: (through, follows),
                given_way: true,
                ..Mark::default()
            },
        };
        mutation.put_local(Table::Incomplete, &key::incomplete(of), &mark.encode());
        mutation.then(move |store, _| store.incomplete.set(of, Some(mark)));
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await
    }

    /// Like [`crate::OpenStore::note_complete`], for data that the primary has sent again on request.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn note_complete_again(
        &self,
        file: ObjectId,
        from: ReplicaSlot,
        position: u64,
    ) -> Result<()> {
        self.incomplete.sent_again((file, from));
        self.note_complete(file, from, position).await
    }

    /// Whether a copy without data of this primary replaced the local data of this file, or of any file.
    #[must_use]
    pub fn has_given_way(&self, from: ReplicaSlot, file: Option<ObjectId>) -> bool {
        self.incomplete.has_given_way(from, file)
    }

    /// The primaries whose data of a file was replaced here by a copy without it, and has not come again.
    #[must_use]
    pub fn given_way(&self, file: ObjectId) -> Vec<ReplicaSlot> {
        self.incomplete.given_way(file)
    }

    /// The version of a file before this primary's first change whose data may be missing here; 0 if unknown or if nothing is
    /// missing.
    #[must_use]
    pub fn version_before(&self, file: ObjectId, from: ReplicaSlot) -> u64 {
        let mark = self.incomplete.mark((file, from));
        mark.map_or(0, |mark| mark.follows)
    }

    /// What is missing here of this primary's data of a file: the position in its stream through which all data is here, and that of the
    /// last update whose data may be missing. `None` if nothing is missing.
    #[must_use]
    pub fn missing_of(&self, file: ObjectId, from: ReplicaSlot) -> Option<(u64, u64)> {
        let mark = self.incomplete.mark((file, from))?;
        Some((mark.complete_through, mark.marked_at))
    }

    /// The primaries whose data is missing here in named files, each with the position in its stream through which
    /// the content of all its files is here.
    ///
    /// # Errors
    /// The store has failed.
    pub fn makers_of_incomplete(&self) -> Result<BTreeMap<ReplicaSlot, u64>> {
        self.health.check()?;
        let mut makers: BTreeMap<ReplicaSlot, u64> = BTreeMap::new();
        for ((file, from), mark) in self.incomplete.all() {
            let through = mark.complete_through;
            let is_news = makers.get(&from).is_none_or(|least| through < *least);
            if is_news && self.object(file).is_ok_and(|row| row.links > 0) {
                makers.insert(from, through);
            }
        }
        Ok(makers)
    }

    /// The files that lack data of this primary, see [`crate::ForeignUpdate::incomplete`]. Each with the position in the primary's
    /// stream through which all content is here, and the position of the last update whose content may be missing.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn incomplete_files(&self, from: ReplicaSlot) -> Result<Vec<(ObjectId, u64, u64)>> {
        self.health.check()?;
        let marks = self.incomplete.of_primary(from);
        let mut files = Vec::with_capacity(marks.len());
        for (file, mark) in marks {
            // A file that exists without a name gets no more data.
            if self.object(file).is_ok_and(|row| row.links > 0) {
                files.push((file, mark.complete_through, mark.marked_at));
            }
        }
        Ok(files)
    }
}
