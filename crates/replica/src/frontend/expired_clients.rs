//! What absent clients hold of the tree: it is given up when no server has had the client for a lease.
//!
//! The tables of every replica hold locks and denials under their clients' names. If a client's server is lost, or sends the client away, they
//! block other clients until the client reclaims them at another server. One replica, the first active member that holds contents, asks all such
//! members which clients they have. For removed files that are still open, the file's home knows the holdings and does this. If no server has a
//! client for a whole client lease, the replica asks once more, for good: servers without it then let it reclaim nothing any more. If that is
//! true of all servers, what the client held is given up.
//!
//! What must never enter: which clients a server has, and what a lock is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use vfs::{FileSystem, Holdings, ReplicaSlot};

use crate::driver::local_replica::LocalReplica;
use crate::frontend::absent_clients::absent_everywhere;
use crate::frontend::file_system::ReplicatedFileSystem;
use crate::state::clients::Client;

/// How many times per client lease this replica checks the clients.
const LOOKS_PER_LEASE: u32 = 10;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// How long giving up one lock is tried: it may need control, over the wide area. One that takes longer keeps others waiting no longer than this.
const EACH: Duration = Duration::from_secs(5);

/// Handles what absent clients hold, until the replica stops.
pub(crate) async fn keep(replica: Arc<LocalReplica>) {
    let lease = replica.state.settings.client_lease;
    let mut absent_since = BTreeMap::new();
    loop {
        tokio::time::sleep((lease / LOOKS_PER_LEASE).max(SHORTEST_PAUSE)).await;
        match look(&replica, &mut absent_since).await {
            // It starts from scratch when it is this replica's turn.
            None => absent_since.clear(),
            Some(long_absent) if long_absent.is_empty() => {}
            Some(long_absent) => give_up(&replica, &long_absent).await,
        }
    }
}

/// The replicas whose clients count, which are all active members that hold contents, and the holdings that this replica handles. `None` if it
/// may not ask or has none to handle.
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

/// Finds absent clients; returns those absent for a whole lease.
async fn look(
    replica: &Arc<LocalReplica>,
    absent_since: &mut BTreeMap<Client, Instant>,
) -> Option<Vec<Client>> {
    let (servers, holdings) = looked_after_here(replica)?;
    let holders = holdings.clients();
    let began = Instant::now();
    let Some(absent) = absent_everywhere(replica, &servers, &holders, false).await else {
        // A server did not answer: an absent client may be there by now.
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

/// Gives up what these clients hold, if all servers let them go for good.
async fn give_up(replica: &Arc<LocalReplica>, clients: &[Client]) {
    let epoch = replica.lease.view().epoch;
    let Some((servers, holdings)) = looked_after_here(replica) else {
        return;
    };
    let Some(gone) = absent_everywhere(replica, &servers, clients, true).await else {
        return;
    };
    let gone: Vec<Client> = gone.into_iter().collect();
    // A replica that became active since then was not asked.
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
    let file_system = ReplicatedFileSystem::impatient(replica.clone(), EACH);
    if let Err(error) = file_system.give_up(&holdings).await {
        tracing::info!(%error, "not everything that absent clients hold could be given up; it is tried again");
    }
}
