//! What happens between opening the rows and serving: putting right what a crash left.
//!
//! Dirty files may have lost unstable data. Clients that wrote it will write it again, because the write
//! verifier has changed; for all others the file gets a new version, so that nobody trusts a cache
//! filled before the crash. Where other replicas know of the file, that version is theirs to agree on, so
//! the file is listed instead ([`crate::OpenStore::recovered`]). What was promised to be stable and was only kept among the rows is put into
//! the data file.

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

/// What the mark of a file says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It was being written.
    Plain,
    /// Only another primary's data was being written.
    Foreign,
    /// It was being written, and its data file was there for good.
    Stored,
}

/// How many marks are looked at with one view of the table.
const MARKS_A_PAGE: usize = 256;

impl OpenStore {
    /// Treats every file that was marked dirty when the store was last left.
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
            // A mark says no more than that: to open a new file leaves one, too.
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

    /// Data that survived in the page cache counts as stable from here on, so it has to be. One call
    /// for all files is cheaper than one for each.
    pub(crate) fn sync_everything_below(&self) -> Result<()> {
        let synced = rustix::fs::syncfs(self.directory.data());
        synced.map_err(|errno| from_os("syncfs", &errno.into()))
    }

    fn recover(&self, id: ObjectId, mark: Mark) -> Result<()> {
        // Nobody else knows the store yet, so nobody can be changing rows.
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
                // Others may have what is lost here, under the version that it has.
                if mark != Mark::Foreign && !is_lost {
                    mutation.mark(Table::Recovered, id);
                }
            } else {
                row.space_used = occupied;
                *mutation.object_mut(id)? = row;
                mutation.touch(id, Touch::Content)?;
            }
        }
        // What a crash has torn is not what the disk has changed.
        if self.has_sums(id)? {
            self.void_sums(&mut mutation, id);
        }
        mutation.unmark(Table::Dirty, id);
        mutation.commit_local().map(|_| ())
    }

    /// Whether a data file that was there for good is not there. Nothing is missing of nothing.
    pub(crate) fn has_lost_data(&self, id: ObjectId, size: u64) -> Result<bool> {
        let stored = self.object(id)?.file()?.stored;
        let exists = self.files.exists(id);
        let exists = exists.map_err(|error| from_os("look for a data file", &error))?;
        Ok(size > 0 && stored && !exists)
    }

    /// From now on nothing of a file is shown to anybody, as part of it, or all, is gone.
    fn give_up_data(&self, mutation: &mut Mutation<'_>, id: ObjectId) {
        let (called, place) = (self.called(id), self.layout.data_file(id));
        tracing::error!(
            path = %place.display(),
            "the data of {called} was stable, and is gone: it cannot be read until it is written anew as a whole"
        );
        mutation.mark(Table::Damaged, id);
        mutation.then(move |store, _| store.damaged.add(id));
    }

    /// Files whose unstable data a crash of this copy may have lost, and whose version no longer says what
    /// their data is. Each stays on the list until [`crate::Operation::renew`] or its removal.
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
    /// Gives such a file a new version, which is a [`crate::Change::Data`] like any other and marks all
    /// of its data as unshipped; one that is gone is taken off the list.
    ///
    /// # Errors
    /// What the commit hook returns; [`vfs::Error::Io`] when storage fails.
    pub async fn renew(&self, id: ObjectId) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
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
