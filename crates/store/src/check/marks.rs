//! Checks the store's own data: marks of orphans, removals and dirty files, and the numbers.

use vfs::{Counted, ObjectId, RequestId, Result};

use super::examination::{Examination, called};
use super::objects::Census;
use super::rescue::{NUMBERS_UNRESERVED, numbers_in_use};
use crate::counters::Reserved;
use crate::metadata::Table;
use crate::mutation::{OBJECTS_KEY, RESERVED_KEY};
use crate::rows::{ObjectRow, RequestRow, key};

impl Examination<'_> {
    pub(super) fn check_marks(&mut self, census: &Census) -> Result<()> {
        self.check_table(
            Table::Orphans,
            "is listed as removed but open, and is not",
            |row| row.is_some_and(|row| row.file().is_ok() && row.links == 0),
        )?;
        self.check_table(
            Table::Removals,
            "is listed as removed, and is there",
            |row| row.is_none(),
        )?;
        self.check_table(
            Table::Dirty,
            "is marked as being written, and is no file",
            |row| row.is_some_and(|row| row.file().is_ok()),
        )?;
        self.check_table(
            Table::Unshipped,
            "is marked as changed for other replicas, and is no file",
            |row| row.is_some_and(|row| row.file().is_ok()),
        )?;
        self.check_table(
            Table::Unfetched,
            "is marked as to be fetched, and is no file",
            |row| row.is_some_and(|row| row.file().is_ok()),
        )?;
        self.check_table(
            Table::Damaged,
            "is marked as damaged, and is no file",
            |row| row.is_some_and(|row| row.file().is_ok()),
        )?;
        self.check_table(
            Table::Incomplete,
            "is marked as lacking data, and is no file",
            |row| row.is_some_and(|row| row.file().is_ok()),
        )?;
        self.check_table(Table::Torn, "is listed as torn, and is not", |row| {
            row.is_some_and(|row| row.file().is_ok_and(|file| file.torn))
        })?;
        self.check_table(
            Table::Recovered,
            "is marked as recovered, and is no file",
            |row| row.is_none_or(|row| row.file().is_ok()),
        )?;
        self.check_kept()?;
        self.check_requests()?;
        self.check_numbers()?;
        self.check_object_count(census)
    }

    /// Checks that kept writes belong to files that are marked as dirty.
    fn check_kept(&mut self) -> Result<()> {
        let store = self.store;
        let view = store.metadata.view();
        for found in view.scan(Table::Kept, &[], &[]) {
            let found = found?;
            let id = found.key().get(..8).map(key::parse_object);
            let marked = match id {
                Some(Ok(id)) => view.row(Table::Dirty, &key::object(id))?.is_some(),
                _ => false,
            };
            if !marked {
                let what = "Part of a write is kept for a file that is not being written.";
                self.find(what.to_owned(), |mutation| {
                    mutation.remove_local(Table::Kept, found.key());
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Checks that the results of requests are readable; otherwise a repeat would be carried out again. Their objects may be gone.
    fn check_requests(&mut self) -> Result<()> {
        let store = self.store;
        let view = store.metadata.view();
        for found in view.scan(Table::Requests, &[], &[]) {
            let found = found?;
            let is_series = found.key().len() == RequestId::SERIES_BYTES;
            if !is_series || RequestRow::decode(found.value()).is_err() {
                let what = "What a client's request has done cannot be read.";
                self.find(what.to_owned(), |mutation| {
                    mutation.remove_local(Table::Requests, found.key());
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn check_table(
        &mut self,
        table: Table,
        wrong: &str,
        right: impl Fn(Option<&ObjectRow>) -> bool,
    ) -> Result<()> {
        let store = self.store;
        let view = store.metadata.view();
        for found in view.scan(table, &[], &[]) {
            let found = found?;
            let id = match table {
                Table::Incomplete => key::parse_incomplete(found.key()).map(|(id, _)| id),
                _ => key::parse_object(found.key()),
            };
            let sound = match id {
                Ok(id) => right(self.row_of(id)?.as_ref()),
                Err(_) => false,
            };
            if !sound {
                let what = format!("{} {wrong}.", called(id.unwrap_or(ObjectId::from_u64(0))));
                self.find(what, |mutation| {
                    mutation.remove_local(table, found.key());
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Checks that all numbers in use are below the reservation; others could be issued again. A repair
    /// ensures this before it uses any number itself.
    fn check_numbers(&mut self) -> Result<()> {
        let row = self.store.metadata.row(Table::System, RESERVED_KEY)?;
        let reserved = row.and_then(|row| Reserved::decode(&row).ok());
        let used = numbers_in_use(&self.store.metadata, self.store.slot)?;
        if !reserved.is_some_and(|reserved| reserved.covers(used)) {
            self.note(NUMBERS_UNRESERVED.into(), false);
        }
        Ok(())
    }

    fn check_object_count(&mut self, census: &Census) -> Result<()> {
        let row = self.store.metadata.row(Table::System, OBJECTS_KEY)?;
        let known = row
            .and_then(|row| key::parse_object(&row).ok())
            .map(ObjectId::as_u64);
        if known == Some(census.objects) {
            return Ok(());
        }
        let what = format!(
            "The store counts {}, and there are {}.",
            Counted(known.unwrap_or(0), "object"),
            census.objects
        );
        self.find(what, |mutation| {
            mutation.set_object_count(census.objects);
            Ok(())
        })
    }
}
