//! What this crate gives the crate `view`: connections to the others, and a place in the store.
//!
//! Only bytes pass here; `view` knows their meaning.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use peer::{Lane, Message, Refusal, RequestError, Sender};
use store::Store;
use tokio::time::Instant;
use vfs::ReplicaSlot;
use view::{
    Change, Decision, StableStorage, StableStorageError, Transport, TransportError, Warrant,
};

use super::configuring;
use crate::driver::local_replica::LocalReplica;
use crate::state::lineage::Lineage;
use crate::state::wire::{self, Malformed};

/// The store's facts about views.
const FACTS: &[u8] = b"view/";

/// Requests go over the connections between replicas.
pub(super) struct PeerTransport(pub(super) Weak<LocalReplica>);

#[async_trait]
impl Transport for PeerTransport {
    async fn ask(
        &self,
        to: ReplicaSlot,
        request: Bytes,
        limit: Duration,
    ) -> Result<Bytes, TransportError> {
        let replica = self.0.upgrade().ok_or(TransportError::Unreachable)?;
        let peer = replica.endpoint.get().and_then(|all| all.peer(to));
        let session = peer.and_then(|peer| peer.session().ok());
        let session = session.ok_or(TransportError::Unreachable)?;
        let (lineage, incarnation) = (replica.state.lineage.clone(), session.peer().incarnation.0);
        drop(replica);
        let message = wire::body(wire::Kind::View, &lineage.agreed_mark());
        let message = message.with_payload(request);
        let asked = session.request(Lane::Control, message, Instant::now() + limit);
        // A hung peer does not take in messages either.
        let reply = tokio::time::timeout(limit, asked).await;
        match reply.map_err(|_| TransportError::TimedOut)? {
            Ok(reply) => {
                let failed = |error: String| TransportError::Failed(error);
                let mark = wire::decode(&reply.body).map_err(|error| failed(error.to_string()))?;
                // Before its answer counts, because it may complete a majority.
                let noted = lineage.note_stably(to, incarnation, mark).await;
                noted.map_err(|error| failed(error.to_string()))?;
                Ok(reply.payload)
            }
            Err(RequestError::Deadline) => Err(TransportError::TimedOut),
            Err(error) => Err(TransportError::Failed(error.to_string())),
        }
    }
}

/// The signed list of members says which replicas may be configured.
pub(super) struct MemberWarrant(pub(super) Weak<LocalReplica>);

impl Warrant for MemberWarrant {
    fn check(&self, decision: &Decision) -> Result<(), String> {
        let replica = self.0.upgrade().ok_or("the server stops")?;
        configuring::is_backed(&replica.state.members.list(), decision)
    }
}

/// Answers a request of another replica.
pub(crate) async fn answer(
    replica: &Arc<LocalReplica>,
    from: Sender,
    request: Message,
) -> Result<Message, Refusal> {
    let refused = Refusal;
    let views = replica
        .views
        .get()
        .ok_or_else(|| refused("it starts".to_owned()))?;
    let mark = wire::decode(&request.body);
    let mark = mark.map_err(|error: Malformed| refused(error.to_string()))?;
    let (lineage, incarnation) = (&replica.state.lineage, from.incarnation.0);
    let noted = lineage.note_stably(from.slot, incarnation, mark).await;
    noted.map_err(|error| refused(error.to_string()))?;
    let answer = views.answer(from.slot, request.payload).await;
    let answer = answer.map_err(|error| refused(error.to_string()))?;
    Ok(wire::body(wire::Kind::View, &lineage.agreed_mark()).with_payload(answer))
}

/// The log is in the store, beside the tree.
pub(crate) struct Facts {
    pub(crate) store: Arc<Store>,
    /// Only of a running replica: its votes and log entries count in its lineage.
    pub(crate) lineage: Option<Arc<Lineage>>,
}

fn failed(error: vfs::Error) -> StableStorageError {
    StableStorageError(error.to_string())
}

/// Whether the server of this store has ever taken part in agreeing on views.
pub(crate) fn has_known_a_view(store: &Store) -> vfs::Result<bool> {
    Ok(!store.facts(FACTS)?.is_empty())
}

#[async_trait]
impl StableStorage for Facts {
    async fn write(&self, changes: Vec<Change>) -> Result<(), StableStorageError> {
        let rows = changes
            .into_iter()
            .map(|(key, value)| ([FACTS, &key].concat(), value));
        if let Some(lineage) = &self.lineage {
            return lineage.write_agreed(rows.collect()).await.map_err(failed);
        }
        let ticket = self.store.put_facts(rows.collect()).await;
        self.store
            .wait_stable(ticket.map_err(failed)?)
            .await
            .map_err(failed)
    }

    async fn read(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StableStorageError> {
        let rows = self.store.facts(FACTS).map_err(failed)?;
        let rows = rows
            .into_iter()
            .map(|(key, value)| (key[FACTS.len()..].to_vec(), value.to_vec()));
        Ok(rows
            .filter(|(key, _)| &key[..] >= from && &key[..] < to)
            .collect())
    }
}
