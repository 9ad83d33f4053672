//! Reads the contents that a peer is to get: of several small pieces at a time, because a task changes its thread twice for each read.
//!
//! What must never enter: which pieces these are, and what becomes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use peer::Message;
use store::ContentPiece;
use vfs::{Error, Extent, FileSystem, ObjectId, ReplicaSlot, Result};

use super::parts::{end_of, version_here};
use crate::driver::local_replica::LocalReplica;
use crate::driver::tree::subject_of;
use crate::replication::holes;
use crate::replication::offers;
use crate::replication::settled;
use crate::replication::withheld;
use crate::state::shipping::{Manner, Piece};
use crate::state::wire::{self, PieceHead, Stretch};

/// What is found out about a piece before it is read.
struct Before {
    initial: bool,
    partial: bool,
    own: bool,
    version: u64,
    lacks: bool,
    /// Replicas whose data is missing and that cannot send it now, if the piece belongs to a copy.
    without: Vec<ReplicaSlot>,
}

/// Reads what these pieces contain now. Returns the message for each; `None` if there is nothing to send.
pub(super) async fn read(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    pieces: &mut [Piece],
) -> Vec<Result<Option<Message>>> {
    let mut known = Vec::with_capacity(pieces.len());
    for piece in &*pieces {
        known.push(look_before(replica, to, piece).await);
    }
    let contents = read_all(replica, pieces).await;
    let mut messages = Vec::with_capacity(pieces.len());
    for ((piece, before), content) in pieces.iter_mut().zip(known).zip(contents) {
        messages.push(match before {
            Ok(before) => message(replica, to, piece, before, content).await,
            Err(error) => Err(error),
        });
    }
    messages
}

async fn look_before(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    piece: &Piece,
) -> Result<Before> {
    let initial = replica.state.conversations.owes(to, piece.file);
    // Checked before the read: missing data may arrive meanwhile.
    let partial =
        replica.store.is_incomplete(piece.file) && withheld::supplies(replica, to, piece.file);
    let own = initial && changes_only_here(replica, piece.file).await;
    let version = version_here(replica, piece.file).await;
    // Checked after the version is read, and before the content.
    let missing = missing_of(replica, piece.file);
    let active = match missing.is_empty() {
        true => BTreeSet::new(),
        false => replica.lease.view().active,
    };
    let lacks = missing.iter().any(|maker| active.contains(maker));
    let mut without = Vec::new();
    if initial && !missing.is_empty() {
        let silent = replica.silent();
        // Those outside the view supply nothing either, unless this copy was found to be the best one without them (counterexample 104).
        let cannot = |maker: &ReplicaSlot| match active.contains(maker) {
            true => silent.contains(maker),
            false => !partial,
        };
        // What the receiver itself wrote is nowhere else.
        let missing = missing.into_iter().filter(|maker| *maker != to);
        without.extend(missing.filter(cannot));
    }
    if initial && own && lacks && without.is_empty() {
        // The receiver would not ask the maker for it: this replica is the last writer.
        return Err(Error::Delay);
    }
    Ok(Before {
        initial,
        partial,
        own,
        version,
        lacks,
        without,
    })
}

/// Reads all pieces in one blocking task.
async fn read_all(replica: &LocalReplica, pieces: &[Piece]) -> Vec<Result<Vec<ContentPiece>>> {
    let store = replica.store.clone();
    let wanted: Vec<_> = pieces
        .iter()
        .map(|piece| (piece.file, piece.range.clone(), piece.manner))
        .collect();
    let reading = tokio::task::spawn_blocking(move || {
        let read = wanted.iter();
        read.map(|(file, range, manner)| offers::read(&store, *file, range, *manner))
            .collect()
    });
    reading.await.unwrap_or_else(|error| {
        let broken = || Err(Error::broken_off(error.is_cancelled(), &error));
        pieces.iter().map(|_| broken()).collect()
    })
}

/// The message with what was read of a piece.
async fn message(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    piece: &mut Piece,
    before: Before,
    read: Result<Vec<ContentPiece>>,
) -> Result<Option<Message>> {
    let Before {
        initial,
        partial,
        own,
        version,
        lacks,
        without,
    } = before;
    let Some(content) = content_of(replica, to, piece, read).await? else {
        return Ok(None);
    };
    let own = own && changes_only_here(replica, piece.file).await;
    if initial && !own && !lacks && version_here(replica, piece.file).await != version {
        // Its data may still be on its way.
        return Err(Error::Delay);
    }
    let end = content.last().map_or(piece.range.start, end_of);
    // For a piece that is sent in part, this was said when its sums were sent.
    if end < piece.range.end && !matches!(piece.manner, Manner::Blocks(_)) {
        replica.engine.piece_found_end(to, piece.id, end);
    }
    if !without.is_empty() {
        // They cannot send it themselves, and perhaps nobody has all of it. The receiver is told, so that it may take the place of one of them.
        replica.engine.note_unconfirmed(to, piece.file);
        let head = PieceHead {
            without: without.into_iter().map(|maker| maker.0).collect(),
            settlements: settled::known(replica)?.unwrap_or_default(),
            ..head_of(piece, initial)
        };
        return Ok(Some(wire::body(wire::Kind::Piece, &head)));
    }
    if content.is_empty() {
        return Ok(None);
    }
    let completes = replica.engine.piece_completes(to, piece);
    let mut head = PieceHead {
        completes: completes.map(|(position, _)| position),
        asked: completes.and_then(|(_, asked)| asked),
        // The sent data does not belong to the version here, and must not replace data of that version: the receiver asks the last writer. The file may
        // be written so often that it is never whole here.
        version: if lacks { 0 } else { version },
        partial,
        ..head_of(piece, initial)
    };
    let payload = match offers::is_worth_asking(piece.manner, &content) {
        true => {
            offers::lay_out(&mut head, piece.range.start, &content);
            Bytes::new()
        }
        false => lay_out(&mut head, content),
    };
    Ok(Some(
        wire::body(wire::Kind::Piece, &head).with_payload(payload),
    ))
}

/// The head of a piece of which nothing is known yet.
fn head_of(piece: &Piece, initial: bool) -> PieceHead {
    PieceHead {
        id: piece.id.0,
        file: piece.file,
        follows: piece.follows.0,
        initial,
        completes: None,
        asked: None,
        version: 0,
        partial: false,
        without: Vec::new(),
        settlements: 0,
        stretches: Vec::new(),
        sums: Vec::new(),
    }
}

/// What a piece contains; `None` if the file is gone, or was never a file.
async fn content_of(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    piece: &mut Piece,
    read: Result<Vec<ContentPiece>>,
) -> Result<Option<Vec<ContentPiece>>> {
    let file = piece.file;
    let gathered = match read {
        Ok(content) => holes::gather(replica, to, piece, content).await,
        Err(error) => Err(error),
    };
    match gathered {
        Ok(content) => Ok(Some(content)),
        Err(error @ (Error::Io(_) | Error::Delay)) => Err(error),
        Err(_) => {
            replica.engine.nobody_needs(file);
            Ok(None)
        }
    }
}

/// Whether only this replica changes a file at present.
async fn changes_only_here(replica: &LocalReplica, file: ObjectId) -> bool {
    let Ok(attributes) = replica.store.attributes(file).await else {
        return false;
    };
    let file = subject_of(&attributes);
    replica.engine.is_primary(file)
}

/// The replicas whose data of a file is missing here. Then the local data belongs to no version, and at a peer it could replace what a member of the
/// view has already sent.
fn missing_of(replica: &LocalReplica, file: ObjectId) -> Vec<ReplicaSlot> {
    let mut missing = replica.store.lacks_data_of(file);
    // What the set has given up is nobody's any more.
    missing.retain(|maker| replica.state.inboxes.get(*maker).is_some());
    missing
}

/// Lays out one stretch after another.
fn lay_out(head: &mut PieceHead, content: Vec<ContentPiece>) -> Bytes {
    let mut payload = BytesMut::new();
    for part in content {
        head.stretches.push(match part {
            ContentPiece::Data { offset, bytes } => {
                payload.extend_from_slice(&bytes);
                Stretch {
                    offset,
                    length: bytes.len() as u64,
                    hole: false,
                }
            }
            ContentPiece::Hole(Extent { offset, length }) => Stretch {
                offset,
                length,
                hole: true,
            },
        });
    }
    payload.freeze()
}
