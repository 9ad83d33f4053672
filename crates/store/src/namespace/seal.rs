//! Sealed directories get no new names, because a task that knows a name in another store may be about to remove them.
//!
//! What must never enter: that task, and whether it removes the directory.

use vfs::{Error, ObjectId, Result};

use crate::operation::Operation;
use crate::rows::Lies;
use crate::space::Demand;

impl Operation {
    /// Seals an empty directory under a number; replaces an earlier seal. Returns when that is stable.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::NotDirectory`], and [`Error::Stale`] when the directory is gone.
    pub async fn seal(&self, directory: ObjectId, seal: u64) -> Result<()> {
        let mut mutation = self.begin(Demand::Removal).await?;
        let content = mutation.object_mut(directory)?.directory_mut()?;
        if content.entries > 0 {
            return Err(Error::NotEmpty);
        }
        content.lies = match content.lies {
            Lies::Elsewhere => return Err(Error::CrossHome),
            Lies::Here | Lies::Sealed(_) => Lies::Sealed(seal),
        };
        let ticket = mutation.commit_local()?;
        self.settle(ticket).await
    }

    /// Breaks the seal of this number, if the directory still has it.
    ///
    /// # Errors
    /// [`Error::Stale`] when the directory is gone.
    pub async fn break_seal(&self, directory: ObjectId, seal: u64) -> Result<()> {
        let mut mutation = self.begin(Demand::Removal).await?;
        let content = mutation.object_mut(directory)?.directory_mut()?;
        if content.lies == Lies::Sealed(seal) {
            content.lies = Lies::Here;
        }
        let ticket = mutation.commit_local()?;
        self.settle(ticket).await
    }

    /// The number under which a directory is sealed.
    ///
    /// # Errors
    /// [`Error::Stale`] when the directory is gone.
    pub fn seal_of(&self, directory: ObjectId) -> Result<Option<u64>> {
        match self.object(directory)?.directory()?.lies {
            Lies::Sealed(seal) => Ok(Some(seal)),
            Lies::Here | Lies::Elsewhere => Ok(None),
        }
    }
}
