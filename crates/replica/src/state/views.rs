//! What is known of taking part: recent reports of the others, what newly admitted replicas lack, and what this replica waits for.
//!
//! What must never enter: what follows from it (`membership::views`).

use std::collections::BTreeSet;

use control::{ClockDifferences, Moment};
use tokio::time::Instant;
use vfs::{ObjectId, ReplicaSlot};

use crate::state::wire::LeaseRequest;

/// What is known of a peer lately.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// When it last answered a request.
    pub(crate) heard: Instant,
    /// Its last report about itself, and when that came.
    pub(crate) said: Option<(LeaseRequest, Instant)>,
    /// How far its time of day differs from the local one.
    pub(crate) clock: ClockDifferences,
    /// Which of its contents the other members have.
    pub(crate) shipped: Option<ShippedThere>,
}

impl News {
    pub(crate) fn new() -> News {
        News {
            heard: Instant::now(),
            said: None,
            clock: ClockDifferences::default(),
            shipped: None,
        }
    }
}

/// The members of a view, but those that did not answer a member, have the contents that it had changed before a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShippedThere {
    pub(crate) epoch: u64,
    /// On the lease clock of the replica that asked.
    pub(crate) before: Moment,
    pub(crate) without: Vec<u16>,
}

/// Which members would have to leave the view so that this replica could be admitted to it.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) epoch: u64,
    pub(crate) without: BTreeSet<ReplicaSlot>,
}

/// What this replica owes a newly admitted one.
#[derive(Debug)]
pub(crate) struct Debt {
    /// The view to which the newcomer was admitted.
    pub(crate) epoch: u64,
    pub(crate) through: u64,
    /// Files of which the newcomer lacked something then that it has not got since. Later changes are not owed.
    pub(crate) files: BTreeSet<ObjectId>,
}

/// What this replica, newly admitted, has heard from the others.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) epoch: u64,
    /// The last places of their streams that were made without regard to this replica.
    pub(crate) exempt: Vec<(ReplicaSlot, u64)>,
    pub(crate) caught_up: BTreeSet<ReplicaSlot>,
}

/// Since when too few other replicas have been heard, counting each until it was last heard; never before `began`. `None`: none is needed.
pub(crate) fn alone_since(
    mut heard: Vec<Instant>,
    needed: usize,
    began: Instant,
) -> Option<Instant> {
    heard.sort_unstable_by(|one, other| other.cmp(one));
    let last = heard.get(needed.checked_sub(1)?).copied();
    Some(last.map_or(began, |last| last.max(began)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_majority_is_in_contact_until_the_last_one_that_it_needs_was_heard() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let heard = vec![after(9), after(2), after(5), after(1)];
        let since = |needed| alone_since(heard.clone(), needed, began);
        assert_eq!(since(0), None, "it is a majority by itself");
        assert_eq!((since(1), since(2)), (Some(after(9)), Some(after(5))));
        assert_eq!(since(4), Some(after(1)));
        assert_eq!(since(5), Some(began), "one was never heard");
        assert_eq!(alone_since(vec![began], 1, after(3)), Some(after(3)));
    }
}
