//! Which clients make room when the maximum number is reached.
//!
//! Clients without opens and locks lose little: they learn that their session is gone, and create another one. First
//! those of an address with too many clients go, then those that have been silent for longest. While others reclaim
//! after a restart, a returning client has precedence over all clients without state, even over recently active ones.
//! Several clients go at once, so that this is not repeated for each newcomer.
//!
//! What must never enter: clients that have state, or may still reclaim it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::client::{Client, ClientId};
use super::{Departure, State};

/// A client that has sent nothing for this time may go. A client that waits for something sends more often.
const SILENT: Duration = Duration::from_secs(15);
/// An address with more than this part of all clients has to make room first, silent or not.
const PART_OF_ONE_ADDRESS: usize = 8;
/// One in this number of all clients goes at a time, at least one.
const PART_THAT_GOES: usize = 128;
/// If no client could go, the next search comes after this time.
const PAUSE: Duration = Duration::from_secs(1);

impl State {
    /// Removes some clients without state, when there is no place for one that wants to create a session. Returns their
    /// number, and what is left of them.
    pub fn make_space_for(&mut self, newcomer: ClientId, now: Instant) -> (usize, Vec<Departure>) {
        let comes_back = self.comes_back(newcomer);
        let pauses = !comes_back && self.nobody_goes_until.is_some_and(|until| now < until);
        if !self.lacks_place(newcomer) || pauses {
            return (0, Vec::new());
        }
        let mut dispensable = self.dispensable(now, comes_back);
        let many = match comes_back {
            true => 1,
            false => (self.limits.clients / PART_THAT_GOES).max(1),
        };
        if dispensable.is_empty() && !comes_back {
            self.nobody_goes_until = Some(now + PAUSE);
        }
        dispensable.sort_unstable_by_key(|(order, _)| Reverse(*order));
        dispensable.truncate(many);
        let gone = dispensable.len();
        let departures = dispensable.into_iter();
        let departures = departures.filter_map(|(_, id)| self.remove_client(id));
        (gone, departures.collect())
    }

    /// Whether a client that creates its first session had state before the restart, which it loses unless it is
    /// admitted within the grace period.
    fn comes_back(&self, newcomer: ClientId) -> bool {
        let client = self.clients.get(&newcomer);
        client.is_some_and(|client| self.grace.may_reclaim(&client.owner))
    }

    /// The clients without state that may go, each with the number of clients of its address if that is too large, the
    /// time of its silence, and its arrival. `at_once`: includes recently active ones.
    fn dispensable(&self, now: Instant, at_once: bool) -> Vec<((usize, Duration, u64), ClientId)> {
        let confirmed = || self.clients.values().filter(|client| client.confirmed);
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        for client in confirmed() {
            *of_address.entry(client.network).or_default() += 1;
        }
        let too_many = self.limits.clients / PART_OF_ONE_ADDRESS;
        let crowd = |client: &Client| {
            let all = of_address.get(&client.network).copied();
            all.filter(|all| *all > too_many).unwrap_or(0)
        };
        confirmed()
            .filter(|client| client.holds_nothing())
            .map(|client| {
                let silent = now.saturating_duration_since(client.renewed);
                (crowd(client), silent, client)
            })
            .filter(|(crowd, silent, _)| at_once || *crowd > 0 || *silent >= SILENT)
            .filter(|(_, _, client)| !self.has_request_under_way(client))
            .map(|(crowd, silent, client)| ((crowd, silent, client.arrival), client.id))
            .collect()
    }
}

impl Client {
    fn holds_nothing(&self) -> bool {
        let may_yet_reclaim = self.may_reclaim && !self.reclaim_complete;
        let holds = !self.opens.is_empty() || !self.locks.is_empty() || !self.layouts.is_empty();
        !holds && !may_yet_reclaim
    }
}
