//! Completes what a leader could not finish: the voters follow the view, even after a crash in the middle.
//!
//! What must never enter: actions that the next leader cannot repeat safely.

use std::sync::Arc;
use std::time::Duration;

use super::Core;

/// The pause after a failure before the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the member stops.
pub(super) async fn keep(core: Arc<Core>) {
    // Only this part of Raft's metrics is watched: the rest changes with each heartbeat.
    let mut changes = core.raft.server_metrics();
    let mut state = core.state.clone();
    loop {
        // Checked also when this member leads without any answers yet, because no notification comes with the first answer.
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
