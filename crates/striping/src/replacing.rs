//! Contents that replace damaged or lost ones. The store collects them from another copy of its tree.
//!
//! What must never enter: what the contents should be.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use store::{Replacement, SyncError};
use tokio::runtime;
use vfs::{Error, ObjectId, Result};

use crate::moving::Attempt;
use crate::striped::{Striped, StripedFiles};
use crate::view::Whereabouts;

struct Replacing {
    files: Arc<StripedFiles>,
    runtime: runtime::Handle,
    attempt: Attempt,
    new: Whereabouts,
}

impl fmt::Debug for Replacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.new.row.contents;
        f.debug_tuple("Replacing").field(&contents).finish()
    }
}

impl Striped {
    /// [`store::Elsewhere::replace`].
    pub(crate) fn begin_replacing(&self, id: ObjectId) -> Result<Box<dyn Replacement>> {
        let (attempt, new) = self.wait(self.files.begin_replacement(id))?;
        Ok(Box::new(Replacing {
            files: Arc::clone(&self.files),
            runtime: self.runtime.clone(),
            attempt,
            new,
        }))
    }
}

impl Replacement for Replacing {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let bytes = Bytes::copy_from_slice(bytes);
        let written = self.files.write(self.new.clone(), bytes, offset);
        self.runtime.block_on(written)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.files.read(self.new.clone(), buffer, offset);
        self.runtime.block_on(read)
    }

    fn sync(&self) -> Result<()> {
        match self.runtime.block_on(self.files.sync(self.new.clone())) {
            Ok(()) => Ok(()),
            // The lost bytes are not kept for another write, so they must be collected again.
            Err(SyncError::Lost(_)) => Err(Error::Delay),
            Err(SyncError::Later(error)) => Err(error),
        }
    }

    fn put_in_place(&self, size: u64) -> Result<()> {
        self.runtime
            .block_on(self.attempt.put_in_place(&self.new, size))
    }
}
