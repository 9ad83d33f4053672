//! Finding the object of a name, and the directory above.

use vfs::{Attributes, Credentials, Error, Name, ObjectId, Result};

use super::{dangling, searchable};
use crate::metadata::{Table, View};
use crate::open_store::OpenStore;
use crate::rows::{EntryRow, ObjectRow, key};

impl OpenStore {
    /// [`vfs::FileSystem::lookup`].
    pub(crate) fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        self.health.check()?;
        self.metadata.consistent(|view| {
            let row = object_in(view, directory)?.ok_or(Error::Stale)?;
            searchable(who, directory, &row)?;
            let found = self.find_in(view, directory, name)?;
            let (id, row) = found.ok_or(Error::NotFound)?;
            Ok(row.attributes(id))
        })
    }

    /// [`vfs::FileSystem::parent`].
    pub(crate) fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        self.health.check()?;
        self.metadata.consistent(|view| {
            let row = object_in(view, directory)?.ok_or(Error::Stale)?;
            searchable(who, directory, &row)?;
            if directory == ObjectId::ROOT {
                return Err(Error::NotFound);
            }
            let parent = row.directory()?.parent;
            Ok(object_in(view, parent)?
                .ok_or_else(dangling)?
                .attributes(parent))
        })
    }

    /// The object of a name, without a permission check.
    pub(super) fn find_in(
        &self,
        view: &View<'_>,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Option<(ObjectId, ObjectRow)>> {
        let entry_key = key::entry(directory, self.hash(name.as_bytes()));
        let Some(row) = view.row(Table::Entries, &entry_key)? else {
            return Ok(None);
        };
        let entries = EntryRow::decode(&row)?;
        let Some(entry) = entries.find(name) else {
            return Ok(None);
        };
        let object = object_in(view, entry.object)?.ok_or_else(dangling)?;
        Ok(Some((entry.object, object)))
    }

    /// [`vfs::FileSystem::read_link`].
    pub(crate) fn read_link(&self, id: ObjectId) -> Result<bytes::Bytes> {
        match self.object(id)?.content {
            crate::rows::Content::Symlink(target) => Ok(target),
            crate::rows::Content::Directory(_) => Err(Error::IsDirectory),
            crate::rows::Content::Elsewhere(_) => Err(Error::CrossHome),
            _ => Err(Error::WrongKind),
        }
    }
}

/// An object in a view.
pub(super) fn object_in(view: &View<'_>, id: ObjectId) -> Result<Option<ObjectRow>> {
    let row = view.row(Table::Objects, &key::object(id))?;
    Ok(row.map(|row| ObjectRow::decode(&row)).transpose()?)
}
