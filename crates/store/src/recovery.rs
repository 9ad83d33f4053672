//! Crash recovery, between opening the rows and serving.
//!
//! Dirty files may have lost unstable data. Clients that wrote it will write it again, because the write
//! verifier has changed. For other clients the file gets a new version, so that no cache from before the crash
//! stays valid. If other replicas know the file, all replicas have to agree on that version, so
//! the file is listed instead ([`crate::OpenStore::recovered`]). Data that was reported as stable but was only kept in rows is written
//! to the data file.

use std::sync::atomic::Ordering;

use vfs::{Counted, Error, ObjectId, Result};

use crate::commit_hook::Change;
use crate::data::SyncError;
use crate::error::from_os;
use crate::metadata::Table;
use crate::mutation::{FOREIGN_MARK, Mutation, STORED_MARK, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::rows::key;

/// The meaning of a file's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The file was being written.
    Plain,
    /// Only another primary's data was being written.
    Foreign,
    /// The file was being written, and its data file existed permanently.
    Stored,
}

/// How many marks are read with one view of the table.
const MARKS_A_PAGE: usize = 256;

impl OpenStore {
    /// Recovers every file that was marked dirty when the store stopped.
    pub(crate) fn recover_dirty_files(&self) -> Result<()> {
        let mut recovered = 0_u64;
        let mut from = Vec::new();
        loop {
            let page = self.marked_files(&from)?;
            let Some((last, _)) = page.last() else {
                break;
            };
            from = key::number(last.as_u64().saturating_add(1)).to_vec();
            if recovered == 0 {
                self.sync_everything_below()?;
            }
            for (id, mark) in &page {
                self.recover(*id, *mark)?;
            }
            recovered += page.len() as u64;
        }
        if recovered > 0 {
            // A mark says no more than that: opening a new file leaves one, too.
            tracing::info!(
                "data that was not stable when the store was left may be lacking in {}; \
                 what was answered as stable is there, and clients send the rest again",
                Counted(recovered, "file")
            );
        }
        Ok(())
    }

    fn marked_files(&self, from: &[u8]) -> Result<Vec<(ObjectId, Mark)>> {
        let view = self.metadata.view();
        let rows = view.scan(Table::Dirty, &[], from).take(MARKS_A_PAGE);
        rows.map(|row| {
            let row = row?;
            let mark = match row.value() {
                FOREIGN_MARK => Mark::Foreign,
                STORED_MARK => Mark::Stored,
                _ => Mark::Plain,
            };
            Ok((key::parse_object(row.key())?, mark))
        })
        .collect()
    }

    /// Makes all data stable: data that survived in the page cache counts as stable from here on. One call
    /// for all files is cheaper than one for each.
    pub(crate) fn sync_everything_below(&self) -> Result<()> {
        let synced = rustix::fs::syncfs(self.directory.data());
        synced.map_err(|errno| from_os("syncfs", &errno.into()))
    }

    fn recover(&self, id: ObjectId, mark: Mark) -> Result<()> {
        // No other task uses the store yet, so no task can be changing rows.
        let idle = self.begin_if_idle()?;
        let mut mutation = idle.ok_or(Error::Io("the store is being changed".into()))?;
        let size = match mutation.object(id) {
            Ok(row) if row.placement().is_some() => {
                return self.recover_elsewhere(mutation, id, mark == Mark::Foreign);
            }
            Ok(row) if row.file().is_ok() => Some(row.size),
            Ok(_) | Err(Error::Stale) => None,
            Err(error) => return Err(error),
        };
        if let Some(size) = size {
            let is_lost = mark == Mark::Stored && self.has_lost_data(id, size)?;
            let restored = self.restore_kept(&mut mutation, id)?;
            let stored = self.cut_contents(id, size)?;
            let content = self.content_of(id)?;
            let synced = content.sync(restored);
            synced.map_err(|error| match error {
                SyncError::Later(error) => error,
                SyncError::Lost(why) => Error::Io(format!("recover data of {id}: {why}")),
            })?;
            let occupied = match stored {
                true => content.occupied()?,
                false => 0,
            };
            let mut row = mutation.object(id)?.clone();
            row.file_mut()?.stored = stored || is_lost;
            if is_lost {
                self.give_up_data(&mut mutation, id);
            }
            if self.shared.load(Ordering::Relaxed) {
                mutation.put_quietly(id, &row);
                // Other replicas may have the lost data, under the file's current version.
                if mark != Mark::Foreign && !is_lost {
                    mutation.mark(Table::Recovered, id);
                }
            } else {
                row.space_used = occupied;
                *mutation.object_mut(id)? = row;
                mutation.touch(id, Touch::Content)?;
            }
        }
        // Otherwise blocks torn by the crash would be reported as changed by the disk.
        if self.has_sums(id)? {
            self.void_sums(&mut mutation, id);
        }
        mutation.unmark(Table::Dirty, id);
        mutation.commit_local().map(|_| ())
    }

    /// Whether a data file that existed permanently is missing. An empty file lacks nothing.
    pub(crate) fn has_lost_data(&self, id: ObjectId, size: u64) -> Result<bool> {
        let stored = self.object(id)?.file()?.stored;
        let exists = self.files.exists(id);
        let exists = exists.map_err(|error| from_os("look for a data file", &error))?;
        Ok(size > 0 && stored && !exists)
    }

    /// Makes a file unreadable from now on, because some or all of its data is gone.
    fn give_up_data(&self, mutation: &mut Mutation<'_>, id: ObjectId) {
        let (called, place) = (self.called(id), self.layout.data_file(id));
        tracing::error!(
            path = %place.display(),
            "the data of {called} was stable, and is gone: it cannot be read until it is written anew as a whole"
        );
        mutation.mark(Table::Damaged, id);
        mutation.then(move |store, _| store.damaged.add(id));
    }

    /// Files whose unstable data a crash of this copy may have lost, so that their version no longer identifies
    /// their data. Each stays on the list until [`crate::Operation::renew`] or its removal.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn recovered(&self) -> Result<Vec<ObjectId>> {
        self.health.check()?;
        let view = self.metadata.view();
        let rows = view.scan(Table::Recovered, &[], &[]);
        rows.map(|row| Ok(key::parse_object(row?.key())?)).collect()
    }
}

impl Operation {
    /// Gives such a file a new version. The change is an ordinary [`crate::Change::Data`] and marks all
    /// of its data as unshipped. A file that is gone is removed from the list.
    ///
    /// # Errors
    /// [`vfs::Error::Delay`] if data of another replica is missing here, or the file is abandoned; errors of the commit hook; [`vfs::Error::Io`] when storage fails.
    pub async fn renew(&self, id: ObjectId) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        // Data of a file without a name is not sent to others.
        let is_named = mutation.object(id).is_ok_and(|row| row.links > 0);
        if self.is_abandoned(id) || (is_named && self.incomplete.contains(id)) {
            return Err(Error::Delay);
        }
        mutation.unmark(Table::Recovered, id);
        let touched = match mutation.touched(id) {
            Err(Error::Stale) => return mutation.commit_local().map(|_| ()),
            touched => touched?,
        };
        mutation.touch(id, Touch::Content)?;
        mutation.change_data(id);
        let ticket = mutation.commit(&Change::Data(touched))?;
        self.settle(ticket).await
    }
}
