//! A member that says to the others what stops the Raft library for ever, if it is believed.

use std::time::{SystemTime, UNIX_EPOCH};

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};

use super::fixture::{Set, slot};
use crate::bytes::{decode, encode};
use crate::raft::types::{LogId, SnapshotMeta, Vote};
use crate::raft::wire::{Answer, Request};
use crate::{ViewError, ViewState};

/// An entry by the hostile member, in a term that the set has not reached, which is credible all the same.
fn entry(index: u64) -> LogId {
    LogId::new(Vote::new_committed(1000, 3).leader_id, index)
}

fn append(vote: Vote, leader_commit: Option<LogId>) -> Request {
    Request::Append(AppendEntriesRequest {
        vote,
        prev_log_id: None,
        entries: Vec::new(),
        leader_commit,
    })
}

fn snapshot(last: LogId, data: Vec<u8>) -> Request {
    Request::Snapshot(InstallSnapshotRequest {
        vote: Vote::new_committed(1000, 3),
        meta: SnapshotMeta {
            last_log_id: Some(last),
            snapshot_id: "invented".to_owned(),
            ..SnapshotMeta::default()
        },
        offset: 0,
        data,
        done: true,
    })
}

/// What member 3 says to another one, and what that answers.
async fn say(set: &Set, to: u16, request: &Request) -> Result<Answer, ViewError> {
    let request = encode(request).unwrap();
    let answer = set.at(to).answer(slot(3), request.into()).await?;
    Ok(decode(&answer).unwrap())
}

/// The members elect and decide, as they run now and after all of them have restarted.
async fn elects(set: &mut Set, members: &[u16]) {
    let leader = set.leader(members[0]).await;
    set.stop(leader).await;
    set.start(leader).await;
    set.leader(members[0]).await;
    set.admit(members[0], members[1], 5).await;
    for member in members {
        set.stop(*member).await;
    }
    for member in members {
        set.start(*member).await;
    }
    set.leader(members[0]).await;
    set.admit(members[0], members[1], 6).await;
}

/// A member was told of term `u64::MAX`, stored it, and counted on from there: the library stopped in every process that was started on
/// that directory, and no view was agreed any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_stores_a_term_or_an_entry_after_which_there_is_none() {
    let mut set = Set::found(3).await;
    set.stop(3).await;
    let state = encode(&ViewState::default()).unwrap();
    let last = Some(entry(u64::MAX));
    let absurd = [
        Request::Vote(VoteRequest::new(Vote::new(u64::MAX, 3), Some(entry(1)))),
        Request::Vote(VoteRequest::new(Vote::new(u64::MAX - 1, 3), Some(entry(1)))),
        Request::Vote(VoteRequest::new(Vote::new(1000, 3), last)),
        append(Vote::new_committed(u64::MAX, 3), None),
        append(Vote::new_committed(1000, 3), last),
        snapshot(entry(u64::MAX), state),
    ];
    for request in &absurd {
        for member in [1, 2] {
            let answer = say(&set, member, request).await;
            assert!(matches!(answer, Err(ViewError::Message(_))), "it is taken");
        }
    }
    elects(&mut set, &[1, 2]).await;
}

/// A bound that stands still is reached with one message, and then no member may stand for election.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_greatest_term_that_is_believed_is_not_the_last() {
    let mut set = Set::found(3).await;
    set.stop(3).await;
    for member in [1, 2] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let term = u64::try_from(now.as_millis()).unwrap();
        let answer = say(&set, member, &append(Vote::new_committed(term, 3), None)).await;
        let Ok(Answer::Append(AppendEntriesResponse::Success)) = answer else {
            panic!("it is not taken");
        };
    }
    elects(&mut set, &[1, 2]).await;
}

/// The library cuts its log before it installs a snapshot, and stops when that cannot be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_no_state_is_not_installed() {
    let mut set = Set::found(3).await;
    set.stop(3).await;
    for member in [1, 2] {
        let answer = say(&set, member, &snapshot(entry(500), b"no state".to_vec())).await;
        assert!(matches!(answer, Ok(Answer::Failed(_))), "it is installed");
    }
    elects(&mut set, &[1, 2]).await;
}

/// What is answered is stored as well: the vote of a member that knows a later one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_believed_no_more_than_requests() {
    let liars: [fn(&Request) -> Option<Answer>; 2] = [
        |asked| {
            let vote = Vote::new(u64::MAX, 3);
            let last = Some(entry(u64::MAX));
            match asked {
                Request::Append(_) => Some(Answer::Append(AppendEntriesResponse::HigherVote(vote))),
                Request::Vote(_) => Some(Answer::Vote(VoteResponse::new(vote, last, false))),
                Request::Snapshot(_) => {
                    Some(Answer::Snapshot(Ok(InstallSnapshotResponse { vote })))
                }
                _ => None,
            }
        },
        |asked| match asked {
            Request::Append(append) if append.entries.is_empty() => {
                Some(Answer::Append(AppendEntriesResponse::Conflict))
            }
            Request::Append(_) => {
                let upto = Some(entry(u64::MAX));
                Some(Answer::Append(AppendEntriesResponse::PartialSuccess(upto)))
            }
            _ => None,
        },
    ];
    for lie in liars {
        let mut set = Set::found(3).await;
        set.stop(3).await;
        set.lie(3, lie);
        elects(&mut set, &[1, 2]).await;
    }
}
