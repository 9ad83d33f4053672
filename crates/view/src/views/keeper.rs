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
    // Of all that Raft tells only this is looked at: the rest changes with each heartbeat.
    let mut changes = core.raft.server_metrics();
    let mut state = core.state.clone();
    loop {
        // Also where it leads and nobody has answered yet, of which nothing is told when somebody does.
        if core.leads() && !core.is_aligned() {
            core.voters_follow().await;
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let changed = tokio::select! {
            changed = changes.changed() => changed,
            changed = state.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
