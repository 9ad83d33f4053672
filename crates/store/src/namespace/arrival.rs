//! Names of files that lie in another store, and names that are moved here from another store.
//!
//! What must never enter: the other store.

use vfs::permission::sticky_forbids;
use vfs::{Attributes, Credentials, DirectoryChange, Error, Name, ObjectId, Result};

use super::{check_changeable, dangling, searchable};
use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::requests::Begun;
use crate::rows::{Content, Effect, ObjectRow};
use crate::space::{Demand, ROW_BYTES};

/// The source of a name that is moved here from another store.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'n> {
    /// The change of the source directory.
    pub source: DirectoryChange,
    /// A second name for the same file; it proves that the first one was created.
    pub proof: (ObjectId, &'n Name),
}

impl Operation {
    /// Gives a file a name here. The file lies in this store, or in another store, which supplies these attributes and keeps the file for this
    /// name. A name that is moved here replaces an existing one.
    ///
    /// # Errors
    /// As [`vfs::FileSystem::link`] or [`vfs::FileSystem::rename`].
    pub async fn accept_name(
        &self,
        who: &Credentials,
        to: (ObjectId, &Name),
        file: &Attributes,
        arrival: Option<Arrival<'_>>,
    ) -> Result<DirectoryChange> {
        let mutation = match self.begin_once(who, Demand::Space(ROW_BYTES)).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) if arrival.is_some() => return Ok(effect.changes()?.1),
            Begun::Done(effect) => return effect.change(),
        };
        let (change, ticket) = self.accept_name_in(mutation, who, to, file, arrival)?;
        self.settle(ticket).await?;
        Ok(change)
    }

    fn accept_name_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
        file: &Attributes,
        arrival: Option<Arrival<'_>>,
    ) -> Result<(DirectoryChange, Ticket)> {
        let parent = mutation.object(directory)?.clone();
        let parent_attributes = searchable(who, directory, &parent)?;
        check_changeable(who, &parent_attributes)?;
        let replaced = mutation.find(directory, name)?;
        if let Some(replaced) = replaced {
            let row = mutation.object(replaced).map_err(|_| dangling())?;
            if arrival.is_none() {
                return Err(Error::Exists);
            }
            if sticky_forbids(who, &parent_attributes, &row.attributes(replaced)) {
                return Err(Error::NotPermitted);
            }
            if row.is_directory() {
                return Err(Error::IsDirectory);
            }
        }
        if self.object(file.id).is_err() {
            mutation.insert_object(file.id, self.row_elsewhere(file)?)?;
        } else if mutation.object(file.id)?.links == 0 {
            return Err(Error::Stale);
        }
        if mutation.object(file.id)?.links.saturating_add(1) >= self.properties.max_links {
            return Err(Error::TooManyLinks);
        }
        let shape = Change::Rename {
            from: arrival.map_or(directory, |arrival| arrival.proof.0),
            to: directory,
            moved: mutation.touched(file.id)?,
            replaced: replaced.map(|id| mutation.touched(id)).transpose()?,
        };
        let mut shares = self.shares();
        match replaced {
            // Another task has done it.
            Some(replaced) if replaced == file.id => return Err(Error::Delay),
            Some(replaced) => {
                mutation.repoint_name(directory, name, file.id)?;
                self.drop_name_of(&mut mutation, &shares, replaced)?;
            }
            None => mutation.add_name(directory, name, file.id)?,
        }
        mutation.object_mut(file.id)?.links += 1;
        if let Some(Arrival { proof, .. }) = arrival {
            mutation.add_name(proof.0, proof.1, file.id)?;
            mutation.object_mut(file.id)?.links += 1;
            mutation.touch(proof.0, Touch::Content)?;
        }
        mutation.touch(file.id, Touch::Attributes)?;
        let gone = replaced.filter(|id| mutation.object(*id).is_err());
        let change = mutation.touch(directory, Touch::Content)?;
        let effect = match arrival {
            Some(arrival) => Effect::Renamed(arrival.source, change),
            None => Effect::Changed(change),
        };
        mutation.note_effect(who, effect, None)?;
        let ticket = mutation.commit(&shape)?;
        if let Some(gone) = gone {
            shares.forget(gone);
        }
        Ok((change, ticket))
    }

    /// The earlier result of the request, if it was a rename.
    ///
    /// # Errors
    /// [`Error::NotCarriedOut`] for a pure repeat of a request that was not carried out.
    pub async fn renamed_before(
        &self,
        who: &Credentials,
    ) -> Result<Option<(DirectoryChange, DirectoryChange)>> {
        let effect = self.earlier_of(who).await?;
        effect.map(Effect::changes).transpose()
    }

    /// The same for a link.
    ///
    /// # Errors
    /// [`Error::NotCarriedOut`] for a pure repeat of a request that was not carried out.
    pub async fn linked_before(&self, who: &Credentials) -> Result<Option<DirectoryChange>> {
        let effect = self.earlier_of(who).await?;
        effect.map(Effect::change).transpose()
    }
}

impl Operation {
    /// The number of names of an object here.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn count_names(&self, id: ObjectId) -> Result<u32> {
        match self.object(id) {
            Ok(row) => Ok(row.links),
            Err(Error::Stale) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl OpenStore {
    /// The local row of a file that lies in another store; it has the file's names here.
    fn row_elsewhere(&self, file: &Attributes) -> Result<ObjectRow> {
        if file.id.slot() == self.slot {
            return Err(Error::Stale);
        }
        if file.is_directory() {
            return Err(Error::IsDirectory);
        }
        Ok(ObjectRow {
            mode: file.mode & vfs::permission::MODE_MASK,
            links: 0,
            owner: file.owner,
            group: file.group,
            size: 0,
            space_used: 0,
            change: file.change,
            accessed: file.accessed,
            modified: file.modified,
            changed: file.changed,
            created: file.created,
            xattr_bytes: 0,
            content: Content::Elsewhere(file.kind),
        })
    }
}
