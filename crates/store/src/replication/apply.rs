//! Applies changes of another primary.
//!
//! An update that changes the size of a file locks the file exclusively, like a local change of size. Data behind the
//! new end is cut off once the row is stable. Data that may lie behind the old end is cut off before the file grows.
//! The next user of the same file waits for that; the sender of the update does not.

use std::collections::HashSet;
use std::sync::Arc;

use fields::Fields;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use super::foreign_row::ForeignRow;
use super::incomplete::Lacking;
use super::{BeforeCommit, ForeignUpdate, LinkChange};
use crate::committer::Ticket;
use crate::data::{Alone, Origin, Resized};
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::rows::{ObjectRow, key};
use crate::shares::{Denial, Shares};
use crate::space::Demand;

/// What rows of another primary change besides the metadata.
#[derive(Default)]
pub(super) struct Entered {
    /// Names that appear and disappear.
    pub(super) links: Vec<LinkChange>,
    /// The new denials of each object.
    pub(super) denials: Vec<(ObjectId, Vec<Denial>)>,
}

impl OpenStore {
    /// Applies rows that another primary changed, in one batch with the new position in its stream.
    /// Changes nothing if the position was applied already.
    ///
    /// `before_commit` is called with the writer's lock held. It gets the names that appear and disappear,
    /// and a closure that commits, which it must call. Two facts about an object stay as this copy has
    /// them: whether it has a data file, and whether a file that lost its last name is still
    /// open here.
    ///
    /// The content of files comes separately, see [`crate::OpenStore::put_content`].
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] for impossible rows; [`vfs::Error::NoSpace`] on a full disk;
    /// [`vfs::Error::Io`] when storage fails; errors of `before_commit`. Nothing has changed then.
    pub async fn apply(
        self: &Arc<Self>,
        update: ForeignUpdate,
        before_commit: &mut BeforeCommit<'_>,
    ) -> Result<Ticket> {
        let ForeignUpdate {
            from,
            position,
            changes,
            incomplete,
        } = update;
        let rows = self.understand(changes)?;
        let mut alone: Vec<Alone> = Vec::new();
        loop {
            let resized = self.resized(&rows)?;
            if !covers(&alone, &resized) {
                // Lock all of them in order, so that no two tasks wait for each other.
                drop(std::mem::take(&mut alone));
                for one in resized {
                    alone.push(self.have_alone(one).await?);
                }
            }
            let mut mutation = self.begin(Demand::Removal).await?;
            mutation.follow(from);
            let applied = self.applied(from)?;
            if position <= applied {
                return Ok(self.commits.committed());
            }
            // Another task may have changed the sizes while this task waited for the writer's lock.
            if covers(&alone, &self.resized(&rows)?) {
                mutation.put_local(
                    Table::Applied,
                    &from.0.to_be_bytes(),
                    &key::number(position),
                );
                for id in alone.iter().filter_map(Alone::changed) {
                    // Another replica has the correct data.
                    self.enter_damage(&mut mutation, id);
                }
                let lacking =
                    self.lacking(&mut mutation, from, (applied, position), &incomplete)?;
                let ticket = self.enter(mutation, (rows, lacking), before_commit)?;
                self.cut_behind(alone, ticket);
                return Ok(ticket);
            }
        }
    }

    fn enter(
        &self,
        mut mutation: Mutation<'_>,
        (rows, lacking): (Vec<ForeignRow>, Lacking),
        before_commit: &mut BeforeCommit<'_>,
    ) -> Result<Ticket> {
        // No file may be opened between the decision to remove it and the batch that removes it.
        let mut shares = self.shares();
        let Entered { links, denials } = self.enter_rows(&mut mutation, &shares, rows)?;
        self.mark_incomplete(&mut mutation, lacking)?;
        let ticket = mutation.commit_followed(&mut |commit| before_commit(&links, commit))?;
        for (id, denials) in denials {
            if shares.follow(id, denials) {
                self.tell_lock_change(id);
            }
        }
        Ok(ticket)
    }

    /// Tells listeners, if any, that locks or denials of an object have changed.
    pub(crate) fn tell_lock_change(&self, id: ObjectId) {
        let _listeners = self.lock_changes.send(id);
    }

    /// The position of the last update of a replica's stream that was applied here; 0 for none.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when the row cannot be read.
    pub fn applied(&self, from: ReplicaSlot) -> Result<u64> {
        self.health.check()?;
        let row = self.metadata.row(Table::Applied, &from.0.to_be_bytes())?;
        row.map_or(Ok(0), |row| Ok(key::parse_number(&row)?))
    }

    /// Notes that a replica's stream is applied here up to a position that belongs to no update: positions have gaps. On return
    /// the row is committed, but perhaps not stable.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn reached(&self, from: ReplicaSlot, position: u64) -> Result<Ticket> {
        let mut mutation = self.begin_maintenance().await?;
        if position > self.applied(from)? {
            let slot = from.0.to_be_bytes();
            mutation.put_local(Table::Applied, &slot, &key::number(position));
        }
        mutation.commit_local()
    }

    /// The applied positions in the streams of all other replicas, including replicas that left the set.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn applied_all(&self) -> Result<Vec<(ReplicaSlot, u64)>> {
        self.health.check()?;
        let view = self.metadata.view();
        let mut applied = Vec::new();
        for row in view.scan(Table::Applied, &[], &[]) {
            let row = row?;
            let slot = Fields::new(row.key()).u16().map_err(Malformed::from)?;
            applied.push((ReplicaSlot(slot), key::parse_number(row.value())?));
        }
        Ok(applied)
    }

    /// The local files whose size these rows change, in order.
    fn resized(&self, rows: &[ForeignRow]) -> Result<Vec<Resized>> {
        let mut resized = Vec::new();
        for row in rows {
            let ForeignRow::Object { id, row: Some(row) } = row else {
                continue;
            };
            match self.object(*id) {
                Ok(before) if before.file().is_ok() && before.size != row.size => {
                    resized.push(Resized {
                        id: *id,
                        size: row.size,
                        shrinks: row.size < before.size,
                    });
                }
                Ok(_) | Err(Error::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        resized.sort_unstable();
        resized.dedup();
        Ok(resized)
    }

    /// Puts the rows into the batch.
    pub(super) fn enter_rows(
        &self,
        mutation: &mut Mutation<'_>,
        shares: &Shares,
        rows: Vec<ForeignRow>,
    ) -> Result<Entered> {
        let mut entered = Entered::default();
        let gone = rows.iter().filter_map(|row| match row {
            ForeignRow::Object { id, row: None } => Some(*id),
            _ => None,
        });
        let gone: HashSet<ObjectId> = gone.collect();
        for row in rows {
            match row {
                ForeignRow::Object { id, row: Some(row) } => {
                    self.enter_object(mutation, id, row)?
                }
                ForeignRow::Object { id, row: None } => {
                    self.enter_removal(mutation, shares, id)?;
                    entered.denials.push((id, Vec::new()));
                }
                ForeignRow::Link {
                    child,
                    parent,
                    added,
                    change,
                } => {
                    if self.metadata.row(Table::Links, &change.key)?.is_some() != added {
                        entered.links.push(LinkChange {
                            object: child,
                            parent,
                            added,
                        });
                    }
                    mutation.enter_row(Table::Links, &change);
                }
                ForeignRow::Locks { id, held, change } => {
                    mutation.enter_row(Table::Locks, &change);
                    mutation.then(move |store, _| {
                        if store.locks().replace(id, held) {
                            store.tell_lock_change(id);
                        }
                    });
                }
                ForeignRow::Denials {
                    id,
                    denials,
                    change,
                } => {
                    mutation.enter_row(Table::Denials, &change);
                    entered.denials.push((id, denials));
                }
                ForeignRow::Incomplete { .. } => {
                    return Err(Error::Invalid("an update tells what its sender lacks"));
                }
                ForeignRow::Request { row, change } => mutation.enter_request(&change.key, row)?,
                ForeignRow::Names { change } => mutation.enter_row(Table::Entries, &change),
                // One of several merged updates set it, and another removed its object.
                ForeignRow::Xattr { id, .. } if gone.contains(&id) => {}
                ForeignRow::Xattr { change, .. } => mutation.enter_row(Table::Xattrs, &change),
            }
        }
        Ok(entered)
    }

    /// Applies the row of an object. This copy itself knows whether the object's data lies here.
    fn enter_object(
        &self,
        mutation: &mut Mutation<'_>,
        id: ObjectId,
        mut row: ObjectRow,
    ) -> Result<()> {
        let before = match mutation.object(id) {
            Ok(before) => Some(before.clone()),
            Err(Error::Stale) => None,
            Err(error) => return Err(error),
        };
        if before
            .as_ref()
            .is_some_and(|before| before.kind() != row.kind())
        {
            return Err(Error::Invalid("an object has become one of another kind"));
        }
        if before.as_ref().is_some_and(|before| before.links == 0) {
            mutation.unmark(Table::Orphans, id);
            mutation.then(move |store, _| store.orphans.forget(id));
        }
        let size = row.size;
        if let Ok(file) = row.file_mut() {
            let previous = before.as_ref().and_then(|before| before.file().ok());
            file.stored = previous.is_some_and(|previous| previous.stored);
            // Each copy decides for itself where data lies.
            file.placement = match previous {
                Some(previous) => previous.placement.clone(),
                None => self.place_for(id),
            };
            let elsewhere = file.placement.is_some();
            match &before {
                Some(before) if size < before.size && self.may_have_data(id, before) => {
                    self.enter_cut(mutation, id);
                }
                // Its data comes next, and the mark must be there before.
                None if size > 0 => mark_born(mutation, id, elsewhere),
                _ => {}
            }
        }
        mutation.replace_object(id, row)
    }

    /// Marks a file that gets shorter, and drops its kept writes.
    fn enter_cut(&self, mutation: &mut Mutation<'_>, id: ObjectId) {
        let kept = self.dirty.kept(id);
        crate::data::remove_rows(mutation, id, &kept);
        mutation.then(move |store, _| store.dirty.drop_kept(id, &kept));
        self.mark_cut(mutation, id, Origin::FOREIGN);
        mutation.then(move |store, _| store.dirty.set_tail_clean(id, false));
    }

    /// Applies the removal of an object. A client of this replica may still have the file open.
    fn enter_removal(
        &self,
        mutation: &mut Mutation<'_>,
        shares: &Shares,
        id: ObjectId,
    ) -> Result<()> {
        let row = match mutation.object_mut(id) {
            Ok(row) if row.links == 0 => return Ok(()),
            Ok(row) => row,
            Err(Error::Stale) => {
                if shares.is_open(id) {
                    // It was created and removed before its rows came here; its home has all of it.
                    let home = mutation.home();
                    mutation.then(move |store, _| store.orphans.add(id, home, true));
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        row.links = 0;
        self.drop_object(mutation, shares, id)
    }
}

/// Whether `alone` covers the size change of each of these files.
fn covers(alone: &[Alone], resized: &[Resized]) -> bool {
    let covered = |wanted: &Resized| alone.iter().any(|one| one.covers(*wanted));
    resized.iter().all(covered)
}

fn mark_born(mutation: &mut Mutation<'_>, id: ObjectId, elsewhere: bool) {
    let origin = Origin {
        born_marked: true,
        elsewhere,
        ..Origin::FOREIGN
    };
    mutation.mark_foreign(Table::Dirty, id);
    mutation.then(move |store, ticket| store.dirty.mark(id, ticket, origin, 0));
}
