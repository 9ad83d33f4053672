//! A copy of all replicated rows, for a replica that replaces its own state with it (`resync`).
//!
//! The rows are a snapshot and come in pages. The content of files follows later, like the content of any other
//! update. A page that was installed already may come again.

use std::sync::Arc;

use bytes::Bytes;
use fields::Fields;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use super::foreign_row::ForeignRow;
use super::mark::Mark;
use crate::counters::Sequence;
use crate::malformed::Malformed;
use crate::metadata::{KeyedRow, Picture, Table, View};
use crate::open_store::OpenStore;
use crate::recording::RowChange;
use crate::rows::{ObjectRow, encode_denials, encode_locks, key};
use crate::space::{Demand, ROW_BYTES};

/// The key of the row that exists while a copy is unfinished.
pub(super) const UNFINISHED_KEY: &[u8] = b"unfinished";

/// The value of that row.
pub(super) const RESYNC: &[u8] = &[1];

/// Rows that are installed or cleared in one batch.
const ROWS_A_BATCH: usize = 256;

/// The replicated tables, in the order in which they are copied.
const SHARED: [Table; 5] = [
    Table::Objects,
    Table::Entries,
    Table::Links,
    Table::Xattrs,
    Table::Requests,
];

/// The tables that are cleared first: they may hold rows of the old tree or of an interrupted copy.
const CLEARED: [Table; 18] = [
    Table::Entries,
    Table::Links,
    Table::Xattrs,
    Table::Requests,
    Table::Applied,
    Table::Orphans,
    Table::Removals,
    Table::Dirty,
    Table::Kept,
    Table::Unshipped,
    Table::Recovered,
    Table::Incomplete,
    Table::Unfetched,
    Table::Locks,
    Table::Denials,
    Table::Torn,
    Table::Damaged,
    Table::Objects,
];

/// Whether a store holds a complete tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseState {
    /// The tree is complete; a new tree is complete too.
    Whole,
    /// Another replica's tree is replacing the tree, and the copy is unfinished.
    Resynchronising,
}

/// A snapshot of all replicated rows. It holds back the removal of old rows, so
/// keep it only as long as reading takes.
pub struct BaseScan {
    store: Arc<OpenStore>,
    picture: Picture,
    place: BasePlace,
    /// Rows for what is known in memory: locks and denials, and which files lack data of other replicas.
    held: Vec<RowChange>,
    /// The position of this snapshot in the stream of each replica, the store's own included.
    pub positions: Vec<(ReplicaSlot, u64)>,
}

/// Where a [`BaseScan`] continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePlace {
    /// The index of the shared table, and the key to continue from.
    table: usize,
    from: Vec<u8>,
    /// After the last table: how many of the rows in `held` were returned.
    held: usize,
}

impl std::fmt::Debug for BaseScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseScan")
            .field("positions", &self.positions)
            .finish_non_exhaustive()
    }
}

impl BaseScan {
    /// The next rows: about `max_bytes` of them and at least one. Empty at the end.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn next_page(&mut self, max_bytes: usize) -> Result<Vec<RowChange>> {
        let view = self.store.metadata.view_of(&self.picture);
        let place = &mut self.place;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while let Some(table) = SHARED.get(place.table).copied() {
            for found in view.scan(table, &[], &place.from) {
                if bytes >= max_bytes && !page.is_empty() {
                    return Ok(page);
                }
                let found = found?;
                // The next possible key after this one.
                place.from = [found.key(), &[0]].concat();
                if is_shared(&view, table, &found)? {
                    bytes += found.key().len() + found.value().len();
                    page.push(RowChange {
                        table: table as u8,
                        key: Bytes::copy_from_slice(found.key()),
                        value: Some(Bytes::copy_from_slice(found.value())),
                    });
                }
            }
            place.table += 1;
            place.from.clear();
        }
        while (bytes < max_bytes || page.is_empty())
            && let Some(row) = self.held.get(place.held)
        {
            bytes += row.key.len() + row.value.as_ref().map_or(0, Bytes::len);
            page.push(row.clone());
            place.held += 1;
        }
        Ok(page)
    }

    /// Where the next page begins.
    #[must_use]
    pub fn place(&self) -> BasePlace {
        self.place.clone()
    }

    /// Makes the next page begin at a place of this scan.
    pub fn go_to(&mut self, place: BasePlace) {
        self.place = place;
    }
}

/// Whether a row is replicated. Rows of files without a name, or of objects that do not exist, are not.
fn is_shared(view: &View<'_>, table: Table, found: &KeyedRow) -> Result<bool> {
    match table {
        Table::Objects => Ok(ObjectRow::decode(found.value())?.links > 0),
        Table::Xattrs => {
            let (id, _, _) = key::parse_xattr(found.key())?;
            let row = view.row(Table::Objects, &key::object(id))?;
            let row = row.map(|row| ObjectRow::decode(&row)).transpose()?;
            Ok(row.is_some_and(|row| row.links > 0))
        }
        _ => Ok(true),
    }
}

impl OpenStore {
    /// A snapshot of all replicated rows. It includes the marks of files that are abandoned here or that lack data of
    /// other replicas, because the receiving store will lack the same.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub async fn base(self: &Arc<Self>) -> Result<BaseScan> {
        // While no other task can change anything, rows, locks and positions are consistent.
        let mutation = self.begin_maintenance().await?;
        let mut positions = vec![(self.slot, mutation.last(Sequence::Positions))];
        positions.extend(self.applied_all()?);
        Ok(BaseScan {
            store: Arc::clone(self),
            picture: self.metadata.picture(),
            place: BasePlace::default(),
            held: self.held_and_lacking()?,
            positions,
        })
    }

    /// The locks, denials and marks of all files with a name: a copy has no others, and nothing would ever remove these there (counterexample 108).
    fn held_and_lacking(&self) -> Result<Vec<RowChange>> {
        let mut rows = Vec::new();
        for row in self.all_held().chain(self.all_lacking()) {
            let file = Fields::new(&row.key).u64().map_err(Malformed::from)?;
            match self.object(ObjectId::from_u64(file)) {
                Ok(object) if object.links > 0 => rows.push(row),
                Ok(_) | Err(Error::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// The marks of files that lack data of other replicas, or that are abandoned.
    fn all_lacking(&self) -> impl Iterator<Item = RowChange> + use<> {
        let row = |(of, mark): (_, Mark)| RowChange {
            table: Table::Incomplete as u8,
            key: Bytes::copy_from_slice(&key::incomplete(of)),
            value: Some(mark.encode().into()),
        };
        self.incomplete.all().into_iter().map(row)
    }

    /// The locks and denials of all files, encoded as in update records.
    fn all_held(&self) -> impl Iterator<Item = RowChange> + use<> {
        let row = |table: Table, id, value: Vec<u8>| RowChange {
            table: table as u8,
            key: Bytes::copy_from_slice(&key::object(id)),
            value: Some(value.into()),
        };
        let shares = self.shares();
        let denials = shares.files().filter_map(|id| {
            let denials = shares.denials(id);
            let value = encode_denials(&denials).filter(|_| !denials.is_empty())?;
            Some(row(Table::Denials, id, value))
        });
        let mut held: Vec<RowChange> = denials.collect();
        drop(shares);
        let locks = self.locks();
        let locked = locks.files();
        held.extend(
            locked.filter_map(|id| Some(row(Table::Locks, id, encode_locks(locks.of(id))?))),
        );
        held.into_iter()
    }

    /// Whether the store holds a complete tree.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn base_state(&self) -> Result<BaseState> {
        self.health.check()?;
        Ok(match self.metadata.row(Table::System, UNFINISHED_KEY)? {
            Some(row) if *row == *RESYNC => BaseState::Resynchronising,
            Some(_) => return Err(Malformed("how the tree is being replaced is unknown").into()),
            None => BaseState::Whole,
        })
    }

    /// Removes the state that the copy replaces, from tables and from memory.
    pub(super) async fn clear_base(&self) -> Result<()> {
        // This also removes the marks that record which blocks are open.
        let mut mutation = self.begin_maintenance().await?;
        for id in self.open_sums.files() {
            self.void_sums(&mut mutation, id);
        }
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await?;
        for table in CLEARED {
            self.clear_table(table).await?;
        }
        let mut mutation = self.begin_maintenance().await?;
        mutation.set_object_count(1);
        mutation.then(|store, _| store.forget_objects());
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await
    }

    /// Clears what is known in memory of removed objects.
    fn forget_objects(&self) {
        self.unshipped.clear();
        self.unfetched.clear();
        self.damaged.clear();
        self.incomplete.clear();
        self.torn.clear();
        self.dirty.clear();
        // The database already records that their rows are void.
        for id in self.open_sums.files() {
            self.open_sums.forget(id);
        }
        self.series.clear();
        self.orphans.clear();
        let mut locks = self.locks();
        let locked: Vec<ObjectId> = locks.files().collect();
        locked.into_iter().for_each(|id| locks.forget(id));
        drop(locks);
        let mut shares = self.shares();
        let shared: Vec<ObjectId> = shares.files().collect();
        for id in shared {
            shares.follow(id, Vec::new());
        }
    }

    /// Removes all rows of a table except the root's.
    pub(super) async fn clear_table(&self, table: Table) -> Result<()> {
        loop {
            let root = key::object(ObjectId::ROOT);
            let keys: Vec<Vec<u8>> = {
                let view = self.metadata.view();
                let rows = view.scan(table, &[], &[]).take(ROWS_A_BATCH);
                rows.map(|row| Ok(row?.key().to_vec()))
                    .collect::<Result<_>>()?
            };
            let doomed = (keys.iter()).filter(|key| table != Table::Objects || key[..] != root);
            let mut mutation = self.begin_maintenance().await?;
            let mut count = 0;
            for key in doomed {
                mutation.remove_local(table, key);
                count += 1;
            }
            mutation.commit_local()?;
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Installs one page of a [`BaseScan`].
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] when no copy was begun, or for impossible rows;
    /// [`vfs::Error::NoSpace`]; [`vfs::Error::Io`].
    pub async fn install_base(&self, rows: Vec<RowChange>) -> Result<()> {
        let mut rows = self.understand(rows)?.into_iter();
        loop {
            let group: Vec<ForeignRow> = rows.by_ref().take(ROWS_A_BATCH).collect();
            if group.is_empty() {
                return Ok(());
            }
            let demand = Demand::Space(group.len() as u64 * ROW_BYTES);
            let mut mutation = self.begin(demand).await?;
            if self.base_state()? == BaseState::Whole {
                return Err(Error::Invalid("no copy of a tree was begun"));
            }
            mutation.follow(self.slot);
            for row in group {
                // Skips missing data of this replica itself: only its primary could report the arrival, and that is this replica.
                let own = matches!(row, ForeignRow::Incomplete { of: (_, from), .. } if from == self.slot);
                if !own {
                    mutation.install(row)?;
                }
            }
            mutation.commit_local()?;
        }
    }

    /// Finishes what [`crate::OpenStore::begin_resync`] began. From here on the store is a replica that has applied the given
    /// positions. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] when no copy was begun; [`vfs::Error::Io`].
    pub async fn finish_base(self: &Arc<Self>, positions: Vec<(ReplicaSlot, u64)>) -> Result<()> {
        if self.base_state()? == BaseState::Whole {
            return Err(Error::Invalid("no copy of a tree was begun"));
        }
        self.reconcile().await?;
        let mut mutation = self.begin_maintenance().await?;
        for (slot, position) in positions {
            if slot == self.slot {
                mutation.raise(Sequence::Positions, position);
            } else {
                let key = slot.0.to_be_bytes();
                mutation.put_local(Table::Applied, &key, &key::number(position));
            }
        }
        mutation.note_shared();
        mutation.remove_local(Table::System, UNFINISHED_KEY);
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await?;
        self.clear_table(Table::Remembered).await
    }

    /// At most `count` regular files after `after` with their sizes, in the order of identifiers.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn files(&self, after: Option<ObjectId>, count: usize) -> Result<Vec<(ObjectId, u64)>> {
        self.health.check()?;
        let from = after.map_or(0, |after| after.as_u64().saturating_add(1));
        let view = self.metadata.view();
        let mut files = Vec::new();
        for row in view.scan(Table::Objects, &[], &key::number(from)) {
            if files.len() >= count {
                break;
            }
            let row = row?;
            let object = ObjectRow::decode(row.value())?;
            if object.links > 0 && object.file().is_ok() {
                files.push((key::parse_object(row.key())?, object.size));
            }
        }
        Ok(files)
    }
}
