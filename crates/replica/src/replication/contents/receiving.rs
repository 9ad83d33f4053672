//! Puts contents that arrive in place, and tells their sender.
//!
//! What must never enter: when that may be done (`shipping` of `state`), and contents that are sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use peer::{Incoming, Lane};
use store::ContentPiece;
use vfs::{Error, Extent, ReplicaSlot, Result};

use super::parts::version_here;
use crate::driver::local_replica::LocalReplica;
use crate::frontend::durability;
use crate::replication::degraded;
use crate::replication::offers;
use crate::replication::withheld;
use crate::state::arrivals::{Inbox, Piece as Arrived};
use crate::state::wire::{self, PieceDone, PieceHead};

/// Logged once; repeats are summed later.
const STORING: &str = "contents cannot be stored";

/// Why this replica stops listening to a peer that sends contents faster than it takes the answers.
const TAKES_NO_ANSWERS: &str = "it sends contents and takes no answers to them";

/// A piece has arrived.
pub(crate) fn arrived(
    replica: &Arc<LocalReplica>,
    inbox: &Arc<Inbox>,
    head: PieceHead,
    incoming: Incoming,
) {
    if replica.state.outbound.owes_too_much(inbox.from) {
        return replica.refuse_nonsense(incoming.from, TAKES_NO_ANSWERS);
    }
    if replica.is_given_up(inbox.from) {
        return put_off(replica, inbox, &head);
    }
    if let Some(piece) = inbox.sort(Arrived { head, incoming }) {
        put_in_place(replica, inbox, piece);
    }
}

/// The survivors decided to continue without what only the sender has. It may take part again in this same session, and then sends this again
/// (counterexample 68).
fn put_off(replica: &LocalReplica, inbox: &Inbox, head: &PieceHead) {
    say_done(replica, inbox.from, head, &Err(Error::Delay));
}

/// Puts a piece in place in the background, and acknowledges it once it is stable.
pub(crate) fn put_in_place(replica: &Arc<LocalReplica>, inbox: &Arc<Inbox>, piece: Arrived) {
    let (replica, inbox) = (replica.clone(), inbox.clone());
    let session = inbox.session();
    tokio::spawn(async move {
        // The semaphore is never closed.
        let Ok(_permit) = inbox.putting.acquire().await else {
            return;
        };
        if inbox.session() != session {
            return;
        }
        if replica.is_given_up(inbox.from) {
            return put_off(&replica, &inbox, &piece.head);
        }
        // The survivors are agreeing which contents of a lost replica count: the sender reads again a little later.
        let closed = replica.state.losses.closing.has_begun(inbox.from);
        let has_newer = has_newer(&replica, inbox.from, &piece.head).await;
        let mut is_placed = false;
        let mut outcome = match has_newer {
            _ if closed => Err(Error::Delay),
            _ if !piece.head.without.is_empty() => {
                let left = withheld::leave_to_makers(&replica, inbox.from, &piece.head);
                left.await.map(|()| 0)
            }
            true => drop_unless_needed(&replica, inbox.from, &piece.head),
            false if is_unexpected(&replica, inbox.from, &piece.head) => Err(Error::Delay),
            false if is_outdated(&replica, inbox.from, &piece.head).await => {
                withheld::leave_to_last_writer(&replica, inbox.from, piece.head.file)
                    .await
                    .and_then(|()| drop_unless_needed(&replica, inbox.from, &piece.head))
            }
            false => {
                is_placed = true;
                let put = put(&replica, &inbox, &piece).await;
                match put.is_ok() && gave_way_and_is_older(&replica, inbox.from, &piece.head) {
                    // Another replica's change has come meanwhile, and may be below this piece: the sender reads again.
                    true => Err(Error::Delay),
                    false => put,
                }
            }
        };
        if let (Ok(0), Some(position)) = (&outcome, piece.head.completes) {
            let asked = piece.head.asked.filter(|_| is_placed);
            let (from, file) = (inbox.from, piece.head.file);
            withheld::settle_flagged(&replica, from, file, (position, asked)).await;
            if durability::is_held_by_majority(&replica, file).await
                && let Err(error) = replica.store.wait_committed().await
            {
                // The sender counts this copy from now on, also after a loss of power here.
                outcome = Err(error);
            }
        }
        if let Err(error) = &outcome
            && !is_of_this_copy(error)
        {
            // The object cannot have contents, whichever replica sends them.
            replica.refuse_nonsense(piece.incoming.from, &error.to_string());
            outcome = Err(Error::Delay);
        }
        if let Err(error) = &outcome
            && *error != Error::Delay
        {
            if let Some(sum) = replica.state.repeats.is_to_tell(STORING, inbox.from) {
                tracing::error!(peer = inbox.from.0, file = %piece.head.file, %error, %sum, "contents cannot be stored");
            }
            degraded::contents_not_stored(&replica, error).await;
        }
        if piece.head.initial && outcome.is_ok() {
            inbox.of_copy.fetch_add(1, Ordering::Relaxed);
        }
        let Arrived { head, incoming } = piece;
        drop(incoming);
        say_done(&replica, inbox.from, &head, &outcome);
    });
}

/// Whether the local contents are newer than a piece. If data of its sender has given way here, the versions decide: nobody else sends that data, but
/// another replica may have changed the file since the piece was read. What the sender itself has changed since follows.
async fn has_newer(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> bool {
    if head.version > 0 && replica.store.has_given_way(from, Some(head.file)) {
        return gave_way_and_is_older(replica, from, head);
    }
    is_superseded(replica, from, head) || is_previous(replica, from, head).await
}

fn gave_way_and_is_older(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> bool {
    let (store, file) = (&replica.store, head.file);
    store.has_given_way(from, Some(file))
        && head.version > 0
        && head.version < store.version_of_others(file, from)
}

/// A piece that is older than the local contents is useless, with two exceptions: its sender supplies what is missing here of a lost replica
/// (counterexample 65), or data of the sender has given way here. Then the sender reads again a little later, and sends that data with the newer
/// contents.
fn drop_unless_needed(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> Result<u64> {
    let has_given_way = replica.store.has_given_way(from, Some(head.file));
    match has_given_way || withheld::needs_from(replica, from, head.file) {
        true => Err(Error::Delay),
        false => Ok(0),
    }
}

/// Whether the disk of this copy, and not the contents, is why they could not be stored.
fn is_of_this_copy(error: &Error) -> bool {
    matches!(error, Error::Io(_) | Error::NoSpace | Error::Delay)
}

/// Tells the sender of a piece that it is in place, that bytes of some stretches are wanted, or that it could not be put there.
fn say_done(replica: &LocalReplica, to: ReplicaSlot, head: &PieceHead, outcome: &Result<u64>) {
    let done = PieceDone {
        id: head.id,
        file: head.file,
        failed: outcome.is_err(),
        no_space: *outcome == Err(Error::NoSpace),
        lacking: *outcome.as_ref().unwrap_or(&0),
        apart: withheld::is_in_vain(replica, to, head.file),
    };
    let message = wire::body(wire::Kind::PieceDone, &done);
    replica.state.outbound.send(to, Lane::Control, message);
}

/// Whether another replica is primary by now. Then the sender, which may have restarted, had shipped this before, and the primary's own content is
/// newer. Two exceptions take the piece by its version: a replica that was away while it was shipped (counterexample 63), and one that begins with a
/// copy.
fn is_superseded(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> bool {
    let was_away = || {
        let store = &replica.store;
        let missing =
            || store.is_to_fetch(head.file) || store.lacks_data_of(head.file).contains(&from);
        !replica.lease.is_up_to_date() && missing()
    };
    replica.engine.is_superseded(from, head.file, head.initial) && !was_away()
}

/// Whether a file lacks a lost replica's data here, and the sender of the contents does not have the best copy. The contents would mix with those
/// from the best copy; the sender reads again a little later.
fn is_unexpected(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> bool {
    let (store, file) = (&replica.store, head.file);
    let frozen = || {
        let lacks_other = !store.lacks_data_of(file).contains(&from) && !store.is_to_fetch(file);
        lacks_other && replica.takes_part() && replica.engine.lacks_frozen(file)
    };
    let awaited = || store.is_incomplete(file) && withheld::is_supplied_by(replica, from, file);
    // A sender that lacks data of a member names no version.
    let is_back = || withheld::is_back(replica, file, from, head.version > 0);
    head.partial && is_back() || (head.partial || frozen()) && !awaited()
}

/// Whether another replica changed a file after the sender had all of it here: a previous incarnation of the sender may not have known that all
/// replicas had it. A replica with a complete copy can tell, even after its own restart. Otherwise, with the other replica lost, the sender could not
/// get the newer version and would try for ever to send its own.
async fn is_previous(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> bool {
    let (store, file) = (&replica.store, head.file);
    if !replica.is_complete()
        || store.is_to_fetch(file)
        || store.lacks_data_of(file).contains(&from)
    {
        return false;
    }
    is_older(replica, head).await
}

/// Whether the sender had not yet received a change of the file that is here. Only a replica that follows regardless of controls can see that; the
/// sender reads again a little later. If the last change is the sender's own, the piece is not outdated: the data of that change follows.
async fn is_outdated(replica: &LocalReplica, from: ReplicaSlot, head: &PieceHead) -> bool {
    !replica.lease.is_up_to_date()
        && is_older(replica, head).await
        && replica.state.writers.last(head.file) != Some(from)
}

/// Whether the piece is of an earlier version than the local one.
async fn is_older(replica: &LocalReplica, head: &PieceHead) -> bool {
    head.version < version_here(replica, head.file).await
}

/// Puts a piece in place. If it came as sums, returns which stretches are wanted, as bits.
async fn put(replica: &LocalReplica, inbox: &Inbox, piece: &Arrived) -> Result<u64> {
    if piece.head.partial {
        withheld::give_way(replica, inbox.from, piece.head.file).await?;
    }
    // Otherwise a truncation that is applied again after a crash would erase what was acknowledged.
    let rows = inbox.rows();
    let mut rest: Bytes = piece.incoming.message.payload.clone();
    let sums = !piece.head.sums.is_empty();
    let stretches = piece.head.stretches.iter();
    for stretch in stretches.filter(|stretch| stretch.hole || !sums) {
        let part = match stretch.hole {
            true => ContentPiece::Hole(Extent {
                offset: stretch.offset,
                length: stretch.length,
            }),
            false => {
                // Checked on arrival: the payload has at least this length.
                let length = usize::try_from(stretch.length).unwrap_or(usize::MAX);
                ContentPiece::Data {
                    offset: stretch.offset,
                    bytes: rest.split_to(length.min(rest.len())),
                }
            }
        };
        match replica.store.put_content(piece.head.file, part).await {
            // Removed meanwhile: no longer needed.
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
    }
    let lacking = match sums {
        true => offers::look(replica, &piece.head).await?,
        false => 0,
    };
    if let Some(ticket) = rows {
        replica.store.wait_stable(ticket).await?;
    }
    Ok(lacking)
}
