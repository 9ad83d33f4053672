//! Who makes space when there are as many clients as there may be.
//!
//! Clients that have nothing open and nothing locked lose little: they learn that their session is gone, and make another
//! one. Of these, first those of an address that has most of all clients go, then those that have been silent for longest. While others
//! reclaim after a restart, one that comes back goes before all that hold nothing, heard of a moment ago or not.
//! Several go at a time, so that this is not asked for each newcomer.
//!
//! What must never enter: clients that hold something, or may yet reclaim it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::client::{Client, ClientId};
use super::{Departure, State};

/// A client that has sent nothing for this long may go. One that waits for something sends more
/// often.
const SILENT: Duration = Duration::from_secs(15);
/// An address that has more than this part of all clients has to make space first, silent or not.
const PART_OF_ONE_ADDRESS: usize = 8;
/// One in this many of all clients goes at a time, and at least one.
const PART_THAT_GOES: usize = 128;
/// When nobody could go, nobody is looked for again for this long.
const PAUSE: Duration = Duration::from_secs(1);

impl State {
    /// Lets some clients go that hold nothing, when there is no place for one that wants to make a session. Returns how many,
    /// and what is left of them.
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

    /// Whether a client that makes its first session held something before the restart, and loses it unless it gets in while the
    /// grace period lasts.
    fn comes_back(&self, newcomer: ClientId) -> bool {
        let client = self.clients.get(&newcomer);
        client.is_some_and(|client| self.grace.may_reclaim(&client.owner))
    }

    /// The clients that hold nothing and may go, each with how many its address has, if these are too many, for how long it
    /// has been silent, and when it came. `at_once`: also those that were heard of a moment ago.
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
