//! The place of a running server in its pool, as its data directory proves it.
//!
//! What must never enter: changes of the pool.

use std::path::PathBuf;

use peer::SetId;
use peer::set::{Member, SetDirectory, SetError};
use pool::StripeUnit;
use vfs::ReplicaSlot;

use super::words;

/// A server's place in a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolPlace {
    /// The pool's files.
    pub(crate) directory: SetDirectory,
    /// The pool.
    pub(crate) pool: SetId,
    /// The server's number.
    pub(crate) slot: ReplicaSlot,
    /// Who keeps the authority: the metadata server.
    pub(crate) keeper: ReplicaSlot,
    /// The tree of the metadata server whose new files are striped.
    pub(crate) tree: String,
    /// How many consecutive bytes of a new file lie on one data server.
    pub(crate) stripe_unit: StripeUnit,
}

/// Why a place in a pool cannot be used. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum PoolPlaceError {
    /// The pool's files.
    #[error(transparent)]
    Files(#[from] SetError),
    /// What they say of the pool is not understood.
    #[error(
        "{0} does not describe a pool as this program knows it; start the newer program that wrote it, or restore the file from a backup"
    )]
    Words(PathBuf),
}

impl PoolPlace {
    /// Reads and checks the files of a pool that is there.
    ///
    /// # Errors
    /// [`PoolPlaceError`] says what to do next.
    pub(crate) fn read(directory: SetDirectory) -> Result<PoolPlace, PoolPlaceError> {
        let identity = directory.identity()?;
        let words = directory.tree()?;
        let unknown = || PoolPlaceError::Words(directory.path().join("tree"));
        let (tree, stripe_unit) = words::decode(&words).ok_or_else(unknown)?;
        Ok(PoolPlace {
            pool: identity.set(),
            slot: identity.slot(),
            keeper: ReplicaSlot(directory.member_list()?.keeper),
            tree,
            stripe_unit,
            directory,
        })
    }

    /// Whether this is the metadata server.
    pub(crate) fn is_metadata_server(&self) -> bool {
        self.slot == self.keeper
    }

    /// A server of the pool, as its files say now; nothing when they cannot be read.
    pub(crate) fn member(&self, slot: ReplicaSlot) -> Option<Member> {
        let members = self.directory.members().unwrap_or_default();
        members.into_iter().find(|member| member.slot == slot.0)
    }
}
