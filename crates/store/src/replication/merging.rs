//! The rows of consecutive updates put together: of what a row was in between nobody need hear.

use std::collections::HashMap;

use bytes::Bytes;
use vfs::ObjectId;

use crate::recording::{RowChange, UpdateRecord};

/// A file's size as the last row said, and whether the file was made by one of the updates.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    made: bool,
}

/// Consecutive updates that a follower may apply as one, [`crate::ForeignUpdate`] with the position of the
/// last of them: the last state of each row.
///
/// What has to stay apart are two sizes of a file that the follower may have, since it cuts its data where a row
/// says so; a file that one of the updates makes it cannot have.
#[derive(Debug)]
pub struct MergedRows {
    position: u64,
    bytes: usize,
    changes: Vec<RowChange>,
    /// Where in `changes` each row is.
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

    /// Adds the update that comes next, or gives it back when it has to be applied by itself.
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

    /// How many bytes were put together; what they take together is less.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows, each once, in the order in which they were first changed.
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
