//! Our own stream of updates on its way to the others: each message is made once, and a record is sent once it is stable here.
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
/// Updates that come one by one travel together if they come within such a time, unless the peer has
/// applied those before: a message for each would keep everybody's processors busier than the updates do.
const GATHERING: Duration = Duration::from_millis(2);

/// To a peer that is far away updates travel together that come within this part of the way there and back, at most within such a
/// time: so little later hardly shows there, and fewer messages are signed, encrypted, read and answered.
const FAR_PART: u32 = 16;
const FAR_GATHERING: Duration = Duration::from_millis(5);

/// Sends our stream to one peer from behind `sent` on, for as long as its session lasts. Nothing of a copy that was given up: what was made there may
/// be what the others went on without, and they could take it for what is made later in the same session.
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
            Ok(last) => sent = last,
            Err(error) => {
                tell_of_end(&session, &error);
                if matches!(error, StreamError::Trimmed) {
                    // It takes a whole copy, perhaps in this session, and says then how far that one reaches.
                    let slot = session.peer().slot;
                    replica
                        .state
                        .conversations
                        .with(slot, |with| with.sending = false);
                }
                return;
            }
        }
        // Whether time is over or everything is applied makes no difference.
        let all_applied = applied.wait_for(|applied| *applied >= sent);
        let _ = tokio::time::timeout(gathering(&replica, &session), all_applied).await;
    }
}

/// How long updates gather before the next message to a peer. Where a majority is waited for, no longer than anywhere.
fn gathering(replica: &LocalReplica, session: &Session) -> Duration {
    let awaited = replica.state.majority_awaited.load(Ordering::Acquire) > 0;
    if awaited || replica.state.settings.durability == Durability::Majority {
        return GATHERING;
    }
    let distance = session.round_trip().unwrap_or_default();
    (distance / FAR_PART).clamp(GATHERING, FAR_GATHERING)
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

/// Nobody sends the peer anything more in this session, and it is not the peer's fault when the store cannot be read.
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

/// Reads the next updates, and makes messages of them, for other peers too.
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
    // Positions have gaps: behind the last record there may be none up to what is stable.
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
    // The replica that gets it may have to pass it on, when this replica is lost.
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

/// This many bytes were sent to a peer. Returns when more may be, if it is on its way back into the view: later, or when it is admitted,
/// since others wait for what it lacks then.
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
