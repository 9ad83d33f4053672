//! Members come and go while the others decide.

use std::collections::BTreeSet;
use std::time::Duration;

use super::fixture::{Set, is_temporary, slot, until};
use crate::bytes::decode;
use crate::raft::types::{Entry, SNAPSHOT_EVERY};
use crate::{
    Decision, DecisionKind, Kind, Outcome, SettledBy, Settlement, StableStorage, ViewError,
};

fn configuration(number: u16, at: u16) -> Decision {
    Decision {
        by: slot(at),
        at_unix_s: 1,
        seen_epoch: 0,
        kind: DecisionKind::Configure {
            slot: slot(number),
            kind: Kind::Data,
        },
    }
}

impl Set {
    async fn configure(&self, at: u16, number: u16) {
        self.decide(
            at,
            |_| configuration(number, at),
            |state| state.members.contains_key(&slot(number)),
        )
        .await;
    }

    async fn remove(&self, at: u16, number: u16) {
        let decision = |_| Decision {
            by: slot(at),
            at_unix_s: 1,
            seen_epoch: 0,
            kind: DecisionKind::Remove { slot: slot(number) },
        };
        self.decide(at, decision, |state| {
            !state.members.contains_key(&slot(number))
        })
        .await;
    }

    /// Has all controls of a lost member end.
    async fn settle(&self, at: u16, number: u16) {
        let settlement = || Settlement {
            through: 0,
            incarnation_below: 9,
            names: None,
            by: SettledBy::Takeover,
            at_unix_s: 1,
            id: 0,
        };
        let decision = |seen_epoch| Decision {
            by: slot(at),
            at_unix_s: 1,
            seen_epoch,
            kind: DecisionKind::Settle {
                slot: slot(number),
                settlement: settlement(),
            },
        };
        self.decide(at, decision, |state| state.is_settled(slot(number)))
            .await;
    }

    /// Waits until the members that vote at `at` are these.
    async fn voters(&self, at: u16, numbers: &[u16]) {
        let wanted: BTreeSet<u64> = numbers.iter().copied().map(u64::from).collect();
        until("those vote", || self.at(at).voters() == [wanted.clone()]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_added_while_running_and_votes_once_it_is_active() {
    let mut set = Set::found(1).await;
    for number in [2, 3] {
        set.start(number).await;
        set.configure(1, number).await;
        until("the newcomer knows the set", || {
            set.state(number).members.contains_key(&slot(number))
        })
        .await;
        assert!(!set.state(number).is_active(slot(number)));
        let before: Vec<u16> = (1..number).collect();
        set.voters(1, &before).await;
        set.admit(1, number, 1).await;
        let after: Vec<u16> = (1..=number).collect();
        set.voters(number, &after).await;
    }
    // The founder is not needed any more.
    set.stop(1).await;
    set.exclude(2, 1).await;
    until("the third knows", || !set.state(3).is_active(slot(1))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_never_there_is_not_configured() {
    let set = Set::found(1).await;
    let refused = loop {
        let decided = set.at(1).decide(configuration(2, 1)).await;
        if !is_temporary(&decided) {
            break decided;
        }
    };
    assert_eq!(refused, Err(ViewError::NewcomerUnreachable(slot(2))));
    assert_eq!(set.state(1).epoch, 1);
    until("nothing is sent to it any more", || {
        set.at(1).listeners().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_that_dies_can_be_removed_by_the_founder_alone() {
    let mut set = Set::found(1).await;
    set.start(2).await;
    set.configure(1, 2).await;
    set.stop(2).await;
    set.remove(1, 2).await;
    until("it is forgotten", || set.at(1).listeners().is_empty()).await;
    let again = set.at(1).decide(configuration(2, 1)).await;
    let words = "slot 2 cannot be used".to_owned();
    assert_eq!(again, Ok(Outcome::Refused(words)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_member_votes_no_longer_even_if_it_led() {
    let set = Set::found(3).await;
    let leader = set.leader(1).await;
    let rest: Vec<u16> = (1..=3).filter(|number| *number != leader).collect();
    set.exclude(rest[0], leader).await;
    set.settle(rest[0], leader).await;
    set.remove(rest[0], leader).await;
    set.voters(rest[0], &rest).await;
    set.voters(rest[1], &rest).await;
    set.stop(leader).await;
    set.admit(rest[1], rest[1], 3).await;
    let state = set.state(rest[1]);
    assert!(state.is_gone(slot(leader)) && state.losses.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_member_begins_with_a_snapshot_and_the_log_stays_short() {
    let mut set = Set::found(1).await;
    for incarnation in 1..=3 * SNAPSHOT_EVERY {
        set.admit(1, 1, incarnation).await;
    }
    let kept = || -> Vec<Entry> {
        let storage = set.storage(1);
        let rows = storage.0.lock().unwrap();
        let rows = rows.range(b"l".to_vec()..b"m".to_vec());
        rows.map(|(_, row)| decode(row).unwrap()).collect()
    };
    until("old entries are dropped", || kept().len() <= 500).await;
    assert!(kept()[0].log_id.index > 0, "the log was never cut");
    set.start(2).await;
    set.configure(1, 2).await;
    until("the newcomer has the state", || {
        *set.state(2) == *set.state(1)
    })
    .await;
    let snapshot = set.storage(2).read(b"s", b"t").await.unwrap();
    assert_eq!(snapshot.len(), 1, "it came as a snapshot");
    // It outlives a restart of the newcomer.
    let state = set.state(2);
    set.stop(2).await;
    set.cut(&[1], &[2], true);
    set.start(2).await;
    assert_eq!(*set.state(2), *state);
}

/// Counterexamples 40 and 48: a server that could reach the leader had members taken out of the
/// configuration, and in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_configuration_that_the_authority_does_not_back_is_refused_wherever_it_is_submitted()
 {
    let mut set = Set::found(3).await;
    set.start(4).await;
    (2..=4).for_each(|number| set.refuse(number));
    for at in 1..=3 {
        let removal = Decision {
            by: slot(at),
            at_unix_s: 1,
            seen_epoch: 0,
            kind: DecisionKind::Remove { slot: slot(2) },
        };
        for decision in [removal, configuration(4, at)] {
            loop {
                let outcome = set.at(at).decide(decision.clone()).await;
                if is_temporary(&outcome) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                let refused = Ok(Outcome::Refused("nobody has signed that".to_owned()));
                assert_eq!(outcome, refused, "at {at}: {decision:?}");
                break;
            }
        }
    }
    let state = set.state(1);
    assert_eq!(state.members.len(), 3);
    assert_eq!(state.epoch, 1);
}
