//! Giving an object one more name.

use vfs::{Credentials, DirectoryChange, Error, Name, ObjectId, Result};

use super::{check_changeable, searchable};
use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::mutation::{Mutation, Touch};
use crate::operation::Operation;
use crate::requests::Begun;
use crate::rows::Effect;
use crate::space::{Demand, ROW_BYTES};

impl Operation {
    /// [`vfs::FileSystem::link`].
    pub(crate) async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let mutation = match self.begin_once(who, Demand::Space(ROW_BYTES)).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return effect.change(),
        };
        let (change, ticket) = self.link_in(mutation, who, id, directory, name)?;
        self.settle(ticket).await?;
        Ok(change)
    }

    fn link_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(DirectoryChange, Ticket)> {
        let parent = searchable(who, directory, mutation.object(directory)?)?;
        let row = mutation.object(id)?;
        if row.is_directory() {
            return Err(Error::IsDirectory);
        }
        // An orphan stays one: POSIX does not allow new names for removed files.
        if row.links == 0 {
            return Err(Error::Stale);
        }
        let full = row.links >= self.properties.max_links;
        if mutation.find(directory, name)?.is_some() {
            return Err(Error::Exists);
        }
        check_changeable(who, &parent)?;
        if full {
            return Err(Error::TooManyLinks);
        }
        let shape = Change::Link {
            file: mutation.touched(id)?,
            parent: directory,
        };
        mutation.add_name(directory, name, id)?;
        mutation.object_mut(id)?.links += 1;
        mutation.touch(id, Touch::Attributes)?;
        let change = mutation.touch(directory, Touch::Content)?;
        mutation.note_effect(who, Effect::Changed(change), None)?;
        Ok((change, mutation.commit(&shape)?))
    }
}
