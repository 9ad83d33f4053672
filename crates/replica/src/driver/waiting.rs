//! Waiting until something has changed, so that a refused operation may continue, or a task that watches the set must check.
//!
//! What must never enter: what is waited for.

use std::time::Duration;

use control::Moment;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::driver::local_replica::LocalReplica;

/// Some changes that let an operation continue are not notified here, such as space in the queues of a peer.
pub(crate) const UNNOTIFIED: Duration = Duration::from_millis(500);

/// The minimal pause between two attempts. An attempt is made only after a change; this bounds the rate when much changes: each change of any file
/// sends a notification, and an attempt may ask another replica over the wide area. A notification for one operation would need to know what it waits
/// for, which may be anything on which the core, the view, or the primary's own waits depend.
pub(crate) const CALM: Duration = Duration::from_millis(20);

/// Returns when something has changed since the receiver was made (`Engine::notifications`), but not before the `calm` time has passed.
pub(crate) async fn changed(changes: &mut watch::Receiver<u64>, calm: Duration, deadline: Instant) {
    let earliest = Instant::now() + calm;
    let latest = deadline.min(earliest + UNNOTIFIED);
    // A notification and a timeout are handled alike.
    let _ = tokio::time::timeout_at(latest, changes.changed()).await;
    tokio::time::sleep_until(earliest).await;
}

/// The longest pause of a task that watches the set, while nothing changes and all is well. The maintenance notifies all of them together after this
/// time: with a timer each they would wake an idle process many times a second.
pub(crate) const UNCHANGED: Duration = Duration::from_secs(1);

/// Ticks at once, and then at multiples of `period` since the replica started, so that periodic tasks wake together.
pub(crate) fn ticks(replica: &LocalReplica, period: Duration) -> Interval {
    let began = replica.engine.instant(Moment(0));
    let mut ticks = tokio::time::interval_at(began.into(), period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Returns when a task that watches the set must check again. While all members take part and have everything: after a change, or after `latest` or
/// [`UNCHANGED`], but in any case not before `pause` has passed. While a member is missing or behind: after `pause`, without a notification. The
/// tasks then depend mostly on time itself (how long a peer has been silent, what has not been relayed, which changes are fresh, when to ask again)
/// and on the streams, in which every record would notify.
pub(crate) async fn next_look(replica: &LocalReplica, pause: Duration, latest: Duration) {
    let earliest = Instant::now() + pause;
    let mut changes = replica.engine.notifications();
    if replica.all_take_part() {
        // A notification and a timeout are handled alike.
        if latest < UNCHANGED {
            let _ = tokio::time::timeout(latest, changes.changed()).await;
        } else {
            let _ = changes.changed().await;
        }
    }
    tokio::time::sleep_until(earliest).await;
}
