//! Periodic work: records and marks that are no longer needed, new members.

use std::sync::Arc;
use std::time::Duration;

use control::Epoch;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, ticks};
use crate::membership::accounts;
use crate::membership::links;
use crate::membership::members;
use crate::membership::views;
use crate::replication::conversing;
use crate::replication::progress;

const INTERVAL: Duration = UNCHANGED;

/// At most this many records are read at a time.
const RECORDS_AT_ONCE: usize = 256;

/// For a replica outside the view but in contact, this many times as many updates are kept: those made during its copy must follow the copy.
const KEPT_IN_CONTACT: u64 = 10;

/// An update that has been waiting for this long is logged.
const STUCK_LONG: Duration = Duration::from_secs(20);

/// Logged once; repeats are logged as sums.
const STUCK: &str = "an update waits to be applied";

/// Does the periodic work until the replica stops.
pub(crate) async fn keep(replica: Arc<LocalReplica>) {
    let told = watch::Sender::new(());
    tokio::select! {
        () = tidy(&replica, told.subscribe()) => {}
        () = configure(&replica, told.subscribe()) => {}
        () = tell_time(&replica, &told) => {}
    }
}

/// Wakes the periodic work, and the tasks that watch the set, at regular times, all at once.
async fn tell_time(replica: &LocalReplica, told: &watch::Sender<()>) {
    let mut ticks = ticks(replica, INTERVAL);
    loop {
        ticks.tick().await;
        told.send_replace(());
        replica.engine.notify();
    }
}

/// Lets the set agree on members that come and go. This may wait for a newcomer that does not answer. Nothing else may wait for that, not even
/// the news that the newcomer is removed.
async fn configure(replica: &Arc<LocalReplica>, mut time: watch::Receiver<()>) {
    while time.changed().await.is_ok() {
        views::configure(replica).await;
    }
}

async fn tidy(replica: &Arc<LocalReplica>, mut time: watch::Receiver<()>) {
    let mut trimmed = 0;
    while time.changed().await.is_ok() {
        replica.state.repeats.tell_what_ended();
        members::look_for_members(replica);
        views::note_current(replica);
        conversing::let_go_of_settled(replica);
        replica.state.copies.forget_unused(Instant::now());
        progress::tell(replica);
        tell_stuck(replica);
        let outcome = match forget_marks(replica).await {
            Ok(()) => trim(replica, &mut trimmed).await,
            failed => failed,
        };
        if let Err(error) = outcome {
            // The store has failed, which ends the server.
            return tracing::error!(%error, "replication cannot tidy up");
        }
    }
}

/// Logs what updates have been waiting for, if they wait long.
fn tell_stuck(replica: &LocalReplica) {
    for inbox in replica.state.inboxes.all() {
        if let Some(stuck) = inbox.stuck_since(STUCK_LONG)
            && let Some(sum) = (replica.state.repeats).is_to_tell(STUCK, inbox.from)
        {
            let (of, applied) = (inbox.from.0, inbox.applied());
            let (position, awaits) = (stuck.position, stuck.awaits);
            tracing::warn!(of, applied, position, %awaits, %sum, "an update waits to be applied");
        }
    }
}

/// Reports locks that arrived with updates, for ever.
pub(crate) async fn pass_lock_changes_on(replica: Arc<LocalReplica>) {
    let mut changes = replica.store.lock_changes();
    loop {
        match changes.recv().await {
            Ok(file) => replica.state.lock_listeners.tell(file),
            // A client that waits for a missed change asks again a little later.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Removes the durable marks of files that all others have. Until this replica is up to date, they tell what it must put aside if the others
/// have gone on without it.
async fn forget_marks(replica: &LocalReplica) -> vfs::Result<()> {
    if !replica.lease.is_up_to_date() {
        return Ok(());
    }
    let files = replica.engine.take_shipped();
    if files.is_empty() {
        return Ok(());
    }
    let still = &mut |file| replica.engine.is_shipped(file);
    replica.store.forget_unshipped(&files, still).await
}

/// Removes records that every member has applied, or that a replica outside the view must do without. Before a view is in force, it is not known
/// which replicas are outside, so all records stay.
async fn trim(replica: &LocalReplica, trimmed: &mut u64) -> vfs::Result<()> {
    if replica.lease.view().epoch == Epoch(0) {
        return Ok(());
    }
    let connected = links::connected(replica);
    let overdrawn = accounts::overdrawn(replica);
    let kept = |slot| {
        let times = match connected.contains(&slot) {
            _ if overdrawn.contains(&slot) => 0,
            true => KEPT_IN_CONTACT,
            false => 1,
        };
        replica.state.settings.kept_updates.saturating_mul(times)
    };
    let through = replica.engine.needed_by_nobody(kept);
    if through > *trimmed {
        if let Some(last) = last_record(replica, through)? {
            replica.note_trimmed(last).await?;
        }
        replica.store.trim_updates(through).await?;
        *trimmed = through;
    }
    accounts::give_up_overdue(replica);
    Ok(())
}

/// The last record up to a position. Positions have gaps, which no replica lacks.
fn last_record(replica: &LocalReplica, through: u64) -> vfs::Result<Option<u64>> {
    let mut last = None;
    loop {
        let from = last.map_or(1, |last| last + 1);
        let records = replica.store.updates(from, RECORDS_AT_ONCE)?;
        let more = records.len() == RECORDS_AT_ONCE;
        let positions = records.iter().map(|record| record.position);
        let found = positions.take_while(|position| *position <= through).last();
        last = found.or(last);
        if !more || found.is_none() {
            return Ok(last);
        }
    }
}
