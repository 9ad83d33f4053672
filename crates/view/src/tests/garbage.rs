//! Bytes of a peer or a disk that are no message: refused, never a panic.

use std::time::SystemTime;

use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, InstallSnapshotRequest, VoteRequest};
use proptest::prelude::*;

use super::fixture::slot;
use crate::bytes::{decode, encode};
use crate::decision::Command;
use crate::raft::credible::Limit;
use crate::raft::types::{Entry, LogId, Membership, SnapshotMeta, Stored, Vote};
use crate::raft::wire::{Answer, Request};
use crate::{Decision, DecisionKind, Kind, MESSAGE_BYTES_MAX, ViewState};

fn now() -> Limit {
    Limit::at(SystemTime::now())
}

fn log_id(index: u64) -> LogId {
    LogId::new(Vote::new_committed(3, 1).leader_id, index)
}

fn command() -> Command {
    Command::Decide(Decision {
        by: slot(1),
        at_unix_s: 5,
        seen_epoch: 4,
        kind: DecisionKind::Exclude {
            slot: slot(2),
            reason: "silent".to_owned(),
        },
    })
}

fn append(indices: &[u64]) -> Request {
    let entry = |index: &u64| Entry {
        log_id: log_id(*index),
        payload: EntryPayload::Normal(command()),
    };
    Request::Append(AppendEntriesRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(log_id(6)),
        entries: indices.iter().map(entry).collect(),
        leader_commit: None,
    })
}

fn part(offset: u64) -> Request {
    let membership = Membership::new(vec![[1, 2].into()], ());
    Request::Snapshot(InstallSnapshotRequest {
        vote: Vote::new_committed(3, 1),
        meta: SnapshotMeta {
            last_log_id: Some(log_id(6)),
            last_membership: Stored::new(Some(log_id(1)), membership),
            snapshot_id: "6".to_owned(),
        },
        offset,
        data: vec![7; 100],
        done: true,
    })
}

fn requests() -> Vec<Request> {
    let vote = VoteRequest::new(Vote::new(9, 1), Some(log_id(6)));
    vec![
        append(&[7, 8]),
        Request::Vote(vote),
        part(0),
        Request::Submit(command()),
    ]
}

#[test]
fn every_request_comes_back_as_it_was() {
    for request in requests() {
        let bytes = encode(&request).unwrap();
        let again = Request::decode(slot(1), &bytes, now()).unwrap();
        assert_eq!(encode(&again).unwrap(), bytes);
    }
}

#[test]
fn requests_that_no_correct_replica_makes_are_refused() {
    let refused = |from: u16, request: &Request| {
        let bytes = encode(request).unwrap();
        Request::decode(slot(from), &bytes, now()).err().unwrap()
    };
    let another = "a replica speaks for another one";
    assert_eq!(refused(2, &append(&[7])), another);
    assert_eq!(refused(2, &part(0)), another);
    let gap = "entries do not follow each other";
    assert_eq!(refused(1, &append(&[8])), gap);
    assert_eq!(refused(1, &append(&[7, 7])), gap);
    assert_eq!(refused(1, &part(1 << 40)), "a snapshot is too long");
    assert_eq!(refused(1, &part(u64::MAX)), "a snapshot is too long");
    let candidate = |vote, last| Request::Vote(VoteRequest::new(vote, last));
    let elected = candidate(Vote::new_committed(9, 1), None);
    let says_so = "a candidate says that it is elected";
    assert_eq!(refused(1, &elected), says_so);
    let ahead = candidate(Vote::new(2, 1), Some(log_id(6)));
    let later = "an entry is of a later term than the one who speaks of it";
    assert_eq!(refused(1, &ahead), later);
    let Request::Append(mut unelected) = append(&[7]) else {
        unreachable!("it is made as one");
    };
    unelected.vote = Vote::new(3, 1);
    let words = "it leads without having been elected";
    assert_eq!(refused(1, &Request::Append(unelected)), words);
    let long = vec![1; MESSAGE_BYTES_MAX + 1];
    assert!(Request::decode(slot(1), &long, now()).is_err());
}

#[test]
fn another_format_and_bytes_left_over_are_refused() {
    let mut bytes = encode(&Kind::Data).unwrap();
    bytes.push(0);
    assert_eq!(
        decode::<Kind>(&bytes),
        Err("bytes are left over".to_owned())
    );
    bytes.pop();
    bytes[0] = 1;
    let words = "format 1 is not known here".to_owned();
    assert_eq!(decode::<Kind>(&bytes), Err(words));
    assert_eq!(decode::<Kind>(&[]), Err("no bytes".to_owned()));
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = bytes;
        if let Some(format) = bytes.first_mut() {
            *format = encode(&()).unwrap()[0];
        }
        let _ = Request::decode(slot(1), &bytes, now());
        let _ = decode::<Answer>(&bytes);
        let _ = decode::<Entry>(&bytes);
        let _ = decode::<ViewState>(&bytes);
    }

    #[test]
    fn no_damaged_request_makes_a_decoder_panic(
        which in 0..4_usize, at in any::<prop::sample::Index>(), value in any::<u8>(), end in any::<prop::sample::Index>()
    ) {
        let mut bytes = encode(&requests()[which]).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = Request::decode(slot(1), &bytes, now());
        let end = end.index(bytes.len());
        let _ = Request::decode(slot(1), &bytes[..end], now());
    }
}
