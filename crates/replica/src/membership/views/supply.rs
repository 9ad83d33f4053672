//! Which member is asked for the contents of a copy whose rows are here.
//!
//! It is the first that has a whole copy, once in each session. The supplier may itself wait for data of a file that a lost member was to send, and
//! another one has all of it. So if nothing comes, the next one is asked for what is left, each time after a longer wait: a member that is asked again
//! begins its files anew, and a piece may take long over a slow link. If there is only one it is asked again, as it may not have known some file yet
//! (counterexample 106).
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
/// The longest one.
const PATIENCE_MAX: Duration = Duration::from_secs(120);

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

/// A member that may be asked.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    slot: ReplicaSlot,
    session: u64,
    /// How many pieces of a copy have come from it.
    pieces: u64,
    /// By its last report it has a whole copy.
    is_whole: bool,
}

impl Supply {
    fn begin(candidate: Candidate, patience: Duration) -> Supply {
        Supply {
            from: candidate.slot,
            session: candidate.session,
            pieces: candidate.pieces,
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
    let candidate = |(slot, inbox): &Keeper| Candidate {
        slot: *slot,
        session: inbox.session(),
        pieces: inbox.of_copy.load(Ordering::Relaxed),
        is_whole: replica.state.conversations.held(*slot) == Some(Held::Everything),
    };
    let candidates: Vec<Candidate> = keepers.iter().map(candidate).collect();
    next(&candidates, asked)
}

fn next(candidates: &[Candidate], asked: &mut Option<Supply>) -> Option<ReplicaSlot> {
    let is_whole = |candidate: &&Candidate| candidate.is_whole;
    // Another member may also lack a copy.
    let first = || {
        let whole = candidates.iter().find(is_whole);
        whole.or(candidates.first())
    };
    let known = asked.as_mut().and_then(|supply| {
        let same = |one: &&Candidate| (one.slot, one.session) == (supply.from, supply.session);
        Some((candidates.iter().find(same)?, supply))
    });
    let (next, patience) = match known {
        None => (first()?, PATIENCE),
        Some((present, supply)) => {
            if !supply.is_stuck(present.pieces) {
                return None;
            }
            let mut later = candidates.iter().filter(|one| one.slot > present.slot);
            let next = later.find(is_whole).or_else(first)?;
            (next, (2 * supply.patience).min(PATIENCE_MAX))
        }
    };
    *asked = Some(Supply::begin(*next, patience));
    Some(next.slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(slot: u16, pieces: u64) -> Candidate {
        Candidate {
            slot: ReplicaSlot(slot),
            session: 1,
            pieces,
            is_whole: true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_supplier_from_which_something_comes_is_not_left() {
        let mut asked = None;
        let mut next = |pieces| next(&[candidate(1, pieces), candidate(2, 0)], &mut asked);
        assert_eq!(next(0), Some(ReplicaSlot(1)));
        for pieces in 1..4 {
            tokio::time::advance(PATIENCE).await;
            assert_eq!(next(pieces), None);
        }
        tokio::time::advance(2 * PATIENCE).await;
        assert_eq!(next(3), Some(ReplicaSlot(2)));
    }

    /// The only member in contact did not take the list of wanted files, as it did not know one of them yet, and was never asked again.
    #[tokio::test(start_paused = true)]
    async fn counterexample_106_the_only_supplier_is_asked_again() {
        let (mut asked, only) = (None, [candidate(1, 0)]);
        assert_eq!(next(&only, &mut asked), Some(ReplicaSlot(1)));
        for _ in 0..20 {
            tokio::time::advance(PATIENCE).await;
            assert_eq!(next(&only, &mut asked), None, "too early");
            tokio::time::advance(PATIENCE_MAX).await;
            assert_eq!(next(&only, &mut asked), Some(ReplicaSlot(1)));
        }
    }
}
