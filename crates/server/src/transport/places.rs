//! Which connection is closed when the maximum number is reached.
//!
//! Anyone can open a connection and keep it silent. So a new connection is always accepted, and another one is closed for it. First choice: connections
//! without a session, the oldest one of the origin with the most of them. If there are only few of those: connections with a session, the one unused for
//! longest of the origin with the most. So a returning client finds a place. It keeps the place once it has used its session, unless it has more connections
//! than others.
//!
//! When the process lacks descriptors, only connections without a session are closed, and few of them are accepted until that is over.
//!
//! What must never enter: sockets, clocks, and the meaning of a session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use nfs4_server::ConnectionId;

/// Connections without a session get at least one in this number of places, so that a new client has time to show its
/// session.
const PART_OF_NEWCOMERS: usize = 8;
/// When descriptors are lacking, this number of connections without a session is still allowed, so that a new client
/// has that time too.
const NEWCOMERS_IN_NEED: usize = 16;

/// The origin of connections: an IPv4 address, or the 64 network bits of an IPv6 address, because an IPv6 host can have
/// any number of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Origin(IpAddr);

impl Origin {
    fn of(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << 64);
                Origin(Ipv6Addr::from_bits(network).into())
            }
            canonical => Origin(canonical),
        }
    }
}

#[derive(Debug)]
struct Place {
    origin: Origin,
    /// A session has used it.
    established: bool,
}

/// The existing connections. Numbers of connections grow with time.
#[derive(Debug, Default)]
pub(super) struct Places {
    limit: usize,
    /// The maximum number without a session.
    newcomers_max: usize,
    all: HashMap<ConnectionId, Place>,
    /// The connections that no session has used.
    newcomers: BTreeMap<Origin, BTreeSet<ConnectionId>>,
    /// The same by number, then by the age of the oldest.
    crowds: BTreeSet<(usize, Reverse<ConnectionId>, Origin)>,
    /// The number of connections that a session has used.
    established: HashMap<Origin, usize>,
    established_total: usize,
}

impl Places {
    /// For at most this number of connections, at least one.
    pub(super) fn new(limit: usize) -> Places {
        Places {
            limit: limit.max(1),
            newcomers_max: usize::MAX,
            ..Places::default()
        }
    }

    /// A connection was opened. Returns the one to close for it. `last_use` returns when a session last used a connection.
    pub(super) fn enter(
        &mut self,
        id: ConnectionId,
        address: IpAddr,
        last_use: impl Fn(ConnectionId) -> u64,
    ) -> Option<ConnectionId> {
        let origin = Origin::of(address);
        let place = Place {
            origin,
            established: false,
        };
        self.all.insert(id, place);
        self.change_newcomers(origin, |newcomers| {
            newcomers.insert(id);
        });
        let victim = if self.all.len() > self.limit {
            self.victim(last_use)
        } else if self.newcomer_count() > self.newcomers_max {
            self.oldest_of_crowd()
        } else {
            None
        }?;
        self.leave(victim);
        Some(victim)
    }

    /// Descriptors are lacking. Returns the connections to close, at most `count`: none with a session and, while there
    /// are only few connections without one, none that is the only one of its origin. From now on few of them are
    /// allowed, until [`Places::recover`].
    pub(super) fn relieve(&mut self, count: usize) -> Vec<ConnectionId> {
        let mut victims = Vec::new();
        while victims.len() < count
            && (self.newcomer_count() > NEWCOMERS_IN_NEED || self.has_crowd())
            && let Some(victim) = self.oldest_of_crowd()
        {
            self.leave(victim);
            victims.push(victim);
        }
        self.newcomers_max = NEWCOMERS_IN_NEED;
        victims
    }

    /// Descriptors are not lacking any more.
    pub(super) fn recover(&mut self) {
        self.newcomers_max = usize::MAX;
    }

    /// The number of connections that no session has used.
    fn newcomer_count(&self) -> usize {
        self.all.len() - self.established_total
    }

    /// A session used a connection.
    pub(super) fn establish(&mut self, id: ConnectionId) {
        let Some(place) = self.all.get_mut(&id) else {
            return;
        };
        let origin = place.origin;
        if !std::mem::replace(&mut place.established, true) {
            self.established_total += 1;
            *self.established.entry(origin).or_default() += 1;
            self.change_newcomers(origin, |newcomers| {
                newcomers.remove(&id);
            });
        }
    }

    /// A connection has ended, or is being closed.
    pub(super) fn leave(&mut self, id: ConnectionId) {
        let Some(place) = self.all.remove(&id) else {
            return;
        };
        let origin = place.origin;
        if !place.established {
            return self.change_newcomers(origin, |newcomers| {
                newcomers.remove(&id);
            });
        }
        self.established_total -= 1;
        if let Some(count) = self.established.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.established.remove(&origin);
            }
        }
    }

    fn change_newcomers(
        &mut self,
        origin: Origin,
        change: impl FnOnce(&mut BTreeSet<ConnectionId>),
    ) {
        let newcomers = self.newcomers.entry(origin).or_default();
        if let Some(crowd) = crowd(origin, newcomers) {
            self.crowds.remove(&crowd);
        }
        change(newcomers);
        match crowd(origin, newcomers) {
            Some(crowd) => {
                self.crowds.insert(crowd);
            }
            None => {
                self.newcomers.remove(&origin);
            }
        }
    }

    fn victim(&self, last_use: impl Fn(ConnectionId) -> u64) -> Option<ConnectionId> {
        let of_newcomers = (self.limit / PART_OF_NEWCOMERS).max(1);
        if self.established_total > self.limit.saturating_sub(of_newcomers) {
            return self.unused_longest(last_use);
        }
        self.oldest_of_crowd()
    }

    /// Whether an origin has more than one connection without a session.
    fn has_crowd(&self) -> bool {
        self.crowds.last().is_some_and(|(count, ..)| *count > 1)
    }

    /// The oldest connection without a session, of the origin with the most of them.
    fn oldest_of_crowd(&self) -> Option<ConnectionId> {
        let crowd = self.crowds.last();
        crowd.map(|(_, Reverse(oldest), _)| *oldest)
    }

    /// The connection with a session unused for longest, of the origins with the most of them.
    fn unused_longest(&self, last_use: impl Fn(ConnectionId) -> u64) -> Option<ConnectionId> {
        let most = self.established.values().max()?;
        let is_greedy =
            |place: &Place| place.established && self.established.get(&place.origin) == Some(most);
        let candidates = self.all.iter().filter(|(_, place)| is_greedy(place));
        let longest = candidates.min_by_key(|(id, _)| (last_use(**id), **id));
        longest.map(|(id, _)| *id)
    }
}

fn crowd(
    origin: Origin,
    newcomers: &BTreeSet<ConnectionId>,
) -> Option<(usize, Reverse<ConnectionId>, Origin)> {
    let oldest = newcomers.first()?;
    Some((newcomers.len(), Reverse(*oldest), origin))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Opens connections one after the other.
    struct World {
        places: Places,
        next: u64,
        uses: HashMap<ConnectionId, u64>,
        gone: Vec<ConnectionId>,
    }

    impl World {
        fn new(limit: usize) -> World {
            World {
                places: Places::new(limit),
                next: 0,
                uses: HashMap::new(),
                gone: Vec::new(),
            }
        }

        fn connect(&mut self, host: u8) -> ConnectionId {
            self.connect_from(Ipv4Addr::new(192, 0, 2, host).into())
        }

        fn connect_from(&mut self, address: IpAddr) -> ConnectionId {
            self.next += 1;
            let id = ConnectionId(self.next);
            let last_use = |id| self.uses.get(&id).copied().unwrap_or(0);
            self.gone.extend(self.places.enter(id, address, last_use));
            id
        }

        fn use_session(&mut self, id: ConnectionId) {
            self.next += 1;
            self.uses.insert(id, self.next);
            self.places.establish(id);
        }

        fn stays(&self, id: ConnectionId) -> bool {
            !self.gone.contains(&id)
        }
    }

    #[test]
    fn silent_connections_of_one_host_push_out_each_other_and_nobody_else() {
        let mut world = World::new(16);
        let mounted = world.connect(1);
        world.use_session(mounted);
        let beginner = world.connect(2);
        let crowd: Vec<_> = (0..100).map(|_| world.connect(3)).collect();
        assert!(world.stays(mounted) && world.stays(beginner));
        assert_eq!(world.gone, crowd[..100 - 14]);
        let back = world.connect(1);
        for _ in 0..100 {
            world.connect(3);
        }
        assert!(world.stays(back), "it has time to show its session");
    }

    #[test]
    fn many_hosts_with_a_few_silent_connections_each_push_out_the_oldest_of_the_most() {
        let mut world = World::new(16);
        let mounted = world.connect(1);
        world.use_session(mounted);
        for round in 0..20 {
            for host in 10..30 {
                world.connect(host);
            }
            let back = world.connect(1);
            for host in 10..20 {
                world.connect(host);
            }
            assert!(world.stays(back), "round {round}");
            world.use_session(back);
            world.places.leave(back);
        }
        assert!(world.stays(mounted));
    }

    #[test]
    fn sessions_give_way_to_newcomers_only_where_one_host_has_most() {
        let mut world = World::new(16);
        let modest = world.connect(1);
        world.use_session(modest);
        let greedy: Vec<_> = (0..20).map(|_| world.connect(2)).collect();
        for id in greedy.iter().rev() {
            world.use_session(*id);
        }
        let back = world.connect(1);
        assert!(world.stays(modest) && world.stays(back));
        world.use_session(back);
        for _ in 0..40 {
            let more = world.connect(2);
            world.use_session(more);
        }
        assert!(world.stays(modest) && world.stays(back));
        // The connection with the longest silence is closed first.
        let kept = greedy.iter().filter(|id| world.stays(**id)).count();
        assert_eq!(kept, 0);
        assert!(world.places.all.len() <= 16);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_host_and_books_balance() {
        let mut world = World::new(8);
        let mounted = world.connect(1);
        world.use_session(mounted);
        let own = world.connect_from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)).to_canonical());
        for host in 0..50_u128 {
            let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) | host);
            world.connect_from(address.into());
        }
        assert!(world.stays(mounted) && world.stays(own));
        let all: Vec<_> = world.places.all.keys().copied().collect();
        all.into_iter().for_each(|id| world.places.leave(id));
        let Places {
            newcomers,
            crowds,
            established,
            established_total,
            ..
        } = world.places;
        assert!(newcomers.is_empty() && crowds.is_empty() && established.is_empty());
        assert_eq!(established_total, 0);
    }

    /// Each lack of descriptors closed sixteen connections, no matter which clients used them, and removed their places
    /// for good.
    #[test]
    fn a_lack_of_descriptors_costs_nobody_a_session_and_passes() {
        let mut world = World::new(64);
        let mounted: Vec<_> = (1..30).map(|host| world.connect(host)).collect();
        mounted.iter().for_each(|id| world.use_session(*id));
        let beginner = world.connect(40);
        let crowd: Vec<_> = (0..30).map(|_| world.connect(50)).collect();
        let mut closed = Vec::new();
        for _ in 0..10 {
            closed.extend(world.places.relieve(16));
        }
        assert_eq!(closed, crowd[..29], "of the one host, all but its newest");
        // Only few are accepted now, and none at the cost of a connection with a session.
        for _ in 0..40 {
            world.connect(50);
        }
        let back = world.connect(1);
        assert!(world.stays(back) && world.stays(beginner));
        assert!(mounted.iter().all(|id| world.stays(*id)));
        assert_eq!(world.places.newcomer_count(), NEWCOMERS_IN_NEED);
        world.places.recover();
        for host in 100..110 {
            world.connect(host);
        }
        assert_eq!(world.places.newcomer_count(), NEWCOMERS_IN_NEED + 10);
    }

    #[test]
    fn a_limit_of_one_is_one() {
        let mut world = World::new(1);
        let first = world.connect(1);
        world.use_session(first);
        let second = world.connect(1);
        assert!(!world.stays(first) && world.stays(second));
    }
}
