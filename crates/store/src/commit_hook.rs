//! The hook that is asked before a change is committed, and how a change looks to it.
//!
//! With replicas not every change may be made at once: somebody has to know that this copy may make it,
//! and what it was made under. The store asks just before it commits a change that other replicas
//! keep too, and the answer goes into the record of the change. Each operation brings a hook of its own, which may
//! know on whose behalf the operation is made. What the answer depends on must never enter here.

use vfs::{ObjectId, Result};

/// What kind of thing an object is to those who decide about changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TouchedKind {
    /// A directory.
    Directory,
    /// Anything else that has one name, or none yet.
    File,
    /// Anything else that had several names before the change.
    LinkedFile,
}

/// An object that a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Touched {
    /// Which object.
    pub id: ObjectId,
    /// What it was before the change.
    pub kind: TouchedKind,
}

/// The shape of a change: which objects it touches, and what happens to the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Attributes, extended attributes, locks or denials of one object.
    Object(Touched),
    /// Data of one file, perhaps with its attributes.
    Data(Touched),
    /// A new object with its name.
    Create {
        /// The directory that gets the name.
        parent: ObjectId,
        /// The object; never a [`TouchedKind::LinkedFile`].
        made: Touched,
    },
    /// A name goes, and with the last one the object.
    Remove {
        /// The directory that loses the name.
        parent: ObjectId,
        /// What the name led to.
        removed: Touched,
    },
    /// An object gets one more name.
    Link {
        /// The object.
        file: Touched,
        /// The directory that gets the name.
        parent: ObjectId,
    },
    /// A name moves.
    Rename {
        /// The directory that loses the name.
        from: ObjectId,
        /// The directory that gets it; may be the same.
        to: ObjectId,
        /// What the name leads to.
        moved: Touched,
        /// What the new name led to before.
        replaced: Option<Touched>,
    },
}

/// Decides about the changes of one operation that replicas keep too, see the module. The operation brings it: see
/// [`crate::Store::with_hook`].
pub trait CommitHook: Send + Sync + 'static {
    /// Called before the operation touches the data of a file; one without a name is known nowhere else. From here on the
    /// operation runs to its end, and [`CommitHook::after_data`] is called then, even if the caller has gone away meanwhile.
    /// It must not wait.
    ///
    /// # Errors
    /// Any error abandons the operation, and is what it returns.
    fn before_data(&self, _file: Touched, _has_name: bool) -> Result<()> {
        Ok(())
    }

    /// What [`CommitHook::before_data`] had nothing against is over. Data may have changed, even if it failed.
    fn after_data(&self, _succeeded: bool) {}

    /// Called with the writer's lock of the store held, just before a change is committed. It must not
    /// wait, and of the store it may only read.
    ///
    /// `commit(Some(note))` commits the change with an update record that carries the note, and returns
    /// the position of that record; `commit(None)` commits it without a record and returns 0. It is
    /// called once at most.
    ///
    /// # Errors
    /// Any error abandons the change, as if it had never been tried, and is what the operation returns. Once the change has been
    /// committed, errors come too late.
    fn before_commit(
        &self,
        change: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> Result<u64>,
    ) -> Result<()>;
}
