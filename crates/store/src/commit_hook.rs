//! The hook that is called before a change is committed, and the description of a change for it.
//!
//! With replicas not every change may be made at once: the caller has to know that this copy may make it,
//! and under which conditions it was made. The store calls the hook just before it commits a change that is
//! replicated, and the record of the change contains the hook's note. Each operation has its own hook, which may
//! know for which client the operation is made. What must never enter: how the hook decides.

use vfs::{ObjectId, Result};

/// The kind of an object, as needed for decisions about changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TouchedKind {
    /// A directory.
    Directory,
    /// Any other object that has one name, or none yet.
    File,
    /// Any other object that had several names before the change.
    LinkedFile,
}

/// An object that a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Touched {
    /// The object.
    pub id: ObjectId,
    /// Its kind before the change.
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
    /// A name is removed, and with the last name the object.
    Remove {
        /// The directory that loses the name.
        parent: ObjectId,
        /// The object that the name led to.
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
        /// The directory that gets the name; may be the same.
        to: ObjectId,
        /// The object that the name leads to.
        moved: Touched,
        /// The object that the new name led to before.
        replaced: Option<Touched>,
    },
}

/// Decides about the replicated changes of one operation, see the module. The operation supplies it: see
/// [`crate::Store::with_hook`].
pub trait CommitHook: Send + Sync + 'static {
    /// Called before the operation changes the data of a file; a file without a name exists only here. From here on the
    /// operation runs to its end, and then calls [`CommitHook::after_data`], even if the caller has gone away meanwhile.
    /// This function must not wait.
    ///
    /// # Errors
    /// Any error aborts the operation, which returns it.
    fn before_data(&self, _file: Touched, _has_name: bool) -> Result<()> {
        Ok(())
    }

    /// The operation that [`CommitHook::before_data`] allowed has ended. Data may have changed, even if it failed.
    fn after_data(&self, _succeeded: bool) {}

    /// Called with the writer's lock of the store held, just before a change is committed. It must not
    /// wait, and must not change the store.
    ///
    /// `commit(Some(note))` commits the change with an update record that carries the note, and returns
    /// the position of that record; `commit(None)` commits it without a record and returns 0. Call it
    /// at most once.
    ///
    /// # Errors
    /// Any error aborts the change, as if it had never been tried, and the operation returns it. After the change was
    /// committed, an error has no effect.
    fn before_commit(
        &self,
        change: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> Result<u64>,
    ) -> Result<()>;
}
