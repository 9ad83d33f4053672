//! Sends the contents that a peer lacks, and handles the peer's answers.
//!
//! What must never enter: what is sent when (`shipping` of `state`), and contents that arrive.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peer::{Lane, Message, Session};
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use super::reading;
use crate::driver::local_replica::LocalReplica;
use crate::replication::conversing;
use crate::replication::sending;
use crate::replication::withheld;
use crate::state::shipping::{Piece, PieceId};
use crate::state::wire::{Completed, PieceDone};

/// Logged once; repeats are summed later.
const READING: &str = "contents cannot be read";
const HOLDING_BACK: &str = "contents are held back";

/// Contents that are due within this part of the resting time (`data_delay`) go together: a timer and a wake-up for each of many small files would
/// cost more than sending them.
const TOGETHER_PART: u32 = 20;

/// At most this many pieces, each of them but the last at most this long in bytes, are read together.
const PIECES_AT_ONCE: usize = 32;
const SMALL: u64 = 64 << 10;

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
        let pieces = with_more(piece, || engine.next_piece(to, is_busy, left).0);
        if session.has_ended() {
            // They may have been taken after what was on its way became due again, and nobody else would send them.
            for piece in pieces {
                engine.piece_failed(to, piece.id, piece.file, piece.range);
            }
            return;
        }
        if let Err(error) = ship_pieces(&replica, &session, pieces).await {
            tracing::debug!(peer = to.0, %error, "contents wait for the next session");
            return;
        }
    }
}

/// Pieces to be read at the same time as this one, which goes first.
fn with_more(first: Piece, mut next: impl FnMut() -> Option<Piece>) -> Vec<Piece> {
    let is_small = |piece: &Piece| piece.range.end - piece.range.start <= SMALL;
    let mut pieces = vec![first];
    while pieces.len() < PIECES_AT_ONCE
        && pieces.last().is_some_and(is_small)
        && let Some(piece) = next()
    {
        pieces.push(piece);
    }
    pieces
}

async fn ship_pieces(
    replica: &Arc<LocalReplica>,
    session: &Session,
    pieces: Vec<Piece>,
) -> std::result::Result<(), peer::SendError> {
    let to = session.peer().slot;
    let mut pieces: Vec<Piece> = pieces
        .into_iter()
        .filter_map(|piece| to_be_sent(replica, to, piece))
        .collect();
    let messages = reading::read(replica, to, &mut pieces).await;
    for (piece, message) in pieces.into_iter().zip(messages) {
        ship_piece(replica, session, piece, message).await?;
    }
    Ok(())
}

/// The piece, unless nobody needs it or it must not go to this peer now.
fn to_be_sent(replica: &Arc<LocalReplica>, to: ReplicaSlot, piece: Piece) -> Option<Piece> {
    if replica.store.orphan_home(piece.file).is_some() {
        // A peer that keeps the file, too, has its own version, and would not accept an older one.
        replica.engine.nobody_needs(piece.file);
        acknowledged(replica, to, piece.id);
        return None;
    }
    if !may_send(replica, to, piece.file) {
        try_again(replica, to, piece.file, piece.range, piece.id);
        return None;
    }
    Some(piece)
}

async fn ship_piece(
    replica: &Arc<LocalReplica>,
    session: &Session,
    piece: Piece,
    message: Result<Option<Message>>,
) -> std::result::Result<(), peer::SendError> {
    let to = session.peer().slot;
    let message = match message {
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
