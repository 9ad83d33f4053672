//! A hole goes to a peer as one piece of any length: walking a hole of a terabyte in normal pieces takes minutes, and keeps the control of its file
//! for that time.
//!
//! What must never enter: how bytes are read and sent.

use std::ops::Range;
use std::sync::Arc;

use store::{ContentPiece, Store};
use vfs::{Error, Extent, ObjectId, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::replication::offers;
use crate::state::shipping::{Manner, Piece};

/// Extends a piece that contains only a hole over the rest of that hole, as far as the peer lacks it. `content` is what was read of the piece.
/// Returns what the piece contains now, because a piece is read after it was taken.
pub(super) async fn gather(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    piece: &mut Piece,
    content: Vec<ContentPiece>,
) -> Result<Vec<ContentPiece>> {
    let taken = piece.range.clone();
    let is_hole = matches!(
        content[..],
        [ContentPiece::Hole(Extent { offset, length })] if offset + length >= taken.end
    );
    if !is_hole || matches!(piece.manner, Manner::Blocks(_)) {
        return Ok(content);
    }
    let end = hole_end(replica, piece.file, taken.end).await?;
    if end <= taken.end || !reach(replica, to, piece, end) || piece.range.end <= taken.end {
        return Ok(content);
    }
    let end = hole_end(replica, piece.file, taken.start).await?;
    if end < piece.range.end {
        // The hole was written to, or cut.
        reach(replica, to, piece, end.max(taken.end));
    }
    match end < taken.end {
        true => read(replica, piece).await,
        false => Ok(vec![hole(&piece.range)]),
    }
}

/// Extends a piece to `end`, as far as possible. False if its session is over.
fn reach(replica: &LocalReplica, to: ReplicaSlot, piece: &mut Piece, end: u64) -> bool {
    let Some((range, follows)) = replica.engine.extend_piece(to, piece.id, end) else {
        return false;
    };
    if range.end > piece.range.end {
        // A piece that is not longer than before may have been read before.
        piece.follows = follows;
    }
    piece.range = range;
    true
}

async fn read(replica: &LocalReplica, piece: &Piece) -> Result<Vec<ContentPiece>> {
    let (file, range, manner) = (piece.file, piece.range.clone(), piece.manner);
    with_store(replica, move |store| {
        offers::read(store, file, &range, manner)
    })
    .await
}

async fn hole_end(replica: &LocalReplica, file: ObjectId, offset: u64) -> Result<u64> {
    with_store(replica, move |store| store.hole_end(file, offset)).await
}

async fn with_store<T: Send + 'static>(
    replica: &LocalReplica,
    look: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> Result<T> {
    let store = replica.store.clone();
    let looking = tokio::task::spawn_blocking(move || look(&store));
    looking
        .await
        .map_err(|error| Error::broken_off(error.is_cancelled(), &error))?
}

fn hole(range: &Range<u64>) -> ContentPiece {
    ContentPiece::Hole(Extent {
        offset: range.start,
        length: range.end - range.start,
    })
}
