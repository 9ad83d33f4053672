//! Members agree while some are lost, cut off or restarted; a minority agrees on nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::fixture::{Set, is_temporary, slot, until};
use crate::{Decision, DecisionKind, Outcome};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_made_through_any_member_and_reaches_all() {
    let set = Set::found(3).await;
    let leader = set.leader(1).await;
    let follower = (1..=3).find(|number| *number != leader).unwrap();
    set.admit(follower, follower, 7).await;
    for number in 1..=3 {
        until("all have applied it", || set.state(number).epoch == 2).await;
    }
    assert_eq!(set.state(1), set.state(2));
    assert_eq!(set.state(1), set.state(3));
    let what: Vec<String> = set.state(1).audit.iter().map(|e| e.what.clone()).collect();
    let admitted = format!("admitted replica {follower}, incarnation 7");
    assert_eq!(
        what,
        ["founded the set with replicas 1, 2, 3".to_owned(), admitted]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_lost_the_others_exclude_it_and_it_returns() {
    let mut set = Set::found(3).await;
    let lost = set.leader(1).await;
    set.stop(lost).await;
    let rest: Vec<u16> = (1..=3).filter(|number| *number != lost).collect();
    set.exclude(rest[0], lost).await;
    until("the other one knows", || {
        !set.state(rest[1]).is_active(slot(lost))
    })
    .await;
    assert_eq!(set.state(rest[1]).losses[&slot(lost)].incarnation, 0);
    set.start(lost).await;
    until("the lost one knows", || {
        !set.state(lost).is_active(slot(lost))
    })
    .await;
    set.admit(lost, lost, 9).await;
    assert!(set.state(lost).losses.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_decide_nothing_while_cut_off_and_follow_afterwards() {
    let set = Set::found(5).await;
    // The leader is among those cut off, which is the harder case.
    let leader = set.leader(1).await;
    let other = (1..=5).find(|number| *number != leader).unwrap();
    let few = [leader, other];
    let many: Vec<u16> = (1..=5).filter(|number| !few.contains(number)).collect();
    set.cut(&few, &many, true);
    for number in few {
        let decision = Decision {
            by: slot(number),
            at_unix_s: 1,
            seen_epoch: 1,
            kind: DecisionKind::Exclude {
                slot: slot(many[0]),
                reason: "it does not answer".to_owned(),
            },
        };
        let decided = set.at(number).decide(decision).await;
        assert!(is_temporary(&decided), "{decided:?}");
        assert_eq!(set.state(number).epoch, 1);
    }
    set.exclude(many[0], few[1]).await;
    assert_eq!(set.state(few[0]).epoch, 1);
    set.cut(&few, &many, false);
    for number in 1..=5 {
        until("all know of the exclusion", || {
            !set.state(number).is_active(slot(few[1]))
        })
        .await;
    }
    // What the cut-off leader had tried was judged in an epoch that is over.
    assert!(set.state(1).is_active(slot(many[0])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_heard_by_nobody_does_not_hold_up_the_others() {
    let set = Set::found(3).await;
    set.cut(&[3], &[1, 2], true);
    for incarnation in 1..=5 {
        set.admit(1, 1, incarnation).await;
    }
    assert_eq!(set.state(1).members[&slot(1)].incarnation, 5);
    assert!(set.state(3).members[&slot(1)].incarnation <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_the_state() {
    let mut set = Set::found(3).await;
    set.admit(1, 2, 5).await;
    set.exclude(1, 3).await;
    for number in 1..=3 {
        until("all have applied it", || {
            !set.state(number).is_active(slot(3))
        })
        .await;
    }
    let before = set.state(1);
    for number in 1..=3 {
        set.stop(number).await;
    }
    set.cut(&[1], &[2, 3], true);
    set.cut(&[2], &[3], true);
    for number in 1..=3 {
        set.start(number).await;
        assert_eq!(
            set.state(number),
            before,
            "known before anybody is heard of"
        );
    }
    set.cut(&[1], &[2, 3], false);
    set.cut(&[2], &[3], false);
    set.admit(2, 3, 6).await;
    assert_eq!(set.state(2).epoch, before.epoch + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_says_why_and_changes_nothing() {
    let set = Set::found(3).await;
    let outcome = loop {
        let decision = Decision {
            by: slot(2),
            at_unix_s: 1,
            seen_epoch: 0,
            kind: DecisionKind::Exclude {
                slot: slot(3),
                reason: String::new(),
            },
        };
        match set.at(2).decide(decision).await {
            Ok(outcome) => break outcome,
            failed => assert!(is_temporary(&failed), "{failed:?}"),
        }
    };
    let words = "judged in epoch 0, but the epoch is 1; try again".to_owned();
    assert_eq!(outcome, Outcome::Refused(words));
    assert_eq!(set.state(2).epoch, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_heard_and_hears_nobody_is_excluded() {
    let set = Set::found(3).await;
    let deaf = set.leader(1).await;
    set.deafen(deaf);
    let rest: Vec<u16> = (1..=3).filter(|number| *number != deaf).collect();
    set.exclude(rest[0], deaf).await;
    until("the other one knows", || {
        !set.state(rest[1]).is_active(slot(deaf))
    })
    .await;
    set.cut(&[deaf], &rest, false);
    until("the deaf one knows", || {
        !set.state(deaf).is_active(slot(deaf))
    })
    .await;
}

/// Of what is written at a member, how often a decision's reason stands there.
fn written(set: &Set, number: u16, reason: &str) -> usize {
    let storage = set.storage(number);
    let rows = storage.0.lock().unwrap();
    let stands = |value: &&Vec<u8>| {
        let mut places = value.windows(reason.len());
        places.any(|place| place == reason.as_bytes())
    };
    rows.values().filter(stands).count()
}

/// Two of three take part, and one of them falls silent, while the third is heard and votes. Its exclusion was agreed on, written by all
/// and refused, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exclusion_that_leaves_too_few_is_not_even_written() {
    const REASON: &str = "the second of two";
    for (count, away) in [(3, vec![3]), (5, vec![4, 5])] {
        let set = Set::found(count).await;
        for gone in &away {
            set.exclude(1, *gone).await;
        }
        let leader = set.leader(1).await;
        let through = [1, leader, count];
        let (mut refused, mut asked) = (0, 0);
        while refused < 6 {
            let by = through[asked % 3];
            // Who is outside has no say, and is told so before anything is written as well.
            until("it knows the view", || set.state(by) == set.state(1)).await;
            let epoch = set.state(by).epoch;
            let exclude = Decision {
                by: slot(by),
                at_unix_s: 1,
                seen_epoch: epoch,
                kind: DecisionKind::Exclude {
                    slot: slot(2),
                    reason: REASON.to_owned(),
                },
            };
            let replace = Decision {
                by: slot(by),
                at_unix_s: 1,
                seen_epoch: epoch,
                kind: DecisionKind::Replace {
                    out: BTreeSet::from([slot(2)]),
                    admitted: BTreeMap::new(),
                    reason: REASON.to_owned(),
                },
            };
            for decision in [exclude, replace] {
                match set.at(by).decide(decision).await {
                    Ok(outcome) => {
                        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
                        refused += 1;
                    }
                    failed => assert!(is_temporary(&failed), "{failed:?}"),
                }
            }
            asked += 1;
        }
        for number in 1..=count {
            assert_eq!(written(&set, number, REASON), 0, "at {number} of {count}");
        }
        assert!(set.state(1).is_active(slot(2)));
    }
}
