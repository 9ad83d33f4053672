//! Waiting until something has changed that may let a refused operation go on.
//!
//! What must never enter: what is waited for.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Not everything that lets an operation go on is notified of here, such as room in the queues of a peer.
pub(crate) const UNNOTIFIED: Duration = Duration::from_millis(500);

/// However much happens, what was refused a moment ago is not tried again at once.
pub(crate) const CALM: Duration = Duration::from_millis(20);

/// Returns when something has changed since the receiver was made (`Engine::notifications`), but not before it has been calm for a
/// while.
pub(crate) async fn changed(changes: &mut watch::Receiver<u64>, calm: Duration, deadline: Instant) {
    tokio::time::sleep(calm).await;
    let latest = deadline.min(Instant::now() + UNNOTIFIED);
    // Whether something happened or time passed makes no difference.
    let _ = tokio::time::timeout_at(latest, changes.changed()).await;
}
