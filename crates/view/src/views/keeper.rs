//! Repeats what a leader could not finish: who votes follows the view, also after a crash half-way.
//!
//! What must never enter: anything that is not repeated safely by the next leader.

use std::sync::Arc;
use std::time::Duration;

use super::Core;

/// After a failure it waits this long before it tries again.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the member stops.
pub(super) async fn keep(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    let mut state = core.state.clone();
    loop {
        if core.must_align() {
            core.voters_follow().await;
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let changed = tokio::select! {
            changed = metrics.changed() => changed,
            changed = state.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
