//! A copy of everything for a replica whose copy is old or has diverged: its rows are replaced, and only the
//! contents of files with another version are fetched.
//!
//! The store remembers what each data file holds before it removes the rows, so an interrupted attempt can be
//! restarted from that memory. This module trusts no data file whose version is not remembered.

use std::sync::Arc;

use bytes::BufMut;
use fields::Fields;
use vfs::{ChangeAttribute, Error, ObjectId, Result};

use super::base::{BaseState, RESYNC, UNFINISHED_KEY};
use crate::error::from_os;
use crate::maintenance;
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::{OpenStore, blocking};
use crate::rows::{ObjectRow, decode_placement, encode_placement, key};

const VERSION: u8 = 1;

const FLAG_STORED: u8 = 1;
const FLAG_TRUSTED: u8 = 2;
const FLAG_PLACED: u8 = 4;

/// Files examined in one batch.
const FILES_A_BATCH: usize = 256;

/// What the data file of an object holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// A data file exists; otherwise the file is one hole.
    stored: bool,
    /// The data file holds exactly this version.
    trusted: bool,
    change: ChangeAttribute,
    size: u64,
    /// The placement of the data, if it is elsewhere.
    placement: Option<Arc<[u8]>>,
}

/// What happens to the data of a file under its new row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The data belongs to the new row.
    Keep { stored: bool },
    /// The data has to come from another replica, unless the file is empty.
    Replace { stored: bool },
}

impl Remembered {
    pub(super) fn decode(row: &[u8]) -> std::result::Result<Remembered, Malformed> {
        let mut fields = Fields::new(row);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of a remembered file is unknown"));
        }
        let flags = fields.u8()?;
        let remembered = Remembered {
            stored: flags & FLAG_STORED != 0,
            trusted: flags & FLAG_TRUSTED != 0,
            change: ChangeAttribute(fields.u64()?),
            size: fields.u64()?,
            placement: match flags & FLAG_PLACED {
                0 => None,
                _ => Some(decode_placement(&mut fields)?),
            },
        };
        fields.end()?;
        Ok(remembered)
    }

    fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut row = vec![VERSION];
        row.put_u8(
            flag(self.stored, FLAG_STORED)
                | flag(self.trusted, FLAG_TRUSTED)
                | flag(self.placement.is_some(), FLAG_PLACED),
        );
        row.put_u64(self.change.0);
        row.put_u64(self.size);
        if let Some(placement) = &self.placement {
            encode_placement(placement, &mut row);
        }
        row
    }

    fn is_of(&self, row: &ObjectRow) -> bool {
        self.trusted && (self.change, self.size) == (row.change, row.size)
    }
}

impl OpenStore {
    /// Begins to replace what the store holds with the tree of another replica. The store may hold only a root, an old
    /// or a diverged copy, or an unfinished copy of an earlier attempt. Until [`crate::OpenStore::finish_base`] no other task may
    /// use the store. Data files stay, and the version of the file that each data file
    /// holds is remembered. The store's own update records are removed, and so are files that were open here without a name.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails. The attempt can be restarted.
    pub async fn begin_resync(self: &Arc<Self>) -> Result<()> {
        self.sync().await?;
        let store = Arc::clone(self);
        // Identifiers of removed objects can be used again, and then their data files must not be removed.
        blocking(move || maintenance::clear_now(&store, &store.guards)).await?;
        if self.base_state()? != BaseState::Resynchronising {
            self.clear_table(Table::Remembered).await?;
            self.remember_files().await?;
            let mut mutation = self.begin_maintenance().await?;
            mutation.put_local(Table::System, UNFINISHED_KEY, RESYNC);
            let ticket = mutation.commit_local()?;
            self.commits.wait(ticket, &self.health).await?;
        }
        self.trim_updates(u64::MAX).await?;
        self.clear_base().await
    }

    async fn remember_files(&self) -> Result<()> {
        let mut from = Vec::new();
        loop {
            let page = self.files_from(&from)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            from = key::number(last.as_u64().saturating_add(1)).to_vec();
            let mut mutation = self.begin_maintenance().await?;
            for (id, row) in page {
                let remembered = self.remembered_of(id, &row)?;
                if remembered.stored || remembered.size > 0 || remembered.placement.is_some() {
                    let key = key::object(id);
                    mutation.put_local(Table::Remembered, &key, &remembered.encode());
                }
            }
            mutation.commit_local()?;
        }
    }

    /// Regular files, with and without a name, starting at a key.
    fn files_from(&self, from: &[u8]) -> Result<Vec<(ObjectId, ObjectRow)>> {
        let view = self.metadata.view();
        let mut files = Vec::new();
        for found in view.scan(Table::Objects, &[], from) {
            let found = found?;
            let row = ObjectRow::decode(found.value())?;
            if row.file().is_ok() {
                files.push((key::parse_object(found.key())?, row));
            }
            if files.len() == FILES_A_BATCH {
                break;
            }
        }
        Ok(files)
    }

    fn remembered_of(&self, id: ObjectId, row: &ObjectRow) -> Result<Remembered> {
        let dirty = self.dirty.contains(id);
        let doubtful = dirty
            || row.links == 0
            || self.unshipped.contains(id)
            || self.unfetched.contains(id)
            || self.damaged.contains(id)
            || self.incomplete.contains(id)
            || self.is_listed(Table::Recovered, id)?;
        Ok(Remembered {
            stored: row.file()?.stored || dirty,
            trusted: !doubtful,
            change: row.change,
            size: row.size,
            placement: row.placement().cloned(),
        })
    }

    /// Records a new placement for remembered contents.
    pub(crate) fn remember_placement(
        &self,
        mutation: &mut Mutation<'_>,
        id: ObjectId,
        placement: &[u8],
    ) -> Result<()> {
        let key = key::object(id);
        let Some(row) = self.metadata.row(Table::Remembered, &key)? else {
            return Ok(());
        };
        let mut remembered = Remembered::decode(&row)?;
        if remembered.placement.is_some() {
            remembered.placement = Some(placement.into());
            mutation.put_local(Table::Remembered, &key, &remembered.encode());
        }
        Ok(())
    }

    fn is_listed(&self, table: Table, id: ObjectId) -> Result<bool> {
        Ok(self.metadata.row(table, &key::object(id))?.is_some())
    }

    /// Matches data files with the new rows, before any task uses them.
    pub(super) async fn reconcile(self: &Arc<Self>) -> Result<()> {
        let store = Arc::clone(self);
        blocking(move || {
            store.judge_files()?;
            store.discard_forgotten()?;
            // Data that was cut must not reappear once the rows are valid.
            store.sync_everything_below()
        })
        .await
    }

    fn judge_files(&self) -> Result<()> {
        // A file that is not remembered may have existed here before and was removed.
        let place = self.places_anew()?;
        let mut from = Vec::new();
        loop {
            let page = self.files_from(&from)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            from = key::number(last.as_u64().saturating_add(1)).to_vec();
            let mut doomed = Vec::new();
            let mut mutation = self.begin_blocking()?;
            for (id, mut row) in page {
                let remembered = self.remembered(id)?;
                let placement = match &remembered {
                    Some(remembered) => remembered.placement.clone(),
                    None => place(id),
                };
                let verdict = self.judge(id, &row, remembered)?;
                row.file_mut()?.placement = placement;
                self.carry_out_verdict(&mut mutation, id, row.clone(), verdict)?;
                if verdict == (Verdict::Replace { stored: true }) {
                    doomed.push((id, row.size));
                }
            }
            let ticket = mutation.commit_local()?;
            if doomed.is_empty() {
                continue;
            }
            // From here on the contents differ from what is remembered; after a crash recovery must see this.
            self.persist_through(ticket)?;
            for (id, size) in doomed {
                self.cut_contents(id, size)?;
            }
        }
    }

    /// The placement of remembered contents.
    pub(crate) fn remembered_placement(&self, id: ObjectId) -> Result<Option<Arc<[u8]>>> {
        Ok(self
            .remembered(id)?
            .and_then(|remembered| remembered.placement))
    }

    fn remembered(&self, id: ObjectId) -> Result<Option<Remembered>> {
        let row = self.metadata.row(Table::Remembered, &key::object(id))?;
        Ok(row.map(|row| Remembered::decode(&row)).transpose()?)
    }

    fn judge(
        &self,
        id: ObjectId,
        row: &ObjectRow,
        remembered: Option<Remembered>,
    ) -> Result<Verdict> {
        let elsewhere = remembered.as_ref();
        let elsewhere = elsewhere.filter(|remembered| remembered.placement.is_some());
        let stored = match elsewhere {
            Some(remembered) => remembered.stored,
            None => {
                let exists = self.files.exists(id);
                exists.map_err(|error| from_os("look for a data file", &error))?
            }
        };
        let kept = remembered.filter(|remembered| remembered.is_of(row));
        Ok(match kept {
            Some(kept) if kept.stored == stored => Verdict::Keep { stored },
            _ => Verdict::Replace { stored },
        })
    }

    fn carry_out_verdict(
        &self,
        mutation: &mut Mutation<'_>,
        id: ObjectId,
        mut row: ObjectRow,
        verdict: Verdict,
    ) -> Result<()> {
        let (Verdict::Keep { stored } | Verdict::Replace { stored }) = verdict;
        let placement = row.placement().cloned();
        if stored || placement.is_some() {
            row.file_mut()?.stored = stored;
            mutation.put_quietly(id, &row);
        }
        if matches!(verdict, Verdict::Keep { .. }) {
            // All data of this version is here, even if the replica that sent the rows lacks some
            // of it.
            self.unmark_lacking(mutation, id);
            return Ok(());
        }
        if row.size > 0 {
            mutation.mark(Table::Unfetched, id);
            mutation.then(move |store, _| store.unfetched.add(id));
        }
        if stored {
            self.void_sums(mutation, id);
            // Whatever happens to this attempt, the next one must not trust the data file.
            let doubtful = Remembered {
                stored,
                trusted: false,
                change: row.change,
                size: row.size,
                placement,
            };
            mutation.put_local(Table::Remembered, &key::object(id), &doubtful.encode());
        }
        Ok(())
    }

    /// Schedules the removal of data files whose objects are not in the new tree.
    fn discard_forgotten(&self) -> Result<()> {
        let mut from = Vec::new();
        loop {
            let page: Vec<(ObjectId, Remembered)> = {
                let view = self.metadata.view();
                let rows = view.scan(Table::Remembered, &[], &from);
                let rows = rows.take(FILES_A_BATCH).map(|row| {
                    let row = row?;
                    let remembered = Remembered::decode(row.value())?;
                    Ok((key::parse_object(row.key())?, remembered))
                });
                rows.collect::<Result<_>>()?
            };
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            from = key::number(last.as_u64().saturating_add(1)).to_vec();
            let mut mutation = self.begin_blocking()?;
            for (id, remembered) in page {
                if self.is_listed(Table::Objects, id)? {
                    continue;
                }
                mutation.unmark(Table::Remembered, id);
                mutation.unmark(Table::Digests, id);
                if remembered.stored || remembered.placement.is_some() {
                    let placement = remembered.placement.unwrap_or_default();
                    mutation.put_local(Table::Removals, &key::object(id), &placement);
                    mutation.then(move |store, _| store.leftovers.add(id));
                }
            }
            mutation.commit_local()?;
        }
    }

    /// After [`crate::OpenStore::begin_resync`] and [`crate::OpenStore::finish_base`]: the files whose content is still to be fetched from
    /// another replica with [`crate::OpenStore::put_content`], in the order of identifiers. Until then they are incomplete.
    /// All other files have the content that belongs to their new rows.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn files_to_fetch(&self) -> Result<Vec<ObjectId>> {
        let mut files = self.unfetched.all();
        self.health.check()?;
        let mut failed = None;
        files.retain(|id| match self.object(*id) {
            Ok(row) => row.links > 0,
            Err(Error::Stale) => false,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        failed.map_or(Ok(files), Err)
    }

    /// Removes files whose content is stable here from that list. The removal becomes stable with the next flush, so a
    /// crash may put them back.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn note_fetched(&self, files: &[ObjectId]) -> Result<()> {
        self.health.check()?;
        let mut files = files.to_vec();
        files.retain(|id| self.unfetched.contains(*id));
        if files.is_empty() {
            return Ok(());
        }
        let mut mutation = self.begin_maintenance().await?;
        for id in files {
            mutation.unmark(Table::Unfetched, id);
            mutation.then(move |store, _| store.unfetched.forget(id));
        }
        mutation.commit_local().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_comes_back_and_damage_is_refused() {
        let remembered = Remembered {
            stored: true,
            trusted: false,
            change: ChangeAttribute(1 << 60),
            size: 77,
            placement: None,
        };
        let placed = Remembered {
            placement: Some(Arc::from(&b"where it is"[..])),
            ..remembered.clone()
        };
        for remembered in [remembered, placed] {
            let row = remembered.encode();
            assert_eq!(Remembered::decode(&row), Ok(remembered));
            assert!(Remembered::decode(&row[1..]).is_err());
            assert!(Remembered::decode(&row[..row.len() - 1]).is_err());
        }
    }
}
