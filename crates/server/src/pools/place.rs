//! The place of a running server in its pool, as proven by its data directory.
//!
//! What must never enter: changes of the pool.

use std::path::PathBuf;

use peer::SetId;
use peer::set::{Member, SetDirectory, SetError};
use pool::StripeUnit;
use vfs::ReplicaSlot;

use super::words;

/// The role of a server in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolRole {
    /// It keeps the pool's authority and all names of files: the first metadata server.
    First,
    /// A joined metadata server.
    MetadataServer,
    /// It keeps contents of files.
    DataServer,
}

impl PoolRole {
    /// The role of a member.
    pub(crate) fn of(member: &Member, keeper: ReplicaSlot) -> PoolRole {
        match member.metadata_server {
            _ if member.slot == keeper.0 => PoolRole::First,
            true => PoolRole::MetadataServer,
            false => PoolRole::DataServer,
        }
    }
}

/// A server's place in a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolPlace {
    /// The pool's files.
    pub(crate) directory: SetDirectory,
    /// The pool.
    pub(crate) pool: SetId,
    /// The server's number.
    pub(crate) slot: ReplicaSlot,
    /// The keeper of the authority: the first metadata server.
    pub(crate) keeper: ReplicaSlot,
    /// The server's role.
    pub(crate) role: PoolRole,
    /// The tree of the metadata server whose new files are striped.
    pub(crate) tree: String,
    /// The number of consecutive bytes of a new file on one data server.
    pub(crate) stripe_unit: StripeUnit,
}

/// Why a place in a pool cannot be used. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum PoolPlaceError {
    /// The pool's files.
    #[error(transparent)]
    Files(#[from] SetError),
    /// This program cannot decode the description of the pool.
    #[error(
        "{0} does not describe a pool as this program knows it; start the newer program that wrote it, or restore the file from a backup"
    )]
    Words(PathBuf),
}

impl PoolPlace {
    /// Reads and checks the existing files of a pool.
    ///
    /// # Errors
    /// [`PoolPlaceError`] says what to do next.
    pub(crate) fn read(directory: SetDirectory) -> Result<PoolPlace, PoolPlaceError> {
        let identity = directory.identity()?;
        let words = directory.tree()?;
        let unknown = || PoolPlaceError::Words(directory.path().join("tree"));
        let (tree, stripe_unit) = words::decode(&words).ok_or_else(unknown)?;
        let (list, slot) = (directory.member_list()?, identity.slot());
        let keeper = ReplicaSlot(list.keeper);
        let role = match list.member(slot.0) {
            Some(own) => PoolRole::of(own, keeper),
            None if slot == keeper => PoolRole::First,
            None => PoolRole::DataServer,
        };
        Ok(PoolPlace {
            pool: identity.set(),
            slot,
            keeper,
            role,
            tree,
            stripe_unit,
            directory,
        })
    }

    /// A server of the pool, as its files say now; `None` if they cannot be read.
    pub(crate) fn member(&self, slot: ReplicaSlot) -> Option<Member> {
        let members = self.directory.members().unwrap_or_default();
        members.into_iter().find(|member| member.slot == slot.0)
    }
}
