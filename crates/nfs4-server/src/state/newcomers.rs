//! Clients that come from another server with the same scope, because that server is lost or sent them away: what they
//! may reclaim here, and for how long (RFC 8881, sections 8.4.2.1 and 11.11).
//!
//! There is no grace period for all clients: locks and deny modes of the lost server's clients are in the tables behind
//! the file system boundary, so conflicting clients are refused there. A newcomer takes over its state in these tables,
//! which is under its name. State that is not there any more may have belonged to another client in between.
//!
//! What must never enter: the grace period after a restart of this server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use nfs4::{NfsStat4, Stateid4};

use super::client::{Client, ClientId};
use super::departure::Stays;
use super::numbers::Numbers;
use super::{Departure, State};

/// How often one client is asked to reclaim: once for each file system that moves, with a margin.
const REQUESTS_PER_CLIENT: u8 = 16;

/// The rights of one client as a newcomer.
#[derive(Debug)]
pub(super) struct Newcomer {
    /// Since when it may reclaim; `None` when it may not, or not any more.
    since: Option<Instant>,
    /// Whether it was asked to reclaim and has not said that it has finished.
    pub(super) asked: bool,
    requests_left: u8,
}

impl Newcomer {
    pub(super) fn may_reclaim(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn end(&mut self) {
        self.since = None;
        self.asked = false;
    }
}

impl Default for Newcomer {
    fn default() -> Newcomer {
        Newcomer {
            since: None,
            asked: false,
            requests_left: REQUESTS_PER_CLIENT,
        }
    }
}

/// The state of newcomers that is not in their records.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// This server's number among those with the same scope, if there are others.
    place: Option<u16>,
    /// Names of clients whose state was given up. They may not reclaim it.
    lost: HashMap<Arc<[u8]>, Lost>,
}

/// Information about a client whose state was given up.
#[derive(Debug)]
struct Lost {
    /// When this server reported that it does not have the client.
    said: Option<Instant>,
    /// Since when the loss is known, if the file systems were asked.
    since: Option<Instant>,
}

/// For this number of leases the names of clients with lost state are remembered. After that no state remains under
/// these names, and every reclaim must be proved by existing state.
const LEASES_OF_LOST: u32 = 2;

impl Newcomers {
    /// Records that a client's state was given up. If there is no space, no newcomers are accepted any more, so that
    /// nothing wrong can be granted.
    fn lose(&mut self, name: &Arc<[u8]>, space: usize, said: Option<Instant>) {
        if self.place.is_some() && self.lost.len() < space {
            self.lost.insert(name.clone(), Lost { said, since: said });
        }
    }

    /// The client has its state at another server.
    pub(super) fn regain(&mut self, name: &[u8]) {
        self.lost.remove(name);
    }
}

impl State {
    /// Accepts clients from the other servers with the same scope, among which this server has the number `place`.
    #[must_use]
    pub fn among_others(mut self, place: Option<u16>) -> State {
        if let Some(place) = place {
            // The numbers also differ from those of other servers, because a client may send theirs.
            self.numbers.among_others(place);
            self.newcomers.place = Some(place);
        }
        self
    }

    /// Whether the tables behind the file system boundary must prove what this client reclaims.
    #[must_use]
    pub fn must_prove(&self, client: ClientId) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|client| !client.may_reclaim && client.newcomer.may_reclaim())
    }

    /// Whether a client was asked to reclaim and has not said that it has finished.
    #[must_use]
    pub fn reclaim_needed(&self, client: ClientId) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|client| client.newcomer.asked)
    }

    /// The status for an unknown stateid: `DELAY` when another server issued it and the client is now asked to reclaim,
    /// otherwise `BAD_STATEID`.
    ///
    /// A client that was sent here may arrive without reclaiming, as if its state had been moved.
    pub fn unknown_stateid(
        &mut self,
        client: ClientId,
        stateid: &Stateid4,
        now: Instant,
    ) -> NfsStat4 {
        let Some(place) = self.newcomers.place else {
            return NfsStat4::BadStateid;
        };
        let of = Numbers::place_of(stateid);
        let is_special = stateid.other == [0; 12] || stateid.other == [0xff; 12];
        let in_grace = self.in_grace();
        match self.clients.get_mut(&client) {
            _ if is_special || of == place || of == 0 || in_grace => NfsStat4::BadStateid,
            Some(client) if client.newcomer.asked => NfsStat4::Delay,
            Some(client) if client.reclaim_complete && client.newcomer.requests_left > 0 => {
                client.reclaim_complete = false;
                client.newcomer.requests_left -= 1;
                client.newcomer.asked = true;
                client.newcomer.since = Some(now);
                NfsStat4::Delay
            }
            _ => NfsStat4::BadStateid,
        }
    }

    /// Which of these clients, by their names for file systems, this server does not have. They may not reclaim here
    /// from now on, so their state can be given up.
    pub fn absent(&mut self, names: &[Arc<[u8]>], now: Instant) -> Vec<Arc<[u8]>> {
        let absent = self.unknown(names);
        for name in &absent {
            self.newcomers.lose(name, self.limits.clients, Some(now));
        }
        absent
    }

    /// The same, without consequences.
    #[must_use]
    pub fn unknown(&self, names: &[Arc<[u8]>]) -> Vec<Arc<[u8]>> {
        let unknown = names.iter().filter(|name| !self.has(name));
        unknown.cloned().collect()
    }

    /// The name of a client whose state was given up recently, so that some of it may still exist under that name.
    #[must_use]
    pub fn is_being_given_up(&self, client: ClientId, now: Instant) -> Option<Arc<[u8]>> {
        let name = &self.clients.get(&client)?.name;
        let said = self.newcomers.lost.get(name)?.said?;
        let lately = now.saturating_duration_since(said) <= self.limits.lease;
        lately.then(|| name.clone())
    }

    /// Forgets all clients, as a restart would, and keeps their locks, because the clients may have reclaimed them
    /// elsewhere. Returns what must be closed here.
    pub fn forget_clients(&mut self) -> Vec<Departure> {
        let all: Vec<ClientId> = self.clients.keys().copied().collect();
        let mut departures = Vec::new();
        for id in all {
            let client = self.take_out(id);
            departures.extend(client.and_then(|client| self.depart(client, Stays::Everything)));
        }
        self.newcomers.lost.clear();
        departures
    }

    /// Whether the client belongs to this server, may still reclaim after a restart, or has gone with requests that may be running.
    fn has(&self, name: &[u8]) -> bool {
        let Some((_, owner)) = Client::verifier_and_owner(name) else {
            return false;
        };
        self.client_named(name).is_some()
            || self.grace.may_reclaim(owner)
            || self.departures.is_departing(owner)
    }

    pub(super) fn lose(&mut self, client: &Client) {
        if !client.opens.is_empty() || !client.locks.is_empty() {
            self.newcomers.lose(&client.name, self.limits.clients, None);
        }
    }

    /// Lets a client that creates a session reclaim its state from another server. This includes a client that is
    /// already here: if it uses two servers, one may be lost, and then it comes from there with a session of its own.
    pub(super) fn welcome(&mut self, id: ClientId, now: Instant) {
        let newcomers = &self.newcomers;
        let has_space = newcomers.lost.len() < self.limits.clients;
        if let Some(client) = self.clients.get_mut(&id)
            && newcomers.place.is_some()
            && has_space
            && !newcomers.lost.contains_key(&client.name)
        {
            client.newcomer.since = Some(now);
        }
    }

    /// Ends the time of newcomers that came at least one lease ago, and forgets clients that lost their state long ago.
    pub(super) fn end_newcomers(&mut self, now: Instant) {
        let lease = self.limits.lease;
        self.newcomers.lost.retain(|_, lost| {
            let since = *lost.since.get_or_insert(now);
            now.saturating_duration_since(since) <= lease * LEASES_OF_LOST
        });
        for client in self.clients.values_mut() {
            let over = |since: Instant| now.saturating_duration_since(since) > lease;
            if client.newcomer.since.is_some_and(over) {
                client.newcomer.end();
            }
        }
    }

    /// A client that has finished reclaiming has given up the rest.
    pub(super) fn newcomer_is_done(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.newcomer.end();
            self.newcomers.lost.remove(&client.name);
        }
    }
}
