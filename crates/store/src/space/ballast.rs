//! A file that only occupies space, so that the space can be released when it is needed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;

/// The name of the file in a store.
pub(crate) const FILE: &str = "ballast";

/// The file, and how much space it takes up now.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    wanted_bytes: u64,
    /// The length of the file, while no thread is changing it.
    held_bytes: AtomicU64,
    /// Held while the file is changed: one thread may allocate the ballast while another releases it.
    changing: Mutex<()>,
}

impl Ballast {
    /// Finds the ballast of a store; writes nothing.
    pub(super) fn find(root: &Path, wanted_bytes: u64) -> Ballast {
        let path = root.join(FILE);
        let size = |found: std::fs::Metadata| found.len().min(found.blocks().saturating_mul(512));
        let found = path.metadata().map_or(0, size);
        Ballast {
            path,
            wanted_bytes,
            held_bytes: AtomicU64::new(if wanted_bytes > 0 { found } else { 0 }),
            changing: Mutex::default(),
        }
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Acquire)
    }

    /// Releases this much space, or what is left. Returns whether there was any. Callers release little at a
    /// time, because the program that fills the disk may take the space, too.
    pub(super) fn release(&self, bytes: u64) -> bool {
        let _alone = self.alone();
        let held_bytes = self.held_bytes();
        if held_bytes == 0 {
            return false;
        }
        if held_bytes >= self.wanted_bytes {
            tracing::warn!(
                path = %self.path.display(),
                "the disk is nearly full: the ballast is being given up, so that files can still be removed"
            );
        }
        self.shorten(held_bytes.saturating_sub(bytes));
        true
    }

    fn shorten(&self, left_bytes: u64) {
        self.held_bytes.store(left_bytes, Ordering::Release);
        let file = File::options().write(true).open(&self.path);
        if let Err(error) = file.and_then(|file| file.set_len(left_bytes)) {
            tracing::warn!(path = %self.path.display(), %error, "cannot give the ballast up");
        }
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates the wanted space. If that fails, the whole reserve is kept free instead.
    pub(super) fn take(&self) {
        let _alone = self.alone();
        if self.held_bytes() >= self.wanted_bytes {
            return;
        }
        match self.allocate() {
            Ok(()) => self.held_bytes.store(self.wanted_bytes, Ordering::Release),
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "there is no ballast");
                // The part that was allocated before the failure.
                self.shorten(0);
            }
        }
    }

    fn allocate(&self) -> io::Result<()> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)?;
        rustix::fs::fallocate(file.as_fd(), FallocateFlags::empty(), 0, self.wanted_bytes)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_taken_given_up_and_found_again() {
        let root = tempfile::tempdir().unwrap();
        let ballast = Ballast::find(root.path(), 1 << 20);
        assert_eq!(ballast.held_bytes(), 0);
        assert!(!ballast.release(1));
        assert!(!root.path().join(FILE).exists());
        ballast.take();
        if ballast.held_bytes() == 0 {
            eprintln!("NOT TESTED: this file system preallocates nothing");
            return;
        }
        assert!(Ballast::find(root.path(), 1 << 20).held_bytes() >= 1 << 20);
        assert_eq!(Ballast::find(root.path(), 0).held_bytes(), 0);
        assert!(ballast.release(1 << 18));
        assert_eq!(ballast.held_bytes(), 3 << 18);
        assert!(ballast.release(1 << 20) && !ballast.release(1));
        assert_eq!(root.path().join(FILE).metadata().unwrap().blocks(), 0);
    }

    /// One thread allocated the ballast while another released it: the noted length then differed from the file's
    /// length, and space was counted that did not exist.
    #[test]
    fn what_is_held_is_what_the_file_has_whoever_takes_and_gives() {
        let root = tempfile::tempdir().unwrap();
        let ballast = Ballast::find(root.path(), 1 << 20);
        std::thread::scope(|threads| {
            threads.spawn(|| (0..2000).for_each(|_| ballast.take()));
            threads.spawn(|| {
                for _ in 0..2000 {
                    ballast.release(1 << 20);
                }
            });
        });
        let length = root
            .path()
            .join(FILE)
            .metadata()
            .map_or(0, |found| found.len());
        assert_eq!(ballast.held_bytes(), length);
    }
}
