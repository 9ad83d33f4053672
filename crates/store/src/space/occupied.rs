//! The disk space that a store occupies, for an administrator who has to make space on a full disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use vfs::Result;

use crate::error::from_os;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::rows::ObjectRow;

/// How long a count is valid: counting reads the rows of all objects.
const GOOD: Duration = Duration::from_secs(60);

/// The last count.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Option<(Instant, u64)>>);

impl OpenStore {
    /// The bytes of the disk that the store occupies: contents, rows, ballast, discarded versions. Counted at most once a
    /// minute, since counting reads the rows of all objects; may block for as long as that takes.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows or directories cannot be read.
    pub fn occupied_bytes(&self) -> Result<u64> {
        let mut last = self
            .counted
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((at, bytes)) = *last
            && at.elapsed() < GOOD
        {
            return Ok(bytes);
        }
        let mut bytes = 0_u64;
        for row in self.metadata.view().scan(Table::Objects, &[], &[]) {
            let row = ObjectRow::decode(row?.value())?;
            if row.file().is_ok_and(|file| file.stored) && row.placement().is_none() {
                bytes = bytes.saturating_add(row.space_used);
            }
        }
        let others = bytes_below(self.layout.root(), &self.layout.data());
        let others = others.map_err(|error| from_os("count what the store takes up", &error))?;
        let bytes = bytes.saturating_add(others);
        *last = Some((Instant::now(), bytes));
        Ok(bytes)
    }
}

/// The space of everything in a directory, except one directory in it.
fn bytes_below(folder: &Path, without: &Path) -> std::io::Result<u64> {
    let mut bytes = 0_u64;
    for found in fs::read_dir(folder)? {
        let found = found?;
        let metadata = match found.metadata() {
            Ok(metadata) => metadata,
            // The embedded store may remove files at any time.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let path = found.path();
        if metadata.is_dir() && path != without {
            bytes = bytes.saturating_add(bytes_below(&path, without)?);
        } else if metadata.is_file() {
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
        }
    }
    Ok(bytes)
}
