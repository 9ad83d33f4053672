//! A leader that nobody answers falls silent, so that the others elect one whom they can answer.
//!
//! The others stand for election only when they hear of no leader. Where a link carries in one direction only, they
//! would follow for ever a leader that cannot decide anything, because it hears none of their votes.
//!
//! What must never enter: who is elected, and what is decided.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Core;

/// It keeps silent for this many times as long as it speaks in vain, before it tries again: where
/// nobody else can be elected it has to go on. The others' lease and their election fit into it.
const SILENT_PART: u32 = 3;

/// Runs until the member stops.
pub(super) async fn keep(core: Arc<Core>) {
    let mut leading_since = None;
    let mut changes = core.raft.server_metrics();
    loop {
        changes.borrow_and_update();
        let unanswered = unanswered(&core, &mut leading_since);
        let patience = core.settings.election_max;
        let silent = unanswered.is_some_and(|unanswered| is_silent(unanswered, patience));
        if core.silent.swap(silent, Ordering::AcqRel) != silent && silent {
            tracing::warn!(
                "no majority answers this leader; it falls silent, so that another is elected"
            );
        }
        match unanswered {
            Some(unanswered) => {
                // It cannot have been unanswered for long enough before.
                let pause = patience.saturating_sub(unanswered);
                tokio::time::sleep(pause.max(core.settings.heartbeat)).await;
            }
            None if changes.changed().await.is_err() => return,
            None => {}
        }
    }
}

/// For how long no majority has answered this leader; `None` when it does not lead.
fn unanswered(core: &Core, leading_since: &mut Option<Instant>) -> Option<Duration> {
    if !core.leads() {
        *leading_since = None;
        return None;
    }
    let since = leading_since.get_or_insert_with(Instant::now);
    let answered = core.raft.metrics().borrow().millis_since_quorum_ack;
    Some(answered.map_or_else(|| since.elapsed(), Duration::from_millis))
}

fn is_silent(unanswered: Duration, patience: Duration) -> bool {
    let round = patience.as_millis() * u128::from(1 + SILENT_PART);
    unanswered.as_millis() % round.max(1) >= patience.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_follows_patience_and_ends_for_another_attempt() {
        let silent = |seconds| is_silent(Duration::from_secs(seconds), Duration::from_secs(3));
        assert!(!silent(0) && !silent(2));
        assert!(silent(3) && silent(11));
        assert!(!silent(12) && !silent(14));
        assert!(silent(15));
    }
}
