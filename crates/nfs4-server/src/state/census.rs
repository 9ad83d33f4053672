//! The list of clients for people.
//!
//! What must never enter: changes to the tables.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::State;
use super::client::{Client, ClientId};

/// One client at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// The number that the server gave it in EXCHANGE_ID.
    pub id: ClientId,
    /// The address from which it introduced itself.
    pub address: IpAddr,
    /// Its own name (`co_ownerid`), unchanged.
    pub owner: Arc<[u8]>,
    /// The name of its implementation; empty when it does not send one.
    pub implementation: String,
    /// The minor version of NFSv4 in which it introduced itself.
    pub minor_version: u32,
    /// For how long it has been known.
    pub known: Duration,
    /// The time since its last request; zero while a request is in progress.
    pub silent: Duration,
    /// Its sessions.
    pub sessions: usize,
    /// Its open files, counted by owner.
    pub opens: usize,
    /// Its byte-range lock states, counted by owner and file.
    pub locks: usize,
}

impl State {
    /// The confirmed clients, in the order of their arrival.
    #[must_use]
    pub fn clients(&self, now: Instant) -> Vec<ClientView> {
        let confirmed = self.clients.values().filter(|client| client.confirmed);
        let mut confirmed: Vec<&Client> = confirmed.collect();
        confirmed.sort_unstable_by_key(|client| client.arrival);
        let views = confirmed.into_iter();
        views
            .map(|client| ClientView {
                id: client.id,
                address: client.address,
                owner: client.owner.clone(),
                implementation: client.implementation.clone(),
                minor_version: client.minor_version,
                known: now.saturating_duration_since(client.since),
                silent: now.saturating_duration_since(client.renewed),
                sessions: client.sessions.len(),
                opens: client.opens.len(),
                locks: client.locks.len(),
            })
            .collect()
    }
}
