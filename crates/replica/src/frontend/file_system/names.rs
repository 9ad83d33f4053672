//! What is behind a name: the primary of the directory knows the object, and the primary of the object knows its state.

use vfs::{
    Attributes, Cookie, Credentials, DirectoryPage, Error, FileSystem, Name, ObjectId, Result,
};

use super::ReplicatedFileSystem;
use crate::state::forward::{Found, Operation};

impl ReplicatedFileSystem {
    /// The object behind a name, with the attributes that its own primary knows.
    pub(super) async fn look_up(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        let Found {
            attributes,
            vouched_by,
        } = self.find(who, directory, name).await?;
        let right = vouched_by.is_some_and(|slot| {
            let holder = self.holder(attributes.id);
            holder.is_none_or(|holder| holder == slot)
        });
        if right {
            return Ok(attributes);
        }
        match self.attributes(attributes.id).await {
            // It was there when the name was looked up.
            Err(Error::Stale) => Ok(attributes),
            outcome => outcome,
        }
    }

    /// The object behind a name as the primary of the directory knows it, or as the local copy has it if that may answer.
    pub(crate) async fn find(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Found> {
        let store = &self.replica.store;
        let attempt = || async {
            let attributes = store.lookup(who, directory, name).await?;
            let is_ours = self.holder(attributes.id).is_none();
            Ok(Found {
                vouched_by: is_ours.then_some(self.replica.slot()),
                attributes,
            })
        };
        if self.shows_own_names(directory).await
            && let Ok(found) = attempt().await
            && self.may_answer()
        {
            return Ok(found);
        }
        let operation = || Operation::Lookup(who.clone(), directory, name.clone());
        self.look(&[directory], attempt, operation).await
    }

    /// Names of a directory as its primary knows them, or as the local copy has them if that may answer (main paper, section 3.3).
    pub(super) async fn list(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        let store = &self.replica.store;
        let attempt = || store.read_directory(who, directory, after, max_entries);
        if self.shows_own_names(directory).await
            && let Ok(page) = attempt().await
            && self.may_answer()
        {
            return Ok(page);
        }
        let count = u32::try_from(max_entries).unwrap_or(u32::MAX);
        let operation = || Operation::ReadDirectory(who.clone(), directory, after, count);
        self.look(&[directory], attempt, operation).await
    }
}
