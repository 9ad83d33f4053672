//! The requests of clients to a metadata server, and the answers.

use crate::tree::{Entry, Row};
use vfs::{Name, ObjectId};

/// Names a request of a client. A repeat has the same name, also through another metadata server. A client has one active change at a time,
/// and its numbers grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The client.
    pub client: u64,
    /// The number of its request.
    pub number: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Carried out once, even if it is repeated.
    Change(Wish),
    /// Changes nothing.
    Look(Look),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A new file, which lives at its directory's home.
    Create {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
    },
    /// A new directory, which lives at the metadata server that its client is connected to.
    Mkdir {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
        /// The new directory. The server that the client asks allocates it.
        child: ObjectId,
    },
    /// Another name of a file.
    Link {
        /// The file.
        object: ObjectId,
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
    },
    /// Removes a name of a file.
    Remove {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
    },
    /// Removes an empty directory.
    Rmdir {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
    },
    /// Renames, and replaces the target if it exists.
    Rename {
        /// The directory and the name of the source.
        from: (ObjectId, Name),
        /// The directory and the name of the target.
        to: (ObjectId, Name),
    },
    /// Sets the rights.
    SetMode {
        /// The object.
        object: ObjectId,
        /// The rights.
        mode: u32,
    },
    /// The contents have changed.
    Touch {
        /// The file.
        object: ObjectId,
    },
}

impl Wish {
    /// The object whose home decides.
    #[must_use]
    pub fn decided_at(&self) -> ObjectId {
        match self {
            Wish::Create { directory, .. }
            | Wish::Mkdir { directory, .. }
            | Wish::Link { directory, .. }
            | Wish::Remove { directory, .. }
            | Wish::Rmdir { directory, .. } => *directory,
            Wish::Rename { to, .. } => to.0,
            Wish::SetMode { object, .. } | Wish::Touch { object } => *object,
        }
    }

    /// The name that is made or removed at the deciding home.
    pub(crate) fn name(&self) -> Option<(ObjectId, &Name)> {
        match self {
            Wish::Create { directory, name }
            | Wish::Mkdir {
                directory, name, ..
            }
            | Wish::Link {
                directory, name, ..
            }
            | Wish::Remove { directory, name }
            | Wish::Rmdir { directory, name } => Some((*directory, name)),
            Wish::Rename { to, .. } => Some((to.0, &to.1)),
            Wish::SetMode { .. } | Wish::Touch { .. } => None,
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The entry of a name.
    Lookup(ObjectId, Name),
    /// The row, at most one message late.
    Attributes(ObjectId),
    /// The present row: an open, or a lock.
    Acquire(ObjectId),
    /// The parent of a directory: asked by the server that moves another directory, and answered whatever else is active.
    Place(ObjectId),
}

impl Look {
    /// The object whose home answers.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        match self {
            Look::Lookup(object, _)
            | Look::Attributes(object)
            | Look::Acquire(object)
            | Look::Place(object) => *object,
        }
    }
}

/// The answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The change was made. The object that it made, if any.
    Done(Option<ObjectId>),
    /// Nothing was changed.
    Refused(Refusal),
    /// The entry of the name.
    Entry(Entry),
    /// The row.
    Row(Row),
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The directory has no such name.
    NotFound,
    /// The object does not exist.
    Stale,
    /// The name exists.
    Exists,
    /// The object is not a directory.
    NotDirectory,
    /// The object is a directory.
    IsDirectory,
    /// The directory has names.
    NotEmpty,
    /// A directory would lie in itself.
    Cycle,
    /// Something has changed since the decider read it. Clients do not see this: the operation starts again.
    Changed,
}
