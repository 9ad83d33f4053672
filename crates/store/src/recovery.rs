//! What happens between opening the rows and serving: putting right what a crash left.
//!
//! Dirty files may have lost unstable data. Clients that wrote it will write it again, because the write
//! verifier has changed; for all others the file gets a new version, so that nobody trusts a cache
//! filled before the crash. What was promised to be stable and was only kept among the rows is put into
//! the data file.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use vfs::{ObjectId, Result};

use crate::error::from_os;
use crate::inner::Inner;
use crate::metadata::Table;
use crate::mutation::Touch;
use crate::rows::key;

/// How many marks are looked at with one view of the table.
const MARKS_A_PAGE: usize = 256;

impl Inner {
    /// Treats every file that was marked dirty when the store was last left.
    pub(crate) fn recover_dirty_files(&self) -> Result<()> {
        let mut recovered = 0_u64;
        let mut from = Vec::new();
        loop {
            let page = self.marked_files(&from)?;
            let Some(last) = page.last() else {
                break;
            };
            from = key::number(last.as_u64().saturating_add(1)).to_vec();
            if recovered == 0 {
                self.sync_everything_below()?;
            }
            for id in &page {
                self.recover(*id)?;
            }
            recovered += page.len() as u64;
        }
        if recovered > 0 {
            tracing::warn!(
                "{recovered} files were being written when the store was left; \
                 data that no client had committed may be lost, and clients will send it again"
            );
        }
        Ok(())
    }

    fn marked_files(&self, from: &[u8]) -> Result<Vec<ObjectId>> {
        let view = self.metadata.view();
        let rows = view.scan(Table::Dirty, &[], from).take(MARKS_A_PAGE);
        rows.map(|row| Ok(key::parse_object(row?.key())?)).collect()
    }

    /// Data that survived in the page cache counts as stable from here on, so it has to be. One call
    /// for all files is cheaper than one for each.
    fn sync_everything_below(&self) -> Result<()> {
        let data = std::fs::File::open(self.layout.data());
        let data = data.map_err(|error| from_os("open the data directory", &error))?;
        rustix::fs::syncfs(data.as_fd()).map_err(|errno| from_os("syncfs", &errno.into()))
    }

    fn recover(&self, id: ObjectId) -> Result<()> {
        // Nobody else knows the store yet, so nobody can be changing rows.
        let idle = self.begin_if_idle()?;
        let mut mutation = idle.ok_or(vfs::Error::Io("the store is being changed".into()))?;
        let size = match mutation.object(id) {
            Ok(row) if row.file().is_ok() => Some(row.size),
            Ok(_) | Err(vfs::Error::Stale) => None,
            Err(error) => return Err(error),
        };
        if let Some(size) = size {
            let failed = |error: std::io::Error| from_os("recover a data file", &error);
            let restored = self.restore_kept(&mut mutation, id)?;
            let file = self.cut_data_file(id, size).map_err(failed)?;
            if let Some(file) = &file {
                file.sync_data().map_err(failed)?;
            }
            if restored {
                self.files.sync_name(id).map_err(failed)?;
            }
            let blocks = file
                .as_ref()
                .map_or(Ok(0), |file| file.metadata().map(|found| found.blocks()));
            mutation.touch(id, Touch::Content)?;
            let row = mutation.object_mut(id)?;
            row.space_used = blocks.map_err(failed)?.saturating_mul(512);
            row.file_mut()?.stored = file.is_some();
        }
        mutation.unmark(Table::Dirty, id);
        mutation.commit().map(|_| ())
    }
}
