//! The world: servers, links, faults, and the history of locks.

use super::client::Client;
use super::home::{Home, Task};
use super::joined::{Answer, Asked, Joined};
use crate::{Random, Violation};
use control::Moment;
use std::collections::BTreeMap;

pub(super) const SERVERS: usize = 3;
pub(super) const CLIENTS: usize = 6;
pub(super) const FILES: usize = 2;
/// The time at which faults end.
const BUSY_US: u64 = 80_000_000;
/// The end of a run. What still waits then waits for a client's lease, or because something stood still.
const END_US: u64 = 140_000_000;
/// Questions after the faults are answered within this time.
const PATIENCE_US: u64 = 40_000_000;
/// The longest pause.
const STILL_US: u64 = 20_000_000;

/// Rules that a test can switch off.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Rules {
    /// The home checks whether it may carry out a question when it begins, not only when the question arrives.
    pub looked_at_again: bool,
    /// Active requests end before what they depend on is given back.
    pub under_way_first: bool,
    /// That a server's clients lose their state is stable before other clients can get it.
    pub given_up_noted: bool,
    /// A restarted home gives nothing new before all servers have told.
    pub all_told_first: bool,
    /// A server has told all only if it has told this run of the home from the beginning.
    pub told_to_this_run: bool,
    /// A restarted home gives nothing new while data servers may accept layouts of earlier runs.
    pub layouts_outlasted: bool,
    /// Active reclaims end before a server says that no more will come.
    pub reclaims_first: bool,
    /// A client that reclaims at a restarted server must have had the lock until now.
    pub reclaims_proved: bool,
    /// Layouts are fenced before the locks that permit their writes are given back.
    pub fenced_first: bool,
}

/// The settings drawn before a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// The rules in force.
    pub rules: Rules,
}

impl Plan {
    /// The plan of this seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        Plan {
            seed,
            rules: Rules {
                looked_at_again: true,
                under_way_first: true,
                given_up_noted: true,
                all_told_first: true,
                told_to_this_run: true,
                layouts_outlasted: true,
                reclaims_first: true,
                reclaims_proved: true,
                fenced_first: true,
            },
        }
    }
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Locks that clients were given.
    pub locked: u64,
    /// Locks that clients have reclaimed.
    pub reclaimed: u64,
    /// Writes through the home, and by layouts.
    pub written: [u64; 2],
    /// How often the locks of a server's clients were given up.
    pub given_up: u64,
}

#[derive(Debug)]
pub(super) enum Event {
    Client(usize),
    /// A write by a layout reaches the data servers: client, file, its lock, number of the layout.
    Lands(usize, usize, u64, u64),
    /// A run of a joined server sends a question.
    Leaves(usize, u64, u64),
    Arrives(Asked),
    Step(Task),
    /// The home answers a question: the server with its run, the run of the home, and the answer.
    Answered(usize, (u64, u64, u64), Answer),
    Connect(usize),
    HandOver(usize, u64),
    Forgotten(usize, u64),
    GraceEnds(usize, u64),
    Beat(usize, u64),
    Look(u64),
    Noted(u64, usize),
    Fault,
    Start(Option<usize>),
}

/// The whole simulation.
pub struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    /// In microseconds.
    pub(super) now: u64,
    events: BTreeMap<(u64, u64), Event>,
    posted: u64,
    pub(super) home: Home,
    pub(super) servers: Vec<Joined>,
    pub(super) clients: Vec<Client>,
    /// For each file, the client that got the lock last, and the number of that lock.
    pub(super) given: [(usize, u64); FILES],
    pub(super) grants: u64,
    /// Layouts that data servers accept, and until when.
    pub(super) usable: BTreeMap<u64, u64>,
    /// Whether each event is printed.
    pub traced: bool,
    /// Counts of events.
    pub counts: Counts,
    violation: Option<Violation>,
}

impl World {
    /// A world before the first event.
    #[must_use]
    pub fn new(plan: &Plan) -> World {
        let mut world = World {
            plan: plan.clone(),
            random: Random::new(plan.seed),
            now: 0,
            events: BTreeMap::new(),
            posted: 0,
            home: Home::default(),
            servers: (0..SERVERS).map(|_| Joined::default()).collect(),
            clients: (0..CLIENTS)
                .map(|place| Client::new(place % SERVERS))
                .collect(),
            given: [(usize::MAX, 0); FILES],
            grants: 0,
            usable: BTreeMap::new(),
            traced: false,
            counts: Counts::default(),
            violation: None,
        };
        world.at(0, Event::Start(None));
        for server in 0..SERVERS {
            world.at(1, Event::Start(Some(server)));
        }
        for client in 0..CLIENTS {
            world.at(2, Event::Client(client));
        }
        world.at(3_000_000, Event::Fault);
        world
    }

    pub(super) fn at(&mut self, delay: u64, event: Event) {
        self.posted += 1;
        self.events.insert((self.now + delay, self.posted), event);
    }

    /// A message between a joined server and the home; it may be delayed.
    pub(super) fn post(&mut self, server: usize, event: Event) {
        let late = if self.is_busy() && self.random.chance(30) {
            STILL_US
        } else {
            5_000
        };
        let cut = self.servers[server].cut_until.saturating_sub(self.now);
        let delay = cut + 300 + self.random.below(late);
        self.at(delay, event);
    }

    /// The length of a pause here.
    pub(super) fn pause(&mut self) -> u64 {
        if self.is_busy() && self.random.chance(30) {
            self.random.below(STILL_US)
        } else {
            self.random.below(3_000)
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.now < BUSY_US
    }

    pub(super) fn broken(&mut self, invariant: &'static str, sight: String) {
        let at = (self.plan.seed, Moment(self.now));
        let found = Violation {
            invariant,
            sight,
            at,
        };
        self.violation.get_or_insert(found);
    }

    /// A client uses a file's lock that it got under a number: no other client may have got it since.
    pub(super) fn uses(&mut self, what: &'static str, file: usize, (client, grant): (usize, u64)) {
        let (holder, given) = self.given[file];
        if given != grant {
            self.broken(
                what,
                format!(
                    "client {client} by lock {grant} of file {file}, which {holder} was given as {given}"
                ),
            );
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&mut self) -> Result<Counts, Violation> {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > END_US {
                break;
            }
            self.now = at;
            if self.traced {
                eprintln!("{at} {event:?}");
            }
            self.happens(event);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
        }
        self.check_end();
        self.violation.take().map_or(Ok(self.counts), Err)
    }

    /// Checks that no client waits for ever.
    fn check_end(&mut self) {
        for server in 0..SERVERS {
            let joined = &self.servers[server];
            let long = END_US - PATIENCE_US;
            let waits = joined.asks.values().find(|ask| ask.since < long);
            if joined.are_lost || waits.is_some() || !joined.has_told() {
                let sight = format!("server {server} waits: {waits:?}, {}", joined.are_lost);
                self.broken("nobody waits for ever", sight);
            }
        }
        if self.home.claims.are_open(Moment(self.now)) {
            self.broken("nobody waits for ever", "the home waits".to_owned());
        }
    }

    fn happens(&mut self, event: Event) {
        // A server that stands still handles its events later.
        let of = match &event {
            Event::Leaves(server, ..)
            | Event::Answered(server, ..)
            | Event::HandOver(server, _)
            | Event::Forgotten(server, _)
            | Event::GraceEnds(server, _)
            | Event::Beat(server, _) => Some(*server),
            _ => None,
        };
        if let Some(server) = of
            && self.servers[server].still_until > self.now
        {
            let long = self.servers[server].still_until - self.now;
            let delay = long + self.random.below(10_000);
            return self.at(delay, event);
        }
        match event {
            Event::Client(client) => self.client(client),
            Event::Lands(client, file, grant, number) => {
                self.clients[client].writing -= 1;
                let until = self.usable.get(&number);
                if until.is_some_and(|until| self.now < *until) {
                    self.counts.written[1] += 1;
                    self.uses("a write by a layout", file, (client, grant));
                }
            }
            Event::Leaves(server, run, number) => self.leaves(server, run, number),
            Event::Arrives(asked) => self.arrives(asked),
            Event::Step(task) => self.step(task),
            Event::Answered(server, of, answer) => self.answered(server, of, answer),
            Event::Connect(server) => self.connect(server),
            Event::HandOver(server, run) => self.hand_over(server, run),
            Event::Forgotten(server, run) => self.forgotten(server, run),
            Event::GraceEnds(server, run) => self.grace_ends(server, run),
            Event::Beat(server, run) => self.beat(server, run),
            Event::Look(run) => self.look(run),
            Event::Noted(run, server) => self.noted(run, server),
            Event::Fault => self.fault(),
            Event::Start(None) => self.start_home(),
            Event::Start(Some(server)) => self.start_server(server),
        }
    }

    fn fault(&mut self) {
        if !self.is_busy() {
            return;
        }
        let server = usize::try_from(self.random.below(SERVERS as u64)).unwrap_or(0);
        match self.random.below(5) {
            0 if self.home.is_up => {
                self.crash_home();
                let long = self.random.below(4_000_000);
                self.at(20_000 + long, Event::Start(None));
            }
            1 if self.servers[server].is_up => {
                self.crash_server(server);
                let long = self.random.below(15_000_000);
                self.at(20_000 + long, Event::Start(Some(server)));
            }
            2 | 3 => self.servers[server].cut_until = self.now + self.random.below(STILL_US),
            _ => self.servers[server].still_until = self.now + self.random.below(STILL_US),
        }
        let next = 500_000 + self.random.below(5_000_000);
        self.at(next, Event::Fault);
    }
}
