//! A leader without answers falls silent, so that the others elect a leader that gets answers.
//!
//! The others stand for election only when they hear no leader. If a link works in one direction only, they would
//! follow for ever a leader that cannot decide anything, because it does not hear their votes.
//!
//! What must never enter: which member is elected, and what is decided.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Core;

/// The leader is silent for this multiple of the time for which it sends without answers, and then tries again: if no other member can be elected, it has to
/// continue. The silence is long enough for the others' lease and their election.
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
                // It cannot have been without answers for long enough before that time.
                let pause = patience.saturating_sub(unanswered);
                tokio::time::sleep(pause.max(core.settings.heartbeat)).await;
            }
            None if changes.changed().await.is_err() => return,
            None => {}
        }
    }
}

/// How long no majority has answered this leader; `None` when it does not lead.
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
