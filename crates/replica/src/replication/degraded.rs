//! A replica that cannot store what others have changed (rule 34): it leaves the view, so that nobody waits for it
//! and it answers nobody, and comes back by itself when it can.
//!
//! What must never enter: what else keeps a replica outside.

use std::sync::Arc;
use std::time::Duration;

use vfs::Error;

use crate::driver::local_replica::LocalReplica;

/// Between attempts to store something, doubled each time up to the longer.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// While the others wait for this replica, it goes on trying until a pause would be as long as this.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Leaves the view. What follows is as after a crash: it starts anew outside, and catches up.
pub(crate) async fn degraded(replica: &Arc<LocalReplica>, error: &Error) {
    let reason = reason(error);
    tracing::error!(reason, "this replica leaves the view");
    replica.exclude(replica.slot(), &reason).await;
    replica.lease.leave(&reason);
}

/// Contents could not be stored here. A replica that is up to date leaves, and starts anew. For one in the view that is not the others
/// wait, though it answers nobody: it leaves where it has no space, and stays outside until it has.
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

/// How often something has been tried in vain.
#[derive(Debug)]
pub(crate) struct Attempts {
    pause: Duration,
}

impl Attempts {
    pub(crate) fn new() -> Attempts {
        Attempts { pause: FIRST_PAUSE }
    }

    /// Whether it is to be tried again after this error: outside the view, when there was no space, or something else was
    /// lacking that passes, some time later. Inside, the replica leaves, soon or at once.
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
            // The others wait for it, though it answers nobody.
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
