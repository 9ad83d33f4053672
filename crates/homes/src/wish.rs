//! What clients ask a metadata server for, and what they are answered.

use crate::tree::{Entry, Row};
use vfs::{Name, ObjectId};

/// Which request of which client. A repeat has the same one, also through another metadata server. A client has one change under way at
/// a time, and its numbers grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Whose request.
    pub client: u64,
    /// Its number.
    pub number: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Carried out once, however often it is repeated.
    Change(Wish),
    /// Changes nothing.
    Look(Look),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A new file, which lives at its directory's home.
    Create {
        /// Where.
        directory: ObjectId,
        /// Under which name.
        name: Name,
    },
    /// A new directory, which lives at the metadata server that its maker is connected to.
    Mkdir {
        /// Where.
        directory: ObjectId,
        /// Under which name.
        name: Name,
        /// The new directory. The server that the client asks draws it.
        child: ObjectId,
    },
    /// One more name of a file.
    Link {
        /// The file.
        object: ObjectId,
        /// Where.
        directory: ObjectId,
        /// Under which name.
        name: Name,
    },
    /// A name of a file goes.
    Remove {
        /// Where.
        directory: ObjectId,
        /// Which name.
        name: Name,
    },
    /// An empty directory goes.
    Rmdir {
        /// Where.
        directory: ObjectId,
        /// Which name.
        name: Name,
    },
    /// A name becomes another one, over whatever had that.
    Rename {
        /// The directory and the name that go.
        from: (ObjectId, Name),
        /// The directory and the name that come.
        to: (ObjectId, Name),
    },
    /// Other rights.
    SetMode {
        /// Of which object.
        object: ObjectId,
        /// Which.
        mode: u32,
    },
    /// The contents have changed.
    Touch {
        /// Of which file.
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

    /// The name that is made or removed where it is decided.
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
    /// Where a name leads.
    Lookup(ObjectId, Name),
    /// What the row says, one message late at most.
    Attributes(ObjectId),
    /// What the row says now: an open, or a lock.
    Acquire(ObjectId),
    /// Where a directory lies: asked by who moves another one, and answered whatever else is under way.
    Place(ObjectId),
}

impl Look {
    /// The object whose home knows.
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

/// What a client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The change was made. The object, if it made one.
    Done(Option<ObjectId>),
    /// Nothing was changed.
    Refused(Refusal),
    /// Where the name leads.
    Entry(Entry),
    /// What the row says.
    Row(Row),
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The directory has no such name.
    NotFound,
    /// The object is gone, or never was.
    Stale,
    /// The name is there.
    Exists,
    /// A directory was needed.
    NotDirectory,
    /// No directory was needed.
    IsDirectory,
    /// The directory has names.
    NotEmpty,
    /// A directory would come to lie in itself.
    Cycle,
    /// What the decider had seen has changed since. Nobody outside hears of it: the operation begins anew.
    Changed,
}
