//! Helpers for both directions, about a file and its parts.
//!
//! What must never enter: what is sent, and what is put in place.

use store::ContentPiece;
use vfs::{FileSystem, ObjectId};

use crate::driver::local_replica::LocalReplica;

/// The version of a file in the local copy; zero if it is not there.
pub(super) async fn version_here(replica: &LocalReplica, file: ObjectId) -> u64 {
    let attributes = replica.store.attributes(file).await;
    attributes.map_or(0, |attributes| attributes.change.0)
}

pub(crate) fn end_of(part: &ContentPiece) -> u64 {
    match part {
        ContentPiece::Data { offset, bytes } => offset + bytes.len() as u64,
        ContentPiece::Hole(extent) => extent.offset + extent.length,
    }
}
