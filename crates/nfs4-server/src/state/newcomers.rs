//! Clients that come from another server with the same scope, because theirs is lost or sent them away: what
//! they may reclaim here, and for how long (RFC 8881, sections 8.4.2.1 and 11.11).
//!
//! There is no grace period for everybody: locks and denials of the lost server's clients stand in the tables
//! behind the file system boundary, so a client that conflicts with them is refused there. A newcomer takes
//! over what these tables have under its name. What they do not have any more, somebody else may have had in
//! between.
//!
//! What must never enter: the grace period after a restart of this server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use nfs4::{NfsStat4, Stateid4};

use super::client::{Client, ClientId};
use super::numbers::Numbers;
use super::{Departure, State};

/// How often one client is asked to reclaim: once for each file system that moves, and hardly more.
const REQUESTS_PER_CLIENT: u8 = 16;

/// What one client may do as a newcomer.
#[derive(Debug)]
pub(super) struct Newcomer {
    /// Since when it may reclaim; `None` when it may not, or not any more.
    since: Option<Instant>,
    /// Whether it was asked to reclaim and has not said that it is done.
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

/// What is remembered of newcomers besides their records.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// This server's number among those with the same scope, if there are others.
    place: Option<u16>,
    /// Names of clients whose state was given up. They may not reclaim any of it.
    lost: HashMap<Arc<[u8]>, Lost>,
}

/// What is known of the loss of a client's state.
#[derive(Debug)]
struct Lost {
    /// When this server said that it has not got the client.
    said: Option<Instant>,
    /// Since when it is known that it is lost, as far as somebody has looked.
    since: Option<Instant>,
}

/// For so many leases names of clients whose state was given up are remembered. By then nothing stands under them any more, and what is
/// reclaimed must be proved by that.
const LEASES_OF_LOST: u32 = 2;

impl Newcomers {
    /// Remembers that a client's state was given up. Where there is no space, nobody is welcome any more, so
    /// nothing wrong can be granted.
    fn lose(&mut self, name: &Arc<[u8]>, space: usize, said: Option<Instant>) {
        if self.place.is_some() && self.lost.len() < space {
            self.lost.insert(name.clone(), Lost { said, since: said });
        }
    }
}

impl State {
    /// Lets clients come from the other servers with the same scope, among which this one has the number
    /// `place`.
    #[must_use]
    pub fn among_others(mut self, place: Option<u16>) -> State {
        if let Some(place) = place {
            // Numbers that are handed out differ from those of other servers too: a client may bring theirs.
            self.numbers.among_others(place);
            self.newcomers.place = Some(place);
        }
        self
    }

    /// Whether what this client reclaims must be proved by the tables behind the file system boundary.
    #[must_use]
    pub fn must_prove(&self, client: ClientId) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|client| !client.may_reclaim && client.newcomer.may_reclaim())
    }

    /// Whether a client was asked to reclaim and has not said that it is done.
    #[must_use]
    pub fn reclaim_needed(&self, client: ClientId) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|client| client.newcomer.asked)
    }

    /// What to say of a stateid that the tables do not know: `DELAY` when another server handed it out and the
    /// client is now asked to reclaim, else `BAD_STATEID`.
    ///
    /// A client that was sent here may come without a thought of reclaiming, as if its state had been moved.
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

    /// Which of these clients, by the names that file systems know them by, this server does not have. They may
    /// not reclaim here from now on, so what they held can be given up.
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

    /// The name of a client whose state was given up so lately that some of it may still stand under that name.
    #[must_use]
    pub fn is_being_given_up(&self, client: ClientId, now: Instant) -> Option<Arc<[u8]>> {
        let name = &self.clients.get(&client)?.name;
        let said = self.newcomers.lost.get(name)?.said?;
        let lately = now.saturating_duration_since(said) <= self.limits.lease;
        lately.then(|| name.clone())
    }

    /// Forgets all clients, as a restart would, and leaves their locks where they are: the clients may have
    /// reclaimed them elsewhere. Returns what is to be closed here.
    pub fn forget_clients(&mut self) -> Vec<Departure> {
        let all: Vec<ClientId> = self.clients.keys().copied().collect();
        let mut departures = Vec::new();
        for id in all {
            let client = self.take_out(id);
            departures.extend(client.and_then(|client| self.depart(client, true)));
        }
        self.newcomers.lost.clear();
        departures
    }

    /// Whether the client is one of this server's, may yet reclaim after its restart, or has gone and requests of it may be under way.
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

    /// Lets a client that makes a session reclaim what it held elsewhere. Also one that is here already: if it uses
    /// two servers, one may be lost, and then it comes from there with a session of its own.
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

    /// Ends the time of those who came a lease ago or earlier, and forgets those who lost all long ago.
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

    /// A client that has reclaimed what it wants has taken leave of the rest.
    pub(super) fn newcomer_is_done(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.newcomer.end();
            self.newcomers.lost.remove(&client.name);
        }
    }
}
