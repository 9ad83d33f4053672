//! A cache of recently used rows of objects and names.
//!
//! The embedded store needs microseconds to find a row even in its own cache, and most requests read
//! the same few rows. Memory is bounded by two generations of rows: when the young generation has filled its share,
//! the old one is dropped and the young one takes its place; rows that are used again move back to the young one.
//!
//! A reader of several rows needs to know that no batch came in between. For this, the *epoch* is even while rows
//! are unchanged, odd while a batch is being committed, and grows with every batch.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::run_cache::RunCache;

/// Table and key of a row, padded with zeros.
pub(crate) type CachedKey = [u8; 16];

/// The first byte of the keys of names.
const ENTRIES: u8 = crate::metadata::Table::Entries as u8;

/// The number of threads that can look up rows at the same time.
const SHARDS: usize = 16;
/// The approximate memory of a row in addition to its bytes.
const OVERHEAD_BYTES: usize = 96;

#[derive(Debug, Default)]
struct Generation {
    rows: HashMap<CachedKey, Arc<[u8]>, BuildHasherDefault<KeyHasher>>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RowCache {
    shards: Vec<Mutex<Shard>>,
    generation_bytes: usize,
    /// Runs of names; [`RowCache::end_change`] changes them as well.
    pub(crate) runs: RunCache,
    epoch: AtomicU64,
}

/// Spreads keys over tables. Clients cannot choose keys: identifiers are counted, and names are hashed with a secret key.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(self.0 ^ u64::from_le_bytes(word)) * u128::from(ODD);
            self.0 = (product >> 64) as u64 ^ product as u64;
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A moment at which no batch was being committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl RowCache {
    /// A cache for about this many bytes, a quarter of them for runs.
    pub(crate) fn new(bytes: u64) -> RowCache {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let generation_bytes = bytes / 4 * 3 / SHARDS / 2;
        RowCache {
            runs: RunCache::new(bytes / 4),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            generation_bytes,
            epoch: AtomicU64::new(0),
        }
    }

    /// The current epoch; `None` while a batch is being committed.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let epoch = self.epoch.load(Ordering::Acquire);
        epoch.is_multiple_of(2).then_some(Epoch(epoch))
    }

    /// Whether no batch was committed or begun since `then`.
    pub(crate) fn is_still(&self, then: Epoch) -> bool {
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::SeqCst) == then.0
    }

    pub(crate) fn row(&self, key: &CachedKey) -> Option<Arc<[u8]>> {
        let mut shard = self.shard(key);
        if let Some(row) = shard.young.rows.get(key) {
            return Some(Arc::clone(row));
        }
        let row = shard.old.take(key)?;
        shard.insert(*key, Arc::clone(&row), self.generation_bytes);
        Some(row)
    }

    /// Adds a row that was read from the embedded store at `then`, unless it may have changed since.
    pub(crate) fn keep(&self, key: CachedKey, row: &Arc<[u8]>, then: Epoch) {
        let mut shard = self.shard(&key);
        // A batch that begins after this check finds the row when it takes the shard's lock.
        if self.is_still(then) {
            shard.insert(key, Arc::clone(row), self.generation_bytes);
        }
    }

    /// Rows are about to change. Only one caller changes rows at a time.
    pub(crate) fn begin_change(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Applies changes of rows; `None` stands for a removed row.
    pub(crate) fn end_change(&self, changes: Vec<(CachedKey, Option<Arc<[u8]>>)>) {
        for (key, row) in changes {
            if let [ENTRIES, rest @ ..] = &key
                && let (Some(group), Some(place)) = (rest.first_chunk(), rest.last_chunk())
            {
                self.runs.forget(group, *place);
            }
            let mut shard = self.shard(&key);
            shard.young.take(&key);
            shard.old.take(&key);
            if let Some(row) = row {
                shard.insert(key, row, self.generation_bytes);
            }
        }
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    fn shard(&self, key: &CachedKey) -> MutexGuard<'_, Shard> {
        let mut hasher = KeyHasher::default();
        hasher.write(key);
        // These bits differ from those that order the table of a shard.
        let shard = &self.shards[(hasher.finish() >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generation {
    fn take(&mut self, key: &CachedKey) -> Option<Arc<[u8]>> {
        let row = self.rows.remove(key)?;
        self.bytes -= row.len() + OVERHEAD_BYTES;
        Some(row)
    }
}

impl Shard {
    fn insert(&mut self, key: CachedKey, row: Arc<[u8]>, generation_bytes: usize) {
        let size = row.len() + OVERHEAD_BYTES;
        if self.young.bytes + size > generation_bytes {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.take(&key);
        self.young.bytes += size;
        self.young.rows.insert(key, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> CachedKey {
        let mut key = [1; 16];
        key[8..].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn row(text: &str) -> Arc<[u8]> {
        Arc::from(text.as_bytes())
    }

    #[test]
    fn a_row_read_before_a_batch_is_not_kept_after_it() {
        let cache = RowCache::new(1 << 20);
        let then = cache.epoch().unwrap();
        cache.begin_change();
        assert_eq!(cache.epoch(), None);
        cache.keep(key(1), &row("old"), then);
        cache.end_change(vec![(key(2), Some(row("new")))]);
        cache.keep(key(1), &row("old"), then);
        assert_eq!(cache.row(&key(1)), None);
        assert_eq!(cache.row(&key(2)), Some(row("new")));
        assert!(!cache.is_still(then));
    }

    #[test]
    fn a_removed_row_is_forgotten_in_both_generations() {
        let cache = RowCache::new(1 << 20);
        cache.keep(key(1), &row("a"), cache.epoch().unwrap());
        cache.begin_change();
        cache.end_change(vec![(key(1), None)]);
        assert_eq!(cache.row(&key(1)), None);
    }

    #[test]
    fn memory_is_bounded_and_rows_in_use_stay() {
        let cache = RowCache::new(256 << 10);
        let favourite = key(u64::MAX);
        cache.keep(favourite, &row("favourite"), cache.epoch().unwrap());
        for number in 0..20_000 {
            cache.keep(key(number), &row("passing by"), cache.epoch().unwrap());
            assert!(cache.row(&favourite).is_some(), "after {number}");
        }
        let held: usize = (cache.shards.iter())
            .map(|shard| shard.lock().unwrap())
            .map(|shard| shard.young.bytes + shard.old.bytes)
            .sum();
        assert!(held <= 256 << 10, "{held} bytes are held");
    }
}
