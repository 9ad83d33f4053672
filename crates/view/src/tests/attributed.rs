//! Who decides is who sent it.

use super::fixture::{Set, slot};
use crate::bytes::{decode, encode};
use crate::decision::Command;
use crate::raft::wire::{Answer, Request};
use crate::{Decision, DecisionKind, Outcome};

/// What a member is told that hands this to the leader.
async fn submitted(set: &Set, leader: u16, from: u16, decision: Decision) -> Outcome {
    let request = encode(&Request::Submit(Command::Decide(decision))).unwrap();
    let answer = set.at(leader).answer(slot(from), request.into()).await;
    match decode(&answer.unwrap()).unwrap() {
        Answer::Submitted(Ok(outcome)) => outcome,
        _ => panic!("it leads, and answers what it was asked"),
    }
}

fn removal(of: u16, by: u16) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 1,
        seen_epoch: 0,
        kind: DecisionKind::Remove { slot: slot(of) },
    }
}

/// A removed server had the removal of another one decided, in the founder's name: a server that
/// had a session could submit anything in anybody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_40_a_decision_in_another_ones_name_is_refused() {
    let set = Set::found(3).await;
    let leader = set.leader(1).await;
    let liar = if leader == 3 { 2 } else { 3 };
    let honest = 6 - leader - liar;
    let before = set.state(leader);
    let refused = submitted(&set, leader, liar, removal(honest, honest)).await;
    let words = "a replica decides in its own name only";
    assert_eq!(refused, Outcome::Refused(words.to_owned()));
    let note = |by: u16| Decision {
        by: slot(by),
        at_unix_s: 1,
        seen_epoch: 0,
        kind: DecisionKind::Note {
            what: "done".to_owned(),
        },
    };
    let refused = submitted(&set, leader, liar, note(honest)).await;
    assert_eq!(refused, Outcome::Refused(words.to_owned()));
    assert_eq!(set.state(leader), before);
    let noted = submitted(&set, leader, liar, note(liar)).await;
    assert_eq!(noted, Outcome::Applied);
}
