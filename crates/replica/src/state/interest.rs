//! Whether it matters when updates arrive at other replicas: these forward operations to this one, or propose or revoke controls, or an operation here
//! waits for a majority.
//!
//! What must never enter: how updates are sent.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// More of that is likely for this long.
const LASTS: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Interest(watch::Sender<Option<Instant>>);

impl Default for Interest {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Interest {
    /// It matters now.
    pub(crate) fn note(&self) {
        self.0.send_replace(Some(Instant::now()));
    }

    /// Whether it mattered a short time ago.
    pub(crate) fn is_recent(&self) -> bool {
        let noted = *self.0.borrow();
        noted.is_some_and(|at| at.elapsed() < LASTS)
    }

    /// Returns when it matters next.
    pub(crate) async fn next(&self) {
        // The sender lives here.
        let _ = self.0.subscribe().changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn interest_ends_a_wait_and_lasts_for_a_while() {
        let interest = Interest::default();
        assert!(!interest.is_recent());
        let (waited, ()) = tokio::join!(tokio::time::timeout(2 * LASTS, interest.next()), async {
            interest.note()
        });
        assert!(waited.is_ok() && interest.is_recent());
        tokio::time::sleep(LASTS / 2).await;
        assert!(interest.is_recent());
        tokio::time::sleep(LASTS).await;
        assert!(!interest.is_recent());
        let again = tokio::time::timeout(LASTS, interest.next()).await;
        assert!(again.is_err(), "what was noted before ends no later wait");
    }
}
