//! Which files have data that may not be stable, and how many tasks are writing to them.
//!
//! A file gets a row in the table of dirty files, stable before the file's first write is
//! answered, so that after a crash the store knows which files not to trust (rule 27 of the
//! replication design). The row is removed some time after all data is stable and the last writer
//! has left, so that a file with steady writes is marked once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vfs::ObjectId;

use super::kept::Kept;
use crate::committer::Ticket;

/// The state of a marked file.
#[derive(Debug)]
struct Dirty {
    /// The batch that marked it.
    marked: Ticket,
    /// Whether that batch also made the file, so that no crash can leave the file without the mark.
    born_marked: bool,
    /// All data written since then is that of another primary, which will send it again after a crash.
    foreign: bool,
    writers: u32,
    /// The number of data changes so far, and how many of them are stable.
    changes: u64,
    stable_changes: u64,
    /// The number of the last change that made the data file shorter; 0 if none did.
    last_cut: u64,
    /// The data file was created, and its name may not be stable.
    new_name: bool,
    /// Its data is not in a data file of the store. Cutting is expensive there, so the mark stays until the tail is clean.
    elsewhere: bool,
    /// No bytes lie behind the size in the row, except those of writers in progress.
    tail_clean: bool,
    /// Writes that are in the metadata store too, oldest first.
    kept: Vec<Kept>,
    touched_at: Instant,
}

/// The marked files of a running store.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles {
    files: Mutex<HashMap<ObjectId, Dirty>>,
    /// Bytes of all kept writes.
    kept_bytes: AtomicU64,
}

/// What has to be made stable, and whether the file's name too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unstable {
    pub(crate) changes: u64,
    pub(crate) new_name: bool,
    /// The kept writes that become useless once this data is stable.
    pub(crate) kept: Vec<Kept>,
}

/// The state of a file's mark, for a task that is about to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Must be stable before data is written, unless the file was born with the mark.
    pub(crate) ticket: Ticket,
    pub(crate) born_marked: bool,
    pub(crate) tail_clean: bool,
}

/// Why a file is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The batch of the mark also makes the file.
    pub(crate) born_marked: bool,
    /// Only data of another primary will be written.
    pub(crate) foreign: bool,
    /// The data is not in a data file of the store.
    pub(crate) elsewhere: bool,
}

impl Origin {
    /// An existing file that another primary changed.
    pub(crate) const FOREIGN: Origin = Origin {
        born_marked: false,
        foreign: true,
        elsewhere: false,
    };
}

impl DirtyFiles {
    /// Registers a writer of a file that is marked already; `foreign` if it writes data of another
    /// primary.
    pub(crate) fn join(&self, id: ObjectId, foreign: bool) -> Option<Mark> {
        let mut files = self.files();
        let dirty = files
            .get_mut(&id)
            .filter(|dirty| foreign || !dirty.foreign)?;
        dirty.writers += 1;
        dirty.touched_at = Instant::now();
        Some(Mark {
            ticket: dirty.marked,
            born_marked: dirty.born_marked,
            tail_clean: dirty.tail_clean,
        })
    }

    /// Notes a mark that is in the batch of `ticket`, with `writers` registered. The caller holds the
    /// writer's lock, so that marks change in the order of batches. This mark's ticket and origin replace those of
    /// an existing mark.
    pub(crate) fn mark(&self, id: ObjectId, ticket: Ticket, origin: Origin, writers: u32) {
        let mut files = self.files();
        let dirty = files.entry(id).or_insert_with(|| Dirty {
            marked: ticket,
            born_marked: false,
            foreign: false,
            writers: 0,
            changes: 0,
            stable_changes: 0,
            last_cut: 0,
            new_name: false,
            tail_clean: origin.born_marked || origin.elsewhere,
            elsewhere: origin.elsewhere,
            kept: Vec::new(),
            touched_at: Instant::now(),
        });
        dirty.marked = ticket;
        dirty.born_marked = origin.born_marked;
        dirty.foreign = origin.foreign;
        dirty.writers += writers;
    }

    /// Ends what [`DirtyFiles::join`] or [`DirtyFiles::mark`] began.
    pub(crate) fn leave(&self, id: ObjectId) {
        if let Some(dirty) = self.files().get_mut(&id) {
            dirty.writers = dirty.writers.saturating_sub(1);
            dirty.touched_at = Instant::now();
        }
    }

    /// Data was changed, perhaps in a data file that was just created.
    pub(crate) fn changed(&self, id: ObjectId, new_name: bool) {
        if let Some(dirty) = self.files().get_mut(&id) {
            dirty.changes += 1;
            dirty.new_name |= new_name;
        }
    }

    /// The data file was made shorter.
    pub(crate) fn cut(&self, id: ObjectId) {
        if let Some(dirty) = self.files().get_mut(&id) {
            dirty.changes += 1;
            dirty.last_cut = dirty.changes;
        }
    }

    /// Whether a crash could restore bytes that were cut off.
    pub(crate) fn has_unstable_cut(&self, id: ObjectId) -> bool {
        let files = self.files();
        files
            .get(&id)
            .is_some_and(|dirty| dirty.last_cut > dirty.stable_changes)
    }

    /// Notes whether the data file may have bytes behind the size in the row, left by a failed write.
    pub(crate) fn set_tail_clean(&self, id: ObjectId, clean: bool) {
        if let Some(dirty) = self.files().get_mut(&id) {
            dirty.tail_clean = clean;
        }
    }

    /// Whether it is known that no bytes lie behind the size in the row.
    pub(crate) fn tail_is_clean(&self, id: ObjectId) -> bool {
        self.files().get(&id).is_some_and(|dirty| dirty.tail_clean)
    }

    /// Files elsewhere that may have bytes behind their size, and that no task has touched for `rest`.
    pub(crate) fn unclean_elsewhere(&self, rest: Duration) -> Vec<ObjectId> {
        let files = self.files();
        let unclean = files
            .iter()
            .filter(|(_, dirty)| dirty.elsewhere && !dirty.tail_clean && dirty.rested(rest));
        unclean.map(|(id, _)| *id).collect()
    }

    /// The changes that are not stable yet; `None` if there are none.
    pub(crate) fn unstable(&self, id: ObjectId) -> Option<Unstable> {
        let files = self.files();
        let dirty = files.get(&id)?;
        (dirty.stable_changes < dirty.changes).then(|| dirty.unstable())
    }

    /// Whether a write of `bytes` bytes can be kept within the limits for its file and for
    /// all files.
    pub(crate) fn has_space(&self, id: ObjectId, bytes: u64, of_file: u64, of_all: u64) -> bool {
        let files = self.files();
        let kept = files.get(&id).map_or(0, Dirty::kept_bytes);
        kept + bytes <= of_file && self.kept_bytes.load(Ordering::Relaxed) + bytes <= of_all
    }

    /// Notes a kept write whose batch was just committed. Returns the bytes kept of all files.
    pub(crate) fn keep(&self, id: ObjectId, kept: Kept) -> u64 {
        let mut files = self.files();
        let Some(dirty) = files.get_mut(&id) else {
            return 0;
        };
        dirty.kept.push(kept);
        self.kept_bytes.fetch_add(kept.bytes, Ordering::Relaxed) + kept.bytes
    }

    /// The kept writes of a file.
    pub(crate) fn kept(&self, id: ObjectId) -> Vec<Kept> {
        let files = self.files();
        files
            .get(&id)
            .map_or_else(Vec::new, |dirty| dirty.kept.clone())
    }

    /// Forgets kept writes whose rows are removed.
    pub(crate) fn drop_kept(&self, id: ObjectId, dropped: &[Kept]) {
        if let Some(dirty) = self.files().get_mut(&id) {
            let before = dirty.kept_bytes();
            dirty.kept.retain(|kept| !dropped.contains(kept));
            let gone = before - dirty.kept_bytes();
            self.kept_bytes.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    /// The kept writes of a file whose data is all stable; otherwise empty.
    pub(crate) fn kept_of_stable(&self, id: ObjectId) -> Vec<Kept> {
        let files = self.files();
        let stable = files
            .get(&id)
            .filter(|dirty| dirty.stable_changes == dirty.changes);
        stable.map_or_else(Vec::new, |dirty| dirty.kept.clone())
    }

    /// The same for all files.
    pub(crate) fn all_kept_of_stable(&self) -> Vec<(ObjectId, Vec<Kept>)> {
        let files = self.files();
        let stable = files
            .iter()
            .filter(|(_, dirty)| dirty.stable_changes == dirty.changes);
        let kept = stable.filter(|(_, dirty)| !dirty.kept.is_empty());
        kept.map(|(id, dirty)| (*id, dirty.kept.clone())).collect()
    }

    /// Every file with kept writes, and what has to be made stable before these can be removed.
    pub(crate) fn files_with_kept(&self) -> Vec<(ObjectId, Unstable)> {
        let files = self.files();
        let with_kept = files.iter().filter(|(_, dirty)| !dirty.kept.is_empty());
        with_kept
            .map(|(id, dirty)| (*id, dirty.unstable()))
            .collect()
    }

    /// Bytes kept of all files.
    pub(crate) fn all_kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// Notes that all changes up to these have become stable.
    pub(crate) fn stabilised(&self, id: ObjectId, unstable: &Unstable) {
        if let Some(dirty) = self.files().get_mut(&id) {
            dirty.stable_changes = dirty.stable_changes.max(unstable.changes);
            if unstable.new_name {
                dirty.new_name = false;
            }
        }
    }

    /// Whether the file is marked.
    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.files().contains_key(&id)
    }

    /// Whether the file is marked for data that was written here.
    pub(crate) fn is_own(&self, id: ObjectId) -> bool {
        self.files().get(&id).is_some_and(|dirty| !dirty.foreign)
    }

    /// Whether a task is writing the file now.
    pub(crate) fn has_writers(&self, id: ObjectId) -> bool {
        self.files().get(&id).is_some_and(|dirty| dirty.writers > 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.files().len()
    }

    /// Forgets a removed object and its mark. Returns its kept writes, whose rows have to be removed too.
    pub(crate) fn forget(&self, id: ObjectId) -> Vec<Kept> {
        let removed = self.files().remove(&id);
        self.forgotten(removed)
    }

    /// Forgets all objects; the rows of the marks are removed too.
    pub(crate) fn clear(&self) {
        let mut files = self.files();
        files.clear();
        self.kept_bytes.store(0, Ordering::Relaxed);
    }

    fn forgotten(&self, removed: Option<Dirty>) -> Vec<Kept> {
        let Some(dirty) = removed else {
            return Vec::new();
        };
        self.kept_bytes
            .fetch_sub(dirty.kept_bytes(), Ordering::Relaxed);
        dirty.kept
    }

    /// At most `count` files that need no mark and that no task has touched for `rest`.
    pub(crate) fn clean(&self, rest: Duration, count: usize) -> Vec<ObjectId> {
        let files = self.files();
        let idle = files
            .iter()
            .filter(|(_, dirty)| dirty.is_clean() && dirty.rested(rest));
        idle.map(|(id, _)| *id).take(count).collect()
    }

    /// At most `count` files with unstable data that no task has touched for `rest`.
    pub(crate) fn neglected(&self, rest: Duration, count: usize) -> Vec<ObjectId> {
        let files = self.files();
        let unstable = files
            .iter()
            .filter(|(_, dirty)| dirty.stable_changes < dirty.changes);
        unstable
            .filter(|(_, dirty)| dirty.rested(rest))
            .map(|(id, _)| *id)
            .take(count)
            .collect()
    }

    /// Forgets a file if it needs no mark. The caller holds the writer's lock and removes the row in its
    /// current batch.
    pub(crate) fn forget_if_clean(&self, id: ObjectId) -> bool {
        let mut files = self.files();
        let clean = files.get(&id).is_some_and(Dirty::is_clean);
        if clean {
            files.remove(&id);
        }
        clean
    }

    fn files(&self) -> MutexGuard<'_, HashMap<ObjectId, Dirty>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dirty {
    fn unstable(&self) -> Unstable {
        Unstable {
            changes: self.changes,
            new_name: self.new_name,
            kept: self.kept.clone(),
        }
    }

    fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(|kept| kept.bytes).sum()
    }

    fn is_clean(&self) -> bool {
        let tail = self.tail_clean || !self.elsewhere;
        self.writers == 0 && self.stable_changes == self.changes && self.kept.is_empty() && tail
    }

    fn rested(&self, rest: Duration) -> bool {
        self.writers == 0 && self.touched_at.elapsed() >= rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::from_u64(77);

    #[test]
    fn a_mark_stays_while_somebody_writes_or_data_is_unstable() {
        let files = DirtyFiles::default();
        assert_eq!(files.join(FILE, false), None);
        files.mark(FILE, Ticket(3), Origin::default(), 1);
        assert!(!files.forget_if_clean(FILE));
        files.changed(FILE, true);
        files.leave(FILE);
        assert!(!files.forget_if_clean(FILE));
        let unstable = files.unstable(FILE).unwrap();
        assert!(unstable.new_name);
        files.stabilised(FILE, &unstable);
        assert_eq!(files.unstable(FILE), None);
        assert!(files.forget_if_clean(FILE));
        assert_eq!(files.len(), 0);
    }

    #[test]
    fn what_is_written_during_a_sync_is_still_unstable_behind_it() {
        let files = DirtyFiles::default();
        files.mark(FILE, Ticket(1), Origin::default(), 0);
        files.changed(FILE, false);
        let seen = files.unstable(FILE).unwrap();
        files.changed(FILE, false);
        files.stabilised(FILE, &seen);
        assert!(files.unstable(FILE).is_some());
    }

    #[test]
    fn a_mark_for_foreign_data_is_not_enough_for_a_writer_here() {
        let files = DirtyFiles::default();
        let foreign = Origin {
            foreign: true,
            ..Origin::default()
        };
        files.mark(FILE, Ticket(2), foreign, 1);
        assert!(files.join(FILE, true).is_some());
        assert_eq!(files.join(FILE, false), None);
        files.mark(FILE, Ticket(3), Origin::default(), 1);
        assert_eq!(files.join(FILE, false).unwrap().ticket, Ticket(3));
        (0..4).for_each(|_| files.leave(FILE));
        assert!(files.forget_if_clean(FILE));
    }

    #[test]
    fn a_second_writer_learns_which_batch_to_wait_for() {
        let files = DirtyFiles::default();
        files.mark(FILE, Ticket(9), Origin::default(), 1);
        let mark = files.join(FILE, false).unwrap();
        assert_eq!(
            (mark.ticket, mark.born_marked, mark.tail_clean),
            (Ticket(9), false, false)
        );
        assert!(files.clean(Duration::ZERO, 10).is_empty());
        files.leave(FILE);
        files.leave(FILE);
        assert_eq!(files.clean(Duration::ZERO, 10), [FILE]);
    }
}
