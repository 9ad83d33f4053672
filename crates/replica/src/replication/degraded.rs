//! A replica that cannot store what others have changed (rule 34): it leaves the view, so that no replica waits for it and it answers no client. It
//! comes back by itself when it can.
//!
//! What must never enter: other reasons to stay outside.

use std::sync::Arc;
use std::time::Duration;

use vfs::Error;

use crate::driver::local_replica::LocalReplica;

/// The pause between attempts to store something; doubled each time, up to the longer one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// While the others wait for this replica, it keeps trying until the next pause would be this long.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Leaves the view. As after a crash, this replica restarts outside the view, and catches up.
pub(crate) async fn degraded(replica: &Arc<LocalReplica>, error: &Error) {
    let reason = reason(error);
    tracing::error!(reason, "this replica leaves the view");
    replica.exclude(replica.slot(), &reason).await;
    replica.lease.leave(&reason);
}

/// Contents could not be stored here. An up-to-date replica leaves and restarts. The others wait for a member that is not up to date, though it
/// answers no client: without space it leaves, and stays outside until it has space.
pub(crate) async fn contents_not_stored(replica: &Arc<LocalReplica>, error: &Error) {
    if replica.lease.is_up_to_date() {
        degraded(replica, error).await;
    } else if *error == Error::NoSpace && replica.takes_part() {
        replica.exclude(replica.slot(), &reason(error)).await;
    }
}

fn reason(error: &Error) -> String {
    format!("it cannot store what others have changed: {error}")
}

/// The failed attempts so far, as the next pause.
#[derive(Debug)]
pub(crate) struct Attempts {
    pause: Duration,
}

impl Attempts {
    pub(crate) fn new() -> Attempts {
        Attempts { pause: FIRST_PAUSE }
    }

    /// Waits, and returns whether to try again after this error: outside the view, if there was no space or the reason may pass. Inside, the replica
    /// soon gives up and leaves.
    pub(crate) async fn again(&mut self, replica: &Arc<LocalReplica>, error: &Error) -> bool {
        let passes = *error == Error::Delay;
        if replica.lease.is_up_to_date() {
            let is_soon = passes && self.pause < PATIENCE;
            if is_soon {
                self.wait().await;
            }
            return is_soon;
        }
        if !passes && *error != Error::NoSpace {
            return false;
        }
        *replica.state.trouble.lock() = Some(reason(error));
        if replica.takes_part() {
            // The others wait for it, though it answers no client.
            replica.exclude(replica.slot(), &reason(error)).await;
        }
        self.wait().await;
        true
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}
