//! The results of clients' requests, written in the batch of the change, so that a repeat is recognised at any time.
//!
//! There is one row for each series of requests, with its last request that changed something; other replicas get it with the
//! change. Rows are removed when no client will repeat the request; the caller, which knows the clients, decides that. Their
//! number is bounded in any case: the oldest rows are removed first. What must never enter: who the clients are.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use vfs::{
    Created, Credentials, DirectoryChange, Error, ObjectId, RequestGroup, RequestId, Result,
};

use crate::metadata::{Metadata, MetadataError, Table};
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::rows::{Effect, RequestRow};
use crate::space::Demand;

/// The maximum number of series: a thousand clients with 64 concurrent requests each.
const SERIES_MAX: u64 = 1 << 16;

/// Above the maximum, this number of series stays.
const SERIES_KEPT: u64 = SERIES_MAX / 4 * 3;

/// Rows removed in one batch; few, so that no operation waits long for it.
const ROWS_A_BATCH: usize = 64;

/// The number of series, and the age of the next row. The time of day is not used: it may be set back.
#[derive(Debug, Default)]
pub(crate) struct Series {
    rows: AtomicU64,
    next_age: AtomicU64,
    /// The value of `next_age` at the last call that aged rows; 0 before the first.
    aged: AtomicU64,
}

impl Series {
    /// # Errors
    /// When the operating system cannot read. A damaged row is treated as missing; the check of the store
    /// reports it.
    pub(crate) fn load(metadata: &Metadata) -> std::result::Result<Series, MetadataError> {
        let (mut rows, mut newest) = (0, 0);
        for row in metadata.view().scan(Table::Requests, &[], &[]) {
            match row {
                Ok(row) => {
                    rows += 1;
                    newest = newest.max(age_of(row.value()));
                }
                Err(error) if error.os_error().is_some() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Series {
            rows: AtomicU64::new(rows),
            next_age: AtomicU64::new(newest.saturating_add(1)),
            aged: AtomicU64::new(0),
        })
    }

    pub(crate) fn clear(&self) {
        self.rows.store(0, Ordering::Relaxed);
    }

    fn add(&self) {
        self.rows.fetch_add(1, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.rows.load(Ordering::Relaxed) > SERIES_MAX
    }

    /// The number of series.
    pub(crate) fn len(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    fn new_age(&self) -> u64 {
        self.next_age.fetch_add(1, Ordering::Relaxed)
    }
}

/// The start of an operation for a request.
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned"
)]
pub(crate) enum Begun<'s> {
    /// It has to be carried out.
    New(Mutation<'s>),
    /// It was carried out before; its result is on stable storage.
    Done(Effect),
}

impl Effect {
    /// The change of the only directory or object that was changed.
    pub(crate) fn change(self) -> Result<DirectoryChange> {
        match self {
            Effect::Changed(change) => Ok(change),
            _ => Err(other()),
        }
    }

    /// The changes of the two directories of a rename.
    pub(crate) fn changes(self) -> Result<(DirectoryChange, DirectoryChange)> {
        match self {
            Effect::Renamed(source, target) => Ok((source, target)),
            _ => Err(other()),
        }
    }
}

/// The error for an effect of another kind: a request's digest covers its kind, so this cannot happen.
fn other() -> Error {
    Error::Io("a request is on record with another effect than it can have".into())
}

impl Operation {
    /// Starts an operation for a request, unless the request was carried out before.
    ///
    /// # Errors
    /// As [`OpenStore::begin`]; [`Error::NotCarriedOut`] for a pure repeat of a request that was not carried out.
    pub(crate) async fn begin_once(&self, who: &Credentials, demand: Demand) -> Result<Begun<'_>> {
        // A repeat is answered even on a full disk.
        if let Some(effect) = self.earlier_of(who).await? {
            return Ok(Begun::Done(effect));
        }
        let mutation = self.begin(demand).await?;
        let Some(request) = &who.request else {
            return Ok(Begun::New(mutation));
        };
        // The same request may have been in progress meanwhile.
        match self.effect_of(request)? {
            None => Ok(Begun::New(mutation)),
            Some(effect) => {
                drop(mutation);
                self.settle(self.commits.committed()).await?;
                Ok(Begun::Done(effect))
            }
        }
    }
}

impl OpenStore {
    /// The earlier result of an operation's request, once it is on stable storage.
    ///
    /// # Errors
    /// [`Error::NotCarriedOut`] for a pure repeat of a request that was not carried out.
    pub(crate) async fn earlier_of(&self, who: &Credentials) -> Result<Option<Effect>> {
        self.health.check()?;
        let Some(request) = &who.request else {
            return Ok(None);
        };
        if request.repeat_only {
            // Operations that were about to commit have committed once the lock is free.
            drop(self.writer.lock().await);
        }
        let effect = self.effect_of(request)?;
        if effect.is_some() {
            self.settle(self.commits.committed()).await?;
        } else if request.repeat_only {
            return Err(Error::NotCarriedOut);
        }
        Ok(effect)
    }

    /// The current state of the object that an earlier execution of a request created.
    ///
    /// # Errors
    /// [`Error::Removed`] if it has been removed since.
    pub(crate) fn made_before(&self, effect: Effect) -> Result<Created> {
        let Effect::Made { object, directory } = effect else {
            return Err(other());
        };
        let row = self.object(object).map_err(|error| match error {
            Error::Stale => Error::Removed { object, directory },
            error => error,
        })?;
        Ok(Created {
            attributes: row.attributes(object),
            directory,
            made: true,
        })
    }

    fn effect_of(&self, request: &RequestId) -> Result<Option<Effect>> {
        let row = self.request_row(&request.series)?;
        Ok(row.and_then(|row| row.effect_of(request)))
    }

    /// The row of a series; a damaged row is treated as missing.
    fn request_row(&self, series: &[u8]) -> Result<Option<RequestRow>> {
        let row = self.metadata.row(Table::Requests, series)?;
        let row = row.map(|row| RequestRow::decode(&row)).transpose();
        Ok(row.unwrap_or_else(|error| {
            tracing::error!(%error, "what a client's request has done is forgotten");
            None
        }))
    }

    /// Removes the oldest rows when there are too many.
    pub(crate) fn forget_old_requests(&self) -> Result<()> {
        if !self.series.is_full() {
            return Ok(());
        }
        let mut found = self.requests_of(&[])?;
        found.sort_unstable();
        let many = (found.len() as u64).saturating_sub(SERIES_KEPT);
        found.truncate(usize::try_from(many).unwrap_or(found.len()));
        self.remove_requests(&found)
    }

    /// Removes the results of requests of these groups.
    pub(crate) fn end_requests(&self, ended: &[RequestGroup]) -> Result<()> {
        for group in ended {
            self.remove_requests(&self.requests_of(group)?)?;
        }
        Ok(())
    }

    /// Removes rows that existed at the previous call of this function and belong to none of these groups.
    pub(crate) fn age_requests(&self, alive: &HashSet<RequestGroup>) -> Result<()> {
        let now = self.series.next_age.load(Ordering::Relaxed);
        let before = self.series.aged.swap(now, Ordering::Relaxed);
        let mut found = self.requests_of(&[])?;
        found.retain(|(age, key)| {
            let group = key.first_chunk::<{ RequestId::GROUP_BYTES }>();
            *age < before && !group.is_some_and(|group| alive.contains(group))
        });
        self.remove_requests(&found)
    }

    /// All rows whose series begin with `group`, each with its age and key.
    fn requests_of(&self, group: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut found = Vec::new();
        for row in self.metadata.view().scan(Table::Requests, group, &[]) {
            let row = row?;
            found.push((age_of(row.value()), row.key().to_vec()));
        }
        Ok(found)
    }

    /// Removes rows, unless they were written again meanwhile.
    fn remove_requests(&self, found: &[(u64, Vec<u8>)]) -> Result<()> {
        for group in found.chunks(ROWS_A_BATCH) {
            let mut mutation = self.begin_blocking()?;
            for (age, key) in group {
                let now = self.metadata.row(Table::Requests, key)?;
                if now.is_some_and(|row| age_of(&row) == *age) {
                    mutation.remove_local(Table::Requests, key);
                    mutation.then(|store, _| {
                        store.series.rows.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            }
            mutation.commit_local()?;
        }
        Ok(())
    }
}

/// The age of a row; unreadable rows are the oldest.
fn age_of(row: &[u8]) -> u64 {
    RequestRow::decode(row).map_or(0, |row| row.age)
}

impl Mutation<'_> {
    /// Notes the result of this operation's request, in the same batch. `of` is the object if it may be one
    /// without a name, which replicas do not keep.
    pub(crate) fn note_effect(
        &mut self,
        who: &Credentials,
        effect: Effect,
        of: Option<ObjectId>,
    ) -> Result<()> {
        let Some(request) = &who.request else {
            return Ok(());
        };
        let row = RequestRow::new(request, self.store().series.new_age(), effect);
        let row = self.with_earlier(&request.series, row)?.encode();
        match of {
            Some(id) => self.put_of(id, Table::Requests, &request.series, &row),
            None => {
                self.put(Table::Requests, &request.series, &row);
                Ok(())
            }
        }
    }

    /// Applies the result of a request that another primary carried out.
    pub(crate) fn enter_request(&mut self, series: &[u8], row: RequestRow) -> Result<()> {
        let age = self.store().series.new_age();
        let row = self.with_earlier(series, row.with_age(age))?;
        self.put_local(Table::Requests, series, &row.encode());
        Ok(())
    }

    fn with_earlier(&mut self, series: &[u8], row: RequestRow) -> Result<RequestRow> {
        Ok(match self.store().request_row(series)? {
            Some(earlier) => earlier.merged(row),
            None => {
                self.then(|store, _| store.series.add());
                row
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewStore, Store, StoreOptions};

    fn key(number: u64) -> [u8; RequestId::SERIES_BYTES] {
        let mut key = [0; RequestId::SERIES_BYTES];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn what_was_written_longest_ago_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(directory.path().join("store"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        let many = SERIES_MAX + 1;
        let mut batch = store.metadata.batch();
        for number in 0..many {
            let request = RequestId {
                series: key(number),
                number: 1,
                part: 0,
                digest: 2,
                repeat_only: false,
            };
            let row = RequestRow::new(&request, number, Effect::Set).encode();
            batch.put(Table::Requests, &request.series, &row);
        }
        batch.commit().unwrap();
        drop(store);
        let store = Store::open(&options).unwrap();
        store.forget_old_requests().unwrap();
        let view = store.metadata.view();
        let left: Vec<_> = view.scan(Table::Requests, &[], &[]).collect();
        assert_eq!(left.len() as u64, SERIES_KEPT);
        let oldest = left[0].as_ref().unwrap().key();
        assert_eq!(oldest, key(many - SERIES_KEPT));
        assert!(!store.series.is_full());
    }
}
