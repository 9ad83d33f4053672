//! Clients that read files of the local copy past this replica, from its point of view.
//!
//! What must never enter: which clients may read, and where and how they read.

use async_trait::async_trait;
use vfs::ObjectId;

/// A reader of a replica's copy that does not ask the replica each time. It gets permission for one file at a time
/// ([`crate::Replica::is_read_here`]), and uses none for longer than [`crate::Replica::readers_left`] says at that time.
#[async_trait]
pub trait Readers: Send + Sync {
    /// Returns when all reading by permission of an earlier start of this replica has ended.
    async fn earlier_ended(&self);

    /// The files that clients may be reading. Does not wait.
    fn files(&self) -> Vec<ObjectId>;

    /// Returns when all reading of a file by earlier permission has ended.
    async fn end(&self, file: ObjectId);
}
