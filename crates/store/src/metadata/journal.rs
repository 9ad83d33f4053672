//! Makes the journal of the embedded store stable without holding its lock.
//!
//! fjall 3.1 waits for the disk with the journal locked, so that no batch can be committed
//! meanwhile. Here its newest journal is synchronised through a descriptor of our own. That relies on
//! two things of that version: journals are files `N.jnl` numbered one after the other, and the next
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

/// How long the embedded store makes a new journal, which is a hole at first.
const NEW_BYTES: u64 = 64 << 20;

/// The journals of an embedded store.
#[derive(Debug)]
pub(super) struct Journals {
    folder: PathBuf,
    newest: Mutex<Journal>,
    allocated: Mutex<Allocated>,
}

/// What is allocated of a journal.
#[derive(Debug, Default)]
struct Allocated {
    number: Option<u64>,
    /// Where the journal ended, at most, when the batches before had taken `written_bytes`.
    end: u64,
    written_bytes: u64,
    /// Up to here.
    through: u64,
}

#[derive(Clone, Debug)]
struct Journal {
    number: u64,
    file: Arc<File>,
    /// Whether anything was seen in it; once there is, there always is.
    begun: Arc<AtomicBool>,
}

impl Journals {
    /// The journals in the folder of an embedded store that is open.
    pub(super) fn find(folder: &Path) -> io::Result<Journals> {
        Ok(Journals {
            folder: folder.to_owned(),
            newest: Mutex::new(search(folder)?),
            allocated: Mutex::default(),
        })
    }

    /// Allocates the newest journal so far behind its end, without making it longer. `written_bytes` is what batches have
    /// taken in all journals since they were found.
    pub(super) fn allocate(&self, written_bytes: u64, ahead_bytes: u64) -> io::Result<()> {
        if ahead_bytes == 0 {
            return Ok(());
        }
        // The newest that a flush has found; the next one is allocated after the first flush that finds it.
        let newest = self.newest().clone();
        let mut allocated = self
            .allocated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let since_bytes = written_bytes.saturating_sub(allocated.written_bytes);
        if allocated.number == Some(newest.number) {
            allocated.end += since_bytes;
        } else {
            // One that was there at the start ends where its file does, unless the embedded store has just made it; in
            // one that is new lies at most what was written since the last look.
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

    /// Returns when everything the operating system has been given of any journal is stable; with the number of the
    /// newest in which anything may have been. One that was made a moment ago counts only once something is in it: until
    /// then a crash may tear all that it has. `is_only` says that a moment ago there was one journal and no more.
    pub(super) fn sync(&self, is_only: bool) -> io::Result<u64> {
        // What was given before this call lies in the newest journal, or in one that was made stable
        // before the newest appeared.
        let newest = loop {
            match self.catch_up(is_only) {
                // No disk has failed, and nothing is answered before it is stable.
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

    /// Whether this many descriptors could be had at once.
    pub(super) fn are_left(&self, count: usize) -> bool {
        let file = Arc::clone(&self.newest().file);
        descriptors::are_left(count, &file)
    }

    fn newest(&self) -> MutexGuard<'_, Journal> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catch_up(&self, is_only: bool) -> io::Result<Journal> {
        let mut newest = self.newest();
        // One that still has its name was there a moment ago; if there was one only, it was that.
        if is_only && newest.has_name()? {
            return Ok(newest.clone());
        }
        loop {
            match open_if_there(&self.folder, newest.number + 1) {
                Ok(file) => *newest = Journal::new(newest.number + 1, file),
                // Journals go oldest first: while ours has its name, none behind it can be gone.
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

    /// Whether it was not removed.
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

/// The newest journal, whatever it is called.
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

/// The same for one that is mostly missing: finding that out takes no descriptor.
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
        // Old ones go once they are no longer needed.
        fs::remove_file(folder.path().join("4.jnl")).unwrap();
        File::create(folder.path().join("5.jnl")).unwrap();
        File::create(folder.path().join("6.jnl")).unwrap();
        assert_eq!(journals.catch_up(false).unwrap().number, 6);
        journals.sync(false).unwrap();
    }

    /// Journals can come and go between two looks: flushing one that is gone would promise in vain.
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

    /// Where there is only one journal, it is not looked for again while it has its name.
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
