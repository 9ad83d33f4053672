//! The clients as people see them.
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
    /// From where it introduced itself.
    pub address: IpAddr,
    /// Its own name for itself (`co_ownerid`), in its own bytes.
    pub owner: Arc<[u8]>,
    /// What it calls its implementation; empty when it does not say.
    pub implementation: String,
    /// The minor version of NFSv4 in which it introduced itself.
    pub minor_version: u32,
    /// For how long it has been known.
    pub known: Duration,
    /// How long ago its last request was, or is still under way.
    pub silent: Duration,
    /// Its sessions.
    pub sessions: usize,
    /// Its open files, counted by owner.
    pub opens: usize,
    /// Its byte-range lock states, counted by owner and file.
    pub locks: usize,
}

impl State {
    /// The confirmed clients, from the one that came first on.
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
