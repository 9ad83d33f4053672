//! Sends this replica's stream of updates to the others: each message is made once, and a record is sent once it is stable here.
//!
//! What must never enter: what is done with the streams of others (`streams`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peer::{Lane, Session};
use tokio::sync::watch;
use vfs::{Error, ReplicaSlot};

use crate::driver::local_replica::LocalReplica;
use crate::replication::conversing;
use crate::replication::cutting::{Part, cut};
use crate::replication::settled;
use crate::state::copies::Held;
use crate::state::segments::{Known, Segment};
use crate::state::settings::Durability;
use crate::state::wire::{self, Note, Records};

/// At most this many records are read at a time.
const RECORDS_AT_ONCE: usize = 256;
/// Single updates within this time travel together, unless the peer has applied the earlier ones before: a message for each would load all processors
/// more than the updates do.
const GATHERING: Duration = Duration::from_millis(2);

/// To a distant peer, updates within this part of the round trip travel together, at most for the time below: so short a delay hardly matters there,
/// and fewer messages are signed, encrypted, read and answered.
const FAR_PART: u32 = 16;
const FAR_GATHERING: Duration = Duration::from_millis(5);

/// The same while nobody waits for updates: fewer messages still.
const UNWANTED_PART: u32 = 4;
const UNWANTED_GATHERING: Duration = Duration::from_millis(25);

/// Sends this replica's stream to one peer, from behind `sent`, for as long as its session lasts. It sends nothing of a copy that was given up: the
/// others may have continued without those updates, and could confuse them with later ones of the same session.
pub(crate) async fn send(
    replica: Arc<LocalReplica>,
    session: Session,
    mut sent: u64,
    mut applied: watch::Receiver<u64>,
) {
    let mut held = replica.state.held.subscribe();
    // The sender lives in the replica.
    let _ = held.wait_for(|held| *held > Held::Nothing).await;
    let mut stable = replica.store.stable_position();
    loop {
        let through = *stable.borrow_and_update();
        if through <= sent {
            // The sender lives in the store.
            if stable.changed().await.is_err() {
                return;
            }
            continue;
        }
        match send_some(&replica, &session, sent, through).await {
            Ok(last) => {
                let is_behind = sent < last && last < through;
                sent = last;
                if is_behind {
                    continue;
                }
            }
            Err(error) => {
                tell_of_end(&session, &error);
                if matches!(error, StreamError::Trimmed) {
                    // It takes a whole copy, perhaps in this session, and then reports how far that copy reaches.
                    let slot = session.peer().slot;
                    replica
                        .state
                        .conversations
                        .with(slot, |with| with.sending = false);
                }
                return;
            }
        }
        gather(&replica, &session, applied.wait_for(|at| *at >= sent)).await;
    }
}

/// Waits while updates gather for the next message to a peer: no longer than until it has applied what was sent, nor than until it matters when the
/// updates arrive.
async fn gather(replica: &LocalReplica, session: &Session, all_applied: impl Future) {
    let interest = &replica.state.interest;
    let is_wanted = interest.is_recent();
    tokio::select! {
        _ = all_applied => {}
        () = interest.next(), if !is_wanted => {}
        () = tokio::time::sleep(gathering(replica, session, is_wanted)) => {}
    }
}

/// How long updates gather before the next message to a peer. If an operation waits for a majority, only the short time.
fn gathering(replica: &LocalReplica, session: &Session, is_wanted: bool) -> Duration {
    let awaited = replica.state.majority_awaited.load(Ordering::Acquire) > 0;
    if awaited || replica.state.settings.durability == Durability::Majority {
        return GATHERING;
    }
    let distance = session.round_trip().unwrap_or_default();
    match is_wanted {
        true => (distance / FAR_PART).clamp(GATHERING, FAR_GATHERING),
        false => (distance / UNWANTED_PART).clamp(GATHERING, UNWANTED_GATHERING),
    }
}

/// Why sending ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("updates cannot be read: {0}")]
    Store(#[from] Error),
    #[error("what the peer lacks is not kept any more")]
    Trimmed,
    #[error(transparent)]
    Send(#[from] peer::SendError),
}

/// Logs why the peer gets nothing more in this session. A store that cannot be read is not the peer's fault.
fn tell_of_end(session: &Session, error: &StreamError) {
    let peer = session.peer().slot.0;
    match error {
        StreamError::Store(error) => {
            tracing::error!(peer, %error, "own updates cannot be read, so a peer gets no more of them; run `meridian check`");
        }
        StreamError::Trimmed | StreamError::Send(_) => {
            tracing::debug!(peer, %error, "updates wait for the next session");
        }
    }
}

async fn send_some(
    replica: &LocalReplica,
    session: &Session,
    sent: u64,
    through: u64,
) -> std::result::Result<u64, StreamError> {
    let mut last = sent;
    while let Some(made) = replica.state.segments.find(last, known(replica)) {
        send_segment(replica, session, &made).await?;
        last = made.through;
    }
    if last > sent {
        return Ok(last);
    }
    for segment in make_segments(replica, session, sent, through)? {
        send_segment(replica, session, &segment).await?;
        last = segment.through;
    }
    Ok(last)
}

/// What this replica says in each message.
fn known(replica: &LocalReplica) -> Known {
    Known {
        settlements: settled::settlements(replica),
        epoch: replica.lease.view().epoch.0,
    }
}

/// Reads the next updates, and makes messages of them, also for other peers.
fn make_segments(
    replica: &LocalReplica,
    session: &Session,
    sent: u64,
    through: u64,
) -> std::result::Result<Vec<Arc<Segment>>, StreamError> {
    let found = replica.store.updates(sent + 1, RECORDS_AT_ONCE)?;
    if sent < replica.trimmed() {
        conversing::too_far_behind(replica, session.peer().slot);
        return Err(StreamError::Trimmed);
    }
    let complete = found.len() < RECORDS_AT_ONCE;
    let mut updates = Vec::new();
    for update in found.into_iter().take_while(|one| one.position <= through) {
        let note: Note = wire::decode(&update.note).map_err(Error::from)?;
        updates.push((update, note));
    }
    let last = updates.last().map_or(sent, |(update, _)| update.position);
    // Positions have gaps: there may be no record between the last one and the stable position.
    let through = if complete { through } else { last };
    let parts = cut(updates, replica.state.settings.merging, (sent, through)).into_iter();
    Ok(parts.map(|part| segment(replica, part)).collect())
}

fn segment(replica: &LocalReplica, part: Part) -> Arc<Segment> {
    let known = known(replica);
    let records = Records {
        behind: part.behind,
        records: part.records,
        through: part.through,
        settlements: known.settlements,
        epoch: known.epoch,
        mac: replica.state.lineage.attest_updates(part.through),
    };
    let mut message = wire::payload(wire::Kind::Records, &records);
    // The receiver may have to relay it if this replica is lost.
    message.body = replica
        .signatures
        .sign(wire::UPDATES, &message.payload)
        .into();
    let segment = Arc::new(Segment {
        behind: part.behind,
        through: part.through,
        known,
        bytes: part.bytes,
        message,
    });
    replica.state.segments.keep(segment.clone());
    segment
}

async fn send_segment(
    replica: &LocalReplica,
    session: &Session,
    segment: &Segment,
) -> std::result::Result<(), StreamError> {
    let bytes = segment.bytes as u64;
    replica
        .state
        .metrics
        .record_bytes
        .fetch_add(bytes, Ordering::Relaxed);
    session
        .send(Lane::Metadata, segment.message.clone())
        .await?;
    sent(replica, session.peer().slot, bytes).await;
    Ok(())
}

/// Notes that this many bytes were sent to a peer. For a peer outside the view, returns when more may be sent: after a pause, or at once when it is
/// admitted, because then other replicas wait for what it lacks.
pub(crate) async fn sent(replica: &LocalReplica, to: ReplicaSlot, bytes: u64) {
    replica.state.conversations.note_sent(to, bytes);
    let is_admitted = || replica.lease.view().active.contains(&to);
    if !is_admitted() {
        tokio::select! {
            () = replica.state.pace.spend(bytes) => {}
            () = replica.engine.until(|| is_admitted().then_some(())) => {}
        }
    }
}
