//! Carrying file contents: reading and sending what a peer lacks, and putting in place what arrives.
//!
//! What is sent when, and when what arrives may be put in place, is decided in `shipping`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use control::{Position, Subject};
use peer::{Incoming, Lane, Message, Session};
use store::ContentPiece;
use vfs::{Error, Extent, ReplicaSlot, Result};

use crate::arrivals::{Inbox, Piece as Arrived};
use crate::sessions;
use crate::shared::Shared;
use crate::shipping::{Piece, PieceId};
use crate::wire::{self, PieceDone, PieceHead, Stretch};

/// How long a peer that could not put a piece in place is left alone.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Ships contents to one peer for as long as its session lasts.
pub(crate) async fn ship(shared: Arc<Shared>, session: Session) {
    let to = session.peer().slot;
    let engine = &shared.engine;
    let mut more = engine.contents();
    let mut urgent = engine.urgent_contents();
    loop {
        more.borrow_and_update();
        urgent.borrow_and_update();
        let (piece, due) = engine.turn(|turn| {
            let now = turn.now;
            let Some(backlog) = turn.ledger.unshipped.peer(to) else {
                return (None, None);
            };
            (backlog.next(now), backlog.next_due())
        });
        let Some(piece) = piece else {
            match due {
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until(engine.instant(due).into()) => {}
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
        if let Err(error) = ship_piece(&shared, &session, piece).await {
            tracing::debug!(peer = to.0, %error, "contents wait for the next session");
            return;
        }
    }
}

/// Why shipping to a session ends.
#[derive(Debug, thiserror::Error)]
enum ShipError {
    #[error("contents cannot be read: {0}")]
    Read(#[from] Error),
    #[error(transparent)]
    Send(#[from] peer::SendError),
}

async fn ship_piece(
    shared: &Arc<Shared>,
    session: &Session,
    piece: Piece,
) -> std::result::Result<(), ShipError> {
    let to = session.peer().slot;
    let Some(message) = read(shared, to, &piece).await? else {
        acknowledged(shared, to, piece.id);
        return Ok(());
    };
    let bytes = message.payload.len() as u64;
    session.send(Lane::Data, message).await?;
    shared
        .figures
        .content_bytes
        .fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}

/// Reads what a file holds there now; `None` when there is nothing to send.
async fn read(shared: &Arc<Shared>, to: ReplicaSlot, piece: &Piece) -> Result<Option<Message>> {
    let store = shared.store.clone();
    let (file, range) = (piece.file, piece.range.clone());
    let length = range.end - range.start;
    let reading = tokio::task::spawn_blocking(move || store.content(file, range.start, length));
    let read = reading
        .await
        .map_err(|error| Error::Io(format!("a read was broken off: {error}")))?;
    let content = match read {
        Ok(content) => content,
        Err(error @ Error::Io(_)) => return Err(error),
        // It is gone, or was never a file.
        Err(_) => {
            shared.engine.turn(|turn| {
                turn.ledger.unshipped.removed(file);
                turn.settle_content(file);
            });
            return Ok(None);
        }
    };
    let end = content.last().map_or(piece.range.start, end_of);
    if end < piece.range.end {
        shared.engine.turn(|turn| {
            if let Some(backlog) = turn.ledger.unshipped.peer(to) {
                backlog.found_end(piece.id, end);
            }
        });
    }
    if content.is_empty() {
        return Ok(None);
    }
    let initial = shared.conversations.owes(to, file);
    Ok(Some(compose(piece, initial, content)))
}

fn end_of(part: &ContentPiece) -> u64 {
    match part {
        ContentPiece::Data { offset, bytes } => offset + bytes.len() as u64,
        ContentPiece::Hole(extent) => extent.offset + extent.length,
    }
}

fn compose(piece: &Piece, initial: bool, content: Vec<ContentPiece>) -> Message {
    let mut stretches = Vec::with_capacity(content.len());
    let mut payload = BytesMut::new();
    for part in content {
        match part {
            ContentPiece::Data { offset, bytes } => {
                stretches.push(Stretch {
                    offset,
                    length: bytes.len() as u64,
                    hole: false,
                });
                payload.extend_from_slice(&bytes);
            }
            ContentPiece::Hole(Extent { offset, length }) => stretches.push(Stretch {
                offset,
                length,
                hole: true,
            }),
        }
    }
    let head = PieceHead {
        id: piece.id.0,
        file: piece.file,
        follows: piece.follows.0,
        initial,
        stretches,
    };
    wire::body(wire::PIECE, &head).with_payload(payload.freeze())
}

/// A peer has put a piece in place, or could not.
pub(crate) fn done(shared: &Arc<Shared>, by: ReplicaSlot, done: PieceDone) {
    let id = PieceId(done.id);
    if !done.failed {
        return acknowledged(shared, by, id);
    }
    tracing::warn!(peer = by.0, "a peer could not store contents; trying again");
    let shared = shared.clone();
    tokio::spawn(async move {
        tokio::time::sleep(FAILURE_PAUSE).await;
        shared.engine.turn(|turn| {
            let (now, follows) = (turn.now, Position(turn.ledger.last_position));
            if let Some(backlog) = turn.ledger.unshipped.peer(by) {
                backlog.changed(now, done.file, 0..u64::MAX, follows);
                // Not complete, since all of it has just changed.
                let _complete = backlog.acknowledged(id);
            }
        });
        shared.engine.ring_contents();
    });
}

fn acknowledged(shared: &Arc<Shared>, by: ReplicaSlot, id: PieceId) {
    let complete = shared.engine.turn(|turn| {
        let file = turn.ledger.unshipped.peer(by)?.acknowledged(id)?;
        turn.settle_content(file);
        turn.stirred = true;
        Some(file)
    });
    // Credit is back, and what was changed while in flight can go.
    shared.engine.ring_contents();
    if let Some(file) = complete {
        sessions::has_content(shared, by, file);
    }
}

/// A piece has arrived.
pub(crate) fn arrived(
    shared: &Arc<Shared>,
    inbox: &Arc<Inbox>,
    head: PieceHead,
    incoming: Incoming,
) {
    if let Some(piece) = inbox.sort(Arrived { head, incoming }) {
        put_in_place(shared, inbox, piece);
    }
}

/// Puts a piece in place in the background, and acknowledges it once it is stable.
pub(crate) fn put_in_place(shared: &Arc<Shared>, inbox: &Arc<Inbox>, piece: Arrived) {
    let (shared, inbox) = (shared.clone(), inbox.clone());
    let session = inbox.session();
    tokio::spawn(async move {
        // The semaphore is never closed.
        let Ok(_permit) = inbox.putting.acquire().await else {
            return;
        };
        if inbox.session() != session {
            return;
        }
        let outcome = match is_superseded(&shared, inbox.from, &piece.head) {
            true => Ok(()),
            false => put(&shared, &inbox, &piece).await,
        };
        sessions::pass_on(&shared, piece.head.file);
        if let Err(error) = &outcome {
            tracing::error!(peer = inbox.from.0, file = %piece.head.file, %error, "contents cannot be stored");
        }
        let done = PieceDone {
            id: piece.head.id,
            file: piece.head.file,
            failed: outcome.is_err(),
        };
        drop(piece);
        let message = wire::body(wire::PIECE_DONE, &done);
        shared.post.send(inbox.from, Lane::Control, message);
    });
}

/// Whether another replica than the sender is primary by now. Then the sender, which may have restarted,
/// had shipped this before, and the primary's own content is newer.
fn is_superseded(shared: &Shared, from: ReplicaSlot, head: &PieceHead) -> bool {
    shared.engine.turn(|turn| {
        if turn.core.controls(&turn.tree, Subject::File(head.file)) {
            return true;
        }
        let foreign = turn.core.foreign_control(&turn.tree, head.file);
        let Some(foreign) = foreign.filter(|name| name.holder != from) else {
            return false;
        };
        // Deep control elsewhere does not mean that the file was changed there lately, and the first
        // copy of it comes from whoever supplies the tree.
        let mut grants = turn.core.acknowledged();
        !head.initial
            || grants.any(|grant| {
                let mut claims = grant.claims.iter();
                grant.name == foreign && claims.any(|claim| claim.object == head.file)
            })
    })
}

async fn put(shared: &Shared, inbox: &Inbox, piece: &Arrived) -> Result<()> {
    // Else a truncation that is applied again after a crash would erase what was acknowledged.
    let rows = inbox.rows();
    let mut rest: Bytes = piece.incoming.message.payload.clone();
    for stretch in &piece.head.stretches {
        let part = match stretch.hole {
            true => ContentPiece::Hole(Extent {
                offset: stretch.offset,
                length: stretch.length,
            }),
            false => {
                let length = usize::try_from(stretch.length).unwrap_or(usize::MAX);
                if length > rest.len() {
                    return Err(Error::Io("a piece is shorter than it says".into()));
                }
                ContentPiece::Data {
                    offset: stretch.offset,
                    bytes: rest.split_to(length),
                }
            }
        };
        match shared.store.put_content(piece.head.file, part).await {
            // Removed meanwhile: nobody needs it any more.
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
    }
    match rows {
        Some(ticket) => shared.store.wait_stable(ticket).await,
        None => Ok(()),
    }
}
