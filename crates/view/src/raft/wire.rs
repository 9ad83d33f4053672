//! Requests and answers between the replicas of a set, about views.
//!
//! What must never enter: the transport, and the library's errors, which are answered as text. The order of variants is
//! the format: new ones are added at the end.

use std::fmt;

use openraft::error::InstallSnapshotError;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use super::credible::{Limit, check_request};
use super::types::{Types, id};
use crate::bytes::decode;
use crate::decision::{Command, Outcome};
use crate::transport::MESSAGE_BYTES_MAX;

#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<u64>),
    Snapshot(InstallSnapshotRequest<Types>),
    /// To the leader: an entry for the log.
    Submit(Command),
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Answer {
    Append(AppendEntriesResponse<u64>),
    Vote(VoteResponse<u64>),
    Snapshot(Result<InstallSnapshotResponse<u64>, InstallSnapshotError>),
    Submitted(Result<Outcome, Denial>),
    /// The Raft library of the answering member is stopped or failed.
    Failed(String),
}

/// Why a member that was asked as leader did not decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Denial {
    NotLeader,
    OutcomeUnknown,
    NewcomerUnreachable(ReplicaSlot),
    Stopped(String),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::NotLeader => f.write_str("another replica leads"),
            Denial::OutcomeUnknown => f.write_str("nobody knows yet whether it was agreed"),
            Denial::NewcomerUnreachable(ReplicaSlot(slot)) => {
                write!(f, "replica {slot} cannot be reached")
            }
            Denial::Stopped(why) => write!(f, "agreement has stopped: {why}"),
        }
    }
}

impl Request {
    /// Decodes a request of `from`. Refuses requests that no correct replica sends.
    pub(crate) fn decode(from: ReplicaSlot, bytes: &[u8], limit: Limit) -> Result<Request, String> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(format!("{} bytes", bytes.len()));
        }
        let request: Request = decode(bytes)?;
        let leader = match &request {
            Request::Append(append) => Some(append.vote.leader_id),
            Request::Vote(vote) => Some(vote.vote.leader_id),
            Request::Snapshot(part) => Some(part.vote.leader_id),
            Request::Submit(_) => None,
        };
        if leader.is_some_and(|leader| leader.node_id != id(from)) {
            return Err("a replica speaks for another one".to_owned());
        }
        check_request(&request, limit)?;
        Ok(request)
    }
}
