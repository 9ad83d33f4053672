//! The library's network: requests as bytes over a transport.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Timeout, Unreachable,
};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, RPCTypes, RaftNetwork, RaftNetworkFactory};
use vfs::ReplicaSlot;

use super::credible::{Limit, check_answer, check_appended};
use super::types::{LogId, Types, Vote, id, slot};
use super::wire::{Answer, Request};
use crate::bytes::{decode, encode};
use crate::transport::{Transport, TransportError};

/// Makes the connections to all other replicas.
pub(crate) struct Network {
    pub(crate) own: ReplicaSlot,
    pub(crate) transport: Arc<dyn Transport>,
    /// While true, this member tells no other member that it leads.
    pub(crate) silent: Arc<AtomicBool>,
    /// The acknowledgements of each follower.
    pub(crate) matched: Arc<Matched>,
}

/// How far each follower has acknowledged the log to this leader in its current term.
#[derive(Default)]
pub(crate) struct Matched(Mutex<BTreeMap<ReplicaSlot, (Vote, LogId)>>);

impl Matched {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, (Vote, LogId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, follower: ReplicaSlot, vote: &Vote) -> Option<LogId> {
        let kept = self.kept();
        let (of, upto) = kept.get(&follower)?;
        (of == vote).then_some(*upto)
    }

    fn note(&self, follower: ReplicaSlot, vote: Vote, upto: Option<LogId>) {
        let Some(upto) = upto.max(self.of(follower, &vote)) else {
            return;
        };
        self.kept().insert(follower, (vote, upto));
    }
}

/// The connection to one other replica.
pub(crate) struct Line {
    own: ReplicaSlot,
    to: ReplicaSlot,
    transport: Arc<dyn Transport>,
    silent: Arc<AtomicBool>,
    matched: Arc<Matched>,
}

type Failure<E> = RPCError<u64, EmptyNode, RaftError<u64, E>>;

/// Sends a request to a replica and waits for its answer, at most for `limit`, even if the transport never returns.
pub(crate) async fn ask(
    transport: &dyn Transport,
    to: ReplicaSlot,
    request: &Request,
    limit: Duration,
) -> Result<Answer, TransportError> {
    let request = encode(request).map_err(TransportError::Failed)?;
    let answer = tokio::time::timeout(limit, transport.ask(to, request.into(), limit)).await;
    let answer = answer.map_err(|_elapsed| TransportError::TimedOut)??;
    let answer: Answer = decode(&answer).map_err(TransportError::Failed)?;
    let limit = Limit::at(SystemTime::now());
    check_answer(&answer, limit).map_err(TransportError::Failed)?;
    Ok(answer)
}

impl Line {
    async fn ask<E: std::error::Error>(
        &self,
        request: Request,
        what: RPCTypes,
        option: &RPCOption,
    ) -> Result<Answer, Failure<E>> {
        let limit = option.hard_ttl();
        let answer = ask(&*self.transport, self.to, &request, limit).await;
        answer.map_err(|error| match error {
            TransportError::Unreachable => RPCError::Unreachable(Unreachable::new(&error)),
            TransportError::TimedOut => RPCError::Timeout(Timeout {
                action: what,
                id: id(self.own),
                target: id(self.to),
                timeout: limit,
            }),
            TransportError::Failed(_) => RPCError::Network(NetworkError::new(&error)),
        })
    }
}

/// An answer that does not match the request.
fn unfit<E: std::error::Error>(answer: Answer) -> Failure<E> {
    let words = match answer {
        Answer::Failed(words) => words,
        _ => "the answer is to another question".to_owned(),
    };
    RPCError::Network(NetworkError::new(&TransportError::Failed(words)))
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Line;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Line {
        Line {
            own: self.own,
            // Slots have 16 bits, and no replica has the last one. So nothing is sent for an invalid slot.
            to: slot(target).unwrap_or(ReplicaSlot(u16::MAX)),
            transport: Arc::clone(&self.transport),
            silent: Arc::clone(&self.silent),
            matched: Arc::clone(&self.matched),
        }
    }
}

impl RaftNetwork<Types> for Line {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, EmptyNode, RaftError<u64>>> {
        if self.silent.load(Ordering::Acquire) {
            let error = TransportError::Unreachable;
            return Err(RPCError::Unreachable(Unreachable::new(&error)));
        }
        let (vote, previous) = (rpc.vote, rpc.prev_log_id);
        let last = rpc.entries.last().map(|entry| entry.log_id).or(previous);
        let request = Request::Append(rpc);
        let answer = match self.ask(request, RPCTypes::AppendEntries, &option).await? {
            Answer::Append(answer) => answer,
            other => return Err(unfit(other)),
        };
        let matched = self.matched.of(self.to, &vote);
        if let Err(words) = check_appended(&answer, (previous, last), matched) {
            return Err(unfit(Answer::Failed(words)));
        }
        match &answer {
            AppendEntriesResponse::Success => self.matched.note(self.to, vote, last),
            AppendEntriesResponse::PartialSuccess(upto) => self.matched.note(self.to, vote, *upto),
            AppendEntriesResponse::Conflict | AppendEntriesResponse::HigherVote(_) => {}
        }
        Ok(answer)
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failure<InstallSnapshotError>> {
        let (vote, whole) = (rpc.vote, rpc.meta.last_log_id.filter(|_| rpc.done));
        let request = Request::Snapshot(rpc);
        match self
            .ask(request, RPCTypes::InstallSnapshot, &option)
            .await?
        {
            Answer::Snapshot(Ok(answer)) => {
                if answer.vote <= vote {
                    self.matched.note(self.to, vote, whole);
                }
                Ok(answer)
            }
            Answer::Snapshot(Err(error)) => {
                let error = RemoteError::new(id(self.to), RaftError::APIError(error));
                Err(RPCError::RemoteError(error))
            }
            other => Err(unfit(other)),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, EmptyNode, RaftError<u64>>> {
        let request = Request::Vote(rpc);
        match self.ask(request, RPCTypes::Vote, &option).await? {
            Answer::Vote(answer) => Ok(answer),
            other => Err(unfit(other)),
        }
    }
}
