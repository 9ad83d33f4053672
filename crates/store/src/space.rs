//! Space on the file system below, and the reserve.
//!
//! On a full disk removals must still work, and the embedded store must never meet a full disk, because it cannot
//! continue after that. So data and new objects are refused while the free space is below the reserve. Half of the reserve is
//! a preallocated file, the ballast: other programs cannot fill it, and it is released when removals or the embedded store
//! need space. Admitted space counts as used until it is written; otherwise many concurrent writers would use up the reserve.

mod ballast;
mod files;
mod occupied;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vfs::{Error, Space};

use self::ballast::Ballast;
use self::files::{LOOK_AGAIN, Purpose};
pub(crate) use self::occupied::Counted;
use crate::error::{StoreError, from_os};
use crate::options::Reserve;

/// The maximum of [`Reserve::Automatic`].
const AUTOMATIC_BYTES: u64 = 256 << 20;
/// The minimum, except on a small disk: what the embedded store needs while tens of thousands of files are removed.
const AUTOMATIC_LEAST_BYTES: u64 = 32 << 20;
/// The part of the file system that [`Reserve::Automatic`] reserves: one part in this number.
const AUTOMATIC_PART: u64 = 50;
/// The maximum part of a small file system: one part in this number.
const AUTOMATIC_MOST_PART: u64 = 4;
/// The part of the reserve that is preallocated: one part in this number.
const BALLAST_PART: u64 = 2;
/// The part of the reserve that changes other than removals must leave: one part in this number.
const CHANGE_PART: u64 = 2;
/// The part of the reserve that even removals must leave: one part in this number.
const LAST_PART: u64 = 8;
/// The ballast is released in steps of this size, or in larger ones when more is needed at once.
const STEP_BYTES: u64 = 1 << 20;
/// The newest journal has this much space allocated in advance.
const JOURNAL_AHEAD_BYTES: u64 = 4 << 20;
/// The estimated space for one new object, name or attribute.
pub(crate) const ROW_BYTES: u64 = 4096;
/// The estimated space for removing one object, until the journal with the removal is gone.
const REMOVAL_BYTES: u64 = 1024;
/// The maximum for all removals together: by then journals are gone.
const REMOVALS_BYTES: u64 = 128 << 20;

/// The disk space that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// This many bytes more than now.
    Space(u64),
    /// Nothing permanently; a few rows temporarily.
    Change,
    /// The same, and it frees space.
    Removal,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    /// The free bytes at that time, minus admitted space that was not written then, minus what was admitted since.
    free_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    look: Option<Look>,
    files: Option<files::Look>,
    /// Bytes that were admitted and may not be written yet.
    under_way_bytes: u64,
    /// Bytes that the embedded store has to write out from memory, plus the space for removing all objects.
    metadata_bytes: u64,
}

impl State {
    /// Admits bytes by the last look, if that is recent and found much more than these bytes and the reserve: with plenty of
    /// space one look serves many operations. Returns whether it did.
    fn admit_by_last_look(&mut self, bytes: u64, kept_bytes: u64) -> bool {
        let look = self.look.as_mut();
        let Some(look) = look.filter(|look| look.at.elapsed() < LOOK_AGAIN) else {
            return false;
        };
        let has_plenty = look.free_bytes / 2 > bytes.saturating_add(kept_bytes);
        if has_plenty {
            look.free_bytes -= bytes;
            self.under_way_bytes += bytes;
        }
        has_plenty
    }

    /// Notes the free bytes of a new look; admitted bytes in progress are subtracted.
    fn note_look(&mut self, free_bytes: u64) {
        self.look = Some(Look {
            at: Instant::now(),
            free_bytes: free_bytes.saturating_sub(self.under_way_bytes),
        });
    }
}

/// Free space on the file system, in bytes.
#[derive(Clone, Copy, Debug)]
struct Free {
    /// For all users.
    all: u64,
    /// For this process: the superuser may also use the space that the file system reserves.
    own: u64,
}

/// Decides whether there is space.
#[derive(Debug)]
pub(crate) struct Headroom {
    data: File,
    /// Whether this process may use the space that the file system reserves.
    is_superuser: bool,
    reserve_bytes: u64,
    ballast: Ballast,
    state: Mutex<State>,
}

/// Admitted space; it counts as used until this is dropped, after the space was written.
#[derive(Debug)]
#[must_use = "what is not held does not count"]
pub(crate) struct Admission<'h> {
    headroom: &'h Headroom,
    bytes: u64,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let mut state = self.headroom.state();
        state.under_way_bytes = state.under_way_bytes.saturating_sub(self.bytes);
    }
}

impl Headroom {
    /// Watches the file system that holds `data`, a directory of the store in `root`. Releases ballast immediately if
    /// the file system is full, so that the embedded store can be opened.
    pub(crate) fn new(root: &Path, data: &Path, reserve: Reserve) -> Result<Headroom, StoreError> {
        let directory = File::open(data).map_err(|error| StoreError::io("open", data, error))?;
        let total = rustix::fs::fstatvfs(directory.as_fd())
            .map_err(|errno| StoreError::io("look at the space of", data, errno.into()))?;
        let total_bytes = total.f_blocks.saturating_mul(total.f_frsize);
        let reserve_bytes = match reserve {
            Reserve::Automatic => automatic_bytes(total_bytes),
            Reserve::Bytes(bytes) => bytes,
        };
        let headroom = Headroom {
            data: directory,
            is_superuser: rustix::process::geteuid().is_root(),
            reserve_bytes,
            ballast: Ballast::find(root, reserve_bytes / BALLAST_PART),
            state: Mutex::default(),
        };
        // No condition here: no removal is possible before the embedded store is open.
        headroom.give_up_ballast(reserve_bytes / CHANGE_PART);
        Ok(headroom)
    }

    /// [`Error::NoSpace`] unless there is space for what an operation needs.
    pub(crate) fn admit(&self, demand: Demand) -> vfs::Result<Admission<'_>> {
        let bytes = match demand {
            Demand::Space(bytes) => {
                self.admit_space(bytes)?;
                bytes
            }
            Demand::Change => self.admit_change(ROW_BYTES, |state| {
                let for_removals = self.reserve_bytes / CHANGE_PART;
                for_removals.saturating_add(state.metadata_bytes)
            })?,
            Demand::Removal => self.admit_removal()?,
        };
        Ok(Admission {
            headroom: self,
            bytes,
        })
    }

    /// [`Error::NoSpace`] unless the file system below has space for one more data file.
    pub(crate) fn admit_file(&self) -> vfs::Result<()> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let mut state = self.state();
        if state.files.as_mut().is_some_and(files::Look::take_one) {
            return Ok(());
        }
        state.files = files::Look::at(&self.data);
        // If this is unknown, the caller that creates the file gets the error.
        match state
            .files
            .as_ref()
            .is_none_or(|look| look.has(Purpose::Data))
        {
            true => Ok(()),
            false => Err(Error::NoSpace),
        }
    }

    /// Whether the file system below has enough files for the embedded store to write out rows.
    pub(crate) fn has_files(&self) -> bool {
        self.reserve_bytes == 0
            || files::Look::at(&self.data).is_none_or(|look| look.has(Purpose::Rows))
    }

    fn admit_space(&self, wanted_bytes: u64) -> vfs::Result<()> {
        let mut state = self.state();
        let kept_bytes = self.kept_bytes(&state);
        if state.admit_by_last_look(wanted_bytes, kept_bytes) {
            return Ok(());
        }
        let all_bytes = self.free()?.all;
        let free_bytes = all_bytes.saturating_sub(state.under_way_bytes);
        let fits = free_bytes >= wanted_bytes.saturating_add(kept_bytes);
        if fits {
            state.under_way_bytes += wanted_bytes;
        }
        state.note_look(all_bytes);
        match fits {
            true => Ok(()),
            false => Err(Error::NoSpace),
        }
    }

    fn admit_removal(&self) -> vfs::Result<u64> {
        let kept_bytes = self.reserve_bytes / LAST_PART;
        if self.state().admit_by_last_look(REMOVAL_BYTES, kept_bytes) {
            return Ok(REMOVAL_BYTES);
        }
        self.admit_change(REMOVAL_BYTES, |_| kept_bytes)
    }

    /// Admits an operation that needs space only temporarily: `bytes` count until they are written. At least `kept_bytes` must
    /// be left, ballast included.
    fn admit_change(&self, bytes: u64, kept_bytes: impl Fn(&State) -> u64) -> vfs::Result<u64> {
        let free = self.free()?;
        let mut state = self.state();
        let left_bytes = free
            .own
            .saturating_add(self.ballast.held_bytes())
            .saturating_sub(state.under_way_bytes);
        if left_bytes < kept_bytes(&state) {
            return Err(Error::NoSpace);
        }
        state.under_way_bytes += bytes;
        state.note_look(free.all);
        Ok(bytes)
    }

    /// Whether this number of bytes is free for the process, after the ballast was released as far as needed. If that
    /// would not be enough, none is released. If another program takes the released space, no more is released.
    pub(crate) fn ensure(&self, bytes: u64) -> bool {
        let Ok(free) = self.free() else { return false };
        let lacking_bytes = bytes.saturating_sub(free.own);
        if lacking_bytes == 0 {
            return true;
        }
        if lacking_bytes > self.ballast.held_bytes() {
            return false;
        }
        self.ballast.release(lacking_bytes.max(STEP_BYTES));
        self.free().is_ok_and(|free| free.own >= bytes)
    }

    /// Releases ballast until this number of bytes is free, or the ballast is used up.
    fn give_up_ballast(&self, wanted_bytes: u64) {
        while let Ok(free) = self.free() {
            let lacking_bytes = wanted_bytes.saturating_sub(free.own);
            if lacking_bytes == 0 || !self.ballast.release(lacking_bytes.max(STEP_BYTES)) {
                return;
            }
        }
    }

    /// Runs a function that allocates space; while the disk is full, releases ballast step by step.
    pub(crate) fn force(&self, allocate: impl Fn() -> io::Result<()>) -> io::Result<()> {
        loop {
            match allocate() {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    if !self.ballast.release(STEP_BYTES) {
                        return Err(error);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Releases a step of ballast for use outside the store, unless the last removals need that space.
    /// Returns whether it did. If files are lacking, space would not help.
    pub(crate) fn give_space(&self) -> bool {
        if !self.has_files() {
            return false;
        }
        let step_bytes = STEP_BYTES.min(self.reserve_bytes / LAST_PART);
        let kept_bytes = self.reserve_bytes / LAST_PART;
        self.ballast.held_bytes() >= step_bytes.saturating_add(kept_bytes)
            && self.ballast.release(step_bytes)
    }

    /// The number of journal bytes to allocate in advance.
    pub(crate) fn journal_bytes(&self) -> u64 {
        JOURNAL_AHEAD_BYTES.min(self.reserve_bytes / LAST_PART)
    }

    /// Allocates the ballast again when the whole reserve and an eighth more is free. May wait for the disk.
    pub(crate) fn restore_ballast(&self) {
        let Ok(free) = self.free() else { return };
        let kept_bytes = self.kept_bytes(&self.state());
        if free.all > kept_bytes.saturating_add(self.reserve_bytes / LAST_PART) {
            self.ballast.take();
        }
    }

    /// Notes the bytes that the embedded store still has to write out, and the number of objects that may be removed.
    pub(crate) fn note_metadata(&self, held_bytes: u64, objects: u64) {
        let removals_bytes = objects.saturating_mul(REMOVAL_BYTES).min(REMOVALS_BYTES);
        // Without a reserve nothing is reserved for this either.
        let part = u64::from(self.reserve_bytes > 0);
        self.state().metadata_bytes = part * held_bytes.saturating_add(removals_bytes);
    }

    /// The bytes that clients cannot use, without the ballast.
    fn kept_bytes(&self, state: &State) -> u64 {
        let free_part = self.reserve_bytes.saturating_sub(self.ballast.held_bytes());
        free_part.saturating_add(state.metadata_bytes)
    }

    /// The space shown to clients.
    pub(crate) fn space(&self, objects: u64) -> vfs::Result<Space> {
        let below = rustix::fs::fstatvfs(self.data.as_fd())
            .map_err(|errno| from_os("statvfs", &errno.into()))?;
        let unit_bytes = below.f_frsize;
        let usable_bytes = below.f_bavail.saturating_mul(unit_bytes);
        let available_bytes = usable_bytes.saturating_sub(self.kept_bytes(&self.state()));
        // Objects are rows: bytes limit their number, or files below.
        let by_bytes = available_bytes / ROW_BYTES;
        let free_objects = if below.f_files == 0 {
            by_bytes
        } else {
            by_bytes.min(below.f_favail)
        };
        Ok(Space {
            total_bytes: below.f_blocks.saturating_mul(unit_bytes),
            free_bytes: below.f_bfree.saturating_mul(unit_bytes),
            available_bytes,
            total_objects: objects.saturating_add(free_objects),
            free_objects,
        })
    }

    fn free(&self) -> vfs::Result<Free> {
        let below = rustix::fs::fstatvfs(self.data.as_fd())
            .map_err(|errno| from_os("statvfs", &errno.into()))?;
        let all = below.f_bavail.saturating_mul(below.f_frsize);
        let own = match self.is_superuser {
            true => below.f_bfree.saturating_mul(below.f_frsize),
            false => all,
        };
        Ok(Free { all, own })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The numbers are valid even if another thread panicked in between.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn automatic_bytes(total_bytes: u64) -> u64 {
    let part = (total_bytes / AUTOMATIC_PART).clamp(AUTOMATIC_LEAST_BYTES, AUTOMATIC_BYTES);
    part.min(total_bytes / AUTOMATIC_MOST_PART)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn headroom(directory: &Path, reserve: Reserve) -> Headroom {
        Headroom::new(directory, directory, reserve).unwrap()
    }

    fn refused(headroom: &Headroom, demand: Demand) -> bool {
        headroom
            .admit(demand)
            .is_err_and(|error| error == Error::NoSpace)
    }

    #[test]
    fn what_is_kept_back_is_refused_to_data_and_left_to_removals() {
        let directory = tempfile::tempdir().unwrap();
        let free = headroom(directory.path(), Reserve::Bytes(0))
            .free()
            .unwrap();
        // All free space, and much more than other tests can free meanwhile.
        let tight = headroom(directory.path(), Reserve::Bytes(free.own + free.own / 2));
        assert!(refused(&tight, Demand::Space(1)));
        assert!(!refused(&tight, Demand::Change) && !refused(&tight, Demand::Removal));
        assert_eq!(tight.space(1).unwrap().available_bytes, 0);
        let tighter = headroom(directory.path(), Reserve::Bytes(free.own * 4));
        assert!(refused(&tighter, Demand::Change) && !refused(&tighter, Demand::Removal));
        let gone = headroom(directory.path(), Reserve::Bytes(free.own * 10));
        assert!(refused(&gone, Demand::Removal));
    }

    #[test]
    fn a_demand_beyond_the_disk_is_refused_although_there_is_plenty() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(1 << 20));
        assert!(refused(&headroom, Demand::Space(1 << 60)));
        assert!(!refused(&headroom, Demand::Space(1)));
        assert!(refused(&headroom, Demand::Space(1 << 60)));
    }

    /// Changes of attributes used up the space reserved for removals, one chmod after the other.
    #[test]
    fn changes_leave_alone_what_removals_need() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(1 << 20));
        assert!(!refused(&headroom, Demand::Change));
        headroom.note_metadata(headroom.free().unwrap().own * 2, 0);
        assert!(refused(&headroom, Demand::Change) && !refused(&headroom, Demand::Removal));
    }

    /// The needs of many concurrent changes count while they are in progress.
    #[test]
    fn changes_under_way_count() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(1 << 20));
        let changes: Vec<_> = (0..10)
            .map(|_| headroom.admit(Demand::Change).unwrap())
            .collect();
        assert_eq!(headroom.state().under_way_bytes, 10 * ROW_BYTES);
        drop(changes);
        assert_eq!(headroom.state().under_way_bytes, 0);
    }

    /// The embedded store needed more than the ballast has, and the program that filled the disk
    /// got all of it.
    #[test]
    fn the_ballast_is_not_given_up_in_vain() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(2 << 20));
        headroom.restore_ballast();
        let held_bytes = headroom.ballast.held_bytes();
        if held_bytes == 0 {
            eprintln!("NOT TESTED: this file system preallocates nothing");
            return;
        }
        assert!(!headroom.ensure(1 << 60));
        assert_eq!(headroom.ballast.held_bytes(), held_bytes);
        assert!(headroom.ensure(1));
        assert_eq!(headroom.ballast.held_bytes(), held_bytes);
    }

    /// Records of new clients, one after the other, would have used the space for removals.
    #[test]
    fn what_lies_beside_the_store_leaves_space_for_removals() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(16 << 20));
        headroom.restore_ballast();
        if headroom.ballast.held_bytes() == 0 {
            eprintln!("NOT TESTED: this file system preallocates nothing");
            return;
        }
        assert!(headroom.give_space());
        while headroom.give_space() {}
        assert_eq!(headroom.ballast.held_bytes(), (16 << 20) / LAST_PART);
        assert!(!refused(&headroom, Demand::Removal));
    }

    /// Each operation looked at the file system, even with plenty of space.
    #[test]
    fn one_look_serves_many_operations_where_there_is_plenty() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(1 << 20));
        let looked_at = |at| {
            let mut state = headroom.state();
            std::mem::replace(&mut state.look.as_mut().unwrap().at, at)
        };
        let soon = Instant::now() + Duration::from_secs(3600);
        assert!(!refused(&headroom, Demand::Removal));
        looked_at(soon);
        for demand in [Demand::Removal, Demand::Space(1)] {
            assert!(!refused(&headroom, demand));
            assert_eq!(looked_at(soon), soon, "{demand:?}");
        }
        // This demand would leave little space.
        let most_bytes = headroom.free().unwrap().all / 3 * 2;
        assert!(!refused(&headroom, Demand::Space(most_bytes)));
        assert!(looked_at(Instant::now() - LOOK_AGAIN) < soon);
        assert!(!refused(&headroom, Demand::Removal));
        assert!(looked_at(soon) < soon);
    }

    /// Concurrent writers that were admitted saw the same free space, and together used up the reserve.
    #[test]
    fn what_is_under_way_counts_until_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = headroom(directory.path(), Reserve::Bytes(0));
        let most = headroom.free().unwrap().all / 3 * 2;
        let first = headroom.admit(Demand::Space(most)).unwrap();
        assert!(refused(&headroom, Demand::Space(most)));
        // Dropped without a write.
        drop(first);
        headroom.state().look = None;
        assert!(!refused(&headroom, Demand::Space(most)));
    }

    #[test]
    fn a_small_disk_keeps_back_what_its_metadata_needs() {
        assert_eq!(automatic_bytes(200 << 20), 32 << 20);
        assert_eq!(automatic_bytes(64 << 20), 16 << 20);
        assert_eq!(automatic_bytes(5 << 30), (5 << 30) / 50);
        assert_eq!(automatic_bytes(1 << 40), 256 << 20);
    }
}
