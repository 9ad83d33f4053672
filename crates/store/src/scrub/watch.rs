//! Detects whether a task begins to write a file while it is being read from end to end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::ObjectId;

/// One file that is being read.
#[derive(Debug, Default)]
struct Watched {
    watchers: usize,
    /// How often a task has begun to write it.
    disturbances: u64,
}

/// The files that are being read from end to end; usually none.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<HashMap<ObjectId, Watched>>);

/// A watch over one file, until it is dropped.
#[derive(Debug)]
pub(super) struct Watch<'w> {
    watches: &'w Watches,
    file: ObjectId,
    begun: u64,
}

impl Watches {
    /// Notes that a task, which is registered as a writer already, is about to write.
    pub(crate) fn disturb(&self, file: ObjectId) {
        let mut files = self.files();
        if !files.is_empty()
            && let Some(watched) = files.get_mut(&file)
        {
            watched.disturbances += 1;
        }
    }

    /// Begins a watch. Writers that are registered already are not noticed.
    pub(super) fn watch(&self, file: ObjectId) -> Watch<'_> {
        let mut files = self.files();
        let watched = files.entry(file).or_default();
        watched.watchers += 1;
        Watch {
            watches: self,
            file,
            begun: watched.disturbances,
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<ObjectId, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch<'_> {
    /// Whether a task has begun to write since.
    pub(super) fn is_disturbed(&self) -> bool {
        let files = self.watches.files();
        let watched = files.get(&self.file);
        watched.is_none_or(|watched| watched.disturbances != self.begun)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut files = self.watches.files();
        if let Some(watched) = files.get_mut(&self.file) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                files.remove(&self.file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_notices_who_begins_after_it_and_leaves_nothing_behind() {
        let (watches, file) = (Watches::default(), ObjectId::from_u64(7));
        watches.disturb(file);
        let first = watches.watch(file);
        assert!(!first.is_disturbed());
        watches.disturb(ObjectId::from_u64(8));
        watches.disturb(file);
        let second = watches.watch(file);
        assert!(first.is_disturbed() && !second.is_disturbed());
        drop((first, second));
        assert!(watches.files().is_empty());
    }
}
