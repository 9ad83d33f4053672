//! Which member is asked for the contents of a copy whose rows are here.
//!
//! It is the first that has a whole copy, once in each session. The supplier may itself wait for data of a file that a lost member was to send, and
//! another one has all of it. So if nothing comes, the next one is asked for what is left, each time after a longer wait: a member that is asked again
//! begins its files anew, and a piece may take long over a slow link.
//!
//! What must never enter: whether a copy is needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::arrivals::Inbox;
use crate::state::copies::Held;

/// The first such wait.
const PATIENCE: Duration = Duration::from_secs(15);

/// A member that was asked, in one session.
#[derive(Debug)]
pub(super) struct Supply {
    from: ReplicaSlot,
    session: u64,
    /// How many pieces of a copy had come from it at the last look, and since when no more.
    pieces: u64,
    since: Instant,
    patience: Duration,
}

type Keeper = (ReplicaSlot, Arc<Inbox>);

impl Supply {
    fn begin((slot, inbox): &Keeper, patience: Duration) -> Supply {
        Supply {
            from: *slot,
            session: inbox.session(),
            pieces: inbox.of_copy.load(Ordering::Relaxed),
            since: Instant::now(),
            patience,
        }
    }

    /// Whether nothing has come for too long, when this many pieces have come in all.
    fn is_stuck(&mut self, pieces: u64) -> bool {
        if pieces != self.pieces {
            (self.pieces, self.since) = (pieces, Instant::now());
        }
        self.since.elapsed() > self.patience
    }
}

/// The one of these members that is to be asked now, if any.
pub(super) fn next_supplier(
    replica: &LocalReplica,
    keepers: &[Keeper],
    asked: &mut Option<Supply>,
) -> Option<ReplicaSlot> {
    let is_whole =
        |keeper: &&Keeper| replica.state.conversations.held(keeper.0) == Some(Held::Everything);
    // Another member may also lack a copy.
    let first = || keepers.iter().find(is_whole).or(keepers.first());
    let known = asked.as_mut().and_then(|supply| {
        let same =
            |(slot, inbox): &&Keeper| (*slot, inbox.session()) == (supply.from, supply.session);
        Some((keepers.iter().find(same)?, supply))
    });
    let (next, patience) = match known {
        None => (first()?, PATIENCE),
        Some((keeper, supply)) => {
            if !supply.is_stuck(keeper.1.of_copy.load(Ordering::Relaxed)) {
                return None;
            }
            let mut later = keepers.iter().filter(|(slot, _)| *slot > keeper.0);
            let next = later.find(is_whole).or_else(first)?;
            (supply.since, supply.patience) = (Instant::now(), 2 * supply.patience);
            if next.0 == keeper.0 {
                return None;
            }
            (next, supply.patience)
        }
    };
    *asked = Some(Supply::begin(next, patience));
    Some(next.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_supplier_from_which_something_comes_is_not_left() {
        let mut supply = Supply {
            from: ReplicaSlot(1),
            session: 1,
            pieces: 0,
            since: Instant::now(),
            patience: PATIENCE,
        };
        for pieces in 1..4 {
            tokio::time::advance(PATIENCE).await;
            assert!(!supply.is_stuck(pieces));
        }
        tokio::time::advance(PATIENCE).await;
        assert!(!supply.is_stuck(3));
        tokio::time::advance(PATIENCE).await;
        assert!(supply.is_stuck(3));
    }
}
