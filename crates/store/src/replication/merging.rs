//! Merges the rows of consecutive updates: only the last state of each row is kept.

use std::collections::HashMap;

use bytes::Bytes;
use vfs::ObjectId;

use crate::recording::{RowChange, UpdateRecord};

/// A file's size in the last row, and whether one of the updates created the file.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    made: bool,
}

/// Consecutive updates that a follower may apply as one [`crate::ForeignUpdate`] with the position of the
/// last update: the last state of each row.
///
/// Two different sizes of a file that the follower may have must stay separate, since the follower cuts its data where a
/// row says so. This does not hold for a file that one of the updates creates: the follower cannot have it.
#[derive(Debug)]
pub struct MergedRows {
    position: u64,
    bytes: usize,
    changes: Vec<RowChange>,
    /// The index in `changes` of each row.
    places: HashMap<(u8, Bytes), usize>,
    sizes: HashMap<ObjectId, Size>,
}

impl MergedRows {
    /// The rows of one update.
    #[must_use]
    pub fn of(update: UpdateRecord) -> MergedRows {
        let mut merged = MergedRows {
            position: 0,
            bytes: 0,
            changes: Vec::new(),
            places: HashMap::new(),
            sizes: HashMap::new(),
        };
        merged.add(update);
        merged
    }

    /// Adds the next update, or returns it if it has to be applied separately.
    ///
    /// # Errors
    /// The update.
    pub fn try_add(&mut self, update: UpdateRecord) -> Result<(), UpdateRecord> {
        match update.changes.iter().all(|change| self.keeps_size(change)) {
            true => {
                self.add(update);
                Ok(())
            }
            false => Err(update),
        }
    }

    /// The position of the last update.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes were merged; the result has at most this size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows, each once, in the order of their first change.
    #[must_use]
    pub fn into_changes(self) -> Vec<RowChange> {
        self.changes
    }

    fn keeps_size(&self, change: &RowChange) -> bool {
        let Some((file, bytes)) = change.file_size() else {
            return true;
        };
        let before = self.sizes.get(&file);
        before.is_none_or(|before| before.made || before.bytes == bytes)
    }

    fn add(&mut self, update: UpdateRecord) {
        self.position = update.position;
        let made = update.made();
        for change in update.changes {
            if let Some((file, bytes)) = change.file_size() {
                let made = made == Some(file) || self.sizes.get(&file).is_some_and(|one| one.made);
                self.sizes.insert(file, Size { bytes, made });
            }
            self.put(change);
        }
    }

    fn put(&mut self, change: RowChange) {
        self.bytes += change.key.len() + change.value.as_ref().map_or(0, Bytes::len);
        let key = (change.table, change.key.clone());
        match self.places.get(&key) {
            Some(place) => self.changes[*place] = change,
            None => {
                self.places.insert(key, self.changes.len());
                self.changes.push(change);
            }
        }
    }
}
