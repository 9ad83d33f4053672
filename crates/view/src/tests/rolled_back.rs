//! A member that is started on an older copy of its storage.

use crate::{Decision, DecisionKind};

use super::fixture::{Set, slot, until};

/// The first of three led, decided, and was put back from a copy taken before; the others had noticed nothing. It went on as
/// leader of the same term, from its shorter log: the library takes up a leadership that it finds stored. It wrote
/// a new decision under the number of one that the others had, they took it for theirs and acknowledged it, and two
/// histories carried the same numbers of views.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_put_back_gives_no_entry_the_name_of_another() {
    let mut set = Set::found(3).await;
    let leader = set.leader(1).await;
    let others: Vec<u16> = (1..=3).filter(|number| *number != leader).collect();
    let (one, other) = (others[0], others[1]);
    let copy = set.storage(leader).0.lock().unwrap().clone();
    set.exclude(leader, one).await;
    for member in [one, other] {
        let knows = || !set.state(member).is_active(slot(one));
        until("all know who is excluded", knows).await;
    }
    set.stop(leader).await;
    *set.storage(leader).0.lock().unwrap() = copy;
    set.start(leader).await;
    // It still believes that nobody is excluded, and asks for something else while it may.
    for _ in 0..20 {
        let seen_epoch = set.state(leader).epoch;
        let decision = Decision {
            by: slot(leader),
            at_unix_s: 2,
            seen_epoch,
            kind: DecisionKind::Exclude {
                slot: slot(other),
                reason: "it does not answer".to_owned(),
            },
        };
        let _ = set.at(leader).decide(decision).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // One more decision, which everybody hears of.
    set.admit(other, one, 2).await;
    let epoch = set.state(other).epoch;
    for member in [leader, one, other] {
        until("all have heard", || set.state(member).epoch >= epoch).await;
    }
    let history = |member| set.state(member).audit.clone();
    for member in [leader, one] {
        assert_eq!(history(member), history(other), "at member {member}");
    }
}

/// A former leader is elected again after its restart, if no other member was; the set decides as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_started_anew_is_elected() {
    let mut set = Set::found(3).await;
    let leader = set.leader(1).await;
    set.stop(leader).await;
    set.start(leader).await;
    let other = if leader == 1 { 2 } else { 1 };
    set.admit(leader, other, 7).await;
    let knows = || set.state(other).members[&slot(other)].incarnation == 7;
    until("the other one knows", knows).await;
}
