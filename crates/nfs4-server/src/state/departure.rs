//! Clients that have gone, and their state behind the file system boundary until all of it is released.
//!
//! The state is released piece by piece, so that a large amount does not block the tables. Nothing is released before
//! the running requests of the client have ended: one of them could write under state that others get then. Until the
//! end no client can come under the owner's name. File systems know a client's state by that name, so new state could
//! not be distinguished from state to release.
//!
//! What must never enter: how something is released, and how long that takes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nfs4::SessionId4;

use super::client::Client;
use super::{LayoutEnd, Release, State};

/// The number of items that are released at a time.
const RELEASES_AT_A_TIME: usize = 64;

/// A departed client that had state, a record, or running requests. The caller waits while it [is
/// executing](State::is_executing), and then calls [`State::next_releases`] until nothing is left.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what the client held would never be let go"]
pub struct Departure(u64);

/// What of a departed client stays in the tables of the file systems, because the client may have reclaimed it at another server.
#[derive(Debug)]
pub(super) enum Stays {
    /// Nothing: the client has restarted.
    Nothing,
    /// What it holds in these trees; in none until the other servers were asked.
    In(BTreeSet<usize>),
    Everything,
}

impl Stays {
    fn is_in(&self, tree: usize) -> bool {
        match self {
            Stays::Nothing => false,
            Stays::In(trees) => trees.contains(&tree),
            Stays::Everything => true,
        }
    }
}

#[derive(Debug)]
struct Departing {
    owner: Arc<[u8]>,
    /// Its name for file systems.
    name: Arc<[u8]>,
    has_record: bool,
    stays: Stays,
    layouts: Vec<u64>,
    locks: Vec<u64>,
    opens: Vec<u64>,
    /// The number of its running requests.
    requests: usize,
    /// Whether all its state is released.
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

/// The running requests of a client that has gone: the number for each session.
pub(super) type Executing = Vec<(SessionId4, usize)>;

/// All departures in progress.
#[derive(Debug, Default)]
pub(super) struct Departures {
    next: u64,
    all: HashMap<u64, Departing>,
    /// The number of departures of each owner.
    owners: HashMap<Arc<[u8]>, usize>,
    /// The departure that the requests of each ended session belong to.
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

    /// All state of the client is released.
    fn released(&mut self, departure: &Departure) {
        if let Some(departing) = self.all.get_mut(&departure.0) {
            departing.is_released = true;
        }
        self.end_if_over(departure.0);
    }

    /// A request of an ended session has completed. Returns whether its client is departing.
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
    /// Whether a request of the departed client is still running, so that nothing may be released yet.
    #[must_use]
    pub fn is_executing(&self, departure: &Departure) -> bool {
        let departing = self.departures.all.get(&departure.0);
        departing.is_some_and(|departing| departing.requests > 0)
    }

    /// The same for any departed client.
    #[must_use]
    pub fn is_any_executing(&self) -> bool {
        let mut all = self.departures.all.values();
        all.any(|departing| departing.requests > 0)
    }

    /// The next state to release; call it again when that is released. `None` at the end: the client may come back,
    /// once its requests have ended.
    pub fn next_releases(&mut self, departure: &Departure) -> Option<Vec<Release>> {
        let departing = self.departures.all.get_mut(&departure.0);
        let Some(departing) = departing.filter(|departing| !departing.has_nothing()) else {
            self.departures.released(departure);
            return None;
        };
        // The record comes first, so that after a crash the client does not reclaim what another client may have had in
        // between (RFC 8881, section 8.4.3).
        if std::mem::take(&mut departing.has_record) {
            return Some(vec![Release::Record(departing.owner.clone())]);
        }
        let name = departing.name.clone();
        // Before other clients get the state that the layouts depend on, the layouts must have ended.
        let layouts = last_of(&mut departing.layouts, RELEASES_AT_A_TIME);
        if !layouts.is_empty() {
            let ends = layouts.into_iter();
            let ends = ends.filter_map(|key| self.forget_layout(key, LayoutEnd::Lost));
            return Some(ends.collect());
        }
        let locks = last_of(&mut departing.locks, RELEASES_AT_A_TIME);
        let opens = last_of(&mut departing.opens, RELEASES_AT_A_TIME - locks.len());
        let stays = std::mem::replace(&mut departing.stays, Stays::Nothing);
        let mut releases = Vec::new();
        for key in locks {
            releases.extend(self.forget_lock(key, &name));
        }
        for key in opens {
            releases.extend(self.forget_open(key, &name));
        }
        releases.retain(
            |release| !matches!(release, Release::Locks(file, _) if stays.is_in(file.tree)),
        );
        for release in &mut releases {
            if let Release::Open(file, owner) = release
                && stays.is_in(file.tree)
            {
                *release = Release::Leave(*file, owner.clone());
            }
        }
        if let Some(departing) = self.departures.all.get_mut(&departure.0) {
            departing.stays = stays;
        }
        Some(releases)
    }

    /// The name of a departed client that may have reclaimed at another server what it held here; the caller asks these, and then calls
    /// [`State::stays`].
    #[must_use]
    pub fn may_be_elsewhere(&self, departure: &Departure) -> Option<Arc<[u8]>> {
        let departing = self.departures.all.get(&departure.0)?;
        let holds = !departing.locks.is_empty() || !departing.opens.is_empty();
        (holds && matches!(departing.stays, Stays::In(_))).then(|| departing.name.clone())
    }

    /// What the departed client held in these trees stays, since another server may have it.
    pub fn stays(&mut self, departure: &Departure, trees: BTreeSet<usize>) {
        if let Some(departing) = self.departures.all.get_mut(&departure.0) {
            if !trees.is_empty() {
                // What it may reclaim here later is what it has there.
                self.newcomers.regain(&departing.name);
            }
            departing.stays = Stays::In(trees);
        }
    }

    /// A client was removed from the tables. Its state must still be released, and some of its requests may be running.
    pub(super) fn depart(
        &mut self,
        (client, executing): (Client, Executing),
        stays: Stays,
    ) -> Option<Departure> {
        let keeps_record = matches!(stays, Stays::Everything);
        let departing = Departing {
            has_record: client.confirmed && client.recorded && !keeps_record,
            owner: client.owner,
            name: client.name,
            stays,
            layouts: client.layouts.into_iter().collect(),
            locks: client.locks.into_iter().collect(),
            opens: client.opens.into_iter().collect(),
            requests: 0,
            is_released: false,
        };
        self.departures.begin(departing, executing)
    }

    /// Only the record of a client has to be removed.
    pub(super) fn depart_from_record(&mut self, owner: Arc<[u8]>) -> Option<Departure> {
        let departing = Departing {
            name: owner.clone(),
            owner,
            has_record: true,
            stays: Stays::Nothing,
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
