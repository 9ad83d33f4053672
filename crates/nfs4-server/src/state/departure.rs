//! Clients that have gone, and what they held behind the file system boundary until all of it is let go.
//!
//! It is let go piece by piece, so that a client that held much keeps nobody from the tables. Nothing is let go before the
//! requests of the client that are still being executed have ended: one of them may write by what others are given then, and takes
//! back what it has done by the client's name. Until the end nobody comes under the name of the owner: file systems know what a
//! client holds by that name, so what is taken anew could not be told from what is to be let go.
//!
//! What must never enter: how something is let go, and how long that takes.

use std::collections::HashMap;
use std::sync::Arc;

use nfs4::SessionId4;

use super::client::Client;
use super::{LayoutEnd, Release, State};

/// This much is handed out at a time.
const RELEASES_AT_A_TIME: usize = 64;

/// A client that has gone and that held something, has a record, or has requests under way. The caller that gets it waits while it
/// [is executing](State::is_executing), and asks for [`State::next_releases`] then, until there are none left.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what the client held would never be let go"]
pub struct Departure(u64);

#[derive(Debug)]
struct Departing {
    owner: Arc<[u8]>,
    /// How file systems know it.
    name: Arc<[u8]>,
    has_record: bool,
    /// Whether its locks stay behind, because it may have reclaimed them elsewhere.
    keeps_locks: bool,
    layouts: Vec<u64>,
    locks: Vec<u64>,
    opens: Vec<u64>,
    /// Its requests that are still being executed.
    requests: usize,
    /// Whether all that it held is let go.
    is_released: bool,
}

impl Departing {
    fn has_nothing(&self) -> bool {
        !self.has_record
            && self.layouts.is_empty()
            && self.locks.is_empty()
            && self.opens.is_empty()
    }
}

/// Requests of a client that has gone, which are still being executed: how many by session.
pub(super) type Executing = Vec<(SessionId4, usize)>;

/// All that are under way.
#[derive(Debug, Default)]
pub(super) struct Departures {
    next: u64,
    all: HashMap<u64, Departing>,
    /// How many there are of each owner.
    owners: HashMap<Arc<[u8]>, usize>,
    /// Whose requests are those of sessions that are gone.
    sessions: HashMap<SessionId4, u64>,
}

impl Departures {
    pub(super) fn is_departing(&self, owner: &[u8]) -> bool {
        self.owners.contains_key(owner)
    }

    fn begin(&mut self, mut departing: Departing, executing: Executing) -> Option<Departure> {
        departing.requests = executing.iter().map(|(_, count)| count).sum();
        if departing.has_nothing() && departing.requests == 0 {
            return None;
        }
        let sessions = executing.into_iter();
        self.sessions
            .extend(sessions.map(|(session, _)| (session, self.next)));
        *self.owners.entry(departing.owner.clone()).or_default() += 1;
        let number = self.next;
        self.next += 1;
        self.all.insert(number, departing);
        Some(Departure(number))
    }

    /// All that the client held is let go.
    fn released(&mut self, departure: &Departure) {
        if let Some(departing) = self.all.get_mut(&departure.0) {
            departing.is_released = true;
        }
        self.end_if_over(departure.0);
    }

    /// A request of a session that is gone was executed to its end. Whether its client is departing.
    pub(super) fn request_ended(&mut self, session: SessionId4) -> bool {
        let Some(number) = self.sessions.get(&session).copied() else {
            return false;
        };
        if let Some(departing) = self.all.get_mut(&number) {
            departing.requests = departing.requests.saturating_sub(1);
        }
        self.end_if_over(number);
        true
    }

    fn end_if_over(&mut self, number: u64) {
        let departing = self.all.get(&number);
        if !departing.is_some_and(|one| one.is_released && one.requests == 0) {
            return;
        }
        let Some(departing) = self.all.remove(&number) else {
            return;
        };
        self.sessions.retain(|_, of| *of != number);
        if let Some(count) = self.owners.get_mut(&departing.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&departing.owner);
            }
        }
    }
}

impl State {
    /// Whether a request of a client that has gone is still being executed, so that nothing of it is to be let go.
    #[must_use]
    pub fn is_executing(&self, departure: &Departure) -> bool {
        let departing = self.departures.all.get(&departure.0);
        departing.is_some_and(|departing| departing.requests > 0)
    }

    /// The same of any client that has gone.
    #[must_use]
    pub fn is_any_executing(&self) -> bool {
        let mut all = self.departures.all.values();
        all.any(|departing| departing.requests > 0)
    }

    /// What of a departure is to be let go next; to be asked for again when all of it is. `None` at the end: the client may
    /// come back, once its requests have ended.
    pub fn next_releases(&mut self, departure: &Departure) -> Option<Vec<Release>> {
        let departing = self.departures.all.get_mut(&departure.0);
        let Some(departing) = departing.filter(|departing| !departing.has_nothing()) else {
            self.departures.released(departure);
            return None;
        };
        // First, so that after a crash the client does not reclaim what somebody else may have had in between
        // (RFC 8881, section 8.4.3).
        if std::mem::take(&mut departing.has_record) {
            return Some(vec![Release::Record(departing.owner.clone())]);
        }
        let (name, keeps_locks) = (departing.name.clone(), departing.keeps_locks);
        // Before anybody else is given what they rest on, nothing may happen through them any more.
        let layouts = last_of(&mut departing.layouts, RELEASES_AT_A_TIME);
        if !layouts.is_empty() {
            let ends = layouts.into_iter();
            let ends = ends.filter_map(|key| self.forget_layout(key, LayoutEnd::Lost));
            return Some(ends.collect());
        }
        let locks = last_of(&mut departing.locks, RELEASES_AT_A_TIME);
        let opens = last_of(&mut departing.opens, RELEASES_AT_A_TIME - locks.len());
        let mut releases = Vec::new();
        for key in locks {
            releases.extend(self.forget_lock(key, &name));
        }
        for key in opens {
            releases.extend(self.forget_open(key, &name));
        }
        releases.retain(|release| !(keeps_locks && matches!(release, Release::Locks(..))));
        Some(releases)
    }

    /// A client is no longer in the tables; what it held is still to be let go, and some of its requests may be under way.
    pub(super) fn depart(
        &mut self,
        (client, executing): (Client, Executing),
        keeps_locks: bool,
    ) -> Option<Departure> {
        let departing = Departing {
            has_record: client.confirmed && client.reclaim_complete && !keeps_locks,
            owner: client.owner,
            name: client.name,
            keeps_locks,
            layouts: client.layouts.into_iter().collect(),
            locks: client.locks.into_iter().collect(),
            opens: client.opens.into_iter().collect(),
            requests: 0,
            is_released: false,
        };
        self.departures.begin(departing, executing)
    }

    /// Only the record of a client is to be removed.
    pub(super) fn depart_from_record(&mut self, owner: Arc<[u8]>) -> Option<Departure> {
        let departing = Departing {
            name: owner.clone(),
            owner,
            has_record: true,
            keeps_locks: false,
            layouts: Vec::new(),
            locks: Vec::new(),
            opens: Vec::new(),
            requests: 0,
            is_released: false,
        };
        self.departures.begin(departing, Vec::new())
    }
}

fn last_of(keys: &mut Vec<u64>, count: usize) -> Vec<u64> {
    keys.split_off(keys.len().saturating_sub(count))
}
