//! Waiting until something has changed: that may let a refused operation go on, or that a task which watches over the set is to see.
//!
//! What must never enter: what is waited for.

use std::time::Duration;

use control::Moment;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::driver::local_replica::LocalReplica;

/// Not everything that lets an operation go on is notified of here, such as space in the queues of a peer.
pub(crate) const UNNOTIFIED: Duration = Duration::from_millis(500);

/// At least this long lies between two attempts. Nothing is looked at before something has changed; this only bounds how often an attempt is made
/// where much changes: each change of any file is notified of, and an attempt may ask another replica over the wide area. A notification for each
/// operation would need to know what it waits for, which is anything that the core, the view, or the primary's own waits depend on.
pub(crate) const CALM: Duration = Duration::from_millis(20);

/// Returns when something has changed since the receiver was made (`Engine::notifications`), but not before it has been calm for a
/// while.
pub(crate) async fn changed(changes: &mut watch::Receiver<u64>, calm: Duration, deadline: Instant) {
    let earliest = Instant::now() + calm;
    let latest = deadline.min(earliest + UNNOTIFIED);
    // Whether something happened or time passed makes no difference.
    let _ = tokio::time::timeout_at(latest, changes.changed()).await;
    tokio::time::sleep_until(earliest).await;
}

/// How long at most a task that watches over the set looks away while nothing changes and all is well. The maintenance notifies all
/// of them together that this time has passed: with a timer each they would wake an idle process many times a second.
pub(crate) const UNCHANGED: Duration = Duration::from_secs(1);

/// Ticks at once, and then at multiples of `period` since the replica started: tasks that look now and then are woken together.
pub(crate) fn ticks(replica: &LocalReplica, period: Duration) -> Interval {
    let began = replica.engine.instant(Moment(0));
    let mut ticks = tokio::time::interval_at(began.into(), period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Returns when a task that watches over the set is to look again. Where all members take part and have everything, something has
/// changed then, or `latest` or [`UNCHANGED`] has passed, and `pause` in any case. While a member is missing or behind it is `pause` alone, without
/// a notification: what the tasks decide by is then mostly time itself (how long a peer has been silent, what nobody has relayed, what counts as changed just now, when
/// to ask again) and what streams have brought, of which every record would notify.
pub(crate) async fn next_look(replica: &LocalReplica, pause: Duration, latest: Duration) {
    let earliest = Instant::now() + pause;
    let mut changes = replica.engine.notifications();
    if replica.all_take_part() {
        // Whether something happened or time passed makes no difference.
        if latest < UNCHANGED {
            let _ = tokio::time::timeout(latest, changes.changed()).await;
        } else {
            let _ = changes.changed().await;
        }
    }
    tokio::time::sleep_until(earliest).await;
}
