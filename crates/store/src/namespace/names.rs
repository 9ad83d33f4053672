//! Adding, moving and removing one name, together with all rows that have to change with it.

use vfs::{Cookie, Error, Name, ObjectId, Result};

use super::dangling;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::rows::{Lies, key};

impl Mutation<'_> {
    /// The object of a name.
    pub(super) fn find(&mut self, directory: ObjectId, name: &Name) -> Result<Option<ObjectId>> {
        Ok(self
            .entries(directory, name)?
            .find(name)
            .map(|entry| entry.object))
    }

    /// Adds a new name. If it leads to a directory, its parent is this directory from now on.
    pub(crate) fn add_name(
        &mut self,
        directory: ObjectId,
        name: &Name,
        child: ObjectId,
    ) -> Result<()> {
        match self.object(directory)?.directory()?.lies {
            Lies::Here => {}
            // It will soon be removed, or be unsealed.
            Lies::Sealed(_) => return Err(Error::Delay),
            Lies::Elsewhere => return Err(Error::CrossHome),
        }
        let (hash, row) = self.entries_mut(directory, name)?;
        let index = row.add(name.clone(), child).ok_or(Error::NoSpace)?;
        self.put_link(child, directory, hash.cookie(index));
        self.place(child, directory)?;
        self.count(directory, child, 1)
    }

    /// Removes an existing name.
    pub(crate) fn remove_name(&mut self, directory: ObjectId, name: &Name) -> Result<()> {
        let (hash, row) = self.entries_mut(directory, name)?;
        let entry = row.remove(name).ok_or(Error::NotFound)?;
        self.remove_link(entry.object, directory, hash.cookie(entry.index));
        self.count(directory, entry.object, -1)
    }

    /// Makes an existing name lead to another object; its cookie stays.
    pub(super) fn repoint_name(
        &mut self,
        directory: ObjectId,
        name: &Name,
        child: ObjectId,
    ) -> Result<()> {
        let (hash, row) = self.entries_mut(directory, name)?;
        let entry = row.find(name).ok_or(Error::NotFound)?;
        let (previous, cookie) = (entry.object, hash.cookie(entry.index));
        row.replace(name, child);
        self.remove_link(previous, directory, cookie);
        self.put_link(child, directory, cookie);
        self.place(child, directory)?;
        self.count(directory, previous, -1)?;
        self.count(directory, child, 1)
    }

    fn put_link(&mut self, child: ObjectId, directory: ObjectId, cookie: Cookie) {
        self.put(Table::Links, &key::link(child, directory, cookie), b"");
    }

    fn remove_link(&mut self, child: ObjectId, directory: ObjectId, cookie: Cookie) {
        self.remove(Table::Links, &key::link(child, directory, cookie));
    }

    fn place(&mut self, child: ObjectId, directory: ObjectId) -> Result<()> {
        if self.object(child).map_err(|_| dangling())?.is_directory() {
            self.object_mut(child)?.directory_mut()?.parent = directory;
        }
        Ok(())
    }

    /// Adds a name of `child` to the counts of its directory, or subtracts it.
    fn count(&mut self, directory: ObjectId, child: ObjectId, step: i32) -> Result<()> {
        let subdirectory = self.object(child).map_err(|_| dangling())?.is_directory();
        let counts = self.object_mut(directory)?.directory_mut()?;
        counts.entries = counts.entries.saturating_add_signed(step.into());
        if subdirectory {
            counts.subdirectories = counts.subdirectories.saturating_add_signed(step);
        }
        Ok(())
    }
}
