//! The file for rows that must be written before an answer, as in a database.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

/// Its length from the beginning, in bytes, mostly a hole: if a file grows, its length has to be made stable each time, too.
const LENGTH: u64 = 4 << 30;

/// The size of the row for one change of names or attributes, in bytes.
pub(super) const ROW: usize = 512;

/// A journal that several threads write to.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    end: AtomicU64,
}

impl Journal {
    /// A new, empty one.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let file = File::create_new(path);
        let file = file.with_context(|| format!("could not create {}", path.display()))?;
        file.set_len(LENGTH)?;
        file.sync_all()?;
        Ok(Self {
            file,
            end: AtomicU64::new(0),
        })
    }

    /// Appends this number of bytes; if `stable`, also writes them to the disk.
    pub(super) fn note(&self, length: usize, stable: bool) -> Result<()> {
        let bytes = vec![0x5a; length];
        let at = self.end.fetch_add(length as u64, Ordering::Relaxed);
        self.file.write_all_at(&bytes, at)?;
        if stable {
            self.file.sync_data()?;
        }
        Ok(())
    }
}
