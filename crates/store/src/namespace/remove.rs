//! Removing names, and objects with their last name.
//!
//! An open file loses its name but not its row or data: it becomes an orphan, which is removed with
//! its last close. If there are other replicas, their clients may have it open: it is kept until none of them has. The data of a removed
//! object on disk is listed in the table of removals in the same batch, and cleared away later.

use vfs::permission::sticky_forbids;
use vfs::{Credentials, DirectoryChange, Error, Name, ObjectId, Result};

use super::{check_changeable, dangling, searchable};
use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::data::remove_rows;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::orphans::row_of_orphan;
use crate::requests::Begun;
use crate::rows::{Content, Effect, Lies, ObjectRow, key};
use crate::shares::Shares;
use crate::space::Demand;

impl Operation {
    /// [`vfs::FileSystem::remove`].
    pub(crate) async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let mutation = match self.begin_once(who, Demand::Removal).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return effect.change(),
        };
        let (change, ticket) = self.remove_in(mutation, who, (directory, name), None)?;
        self.settle(ticket).await?;
        Ok(change)
    }

    /// The same for a name of this object, which lies elsewhere. For a directory the caller has ensured that it is and stays empty.
    ///
    /// # Errors
    /// As [`vfs::FileSystem::remove`], and [`Error::Delay`] when the name leads to another object.
    pub async fn remove_elsewhere(
        &self,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
        id: ObjectId,
    ) -> Result<DirectoryChange> {
        let mutation = match self.begin_once(who, Demand::Removal).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return effect.change(),
        };
        let (change, ticket) = self.remove_in(mutation, who, (directory, name), Some(id))?;
        self.settle(ticket).await?;
        Ok(change)
    }

    fn remove_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
        elsewhere: Option<ObjectId>,
    ) -> Result<(DirectoryChange, Ticket)> {
        let parent = searchable(who, directory, mutation.object(directory)?)?;
        check_changeable(who, &parent)?;
        let id = mutation.find(directory, name)?.ok_or(Error::NotFound)?;
        let row = mutation.object(id).map_err(|_| dangling())?;
        let lies_elsewhere = row.lies_elsewhere();
        match elsewhere {
            // The name leads to another object by now.
            Some(other) if other != id => return Err(Error::Delay),
            // By now the name may lead to an object with another home.
            None if lies_elsewhere => return Err(Error::CrossHome),
            _ => {}
        }
        if sticky_forbids(who, &parent, &row.attributes(id)) {
            return Err(Error::NotPermitted);
        }
        if elsewhere.is_none() {
            check_removable(row)?;
        }
        let shape = Change::Remove {
            parent: directory,
            removed: mutation.touched(id)?,
        };
        mutation.remove_name(directory, name)?;
        // No file may be opened between the decision to remove it and the batch that removes it.
        let mut shares = self.shares();
        self.drop_name_of(&mut mutation, &shares, id)?;
        let gone = mutation.object(id).is_err();
        let change = mutation.touch(directory, Touch::Content)?;
        mutation.note_effect(who, Effect::Changed(change), None)?;
        let ticket = mutation.commit(&shape)?;
        if gone {
            shares.forget(id);
        }
        Ok((change, ticket))
    }
}

impl OpenStore {
    /// Handles an object that lost one name: after its last name it is removed, or becomes an orphan.
    pub(super) fn drop_name_of(
        &self,
        mutation: &mut Mutation<'_>,
        shares: &Shares,
        id: ObjectId,
    ) -> Result<()> {
        let row = mutation.object_mut(id)?;
        row.links = if row.is_directory() {
            0
        } else {
            row.links.saturating_sub(1)
        };
        if row.links > 0 {
            return mutation.touch(id, Touch::Attributes).map(|_| ());
        }
        self.drop_object(mutation, shares, id)
    }

    /// Removes an object without names, or makes it an orphan.
    pub(crate) fn drop_object(
        &self,
        mutation: &mut Mutation<'_>,
        shares: &Shares,
        id: ObjectId,
    ) -> Result<()> {
        let is_file = mutation.object(id)?.file().is_ok();
        // Until clients have had time to reclaim, any file may have been open.
        let is_held = shares.is_open(id) || self.is_reclaiming();
        if is_file && (is_held || mutation.removes_for_others()) {
            let home = mutation.home();
            let row = row_of_orphan(home, false);
            mutation.put_local(Table::Orphans, &key::object(id), &row);
            mutation.then(move |store, _| store.orphans.add(id, home, is_held));
            return mutation.touch(id, Touch::Attributes).map(|_| ());
        }
        self.discard(mutation, id)
    }

    /// Removes an object without names, and lists its data to be cleared away.
    pub(crate) fn discard(&self, mutation: &mut Mutation<'_>, id: ObjectId) -> Result<()> {
        let row = mutation.object(id)?;
        let marked = self.dirty.contains(id);
        let has_data = matches!(&row.content, Content::File(file) if file.stored || marked);
        if has_data || row.xattr_bytes > 0 {
            let placement = row.placement().cloned().unwrap_or_default();
            mutation.put_local(Table::Removals, &key::object(id), &placement);
            mutation.unmark(Table::Digests, id);
            mutation.then(move |store, _| store.leftovers.add(id));
        }
        if marked {
            mutation.unmark(Table::Dirty, id);
            remove_rows(mutation, id, &self.dirty.kept(id));
        }
        if self.unshipped.contains(id) {
            mutation.unmark(Table::Unshipped, id);
        }
        if self.unfetched.contains(id) {
            mutation.unmark(Table::Unfetched, id);
        }
        if self.damaged.contains(id) {
            mutation.unmark(Table::Damaged, id);
        }
        self.unmark_incomplete(mutation, id);
        mutation.then(move |store, _| {
            // The kept writes were removed with their rows.
            let _kept = store.dirty.forget(id);
            store.open_sums.forget(id);
            store.unshipped.forget(id);
            store.unfetched.forget(id);
            store.damaged.forget(id);
            store.locks().forget(id);
        });
        mutation.remove_object(id)
    }
}

/// Only empty directories can be removed. This is not known for directories that lie elsewhere.
pub(super) fn check_removable(row: &ObjectRow) -> Result<()> {
    match &row.content {
        Content::Directory(content) if content.lies == Lies::Elsewhere => Err(Error::CrossHome),
        Content::Directory(content) if content.entries > 0 => Err(Error::NotEmpty),
        _ => Ok(()),
    }
}
