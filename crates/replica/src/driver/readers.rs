//! Clients that read files of the own copy past this replica, as it sees them.
//!
//! What must never enter: who may read, where they read, and by what.

use async_trait::async_trait;
use vfs::ObjectId;

/// Who reads files of a replica's copy without asking the replica each time. It is given leave for one file at a time
/// ([`crate::Replica::is_read_here`]), and relies on none for longer than [`crate::Replica::readers_left`] says when it is asked.
#[async_trait]
pub trait Readers: Send + Sync {
    /// Returns when nobody reads by leave of an earlier start of this replica any more.
    async fn earlier_ended(&self);

    /// The files that somebody may be reading. Does not wait.
    fn files(&self) -> Vec<ObjectId>;

    /// Returns when nobody reads a file any more by leave that was given before.
    async fn end(&self, file: ObjectId);
}
