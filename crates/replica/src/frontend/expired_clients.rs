//! What clients that never came back hold of the tree: it is given up when no server has them for a lease.
//!
//! Locks and denials stand in the tables of every replica under their clients' names. When a client's server is lost,
//! or sent it away, they keep others off until the client reclaims them at another server. One replica, the first
//! of those who take part and hold contents, looks whose clients there are: it asks all who take part. What is held of removed files
//! that are still open is known where they are at home, and looked after there. A client
//! that nobody has for a whole lease of clients is asked for once more, for good: those who do not have it
//! then let it reclaim nothing any more. If that is all of them, what it held is given up.
//!
//! What must never enter: who a server's clients are, and what a lock is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peer::Lane;
use tokio::time::Instant;
use vfs::{FileSystem, Holdings, ReplicaSlot};

use crate::driver::local_replica::LocalReplica;
use crate::frontend::file_system::ReplicatedFileSystem;
use crate::state::clients::{Client, ClientsAbsent, ClientsAsked};
use crate::state::wire;

/// How many times in a lease of clients this replica checks who is there.
const LOOKS_PER_LEASE: u32 = 10;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// At most this many clients are asked for in one message; with the longest names it still fits.
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

/// Looks after what absent clients hold, until the replica stops.
pub(crate) async fn keep(replica: Arc<LocalReplica>) {
    let lease = replica.state.settings.client_lease;
    let mut absent_since = BTreeMap::new();
    loop {
        tokio::time::sleep((lease / LOOKS_PER_LEASE).max(SHORTEST_PAUSE)).await;
        match look(&replica, &mut absent_since).await {
            // It begins anew when it is this replica's turn.
            None => absent_since.clear(),
            Some(long_absent) if long_absent.is_empty() => {}
            Some(long_absent) => give_up(&replica, &long_absent).await,
        }
    }
}

/// The replicas whose clients count, everybody who takes part and holds contents, and what it is up to this one to look after, if it
/// may ask.
fn looked_after_here(replica: &LocalReplica) -> Option<(BTreeSet<ReplicaSlot>, Holdings)> {
    let (own, store) = (replica.slot(), &replica.store);
    if replica.engine.is_alone() {
        return Some(([own].into(), store.holdings()));
    }
    if !replica.is_whole() || !replica.lease.may_answer() {
        return None;
    }
    let servers = replica.engine.keepers();
    if servers.first() == Some(&own) {
        return Some((servers, store.holdings()));
    }
    if store.orphans().is_empty() {
        return None;
    }
    let mut holdings = store.holdings();
    holdings.locks.retain(|(id, _)| store.orphan_is_here(*id));
    holdings.denials.retain(|(id, _)| store.orphan_is_here(*id));
    Some((servers, holdings))
}

/// Learns who is absent; returns those who have been for a whole lease.
async fn look(
    replica: &Arc<LocalReplica>,
    absent_since: &mut BTreeMap<Client, Instant>,
) -> Option<Vec<Client>> {
    let (servers, holdings) = looked_after_here(replica)?;
    let holders = holdings.clients();
    let began = Instant::now();
    let Some(absent) = absent_everywhere(replica, &servers, &holders, false).await else {
        // Somebody did not answer: a client that was absent may be there by now.
        return Some(Vec::new());
    };
    absent_since.retain(|client, _| absent.contains(client));
    for client in absent {
        absent_since.entry(client).or_insert(began);
    }
    let lease = replica.state.settings.client_lease;
    let is_over = |since: &Instant| began.duration_since(*since) > lease;
    let long = absent_since.iter().filter(|(_, since)| is_over(since));
    Some(long.map(|(client, _)| client.clone()).collect())
}

/// Which of these clients none of the servers has. `None`: not all of them answered.
async fn absent_everywhere(
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

/// Gives up what these clients hold, if everybody who takes part lets them go for good.
async fn give_up(replica: &Arc<LocalReplica>, clients: &[Client]) {
    let epoch = replica.lease.view().epoch;
    let Some((servers, holdings)) = looked_after_here(replica) else {
        return;
    };
    let Some(gone) = absent_everywhere(replica, &servers, clients, true).await else {
        return;
    };
    let gone: Vec<Client> = gone.into_iter().collect();
    // A replica that takes part since then has not been asked.
    if gone.is_empty() || replica.lease.view().epoch != epoch {
        return;
    }
    let holdings = holdings.of(&gone);
    tracing::warn!(
        clients = gone.len(),
        locks = holdings.locks.len(),
        denials = holdings.denials.len(),
        "clients have not come back from a server that they lost; what they held is given up"
    );
    let file_system = ReplicatedFileSystem::new(replica.clone());
    if let Err(error) = file_system.give_up(&holdings).await {
        tracing::info!(%error, "not everything that absent clients hold could be given up; it is tried again");
    }
}
