//! The membership of a running server, as proven by its data directory.
//!
//! What must never enter: changes of the set.

use std::path::PathBuf;

use peer::SetId;
use peer::set::{SetDirectory, SetError};
use store::TreeIdentity;
use vfs::ReplicaSlot;

use super::tree_words;

/// A server's place in a set.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// The set's files.
    pub(crate) directory: SetDirectory,
    /// The set.
    pub(crate) set: SetId,
    /// The slot in it.
    pub(crate) slot: ReplicaSlot,
    /// The part of the tree's identity that all copies share.
    pub(crate) tree: TreeIdentity,
}

/// Why a membership cannot be used. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// The set's files.
    #[error(transparent)]
    Set(#[from] SetError),
    /// This program cannot decode the description of the tree.
    #[error(
        "{0} does not describe a tree as this program knows it; start the newer program that wrote it, or restore the file from a backup"
    )]
    Tree(PathBuf),
}

impl Membership {
    /// The slot of the replica that begins a set, and of every tree of a server without a set.
    pub(crate) const FIRST_SLOT: ReplicaSlot = ReplicaSlot(1);

    /// Reads and checks the existing files of a set.
    ///
    /// # Errors
    /// [`MembershipError`] says what to do next.
    pub(crate) fn read(directory: SetDirectory) -> Result<Membership, MembershipError> {
        let identity = directory.identity()?;
        let words = directory.tree()?;
        let unknown = || MembershipError::Tree(directory.path().join("tree"));
        let tree = tree_words::decode(&words).ok_or_else(unknown)?;
        Ok(Membership {
            set: identity.set(),
            slot: identity.slot(),
            tree,
            directory,
        })
    }

    /// The addresses at which the other replicas call this server, as its files say now; empty when they cannot be read.
    pub(crate) fn own_addresses(&self) -> Vec<String> {
        let members = self.directory.members().unwrap_or_default();
        let own = members
            .into_iter()
            .find(|member| member.slot == self.slot.0);
        own.map_or_else(Vec::new, |own| own.addresses)
    }
}
