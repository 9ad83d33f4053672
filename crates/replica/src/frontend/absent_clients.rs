//! Which clients no server has.
//!
//! What must never enter: what becomes of what they hold (`expired_clients`, and the server that a client has left).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peer::Lane;
use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::clients::{Client, ClientsAbsent, ClientsAsked};
use crate::state::wire;

/// At most this many clients are named in one message; it fits even with the longest names.
const CLIENTS_AT_ONCE: usize = 32;
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Answers another replica.
pub(crate) fn answer(replica: &LocalReplica, asked: &ClientsAsked) -> ClientsAbsent {
    let names: Vec<Client> = asked
        .names
        .iter()
        .map(|name| Arc::from(&name[..]))
        .collect();
    let absent = replica.state.servers.absent(&names, asked.for_good);
    ClientsAbsent {
        names: absent
            .iter()
            .map(|name| Bytes::copy_from_slice(name))
            .collect(),
    }
}

/// Whether a client that has gone from this server may have reclaimed at another one what it held here. If not, no other server lets it reclaim
/// anything any more. A server that does not answer may have it.
pub(crate) async fn may_be_elsewhere(replica: &LocalReplica, client: &[u8]) -> bool {
    if replica.engine.is_alone() {
        return false;
    }
    let epoch = replica.lease.view().epoch;
    let mut others = replica.engine.keepers();
    others.remove(&replica.slot());
    let client = [Arc::from(client)];
    // Only where no server has the client, all are asked for good: otherwise one of them would refuse it what it holds.
    for for_good in [false, true] {
        let gone = absent_everywhere(replica, &others, &client, for_good).await;
        // A replica that became active since then was not asked.
        let is_gone = gone.is_some_and(|gone| !gone.is_empty());
        if !is_gone || replica.lease.view().epoch != epoch {
            return true;
        }
    }
    false
}

/// Which of these clients no server has; `None` if not all servers answered.
pub(crate) async fn absent_everywhere(
    replica: &LocalReplica,
    servers: &BTreeSet<ReplicaSlot>,
    clients: &[Client],
    for_good: bool,
) -> Option<BTreeSet<Client>> {
    let mut absent = BTreeSet::new();
    for some in clients.chunks(CLIENTS_AT_ONCE) {
        let mut left: Vec<Client> = some.to_vec();
        for server in servers {
            left = match *server == replica.slot() {
                true => replica.state.servers.absent(&left, for_good),
                false => ask(replica, *server, &left, for_good).await?,
            };
            if left.is_empty() {
                break;
            }
        }
        absent.extend(left);
    }
    Some(absent)
}

async fn ask(
    replica: &LocalReplica,
    server: ReplicaSlot,
    clients: &[Client],
    for_good: bool,
) -> Option<Vec<Client>> {
    let peer = replica.endpoint.get()?.peer(server)?;
    let session = peer.session().ok()?;
    let asked = ClientsAsked {
        names: clients
            .iter()
            .map(|name| Bytes::copy_from_slice(name))
            .collect(),
        for_good,
    };
    let message = wire::payload(wire::Kind::Clients, &asked);
    let limit = Instant::now() + ANSWER_LIMIT;
    let reply = session.request(Lane::Control, message, limit).await.ok()?;
    let answer: ClientsAbsent = wire::decode(&reply.payload).ok()?;
    let named = |client: &&Client| answer.names.iter().any(|name| name[..] == client[..]);
    Some(clients.iter().filter(named).cloned().collect())
}
