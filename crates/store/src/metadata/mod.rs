//! The embedded store that keeps the rows: a batch is atomic, and after a crash a prefix of the batches is left.
//!
//! Only this module uses fjall, and it does not know what a row means. Calls block, but only for
//! microseconds if the requested rows are in memory; only [`Metadata::persist`] regularly waits for
//! the disk.

mod error;
mod examination;
mod framing;
mod journal;
mod mark;
mod opening;
mod pieces;
mod runs;
mod table;
mod writing_out;

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use fjall::{Database, Keyspace, OwnedWriteBatch, PersistMode, Readable, Slice, Snapshot};

pub(crate) use self::error::MetadataError;
pub(crate) use self::examination::{Damage, OpenError};
use self::journal::Journals;
use self::mark::{Mark, Reached};
pub(crate) use self::table::Table;
use plain_file::lacks_descriptors;
use tempfile::TempDir;

use crate::error::WITHOUT_DESCRIPTORS;
use crate::malformed::Malformed;
use crate::row_cache::{CachedKey, RowCache};

/// The part of [`crate::decode_as_anything`] for journals, notes of what is stable, and stand-in rows of long values.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    framing::count_batches(bytes, b"number");
    mark::decode_as_anything(bytes);
    let _ = pieces::stands_for(bytes);
}

/// The key of the row in [`Table::System`] with the number of the last batch. Every batch writes it.
const NUMBER: &[u8] = b"batch";

/// The key of the row that numbers batches, in the embedded store.
fn number_key() -> Vec<u8> {
    [&[Table::System as u8], NUMBER].concat()
}

/// The rows of one store.
pub(crate) struct Metadata {
    database: Database,
    objects: Keyspace,
    entries: Keyspace,
    /// All other tables, with a tag byte before the key. A rarely written table would
    /// pin the journal if it had its own keyspace.
    others: Keyspace,
    journals: Journals,
    mark: Mark,
    cache: RowCache,
    /// Held while a batch is committed, so that the cache changes with the rows.
    committing: Mutex<()>,
    /// The number of the last batch.
    number: AtomicU64,
    /// Bytes of changes since the last call of [`Metadata::write_out_full`].
    unlooked_bytes: AtomicU64,
    /// Whether too many changes wait to be written out because no files can be created.
    is_stuck: AtomicBool,
    /// When a check last found too few descriptors.
    lacked_descriptors: Mutex<Option<Instant>>,
    /// Bytes that batches have taken in journals since the rows were opened.
    journal_bytes: AtomicU64,
    /// The copy of the files that is removed together with this value.
    _copy: Option<TempDir>,
}

impl Metadata {
    /// A snapshot of all tables. Keep it only for a short time: it holds back the removal of old rows.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            metadata: self,
            snapshot: Some(self.database.snapshot()),
        }
    }

    /// A snapshot of all tables for callers that read for longer.
    pub(crate) fn picture(&self) -> Picture {
        Picture(self.database.snapshot())
    }

    pub(crate) fn view_of(&self, picture: &Picture) -> View<'_> {
        View {
            metadata: self,
            snapshot: Some(picture.0.clone()),
        }
    }

    /// Reads several rows of the same moment, from the cache as far as possible. If a batch came in between, calls `look` again
    /// with a snapshot.
    pub(crate) fn consistent<T, E>(
        &self,
        look: impl Fn(&View<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(then) = self.cache.epoch() {
            let latest = View {
                metadata: self,
                snapshot: None,
            };
            let seen = look(&latest);
            if self.cache.is_still(then) {
                return seen;
            }
        }
        look(&self.view())
    }

    /// One row as of the last batch. Two of these may see different batches, see
    /// [`Metadata::consistent`].
    pub(crate) fn row(&self, table: Table, key: &[u8]) -> Result<Option<Row>, MetadataError> {
        let Some(cached_key) = cached_key(table, key) else {
            return self.stored_row(table, key);
        };
        if let Some(row) = self.cache.row(&cached_key) {
            return Ok(Some(Row::Cached(row)));
        }
        let then = self.cache.epoch();
        let Some(row) = self.stored_row(table, key)? else {
            return Ok(None);
        };
        // A copy: the bytes found are part of a larger block, which would stay in memory with them.
        let row: Arc<[u8]> = Arc::from(&row[..]);
        if let Some(then) = then {
            self.cache.keep(cached_key, &row, then);
        }
        Ok(Some(Row::Cached(row)))
    }

    fn stored_row(&self, table: Table, key: &[u8]) -> Result<Option<Row>, MetadataError> {
        let (keyspace, place) = self.place(table, key);
        let Some(row) = keyspace.get(place)? else {
            return Ok(None);
        };
        match pieces::stands_for(&row)? {
            None => Ok(Some(Row::Stored(row))),
            // The pieces have to come from the same batch.
            Some(_) => self.view().row(table, key),
        }
    }

    /// Begins a batch of changes, which is atomic.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch {
            metadata: self,
            writes: self.database.batch(),
            cached: Vec::new(),
            bytes: 0,
            items: 0,
            previous: Vec::new(),
        }
    }

    /// Returns when every batch committed before the call is on stable storage.
    pub(crate) fn persist(&self) -> Result<(), MetadataError> {
        let batch = self.number.load(Ordering::Acquire);
        self.database.persist(PersistMode::Buffer)?;
        let failed = |error| MetadataError::of("make the journal stable", &error);
        // A new journal is created while the old one still counts.
        let is_only = self.database.journal_count() == 1;
        let journal = self.journals.sync(is_only).map_err(failed)?;
        let noted = self.mark.note(Reached { journal, batch });
        noted.map_err(|error| MetadataError::of("note what is stable", &error))
    }

    /// Makes the note of what is stable survive a power failure, too. Waits for the disk, but blocks no other task.
    pub(crate) fn settle_mark(&self) -> Result<(), MetadataError> {
        let settled = self.mark.settle();
        settled.map_err(|error| MetadataError::of("note what is stable", &error))
    }

    /// Allocates `ahead_bytes` of space past the end of the newest journal.
    pub(crate) fn allocate_journal(&self, ahead_bytes: u64) -> io::Result<()> {
        let written_bytes = self.journal_bytes.load(Ordering::Relaxed);
        self.journals.allocate(written_bytes, ahead_bytes)
    }

    fn place(&self, table: Table, key: &[u8]) -> (&Keyspace, Slice) {
        match table {
            Table::Objects => (&self.objects, Slice::from(key)),
            Table::Entries => (&self.entries, Slice::from(key)),
            other => (&self.others, Slice::from([&[other as u8], key].concat())),
        }
    }
}

/// The key of a row in the cache; `None` for tables that are not cached.
fn cached_key(table: Table, key: &[u8]) -> Option<CachedKey> {
    if !matches!(table, Table::Objects | Table::Entries) {
        return None;
    }
    let mut cached = CachedKey::default();
    let (tag, rest) = cached.split_first_mut()?;
    *tag = table as u8;
    rest.get_mut(..key.len())?.copy_from_slice(key);
    Some(cached)
}

/// A row's bytes.
pub(crate) enum Row {
    /// Shared with the embedded store.
    Stored(Slice),
    /// Shared with the cache.
    Cached(Arc<[u8]>),
}

impl std::ops::Deref for Row {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Row::Stored(bytes) => bytes,
            Row::Cached(bytes) => bytes,
        }
    }
}

/// A row found by a scan, with its key.
pub(crate) struct KeyedRow {
    key: Slice,
    tag_bytes: usize,
    value: Slice,
}

impl KeyedRow {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key[self.tag_bytes..]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// A snapshot.
pub(crate) struct Picture(Snapshot);

/// A view of all tables: of a snapshot, or of the current state.
pub(crate) struct View<'m> {
    metadata: &'m Metadata,
    /// `None` stands for the current state: each read sees the last batch.
    snapshot: Option<Snapshot>,
}

impl<'m> View<'m> {
    pub(crate) fn row(&self, table: Table, key: &[u8]) -> Result<Option<Row>, MetadataError> {
        let Some(snapshot) = &self.snapshot else {
            return self.metadata.row(table, key);
        };
        let (keyspace, place) = self.metadata.place(table, key);
        let row = snapshot.get(keyspace, place)?;
        let row = row.map(|row| whole(self.metadata, snapshot, table, key, row));
        Ok(row.transpose()?.map(Row::Stored))
    }

    /// The rows whose keys start with `prefix`, starting at the key `from`, in key order.
    pub(crate) fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: &[u8],
    ) -> impl Iterator<Item = Result<KeyedRow, MetadataError>> + use<'m> {
        let (keyspace, start) = self.metadata.place(table, from.max(prefix));
        let (_, prefix) = self.metadata.place(table, prefix);
        let tag_bytes = usize::from(!matches!(table, Table::Objects | Table::Entries));
        let end = match successor(&prefix) {
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        };
        let range = (Bound::Included(start.to_vec()), end);
        let metadata = self.metadata;
        let snapshot = self.snapshot.clone();
        let snapshot = snapshot.unwrap_or_else(|| metadata.database.snapshot());
        let rows = snapshot.range::<Vec<u8>, _>(keyspace, range);
        rows.map(move |found| {
            let (key, value) = found.into_inner()?;
            let value = whole(metadata, &snapshot, table, &key[tag_bytes..], value)?;
            Ok(KeyedRow {
                key,
                tag_bytes,
                value,
            })
        })
    }
}

/// A row, reassembled if it was split into pieces.
fn whole(
    metadata: &Metadata,
    snapshot: &Snapshot,
    table: Table,
    key: &[u8],
    row: Slice,
) -> Result<Slice, MetadataError> {
    let Some(length) = pieces::stands_for(&row)? else {
        return Ok(row);
    };
    let mut bytes = Vec::with_capacity(length);
    for number in 0..pieces::count(length) {
        let (keyspace, place) = metadata.place(Table::Pieces, &pieces::key(table, key, number));
        let piece = snapshot.get(keyspace, place)?;
        bytes.extend_from_slice(&piece.ok_or(Malformed("a piece of a long row is missing"))?);
    }
    if bytes.len() != length {
        return Err(Malformed("the pieces of a long row have the wrong length").into());
    }
    Ok(bytes.into())
}

/// The first key after all that start with `prefix`; `None` when there is none.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Retries a read while descriptors are lacking, for a caller that must not fail.
fn patiently<T>(read: impl Fn() -> Result<T, fjall::Error>) -> Result<T, fjall::Error> {
    loop {
        match read() {
            Err(error) if error::os_error(&error).is_some_and(lacks_descriptors) => {
                thread::sleep(WITHOUT_DESCRIPTORS);
            }
            outcome => return outcome,
        }
    }
}

/// A batch of changes; it is atomic.
pub(crate) struct Batch<'m> {
    metadata: &'m Metadata,
    writes: OwnedWriteBatch,
    /// Changes of rows that may be in the cache.
    cached: Vec<(CachedKey, Option<Arc<[u8]>>)>,
    bytes: u64,
    items: u64,
    /// Rows that may have had more pieces before.
    previous: Vec<Previous>,
}

/// A row whose pieces after the first `kept` are removed.
struct Previous {
    table: Table,
    key: Vec<u8>,
    kept: usize,
}

impl Batch<'_> {
    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        if let Some(cached) = cached_key(table, key) {
            self.cached.push((cached, Some(Arc::from(value))));
        }
        let count = match table {
            Table::Kept => 0,
            _ => pieces::count(value.len()),
        };
        if matches!(
            table,
            Table::Xattrs | Table::Updates | Table::Facts | Table::Requests
        ) {
            self.previous.push(Previous {
                table,
                key: key.to_vec(),
                kept: count,
            });
        }
        if count == 0 {
            // Invariant: no value looks like a stand-in row, or it would be read as one.
            debug_assert_eq!(pieces::stands_for(value).ok().flatten(), None);
            return self.insert(table, key, value);
        }
        for (number, piece) in value.chunks(pieces::PIECE_BYTES).enumerate() {
            self.insert(Table::Pieces, &pieces::key(table, key, number), piece);
        }
        self.insert(table, key, &pieces::stand_in(value.len()));
    }

    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) {
        if let Some(cached) = cached_key(table, key) {
            self.cached.push((cached, None));
        }
        if matches!(
            table,
            Table::Xattrs | Table::Updates | Table::Objects | Table::Facts | Table::Requests
        ) {
            self.previous.push(Previous {
                table,
                key: key.to_vec(),
                kept: 0,
            });
        }
        self.erase(table, key);
    }

    /// Removes pieces of the rows changed here that are no longer needed. Skips tables
    /// whose rows hardly ever change their number of pieces; a piece that is
    /// left there is never read.
    fn remove_previous_pieces(&mut self) -> Result<(), MetadataError> {
        for Previous { table, key, kept } in std::mem::take(&mut self.previous) {
            let (keyspace, place) = self.metadata.place(table, &key);
            let previous = patiently(|| keyspace.get(&place))?;
            let length = previous
                .map(|row| pieces::stands_for(&row))
                .transpose()?
                .flatten();
            for number in kept..pieces::count(length.unwrap_or(0)) {
                self.erase(Table::Pieces, &pieces::key(table, &key, number));
            }
        }
        Ok(())
    }

    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.bytes += (key.len() + value.len()) as u64;
        self.items += 1;
        let (keyspace, key) = self.metadata.place(table, key);
        self.writes.insert(keyspace, key, value);
    }

    fn erase(&mut self, table: Table, key: &[u8]) {
        self.bytes += key.len() as u64;
        self.items += 1;
        let (keyspace, key) = self.metadata.place(table, key);
        self.writes.remove(keyspace, key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Makes the changes visible; [`Metadata::persist`] makes them stable.
    pub(crate) fn commit(mut self) -> Result<(), MetadataError> {
        self.remove_previous_pieces()?;
        if self.writes.is_empty() {
            return Ok(());
        }
        let metadata = self.metadata;
        let alone = metadata.committing.lock();
        let _alone = alone.unwrap_or_else(PoisonError::into_inner);
        // Batch numbers are consecutive, so a missing batch is noticed.
        let number = metadata.number.load(Ordering::Acquire) + 1;
        let (keyspace, key) = metadata.place(Table::System, NUMBER);
        self.writes.insert(keyspace, key, number.to_be_bytes());
        metadata.cache.begin_change();
        let outcome = self.writes.commit();
        metadata.cache.end_change(self.cached);
        outcome?;
        metadata.number.store(number, Ordering::Release);
        let journal_bytes = self.bytes + self.items * framing::ITEM_BYTES + framing::BATCH_BYTES;
        metadata
            .journal_bytes
            .fetch_add(journal_bytes, Ordering::Relaxed);
        metadata
            .unlooked_bytes
            .fetch_add(self.bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
