//! A member whose storage fails, and words that nobody may send.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fixture::{Set, slot, until};
use crate::bytes::{decode, encode};
use crate::decision::Command;
use crate::raft::wire::{Answer, Request};
use crate::{Decision, DecisionKind, Outcome};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_ledger_fails_says_so_and_leads_no_longer() {
    let set = Set::found(3).await;
    let broken = set.leader(1).await;
    set.storage(broken).1.store(true, Ordering::Relaxed);
    // The next entry is not written; the caller gets an error, and the member notices.
    let at = set.at(broken);
    let asked = at.decide(Decision {
        by: slot(broken),
        at_unix_s: 2,
        seen_epoch: 1,
        kind: DecisionKind::Admit {
            slot: slot(broken),
            incarnation: 4,
        },
    });
    let (decided, ended) = tokio::join!(asked, async {
        tokio::time::timeout(Duration::from_secs(60), at.ended()).await
    });
    // Another member may have come to lead meanwhile, and decided it.
    drop(decided);
    let why = ended.expect("it notices that it cannot go on");
    assert!(why.contains("the disk has failed"), "{why}");
    assert_eq!(at.leader(), None);
    let other = (1..=3).find(|number| *number != broken).unwrap();
    until("another member leads", || {
        let leader = set.at(other).leader();
        leader.is_some_and(|leader| leader != slot(broken))
    })
    .await;
    set.admit(other, other, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_recovers_a_set_by_a_message() {
    let set = Set::found(1).await;
    set.leader(1).await;
    let decision = Decision {
        by: slot(2),
        at_unix_s: 9,
        seen_epoch: 0,
        kind: DecisionKind::Recover {
            survivors: [slot(1)].into(),
        },
    };
    let request = Request::Submit(Command::Decide(decision));
    let request = encode(&request).unwrap();
    let answer = set.at(1).answer(slot(2), request.into()).await.unwrap();
    let Answer::Submitted(Ok(Outcome::Refused(why))) = decode(&answer).unwrap() else {
        panic!("it was not refused");
    };
    assert_eq!(why, "that is decided while the server stands still");
    assert_eq!(set.state(1).epoch, 1);
}
