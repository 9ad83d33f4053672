//! When file systems may forget what clients' requests have done.
//!
//! A session that has ended in order, or of a client that was started anew, is never used again. One that is known here is
//! used. Any other may be: its client may have been cut off, this server been started anew, or another one lost whose
//! clients come here. So what is on record of those is kept for some time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nfs4::SessionId4;

use crate::service::Service;

/// For at least this long, while this server answers, what is on record of a session that is not known here is kept, and for
/// twice as long at most. Linux tries to connect again every five minutes at the latest.
const KEPT: Duration = Duration::from_secs(3600);

/// Since when what is on record has been growing older.
pub(crate) struct Forgetting(Mutex<Instant>);

impl Forgetting {
    pub(crate) fn since(now: Instant) -> Forgetting {
        Forgetting(Mutex::new(now))
    }

    /// Whether the time is over. Then another one begins.
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
    /// Lets file systems forget what requests of these sessions have done, and what has been on record for too long.
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
            // What stays goes later, with what is too old.
            if let Err(error) = outcome {
                tracing::debug!(export = %export.path, %error, "what requests have done is not forgotten yet");
            }
        }
    }
}
