//! Reads and sends the contents that a peer lacks, and handles the peer's answers.
//!
//! What must never enter: what is sent when (`shipping` of `state`), and contents that arrive.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use peer::{Lane, Message, Session};
use store::ContentPiece;
use tokio::time::Instant;
use vfs::{Error, Extent, FileSystem, ObjectId, ReplicaSlot, Result};

use super::parts::{end_of, version_here};
use crate::driver::local_replica::LocalReplica;
use crate::driver::tree::subject_of;
use crate::replication::conversing;
use crate::replication::holes;
use crate::replication::offers;
use crate::replication::sending;
use crate::replication::withheld;
use crate::state::shipping::{Manner, Piece, PieceId};
use crate::state::wire::{self, Completed, PieceDone, PieceHead, Stretch};

/// Logged once; repeats are summed later.
const READING: &str = "contents cannot be read";
const HOLDING_BACK: &str = "contents are held back";

/// Contents that are due within this part of the resting time (`data_delay`) go together: a timer and a wake-up for each of many small files would
/// cost more than sending them.
const TOGETHER_PART: u32 = 20;

/// The pause after a peer could not put a piece in place.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Ships contents to one peer for as long as its session lasts.
pub(crate) async fn ship(replica: Arc<LocalReplica>, session: Session) {
    let to = session.peer().slot;
    let engine = &replica.engine;
    let together = replica.state.settings.data_delay / TOGETHER_PART;
    let mut more = engine.contents();
    let mut urgent = engine.urgent_contents();
    loop {
        more.borrow_and_update();
        urgent.borrow_and_update();
        let now = Instant::now();
        if let Some(until) = replica
            .state
            .peers
            .with(to, |peer| peer.shipments.paused(now))
        {
            tokio::time::sleep_until(until).await;
            continue;
        }
        let is_busy = replica.state.load.is_busy(now);
        let left = replica.state.free_space.left_for_resting(to);
        let (piece, due) = engine.next_piece(to, is_busy, left);
        let Some(piece) = piece else {
            match due {
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until((engine.instant(due) + together).into()) => {}
                    // The sender lives in the engine.
                    _ = urgent.changed() => {}
                },
                None => {
                    // The sender lives in the engine.
                    let _ = more.changed().await;
                }
            }
            continue;
        };
        if let Err(error) = ship_piece(&replica, &session, piece).await {
            tracing::debug!(peer = to.0, %error, "contents wait for the next session");
            return;
        }
    }
}

async fn ship_piece(
    replica: &Arc<LocalReplica>,
    session: &Session,
    mut piece: Piece,
) -> std::result::Result<(), peer::SendError> {
    let to = session.peer().slot;
    if replica.store.orphan_home(piece.file).is_some() {
        // A peer that keeps the file, too, has its own version, and would not accept an older one.
        replica.engine.nobody_needs(piece.file);
        acknowledged(replica, to, piece.id);
        return Ok(());
    }
    if !may_send(replica, to, piece.file) {
        try_again(replica, to, piece.file, piece.range, piece.id);
        return Ok(());
    }
    let message = match read(replica, to, &mut piece).await {
        Ok(Some(message)) => message,
        Ok(None) => {
            replica.engine.note_unconfirmed(to, piece.file);
            acknowledged(replica, to, piece.id);
            return Ok(());
        }
        Err(error) => {
            // Damaged here: it is sent after it is mended.
            if matches!(error, Error::Io(_)) {
                if let Some(sum) = replica.state.repeats.is_to_tell(READING, to) {
                    tracing::error!(file = %piece.file, %error, %sum, "contents cannot be read");
                }
                replica.state.scrub.suspect(piece.file);
            }
            try_again(replica, to, piece.file, piece.range, piece.id);
            return Ok(());
        }
    };
    if !has_space(replica, to) {
        let (peers, now) = (&replica.state.peers, Instant::now());
        peers.with(to, |peer| peer.shipments.hold_back(now));
        if let Some(sum) = replica.state.repeats.is_to_tell(HOLDING_BACK, to) {
            tracing::warn!(peer = to.0, %sum, "contents are held back: the disk of a peer outside the view has no space for them");
        }
        try_again(replica, to, piece.file, piece.range, piece.id);
        return Ok(());
    }
    let bytes = message.payload.len() as u64;
    session.send(Lane::Data, message).await?;
    replica
        .state
        .metrics
        .content_bytes
        .fetch_add(bytes, Ordering::Relaxed);
    sending::sent(replica, to, bytes).await;
    Ok(())
}

/// Whether a peer outside the view has space for what is on its way to it, by its last report. A member of the view had reported its space before
/// clients were answered.
fn has_space(replica: &LocalReplica, to: ReplicaSlot) -> bool {
    let Some(available) = replica.state.peers.available_at(to) else {
        return true;
    };
    replica.engine.has_space_for_pieces(to, available)
}

/// Whether a file's content may be sent. If a lost replica's data is missing, it goes only to peers that know that this replica has the best copy,
/// and to peers that begin with a copy of everything.
fn may_send(replica: &LocalReplica, to: ReplicaSlot, file: ObjectId) -> bool {
    !replica.engine.withholds(file)
        || withheld::supplies(replica, to, file)
        || replica.state.conversations.owes(to, file)
}

/// Reads what the file contains there now; `None` if there is nothing to send.
async fn read(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    piece: &mut Piece,
) -> Result<Option<Message>> {
    let initial = replica.state.conversations.owes(to, piece.file);
    // Checked before the read: missing data may arrive meanwhile.
    let partial =
        replica.store.is_incomplete(piece.file) && withheld::supplies(replica, to, piece.file);
    let own = initial && changes_only_here(replica, piece.file).await;
    let version = version_here(replica, piece.file).await;
    // Checked after the version is read, and before the content.
    let lacks = lacks_of_active(replica, piece.file);
    if initial && lacks {
        return Err(Error::Delay);
    }
    let Some(content) = content_of(replica, to, piece).await? else {
        return Ok(None);
    };
    let own = own && changes_only_here(replica, piece.file).await;
    if initial && !own && version_here(replica, piece.file).await != version {
        // Its data may still be on its way.
        return Err(Error::Delay);
    }
    let end = content.last().map_or(piece.range.start, end_of);
    // For a piece that is sent in part, this was said when its sums were sent.
    if end < piece.range.end && !matches!(piece.manner, Manner::Blocks(_)) {
        replica.engine.piece_found_end(to, piece.id, end);
    }
    if content.is_empty() {
        return Ok(None);
    }
    let completes = replica.engine.piece_completes(to, piece);
    let mut head = PieceHead {
        id: piece.id.0,
        file: piece.file,
        follows: piece.follows.0,
        initial,
        completes: completes.map(|(position, _)| position),
        asked: completes.and_then(|(_, asked)| asked),
        // The sent data does not belong to the version here, and must not replace data of that version.
        version: if lacks { 0 } else { version },
        partial,
        stretches: Vec::new(),
        sums: Vec::new(),
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

/// What a file contains in the range of a piece; `None` if the file is gone, or was never a file.
async fn content_of(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    piece: &mut Piece,
) -> Result<Option<Vec<ContentPiece>>> {
    let store = replica.store.clone();
    let (file, range, manner) = (piece.file, piece.range.clone(), piece.manner);
    let reading = tokio::task::spawn_blocking(move || offers::read(&store, file, &range, manner));
    let read = reading
        .await
        .map_err(|error| Error::Io(format!("a read was broken off: {error}")))?;
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

/// Whether data of a file is missing here that another member of the view sends. Then the local data belongs to no version, and at a peer it could
/// replace what that member has already sent.
fn lacks_of_active(replica: &LocalReplica, file: ObjectId) -> bool {
    let missing = replica.store.lacks_data_of(file);
    !missing.is_empty() && replica.engine.is_any_active(&missing)
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

/// A peer has put a piece in place, or could not.
pub(crate) fn done(replica: &Arc<LocalReplica>, by: ReplicaSlot, done: PieceDone) {
    let id = PieceId(done.id);
    if !done.failed && done.lacking == 0 {
        replica.engine.note_apart(by, done.file, done.apart);
        return acknowledged(replica, by, id);
    }
    if !done.failed {
        let due = replica.engine.piece_lacks_blocks(by, id, done.lacking);
        // After the end of a session everything is due again anyway.
        if due.unwrap_or(true) {
            return replica.engine.notify_of_contents();
        }
    }
    tracing::debug!(peer = by.0, "a peer could not store contents; trying again");
    let range = replica.engine.piece_range(by, id);
    if done.no_space {
        let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
        let (bytes, now) = (range.as_ref().map_or(0, length), Instant::now());
        let peers = &replica.state.peers;
        peers.with(by, |peer| peer.shipments.refused(bytes, now));
    }
    try_again(replica, by, done.file, range.unwrap_or(0..u64::MAX), id);
}

/// Ships a range of a file again, a little later.
fn try_again(
    replica: &Arc<LocalReplica>,
    to: ReplicaSlot,
    file: ObjectId,
    range: Range<u64>,
    id: PieceId,
) {
    let replica = replica.clone();
    tokio::spawn(async move {
        tokio::time::sleep(FAILURE_PAUSE).await;
        replica.engine.piece_failed(to, id, file, range);
    });
}

fn acknowledged(replica: &Arc<LocalReplica>, by: ReplicaSlot, id: PieceId) {
    let complete = replica.engine.piece_acknowledged(by, id);
    replica.state.peers.with(by, |peer| peer.shipments.placed());
    // Credit is back, and changes made while the piece was in flight can be sent.
    replica.engine.notify_of_contents();
    if let Some(file) = complete {
        replica.reached_everybody(by, file);
        if replica.state.majority_awaited.load(Ordering::Acquire) > 0 {
            replica.send_completed();
        }
        conversing::has_content(replica, by, file);
    }
}

/// A peer has noted durably that it has all of these files.
pub(crate) fn noted(replica: &LocalReplica, by: ReplicaSlot, noted: Completed) {
    let answers = noted.asked.into_iter().collect();
    replica.engine.noted_complete(by, noted.files, &answers);
}
