//! Makes the journal of the embedded store stable without holding its lock.
//!
//! fjall 3.1 waits for the disk with the journal locked, so that no batch can be committed
//! meanwhile. This module flushes the newest journal through its own descriptor instead. It relies on
//! two properties of that version: journals are files `N.jnl` with consecutive numbers, and the next
//! one appears only when the one before is stable (`journal/writer.rs`, `rotate`).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plain_file::{descriptors, lacks_descriptors};
use rustix::fs::FallocateFlags;
use std::thread;

use crate::error::WITHOUT_DESCRIPTORS;

/// The length of a new journal of the embedded store; it is a hole at first.
const NEW_BYTES: u64 = 64 << 20;

/// The journals of an embedded store.
#[derive(Debug)]
pub(super) struct Journals {
    folder: PathBuf,
    newest: Mutex<Journal>,
    allocated: Mutex<Allocated>,
}

/// The space allocated for a journal.
#[derive(Debug, Default)]
struct Allocated {
    number: Option<u64>,
    /// An upper bound for the end of the journal when batches had taken `written_bytes`.
    end: u64,
    written_bytes: u64,
    /// Space is allocated up to here.
    through: u64,
}

#[derive(Clone, Debug)]
struct Journal {
    number: u64,
    file: Arc<File>,
    /// Whether a batch was seen in it; once true, it stays true.
    begun: Arc<AtomicBool>,
}

impl Journals {
    /// The journals in the folder of an open embedded store.
    pub(super) fn find(folder: &Path) -> io::Result<Journals> {
        Ok(Journals {
            folder: folder.to_owned(),
            newest: Mutex::new(search(folder)?),
            allocated: Mutex::default(),
        })
    }

    /// Allocates space past the end of the newest journal, without changing its length. `written_bytes` is what batches have
    /// taken in all journals since `find`.
    pub(super) fn allocate(&self, written_bytes: u64, ahead_bytes: u64) -> io::Result<()> {
        if ahead_bytes == 0 {
            return Ok(());
        }
        // The newest journal that a flush has found; the next one gets space after the first flush that finds it.
        let newest = self.newest().clone();
        let mut allocated = self
            .allocated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let since_bytes = written_bytes.saturating_sub(allocated.written_bytes);
        if allocated.number == Some(newest.number) {
            allocated.end += since_bytes;
        } else {
            // A journal that existed at the start ends at its file's end, unless the embedded store has just created it. A
            // new journal holds at most what was written since the last call.
            let is_first = allocated.number.is_none();
            let length = newest.file.metadata()?.len();
            let old = is_first && length != NEW_BYTES;
            allocated.end = since_bytes + if old { length } else { 0 };
            allocated.number = Some(newest.number);
            allocated.through = 0;
        }
        allocated.written_bytes = written_bytes;
        if allocated.through >= allocated.end + ahead_bytes / 2 {
            return Ok(());
        }
        let through = allocated.end + ahead_bytes;
        let file = File::options()
            .write(true)
            .open(self.folder.join(format!("{}.jnl", newest.number)))?;
        rustix::fs::fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, through)?;
        allocated.through = through;
        Ok(())
    }

    /// Returns when everything in the operating system's cache for any journal is stable. The result is the number of the
    /// newest journal that may hold a batch. A new journal counts only once it holds one: until then
    /// a crash may tear all of its content. `is_only` says that there was exactly one journal just before the call.
    pub(super) fn sync(&self, is_only: bool) -> io::Result<u64> {
        // Data written before this call lies in the newest journal, or in one that was made stable
        // before the newest appeared.
        let newest = loop {
            match self.catch_up(is_only) {
                // The disk has not failed, and no request is answered before this is stable.
                Err(error) if lacks_descriptors(&error) => thread::sleep(WITHOUT_DESCRIPTORS),
                newest => break newest?,
            }
        };
        let begun = newest.is_begun()?;
        newest.file.sync_data()?;
        Ok(match begun {
            true => newest.number,
            false => newest.number.saturating_sub(1),
        })
    }

    /// Whether this many descriptors are available at once.
    pub(super) fn are_left(&self, count: usize) -> bool {
        let file = Arc::clone(&self.newest().file);
        descriptors::are_left(count, &file)
    }

    fn newest(&self) -> MutexGuard<'_, Journal> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catch_up(&self, is_only: bool) -> io::Result<Journal> {
        let mut newest = self.newest();
        // A journal that still has its name existed just before the call; if there was only one, this is it.
        if is_only && newest.has_name()? {
            return Ok(newest.clone());
        }
        loop {
            match open_if_there(&self.folder, newest.number + 1) {
                Ok(file) => *newest = Journal::new(newest.number + 1, file),
                // The oldest journals are removed first: while this one has its name, no later one can be gone.
                Err(error) if is_missing(&error) && newest.has_name()? => {
                    return Ok(newest.clone());
                }
                Err(error) if is_missing(&error) => *newest = search(&self.folder)?,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Journal {
    fn new(number: u64, file: File) -> Journal {
        Journal {
            number,
            file: Arc::new(file),
            begun: Arc::default(),
        }
    }

    /// Whether it has not been removed.
    fn has_name(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    /// Whether any batch was written to it. A batch never begins with zeros.
    fn is_begun(&self) -> io::Result<bool> {
        if self.begun.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let mut first = [0];
        let count = self.file.read_at(&mut first, 0)?;
        let begun = count > 0 && first[0] != 0;
        self.begun.store(begun, Ordering::Relaxed);
        Ok(begun)
    }
}

/// Finds the newest journal by listing the folder.
fn search(folder: &Path) -> io::Result<Journal> {
    let mut numbers = Vec::new();
    for found in fs::read_dir(folder)? {
        let name = found?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jnl"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    let newest = numbers.into_iter().max();
    let number = newest.ok_or_else(|| io::Error::other("there is no journal"))?;
    Ok(Journal::new(number, open(folder, number)?))
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn open(folder: &Path, number: u64) -> io::Result<File> {
    File::open(path_of(folder, number))
}

/// Opens a journal that is usually missing: that is found out without a descriptor.
fn open_if_there(folder: &Path, number: u64) -> io::Result<File> {
    fs::metadata(path_of(folder, number))?;
    open(folder, number)
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.jnl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_journal_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["3.jnl", "4.jnl", "version", "x.jnl"] {
            File::create(folder.path().join(name)).unwrap();
        }
        let journals = Journals::find(folder.path()).unwrap();
        assert_eq!(journals.catch_up(false).unwrap().number, 4);
        // Old journals are removed once they are no longer needed.
        fs::remove_file(folder.path().join("4.jnl")).unwrap();
        File::create(folder.path().join("5.jnl")).unwrap();
        File::create(folder.path().join("6.jnl")).unwrap();
        assert_eq!(journals.catch_up(false).unwrap().number, 6);
        journals.sync(false).unwrap();
    }

    /// Journals can appear and disappear between two looks; a flush of a removed journal would guarantee nothing.
    #[test]
    fn a_journal_is_found_again_after_several_have_gone() {
        let folder = tempfile::tempdir().unwrap();
        let journal = |number: u64| folder.path().join(format!("{number}.jnl"));
        fs::write(journal(0), b"").unwrap();
        let journals = Journals::find(folder.path()).unwrap();
        fs::write(journal(2), b"").unwrap();
        fs::remove_file(journal(0)).unwrap();
        assert_eq!(journals.catch_up(false).unwrap().number, 2);
        journals.sync(false).unwrap();
    }

    /// If there is only one journal, it is not searched again while it has its name.
    #[test]
    fn the_only_journal_is_known_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let journal = |number: u64| folder.path().join(format!("{number}.jnl"));
        fs::write(journal(0), b"x").unwrap();
        let journals = Journals::find(folder.path()).unwrap();
        assert_eq!(journals.sync(true).unwrap(), 0);
        fs::write(journal(1), b"").unwrap();
        fs::write(journal(2), b"").unwrap();
        fs::remove_file(journal(0)).unwrap();
        fs::remove_file(journal(1)).unwrap();
        assert_eq!(journals.catch_up(true).unwrap().number, 2);
        assert_eq!(journals.sync(true).unwrap(), 1, "nothing is in it yet");
        fs::write(journal(2), b"x").unwrap();
        assert_eq!(journals.sync(true).unwrap(), 2);
    }

    #[test]
    fn a_folder_without_journals_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Journals::find(folder.path()).is_err());
    }
}
