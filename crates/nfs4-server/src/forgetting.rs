//! When file systems may forget the recorded requests of clients.
//!
//! A session that ended normally, or whose client restarted, is never used again. A session that is known here is in
//! use. Any other session may still be used: its client may have been cut off, this server may have restarted, or the
//! clients of a lost server may come here. So the recorded requests of those are kept for some time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nfs4::SessionId4;

use crate::service::Service;

/// Recorded requests of an unknown session are kept for at least this time, while this server answers, and for at most
/// twice this time. Linux tries to reconnect every five minutes at the latest.
const KEPT: Duration = Duration::from_secs(3600);

/// The start of the current period.
pub(crate) struct Forgetting(Mutex<Instant>);

impl Forgetting {
    pub(crate) fn since(now: Instant) -> Forgetting {
        Forgetting(Mutex::new(now))
    }

    /// Whether the period is over. Then the next one begins.
    fn is_due(&self, now: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = now.saturating_duration_since(*since) >= KEPT;
        if is_due {
            *since = now;
        }
        is_due
    }
}

impl Service {
    /// Lets file systems forget the requests of these sessions, and requests that were recorded too long ago.
    pub(crate) async fn forget_requests(&self, ended: Vec<SessionId4>) {
        let ended: Vec<_> = ended.into_iter().map(|session| session.0).collect();
        let alive = self.forgetting.is_due(self.now()).then(|| {
            let sessions = self.state().sessions();
            sessions
                .into_iter()
                .map(|session| session.0)
                .collect::<std::collections::HashSet<_>>()
        });
        for export in self.namespace.exports() {
            let file_system = &export.file_system;
            let mut outcome = Ok(());
            if !ended.is_empty() {
                outcome = file_system.end_requests(ended.clone()).await;
            }
            if let Some(alive) = &alive {
                outcome = outcome.and(file_system.age_requests(alive.clone()).await);
            }
            // Remaining records are removed later, when they are too old.
            if let Err(error) = outcome {
                tracing::debug!(export = %export.path, %error, "what requests have done is not forgotten yet");
            }
        }
    }
}
