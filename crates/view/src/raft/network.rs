//! The library's network: requests as bytes, by courier.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

use super::types::{Types, id, slot};
use super::wire::{Answer, Request};
use crate::bytes::{decode, encode};
use crate::courier::{Courier, CourierError};

/// Makes a line to every other replica.
pub(crate) struct Network {
    pub(crate) own: ReplicaSlot,
    pub(crate) courier: Arc<dyn Courier>,
    /// While true, nobody is told that this member leads.
    pub(crate) silent: Arc<AtomicBool>,
}

/// The way to one other replica.
pub(crate) struct Line {
    own: ReplicaSlot,
    to: ReplicaSlot,
    courier: Arc<dyn Courier>,
    silent: Arc<AtomicBool>,
}

type Failure<E> = RPCError<u64, EmptyNode, RaftError<u64, E>>;

/// Asks a replica and waits for its answer, no longer than `limit` even if the courier forgets it.
pub(crate) async fn ask(
    courier: &dyn Courier,
    to: ReplicaSlot,
    request: &Request,
    limit: Duration,
) -> Result<Answer, CourierError> {
    let request = encode(request).map_err(CourierError::Failed)?;
    let answer = tokio::time::timeout(limit, courier.ask(to, request.into(), limit)).await;
    let answer = answer.map_err(|_elapsed| CourierError::TimedOut)??;
    decode(&answer).map_err(CourierError::Failed)
}

impl Line {
    async fn ask<E: std::error::Error>(
        &self,
        request: Request,
        what: RPCTypes,
        option: &RPCOption,
    ) -> Result<Answer, Failure<E>> {
        let limit = option.hard_ttl();
        let answer = ask(&*self.courier, self.to, &request, limit).await;
        answer.map_err(|error| match error {
            CourierError::Unreachable => RPCError::Unreachable(Unreachable::new(&error)),
            CourierError::TimedOut => RPCError::Timeout(Timeout {
                action: what,
                id: id(self.own),
                target: id(self.to),
                timeout: limit,
            }),
            CourierError::Failed(_) => RPCError::Network(NetworkError::new(&error)),
        })
    }
}

/// An answer that does not fit the question.
fn unfit<E: std::error::Error>(answer: Answer) -> Failure<E> {
    let words = match answer {
        Answer::Failed(words) => words,
        _ => "the answer is to another question".to_owned(),
    };
    RPCError::Network(NetworkError::new(&CourierError::Failed(words)))
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Line;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Line {
        Line {
            own: self.own,
            // Slots are 16 bits; nobody has the last one, so nothing is sent for what is no slot.
            to: slot(target).unwrap_or(ReplicaSlot(u16::MAX)),
            courier: Arc::clone(&self.courier),
            silent: Arc::clone(&self.silent),
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
            let error = CourierError::Unreachable;
            return Err(RPCError::Unreachable(Unreachable::new(&error)));
        }
        let request = Request::Append(rpc);
        match self.ask(request, RPCTypes::AppendEntries, &option).await? {
            Answer::Append(answer) => Ok(answer),
            other => Err(unfit(other)),
        }
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failure<InstallSnapshotError>> {
        let request = Request::Snapshot(rpc);
        match self
            .ask(request, RPCTypes::InstallSnapshot, &option)
            .await?
        {
            Answer::Snapshot(Ok(answer)) => Ok(answer),
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
