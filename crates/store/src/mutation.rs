//! One operation's changes, put together under the writer's lock and committed as one batch.
//!
//! Whoever holds a [`Mutation`] is alone in changing rows: what it checks stays true until its batch is
//! committed. It never waits for anything while it holds that lock, stable storage included; only
//! an exhausted reservation of numbers makes it do so. Dropping it without [`Mutation::commit`]
//! changes nothing, and neither does a commit that the overseer refuses: what has to happen in memory
//! along with the batch is handed to [`Mutation::then`].

use std::sync::Weak;
use std::sync::atomic::Ordering;

use tokio::sync::MutexGuard;
use vfs::{ChangeAttribute, DirectoryChange, Error, Name, ObjectId, Result, Timestamp};

use crate::committer::Ticket;
use crate::counters::{Counters, Sequence};
use crate::inner::Inner;
use crate::metadata::{Batch, Table};
use crate::overseer::{Change, Touched, TouchedKind};
use crate::recording::Draft;
use crate::rows::{Content, EntryRow, NameHash, ObjectRow, key};
use crate::space::Demand;
use crate::waiting::wait;

/// The key of the row that reserves numbers.
pub(crate) const RESERVED_KEY: &[u8] = b"reserved";

/// The key of the row that counts the objects.
pub(crate) const OBJECTS_KEY: &[u8] = b"objects";

/// The key of the row that is there once other replicas know of changes made here.
pub(crate) const SHARED_KEY: &[u8] = b"shared";

/// The row of a mark that another primary's changes have set; of others it is empty.
pub(crate) const FOREIGN_MARK: &[u8] = &[1];

/// What only the one who changes rows may touch.
pub(crate) struct Writer {
    pub(crate) counters: Counters,
    /// The ticket of the last batch.
    pub(crate) committed: Ticket,
    /// Objects in the tree.
    pub(crate) objects: u64,
}

/// What about an object has changed, and so which of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Data or entries.
    Content,
    /// Attributes or names only.
    Attributes,
}

/// Something to do once the batch of a ticket is visible, before anybody else can change rows.
type Effect = Box<dyn FnOnce(&Inner, Ticket) + Send>;

struct LoadedObject {
    id: ObjectId,
    /// It had no name before this operation: only this copy still has it.
    orphan: bool,
    /// `None` when the object does not exist, or is being removed.
    row: Option<ObjectRow>,
    changed: bool,
    /// The version around this operation, once it has got a new one.
    versions: Option<DirectoryChange>,
}

struct LoadedEntries {
    directory: ObjectId,
    hash: NameHash,
    row: EntryRow,
    changed: bool,
}

/// Changes that happen together or not at all.
pub(crate) struct Mutation<'s> {
    inner: &'s Inner,
    writer: MutexGuard<'s, Writer>,
    batch: Batch<'s>,
    /// What replicas have to hear of; `None` when nobody oversees changes.
    record: Option<Draft>,
    /// The file whose data changes.
    data_of: Option<ObjectId>,
    effects: Vec<Effect>,
    objects: Vec<LoadedObject>,
    entries: Vec<LoadedEntries>,
    /// Objects made, less those removed.
    made: i64,
    now: Timestamp,
}

impl Inner {
    /// Starts an operation that changes rows, once nobody else does and the disk has room for it.
    pub(crate) async fn begin(&self, demand: Demand) -> Result<Mutation<'_>> {
        self.health.check()?;
        self.headroom.admit(demand)?;
        let writer = self.writer.lock().await;
        Mutation::start(self, writer)
    }

    /// The same for what has been admitted already, or is needed to get along on a full disk.
    pub(crate) async fn begin_upkeep(&self) -> Result<Mutation<'_>> {
        self.health.check()?;
        let writer = self.writer.lock().await;
        Mutation::start(self, writer)
    }

    /// The same for threads of the store's own.
    pub(crate) fn begin_blocking(&self) -> Result<Mutation<'_>> {
        self.health.check()?;
        let writer = wait(self.writer.lock(), || self.is_closing());
        let writer = writer.ok_or_else(|| Error::Io("the store is being closed".into()))?;
        Mutation::start(self, writer)
    }

    /// The same for what is not worth waiting for: `None` when somebody else is changing rows.
    pub(crate) fn begin_if_idle(&self) -> Result<Option<Mutation<'_>>> {
        self.health.check()?;
        let writer = self.writer.try_lock();
        writer
            .ok()
            .map(|writer| Mutation::start(self, writer))
            .transpose()
    }
}

impl<'s> Mutation<'s> {
    fn start(inner: &'s Inner, mut writer: MutexGuard<'s, Writer>) -> Result<Mutation<'s>> {
        inner.health.check()?;
        writer.counters.stable(inner.commits.stable());
        Ok(Mutation {
            inner,
            writer,
            batch: inner.metadata.batch(),
            record: inner.overseer.get().map(|_| Draft::default()),
            data_of: None,
            effects: Vec::new(),
            objects: Vec::new(),
            entries: Vec::new(),
            made: 0,
            now: inner.clock.now(),
        })
    }

    /// The time that everything in this operation carries.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Has something done once the batch is visible, before anybody else can change rows. It is not done
    /// when the change is refused or fails.
    pub(crate) fn then(&mut self, effect: impl FnOnce(&Inner, Ticket) + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    /// How an object looks to the overseer; to be asked before anything about it is changed.
    pub(crate) fn touched(&mut self, id: ObjectId) -> Result<Touched> {
        let row = self.object(id)?;
        let kind = match row.content {
            Content::Directory(_) => TouchedKind::Directory,
            _ if row.links > 1 => TouchedKind::LinkedFile,
            _ => TouchedKind::File,
        };
        Ok(Touched { id, kind })
    }

    /// The data of this file changes, so other replicas will not have all of it.
    pub(crate) fn change_data(&mut self, id: ObjectId) {
        self.data_of = Some(id);
    }

    /// A number that no other batch has while this one is put together. When a reservation of numbers has to
    /// be written in between, the ticket of this one is a later one.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.writer.committed.0 + 1)
    }

    /// An object, or [`Error::Stale`].
    pub(crate) fn object(&mut self, id: ObjectId) -> Result<&ObjectRow> {
        let at = self.load_object(id)?;
        self.objects[at].row.as_ref().ok_or(Error::Stale)
    }

    /// A copy of an object that is only looked at in passing.
    pub(crate) fn peek(&self, id: ObjectId) -> Result<ObjectRow> {
        match self.objects.iter().find(|loaded| loaded.id == id) {
            Some(loaded) => loaded.row.clone().ok_or(Error::Stale),
            None => self.inner.object(id),
        }
    }

    /// An object to change, or [`Error::Stale`].
    pub(crate) fn object_mut(&mut self, id: ObjectId) -> Result<&mut ObjectRow> {
        let at = self.load_object(id)?;
        let loaded = &mut self.objects[at];
        loaded.changed = true;
        loaded.row.as_mut().ok_or(Error::Stale)
    }

    /// An object that this operation makes, with its first version.
    pub(crate) fn insert_object(&mut self, id: ObjectId, mut row: ObjectRow) -> Result<()> {
        row.change = self.next_change(ChangeAttribute(0))?;
        let versions = Some(DirectoryChange {
            before: ChangeAttribute(0),
            after: row.change,
        });
        self.objects.push(LoadedObject {
            id,
            orphan: false,
            row: Some(row),
            changed: true,
            versions,
        });
        self.made += 1;
        Ok(())
    }

    pub(crate) fn remove_object(&mut self, id: ObjectId) -> Result<()> {
        let at = self.load_object(id)?;
        self.objects[at].row = None;
        self.objects[at].changed = true;
        self.made -= 1;
        Ok(())
    }

    /// Gives an object a new version and the times that go with it; once per operation, however often
    /// it is touched. Returns the version around the operation.
    pub(crate) fn touch(&mut self, id: ObjectId, touch: Touch) -> Result<DirectoryChange> {
        let now = self.now;
        let at = self.load_object(id)?;
        let before = self.objects[at].row.as_ref().ok_or(Error::Stale)?.change;
        let versions = match self.objects[at].versions {
            Some(versions) => versions,
            None => DirectoryChange {
                before,
                after: self.next_change(before)?,
            },
        };
        let loaded = &mut self.objects[at];
        loaded.versions = Some(versions);
        loaded.changed = true;
        if let Some(row) = &mut loaded.row {
            row.change = versions.after;
            row.changed = now;
            if touch == Touch::Content {
                row.modified = now;
            }
        }
        Ok(versions)
    }

    /// The names with the same hash as `name`.
    pub(crate) fn entries(&mut self, directory: ObjectId, name: &Name) -> Result<&EntryRow> {
        let at = self.load_entries(directory, name)?;
        Ok(&self.entries[at].row)
    }

    /// The same, to change.
    pub(crate) fn entries_mut(
        &mut self,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(NameHash, &mut EntryRow)> {
        let at = self.load_entries(directory, name)?;
        let loaded = &mut self.entries[at];
        loaded.changed = true;
        Ok((loaded.hash, &mut loaded.row))
    }

    /// Writes a row that replicas keep too.
    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.put(table, key, value);
        if let Some(record) = &mut self.record {
            record.add(table, key, Some(value));
        }
    }

    /// Removes a row that replicas keep too.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) {
        self.batch.remove(table, key);
        if let Some(record) = &mut self.record {
            record.add(table, key, None);
        }
    }

    /// Writes a row that belongs to an object, and that replicas keep as long as they have the object.
    pub(crate) fn put_of(
        &mut self,
        id: ObjectId,
        table: Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let at = self.load_object(id)?;
        match self.objects[at].orphan {
            true => self.put_local(table, key, value),
            false => self.put(table, key, value),
        }
        Ok(())
    }

    /// Removes such a row.
    pub(crate) fn remove_of(&mut self, id: ObjectId, table: Table, key: &[u8]) -> Result<()> {
        let at = self.load_object(id)?;
        match self.objects[at].orphan {
            true => self.remove_local(table, key),
            false => self.remove(table, key),
        }
        Ok(())
    }

    /// Notes something about an object that only this copy needs to know.
    pub(crate) fn mark(&mut self, table: Table, id: ObjectId) {
        self.batch.put(table, &key::object(id), b"");
    }

    pub(crate) fn unmark(&mut self, table: Table, id: ObjectId) {
        self.batch.remove(table, &key::object(id));
    }

    /// A change of an object that is no new version and that no replica needs to hear of.
    pub(crate) fn put_quietly(&mut self, id: ObjectId, row: &ObjectRow) {
        self.batch
            .put(Table::Objects, &key::object(id), &row.encode());
    }

    /// Writes a row that only this copy keeps.
    pub(crate) fn put_local(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.put(table, key, value);
    }

    /// The same mark, for what goes on because of another primary.
    pub(crate) fn mark_foreign(&mut self, table: Table, id: ObjectId) {
        self.batch.put(table, &key::object(id), FOREIGN_MARK);
    }

    /// Removes a row that only this copy keeps, whatever its key looks like.
    pub(crate) fn remove_local(&mut self, table: Table, key: &[u8]) {
        self.batch.remove(table, key);
    }

    /// Corrects the count of objects.
    pub(crate) fn set_object_count(&mut self, objects: u64) {
        self.writer.objects = objects;
        self.batch
            .put(Table::System, OBJECTS_KEY, &key::number(objects));
    }

    /// An identifier for a new object.
    pub(crate) fn new_id(&mut self) -> Result<ObjectId> {
        let counter = self.take(Sequence::Objects)?;
        ObjectId::new(self.inner.slot, counter).ok_or(Error::NoSpace)
    }

    /// Makes the changes visible to everybody, if the overseer has nothing against a change of this shape.
    /// They are stable once the ticket is.
    pub(crate) fn commit(mut self, change: &Change) -> Result<Ticket> {
        self.gather();
        match self.record.take().filter(|record| !record.is_empty()) {
            None => self.write(None).map(|(ticket, _)| ticket),
            Some(record) => self.commit_overseen(change, &record),
        }
    }

    /// The same for changes that only this copy knows of.
    pub(crate) fn commit_local(mut self) -> Result<Ticket> {
        self.gather();
        if self.record.take().is_some_and(|record| !record.is_empty()) {
            return Err(Error::Io(
                "a change that replicas keep has no shape; please report it".into(),
            ));
        }
        self.write(None).map(|(ticket, _)| ticket)
    }

    fn commit_overseen(mut self, change: &Change, record: &Draft) -> Result<Ticket> {
        let overseer = self.inner.overseer.get().and_then(Weak::upgrade);
        let overseer = overseer.ok_or_else(|| Error::Io("nobody oversees changes".into()))?;
        let mut outcome = None;
        let decided = overseer.oversee(change, &mut |note| {
            if outcome.is_some() {
                return Err(Error::Io("a change was to be committed twice".into()));
            }
            let row = note.map(|note| record.to_row(note));
            let written = self.write(row);
            outcome = Some(written.clone().map(|(ticket, _)| ticket));
            written.map(|(_, position)| position)
        });
        match (outcome, decided) {
            (Some(Ok(ticket)), _) => Ok(ticket),
            (_, Err(error)) | (Some(Err(error)), Ok(())) => Err(error),
            (None, Ok(())) => Err(Error::Io(
                "a change was neither committed nor refused".into(),
            )),
        }
    }

    fn gather(&mut self) {
        self.gather_objects();
        self.gather_entries();
    }

    /// Writes the batch with its record, and does what goes with it. Returns the ticket, and the position of
    /// the record or 0.
    fn write(&mut self, record: Option<Vec<u8>>) -> Result<(Ticket, u64)> {
        let position = match record {
            Some(record) => self.put_record(&record)?,
            None => 0,
        };
        if self.batch.is_empty() {
            return Ok((self.writer.committed, position));
        }
        let ticket = self.ticket();
        let reserved = self.writer.counters.wanted();
        if let Some(reserved) = &reserved {
            self.batch
                .put(Table::System, RESERVED_KEY, &reserved.encode());
        }
        let objects = self.writer.objects.saturating_add_signed(self.made);
        if self.made != 0 {
            self.batch
                .put(Table::System, OBJECTS_KEY, &key::number(objects));
        }
        let inner = self.inner;
        if position > 0 {
            inner.commits.note_record(ticket, position);
        }
        let batch = std::mem::replace(&mut self.batch, inner.metadata.batch());
        batch
            .commit()
            .map_err(|error| inner.fail(&error.to_string()))?;
        if let Some(reserved) = reserved {
            self.writer.counters.written(ticket, reserved);
        }
        self.writer.committed = ticket;
        self.writer.objects = objects;
        inner.objects.store(objects, Ordering::Relaxed);
        inner.commits.set_committed(ticket);
        for effect in self.effects.drain(..) {
            effect(inner, ticket);
        }
        inner.statistics.batches.add(1);
        if inner.metadata.should_look() {
            inner.commits.look();
        }
        Ok((ticket, position))
    }

    /// Puts the record into the batch, and beside it a mark of the file whose data changes.
    fn put_record(&mut self, record: &[u8]) -> Result<u64> {
        self.note_shared();
        let position = self.take(Sequence::Positions)?;
        self.batch
            .put(Table::Updates, &key::number(position), record);
        if let Some(id) = self.data_of
            && !self.inner.unshipped.contains(id)
        {
            self.mark(Table::Unshipped, id);
            self.then(move |inner, _| inner.unshipped.add(id));
        }
        Ok(position)
    }

    /// From this batch on, no object gets another version without other replicas hearing of it.
    pub(crate) fn note_shared(&mut self) {
        if !self.inner.shared.load(Ordering::Relaxed) {
            self.put_local(Table::System, SHARED_KEY, b"");
            self.then(|inner, _| inner.shared.store(true, Ordering::Relaxed));
        }
    }

    fn gather_objects(&mut self) {
        for loaded in std::mem::take(&mut self.objects) {
            let key = key::object(loaded.id);
            if !loaded.changed {
                continue;
            }
            let Some(row) = loaded.row else {
                match loaded.orphan {
                    true => self.remove_local(Table::Objects, &key),
                    false => self.remove(Table::Objects, &key),
                }
                continue;
            };
            if row.links > 0 {
                self.put(Table::Objects, &key, &row.encode());
                continue;
            }
            // A file without a name lives on here alone; for all others it is gone.
            self.put_local(Table::Objects, &key, &row.encode());
            if let (false, Some(record)) = (loaded.orphan, &mut self.record) {
                record.add(Table::Objects, &key, None);
            }
        }
    }

    fn gather_entries(&mut self) {
        for loaded in std::mem::take(&mut self.entries) {
            let key = key::entry(loaded.directory, loaded.hash);
            if loaded.changed && loaded.row.is_empty() {
                self.remove(Table::Entries, &key);
            } else if loaded.changed {
                self.put(Table::Entries, &key, &loaded.row.encode());
            }
        }
    }

    fn load_object(&mut self, id: ObjectId) -> Result<usize> {
        if let Some(at) = self.objects.iter().position(|loaded| loaded.id == id) {
            return Ok(at);
        }
        let row = self.inner.metadata.row(Table::Objects, &key::object(id))?;
        let row = row.map(|row| ObjectRow::decode(&row)).transpose()?;
        self.objects.push(LoadedObject {
            id,
            orphan: row.as_ref().is_some_and(|row| row.links == 0),
            row,
            changed: false,
            versions: None,
        });
        Ok(self.objects.len() - 1)
    }

    fn load_entries(&mut self, directory: ObjectId, name: &Name) -> Result<usize> {
        let hash = self.inner.hash(name.as_bytes());
        let known = |loaded: &LoadedEntries| loaded.directory == directory && loaded.hash == hash;
        if let Some(at) = self.entries.iter().position(known) {
            return Ok(at);
        }
        let row = self
            .inner
            .metadata
            .row(Table::Entries, &key::entry(directory, hash))?;
        let row = row
            .map(|row| EntryRow::decode(&row))
            .transpose()?
            .unwrap_or_default();
        self.entries.push(LoadedEntries {
            directory,
            hash,
            row,
            changed: false,
        });
        Ok(self.entries.len() - 1)
    }

    /// A version newer than `old` that was never shown to anyone. The takeovers in the upper bits stay.
    fn next_change(&mut self, old: ChangeAttribute) -> Result<ChangeAttribute> {
        let counter = self.take(Sequence::Changes)?;
        Ok(ChangeAttribute(counter.max(old.0 + 1)))
    }

    fn take(&mut self, sequence: Sequence) -> Result<u64> {
        if let Some(number) = self.writer.counters.take(sequence) {
            return Ok(number);
        }
        self.inner.reserve_now(&mut self.writer)?;
        self.writer
            .counters
            .take(sequence)
            .ok_or_else(|| self.inner.fail("numbers have run out"))
    }
}

impl Inner {
    /// Reserves numbers and waits for stable storage; at start, and when a burst of changes used up a
    /// range before the group commit made the next one stable.
    pub(crate) fn reserve_now(&self, writer: &mut Writer) -> Result<()> {
        if let Some(reserved) = writer.counters.wanted() {
            let ticket = Ticket(writer.committed.0 + 1);
            let mut batch = self.metadata.batch();
            batch.put(Table::System, RESERVED_KEY, &reserved.encode());
            batch
                .commit()
                .map_err(|error| self.fail(&error.to_string()))?;
            writer.counters.written(ticket, reserved);
            writer.committed = ticket;
            self.commits.set_committed(ticket);
        }
        self.persist_held(writer)
    }

    /// Makes every batch so far stable, for one who holds the writer's lock.
    pub(crate) fn persist_held(&self, writer: &mut Writer) -> Result<()> {
        self.persist_through(writer.committed)?;
        writer.counters.stable(writer.committed);
        Ok(())
    }

    /// Makes every batch up to this one stable, which has been committed. Others go on committing.
    pub(crate) fn persist_through(&self, ticket: Ticket) -> Result<()> {
        self.health.check()?;
        self.metadata
            .persist()
            .map_err(|error| self.fail(&error.to_string()))?;
        self.statistics.group_commits.add(1);
        self.commits.announce(ticket);
        Ok(())
    }
}
