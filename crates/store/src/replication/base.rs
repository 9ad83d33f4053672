//! A copy of everything that replicas keep, for one that has nothing yet.

use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::inner::Inner;
use crate::recording::RowChange;

/// Whether a store holds a whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseState {
    /// It does; a new tree is whole too.
    Whole,
    /// A copy of another replica's tree was begun and is not finished.
    Unfinished,
}

/// All rows that replicas keep, as they were at one moment. It holds back the removal of old rows, so
/// it should not be kept for longer than it takes to read.
pub struct BaseScan {
    /// Where the copy stands in the stream of each replica, the store's own included.
    pub positions: Vec<(ReplicaSlot, u64)>,
}

impl BaseScan {
    /// The next rows, about so many bytes of them; none at the end.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn next_page(&mut self, _max_bytes: usize) -> Result<Vec<RowChange>> {
        Err(Error::NotSupported)
    }
}

impl Inner {
    pub(super) async fn base(&self) -> Result<BaseScan> {
        Err(Error::NotSupported)
    }

    pub(super) fn base_state(&self) -> Result<BaseState> {
        Ok(BaseState::Whole)
    }

    pub(super) async fn begin_base(&self) -> Result<()> {
        Err(Error::NotSupported)
    }

    pub(super) async fn install_base(&self, _rows: Vec<RowChange>) -> Result<()> {
        Err(Error::NotSupported)
    }

    pub(super) async fn finish_base(&self, _positions: Vec<(ReplicaSlot, u64)>) -> Result<()> {
        Err(Error::NotSupported)
    }

    pub(super) fn files_after(
        &self,
        _after: Option<ObjectId>,
        _count: usize,
    ) -> Result<Vec<(ObjectId, u64)>> {
        Err(Error::NotSupported)
    }
}
