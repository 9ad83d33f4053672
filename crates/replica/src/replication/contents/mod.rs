//! Contents of files on their way: `sending` reads and sends what a peer lacks, `receiving` puts in place what arrives.
//!
//! What must never enter: what is sent when, and when what arrives may be put in place (`state::shipping`).

mod receiving;
mod sending;

use store::ContentPiece;
use vfs::{FileSystem, ObjectId};

use crate::driver::local_replica::LocalReplica;

pub(crate) use receiving::{arrived, put_in_place};
pub(crate) use sending::{done, noted, ship};

/// The version of a file in the local copy; zero when it is not there.
async fn version_here(replica: &LocalReplica, file: ObjectId) -> u64 {
    let attributes = replica.store.attributes(file).await;
    attributes.map_or(0, |attributes| attributes.change.0)
}

pub(crate) fn end_of(part: &ContentPiece) -> u64 {
    match part {
        ContentPiece::Data { offset, bytes } => offset + bytes.len() as u64,
        ContentPiece::Hole(extent) => extent.offset + extent.length,
    }
}
