//! Makes changes visible: with the consent of the commit hook, in one batch, together with their effects
//! in memory.

use std::sync::atomic::Ordering;

use vfs::{Error, ObjectId, Result, Timestamp};

use super::{Mutation, OBJECTS_KEY, RESERVED_KEY, SHARED_KEY};
use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::counters::Sequence;
use crate::metadata::Table;
use crate::operation::no_hook;
use crate::recording::Draft;
use crate::rows::key;

/// Gets a closure that commits a change, and calls it or refuses.
type Decide<'d> = dyn FnMut(&mut dyn FnMut() -> Result<()>) -> Result<()> + 'd;

impl Mutation<'_> {
    /// Makes the changes visible to all tasks, unless the commit hook refuses a change of this shape.
    /// They are stable once the ticket is.
    pub(crate) fn commit(mut self, change: &Change) -> Result<Ticket> {
        self.gather();
        match self.record.take().filter(|record| !record.is_empty()) {
            None => self.write(None).map(|(ticket, _)| ticket),
            Some(record) => self.commit_hooked(change, &record),
        }
    }

    /// The same for changes of data that only this copy keeps.
    pub(crate) fn commit_local(mut self) -> Result<Ticket> {
        self.gather();
        if self.record.take().is_some_and(|record| !record.is_empty()) {
            return Err(Error::Io(
                "a change that replicas keep has no shape; please report it".into(),
            ));
        }
        self.write(None).map(|(ticket, _)| ticket)
    }

    /// The same for changes of another primary. `decide` gets a closure that commits, which it must call.
    pub(crate) fn commit_followed(mut self, decide: &mut Decide<'_>) -> Result<Ticket> {
        debug_assert!(self.record.is_none(), "changes of others are not recorded");
        self.note_shared();
        self.gather();
        let mut outcome = None;
        let decided = decide(&mut || {
            if outcome.is_some() {
                return Err(Error::Io("a change was to be committed twice".into()));
            }
            let written = self.write(None).map(|(ticket, _)| ticket);
            outcome = Some(written.clone());
            written.map(|_| ())
        });
        settled(outcome, decided)
    }

    fn commit_hooked(mut self, change: &Change, record: &Draft) -> Result<Ticket> {
        let hook = self.hook.take().ok_or_else(no_hook)?;
        let mut outcome = None;
        let decided = hook.before_commit(change, &mut |note| {
            if outcome.is_some() {
                return Err(Error::Io("a change was to be committed twice".into()));
            }
            let row = note.map(|note| record.to_row(note));
            let written = self.write(row);
            outcome = Some(written.clone().map(|(ticket, _)| ticket));
            written.map(|(_, position)| position)
        });
        settled(outcome, decided)
    }

    fn gather(&mut self) {
        self.gather_objects();
        self.gather_entries();
    }

    /// Writes the batch with its record, and runs its effects. Returns the ticket, and the position of
    /// the record or 0.
    fn write(&mut self, record: Option<Vec<u8>>) -> Result<(Ticket, u64)> {
        let position = match record {
            Some(record) => self.put_record(&record)?,
            None => 0,
        };
        if self.batch.is_empty() {
            let ticket = self.writer.committed;
            self.carry_out_effects(ticket);
            return Ok((ticket, position));
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
        let store = self.store;
        if position > 0 {
            store.commits.note_record(ticket, position);
        }
        self.commit_batch()?;
        if let Some(reserved) = reserved {
            self.writer.counters.written(ticket, reserved);
        }
        self.writer.committed = ticket;
        self.writer.objects = objects;
        store.objects.store(objects, Ordering::Relaxed);
        store.commits.set_committed(ticket);
        self.carry_out_effects(ticket);
        store.statistics.batches.add(1);
        if store.metadata.should_look() {
            store.commits.look();
        }
        Ok((ticket, position))
    }

    /// Makes the batch visible, between two calls of the listener.
    fn commit_batch(&mut self) -> Result<()> {
        let store = self.store;
        let batch = std::mem::replace(&mut self.batch, store.metadata.batch());
        let changes = std::mem::take(&mut self.changes);
        let listener = store.listener.get().filter(|_| !changes.is_empty());
        if let Some(listener) = listener {
            listener.changing(&changes);
        }
        let committed = batch.commit();
        if let Some(listener) = listener {
            listener.changed(&changes);
        }
        committed.map_err(|error| store.fail(&error.to_string()))
    }

    fn carry_out_effects(&mut self, ticket: Ticket) {
        for effect in self.effects.drain(..) {
            effect(self.store, ticket);
        }
    }

    /// Adds the record to the batch, and the mark of the file whose data changes.
    fn put_record(&mut self, record: &[u8]) -> Result<u64> {
        self.note_shared();
        let position = self.take(Sequence::Positions)?;
        self.batch
            .put(Table::Updates, &key::number(position), record);
        if let Some(id) = self.data_of {
            self.mark_unshipped(id);
            if self.store.incomplete.contains(id) {
                // A replica that may change the data has all of it, even if that was not noted in time. From here on
                // earlier replicas lack data of this replica; two replicas never lack data of each other.
                self.store.unmark_lacking(self, id);
            }
        }
        Ok(position)
    }

    fn mark_unshipped(&mut self, id: ObjectId) {
        if !self.store.unshipped.contains(id) {
            self.mark(Table::Unshipped, id);
            self.then(move |store, _| store.unshipped.add(id));
        }
    }

    /// Notes that from this batch on other replicas learn of every new version of an object.
    pub(crate) fn note_shared(&mut self) {
        if !self.store.shared.load(Ordering::Relaxed) {
            self.put_local(Table::System, SHARED_KEY, b"");
            self.then(|store, _| store.shared.store(true, Ordering::Relaxed));
        }
    }

    fn gather_objects(&mut self) {
        let mut latest = Timestamp::default();
        for loaded in std::mem::take(&mut self.objects) {
            let key = key::object(loaded.id);
            if !loaded.changed {
                continue;
            }
            self.note_change(loaded.id);
            let Some(mut row) = loaded.row else {
                self.list_torn(loaded.id, false);
                match loaded.orphan {
                    true => self.remove_local(Table::Objects, &key),
                    false => self.remove(Table::Objects, &key),
                }
                continue;
            };
            latest = latest.max(row.changed);
            let (size, links) = (row.size, row.links);
            if let Ok(file) = row.file_mut() {
                // An empty file lacks nothing.
                file.torn &= size > 0;
                let torn = file.torn && links > 0;
                self.list_torn(loaded.id, torn);
            }
            if row.links > 0 {
                self.put(Table::Objects, &key, &row.encode());
                continue;
            }
            // Only this copy keeps a file without a name; for other replicas it is removed.
            self.put_local(Table::Objects, &key, &row.encode());
            if let (false, Some(record)) = (loaded.orphan, &mut self.record) {
                record.add(Table::Objects, &key, None);
            }
        }
        self.note_time(latest);
    }

    /// Keeps the list of torn files in line with their rows.
    fn list_torn(&mut self, id: ObjectId, torn: bool) {
        match (self.store.torn.contains(id), torn) {
            (false, true) => {
                self.mark(Table::Torn, id);
                self.then(move |store, _| store.torn.add(id));
            }
            (true, false) => {
                self.unmark(Table::Torn, id);
                self.then(move |store, _| store.torn.forget(id));
            }
            _ => {}
        }
    }

    fn gather_entries(&mut self) {
        for loaded in std::mem::take(&mut self.entries) {
            let key = key::entry(loaded.directory, loaded.hash);
            if loaded.changed {
                self.note_change(loaded.directory);
            }
            if loaded.changed && loaded.row.is_empty() {
                self.remove(Table::Entries, &key);
            } else if loaded.changed {
                self.put(Table::Entries, &key, &loaded.row.encode());
            }
        }
    }
}

/// The result of a change: what was committed stays committed, even if the hook returns an error afterwards.
fn settled(outcome: Option<Result<Ticket>>, decided: Result<()>) -> Result<Ticket> {
    match (outcome, decided) {
        (Some(Ok(ticket)), _) => Ok(ticket),
        (_, Err(error)) | (Some(Err(error)), Ok(())) => Err(error),
        (None, Ok(())) => Err(Error::Io(
            "a change was neither committed nor refused".into(),
        )),
    }
}
