//! Makes the journal of the embedded store stable without holding its lock.
//!
//! fjall 3.1 waits for the disk with the journal locked, so that no batch can be committed
//! meanwhile. Here its newest journal is synchronised through a descriptor of our own. That relies on
//! two things of that version: journals are files `N.jnl` numbered one after the other, and the next
//! one appears only when the one before is stable (`journal/writer.rs`, `rotate`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::error::{WITHOUT_DESCRIPTORS, lacks_descriptors};

/// The journals of an embedded store.
#[derive(Debug)]
pub(super) struct Journals {
    folder: PathBuf,
    newest: Mutex<Journal>,
}

#[derive(Clone, Debug)]
struct Journal {
    number: u64,
    file: Arc<File>,
}

impl Journals {
    /// The journals in the folder of an embedded store that is open.
    pub(super) fn find(folder: &Path) -> io::Result<Journals> {
        Ok(Journals {
            folder: folder.to_owned(),
            newest: Mutex::new(search(folder)?),
        })
    }

    /// Returns when everything the operating system has been given of any journal is stable; with the number of the
    /// newest then.
    pub(super) fn sync(&self) -> io::Result<u64> {
        // What was given before this call lies in the newest journal, or in one that was made stable
        // before the newest appeared.
        let newest = loop {
            match self.catch_up() {
                // No disk has failed, and nothing is answered before it is stable.
                Err(error) if lacks_descriptors(&error) => thread::sleep(WITHOUT_DESCRIPTORS),
                newest => break newest?,
            }
        };
        newest.file.sync_data()?;
        Ok(newest.number)
    }

    fn catch_up(&self) -> io::Result<Journal> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match open_if_there(&self.folder, newest.number + 1) {
                Ok(file) => {
                    *newest = Journal {
                        number: newest.number + 1,
                        file: Arc::new(file),
                    };
                }
                // Journals go oldest first: while ours has its name, none behind it can be gone.
                Err(error) if is_missing(&error) && newest.file.metadata()?.nlink() > 0 => {
                    return Ok(newest.clone());
                }
                Err(error) if is_missing(&error) => *newest = search(&self.folder)?,
                Err(error) => return Err(error),
            }
        }
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
    Ok(Journal {
        number,
        file: Arc::new(open(folder, number)?),
    })
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
        assert_eq!(journals.catch_up().unwrap().number, 4);
        // Old ones go once they are no longer needed.
        fs::remove_file(folder.path().join("4.jnl")).unwrap();
        File::create(folder.path().join("5.jnl")).unwrap();
        File::create(folder.path().join("6.jnl")).unwrap();
        assert_eq!(journals.catch_up().unwrap().number, 6);
        journals.sync().unwrap();
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
        assert_eq!(journals.catch_up().unwrap().number, 2);
        journals.sync().unwrap();
    }

    #[test]
    fn a_folder_without_journals_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Journals::find(folder.path()).is_err());
    }
}
