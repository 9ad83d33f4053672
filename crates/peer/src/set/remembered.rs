//! Caches the parsed file of the list of members: it is checked every second and changes a few times in the life of a set.
//!
//! What must never enter: the meaning of the list.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::directory::SetFile;

/// If a file changed less than this time before it was read, another change could leave its times unchanged.
const AT_REST: Duration = Duration::from_secs(2);

/// The attributes by which an unchanged file is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file, to be taken before it is read.
    pub(super) fn of(file: &Metadata) -> Stamp {
        Stamp {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Whether the last change is old enough that another change would show in the times.
    fn is_at_rest(self, now: SystemTime) -> bool {
        let since = u64::try_from(self.changed.0).unwrap_or(u64::MAX);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_secs(since).saturating_add(AT_REST) < now
    }
}

/// The parsed content, and the stamp of its file.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Option<(Stamp, SetFile)>>);

impl Remembered {
    fn kept(&self) -> MutexGuard<'_, Option<(Stamp, SetFile)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content of the file with this stamp, if it is cached.
    pub(super) fn find(&self, stamp: Stamp) -> Option<SetFile> {
        let kept = self.kept();
        let (of, file) = kept.as_ref()?;
        (*of == stamp).then(|| file.clone())
    }

    /// Caches the content of a file that had this stamp before it was read.
    pub(super) fn keep(&self, stamp: Stamp, file: &SetFile, now: SystemTime) {
        if stamp.is_at_rest(now) {
            *self.kept() = Some((stamp, file.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::SetDirectory;

    #[test]
    fn a_file_that_changed_a_moment_ago_is_read_again() {
        let changed = Stamp {
            device: 1,
            inode: 2,
            bytes: 3,
            modified: (100, 0),
            changed: (100, 999_999_999),
        };
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(!changed.is_at_rest(at(100)) && !changed.is_at_rest(at(102)));
        assert!(changed.is_at_rest(at(103)));
        // The clock was set back in the meantime.
        assert!(!changed.is_at_rest(at(50)));
    }

    #[test]
    fn what_was_read_counts_until_the_file_is_another_one() {
        let root = tempfile::tempdir().unwrap();
        let directory = SetDirectory::new(root.path().join("set"));
        let addresses = vec!["first.example:7643".to_owned()];
        let now = SystemTime::now();
        directory.create_for(b"tree", addresses, now).unwrap();
        let path = directory.path().join("set.json");
        let stamp = || Stamp::of(&std::fs::metadata(&path).unwrap());
        let (file, before) = (directory.read_set().unwrap(), stamp());
        let remembered = Remembered::default();
        remembered.keep(before, &file, now);
        assert!(remembered.find(before).is_none(), "it may change once more");
        remembered.keep(before, &file, now + 2 * AT_REST);
        assert!(remembered.find(before).is_some_and(|found| found.slot == 1));
        directory.write_set(&file).unwrap();
        assert!(remembered.find(stamp()).is_none());
    }
}
