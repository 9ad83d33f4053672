//! One run: events in order of time.

use super::model::{Model, root};
use super::store::{Disk, Queued};
use crate::clock::Clock;
use crate::{Random, Violation};
use ::homes::{Answer, Book, Call, Command, Message, MetadataServer, Origin, Rules, Settings};
use control::Moment;
use pool::{HomeNumber, LeaseSettings};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use vfs::{ObjectId, ReplicaSlot};

const HOMES: usize = 3;
const CLIENTS: usize = 5;
/// Leases are short here, so that many end in one run.
pub(super) const LEASE: Duration = Duration::from_millis(400);
const REPEAT: Duration = Duration::from_millis(40);
pub(super) const BUSY_US: u64 = 5_000_000;
const QUIET_US: u64 = 15_000_000;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// Whether anything fails.
    pub fails: bool,
    /// The rules in force.
    pub rules: Rules,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        Plan {
            seed,
            fails: !seed.is_multiple_of(8),
            rules: Rules::ALL,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver(usize, usize, Message),
    Flush(usize, u64),
    Tick(usize, u64),
    Client(usize),
    Crash(usize),
    Start(usize),
    Cut(usize, usize, u64),
}

pub(super) struct Home {
    pub(super) disk: Disk,
    pub(super) clock: Clock,
    pub(super) run: u64,
    pub(super) server: Option<MetadataServer>,
    pub(super) flushing: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) call: Call,
    pub(super) since: u64,
    /// The server that it asked last, and the run of that server.
    pub(super) at: Option<(usize, u64)>,
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) home: usize,
    pub(super) number: u64,
    pub(super) asked: Option<Asked>,
}

/// One run.
pub struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) events: BTreeMap<(u64, u64), Event>,
    pub(super) scheduled: u64,
    pub(super) homes: Vec<Home>,
    pub(super) clients: Vec<Client>,
    /// For each direction that is cut: the end of the cut.
    pub(super) cut: BTreeMap<(usize, usize), u64>,
    pub(super) states: VecDeque<(u64, Model)>,
    /// The operations that were done: their times and answers, by origin.
    pub(super) done: BTreeMap<Origin, (u64, Answer)>,
    pub(super) violation: Option<Violation>,
    /// Whether events are printed.
    pub traced: bool,
    /// The number of operations that were done.
    pub count: u64,
}

fn home_number(place: usize) -> HomeNumber {
    HomeNumber(u16::try_from(place).unwrap_or(u16::MAX))
}

fn slot(place: usize) -> ReplicaSlot {
    ReplicaSlot(u16::try_from(place + 1).unwrap_or(u16::MAX))
}

fn book() -> Book {
    let own = (0..HOMES).map(|place| (slot(place), home_number(place)));
    Book::new(own.chain([(ReplicaSlot(0), home_number(0))]))
}

impl World {
    /// A run before its beginning.
    #[must_use]
    pub fn new(plan: &Plan) -> World {
        let mut random = Random::new(plan.seed ^ 0x686f_6d65);
        let mut homes = Vec::new();
        for place in 0..HOMES {
            let ppm = i64::try_from(random.below(200_001)).unwrap_or(0) - 100_000;
            let mut disk = Disk::new(slot(place));
            if place == 0 {
                disk.plant(ObjectId::ROOT, root());
            }
            homes.push(Home {
                disk,
                clock: Clock::new(ppm, Moment(0)),
                run: 0,
                server: None,
                flushing: false,
            });
        }
        let client = |place| Client {
            home: place % HOMES,
            number: 0,
            asked: None,
        };
        let mut world = World {
            plan: plan.clone(),
            random,
            now: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            homes,
            clients: (0..CLIENTS).map(client).collect(),
            cut: BTreeMap::new(),
            states: VecDeque::from([(0, Model::new())]),
            done: BTreeMap::new(),
            violation: None,
            traced: false,
            count: 0,
        };
        (0..HOMES).for_each(|place| world.at(0, Event::Start(place)));
        (0..CLIENTS).for_each(|client| world.at(1000, Event::Client(client)));
        if plan.fails {
            world.draw_faults();
        }
        world
    }

    fn draw_faults(&mut self) {
        for _ in 0..self.random.below(7) {
            let (at, place) = (self.random.below(BUSY_US), self.place());
            self.at(at, Event::Crash(place));
        }
        for _ in 0..self.random.below(5) {
            let (at, one, other) = (self.random.below(BUSY_US), self.place(), self.place());
            let long = self.random.below(1_500_000);
            self.at(at, Event::Cut(one, other, long));
            if self.random.chance(2) {
                self.at(at, Event::Cut(other, one, long));
            }
        }
    }

    pub(super) fn place(&mut self) -> usize {
        usize::try_from(self.random.below(3)).unwrap_or(0)
    }

    pub(super) fn at(&mut self, delay: u64, event: Event) {
        self.scheduled += 1;
        self.events
            .insert((self.now + delay, self.scheduled), event);
    }

    pub(super) fn broken(&mut self, invariant: &'static str, sight: String) {
        let at = (self.plan.seed, Moment(self.now));
        self.violation.get_or_insert(Violation {
            invariant,
            sight,
            at,
        });
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        while let Some(((now, _), event)) = self.events.pop_first() {
            self.now = now;
            if self.traced {
                eprintln!("{now} {event:?}");
            }
            self.happen(event);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if now > BUSY_US && self.is_quiet() {
                return self.check_end();
            }
            if now > BUSY_US + QUIET_US {
                self.broken("rest", self.unrest());
                return self.violation.take().map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    fn unrest(&self) -> String {
        let asked = self
            .clients
            .iter()
            .filter_map(|client| client.asked.as_ref());
        let calls: Vec<&Call> = asked.map(|asked| &asked.call).collect();
        let servers: Vec<_> = self.homes.iter().map(|home| &home.server).collect();
        format!("unanswered {calls:?}\n{servers:?}")
    }

    fn is_quiet(&self) -> bool {
        let is_still = |home: &Home| {
            home.disk.queue.is_empty()
                && home.server.as_ref().is_some_and(MetadataServer::is_at_rest)
        };
        let on_the_way = self
            .events
            .values()
            .any(|event| matches!(event, Event::Deliver(..)));
        !on_the_way
            && self.clients.iter().all(|client| client.asked.is_none())
            && self.homes.iter().all(is_still)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver(from, to, message) => {
                self.turn(to, |server, now, disk| {
                    server.receive(now, disk, home_number(from), message)
                });
            }
            Event::Flush(place, run) => self.flush(place, run),
            Event::Tick(place, run)
                if self.homes[place].run == run && self.homes[place].server.is_some() =>
            {
                let is_due = self.homes[place]
                    .server
                    .as_ref()
                    .is_some_and(|server| server.wakes().is_some());
                if is_due {
                    self.turn(place, |server, now, disk| server.tick(now, disk));
                }
                self.at(micros(REPEAT), Event::Tick(place, run));
            }
            Event::Tick(..) => {}
            Event::Client(client) => self.client(client),
            Event::Crash(place) if self.homes[place].server.is_some() => {
                let home = &mut self.homes[place];
                home.server = None;
                home.flushing = false;
                home.disk.crash();
                let delay = if self.random.chance(2) {
                    20_000
                } else {
                    self.random.below(900_000)
                };
                self.at(delay, Event::Start(place));
            }
            Event::Crash(_) => {}
            Event::Start(place) => self.start(place),
            Event::Cut(from, to, long) => {
                self.cut.insert((from, to), self.now + long);
            }
        }
    }

    fn start(&mut self, place: usize) {
        let settings = Settings {
            lease: LeaseSettings {
                length: LEASE,
                ..LeaseSettings::default()
            },
            repeat: REPEAT,
            rules: self.plan.rules,
            ..Settings::default()
        };
        let home = &mut self.homes[place];
        home.run += 1;
        home.clock = Clock::new(home.clock.ppm, Moment(self.now));
        let (run, recovered) = (home.run, home.disk.stable.recovered.clone());
        let number = home_number(place);
        let (server, commands) =
            MetadataServer::new(number, run, book(), settings, Moment(0), recovered);
        home.server = Some(server);
        home.disk
            .queue
            .extend(commands.into_iter().map(Queued::Command));
        self.flush_soon(place);
        self.at(micros(REPEAT), Event::Tick(place, run));
    }

    pub(super) fn turn(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut MetadataServer, Moment, &mut Disk) -> Vec<Command>,
    ) {
        let now = Moment(self.now);
        let home = &mut self.homes[place];
        if let Some(server) = &mut home.server {
            let commands = act(server, home.clock.local(now), &mut home.disk);
            home.disk
                .queue
                .extend(commands.into_iter().map(Queued::Command));
            self.flush_soon(place);
        }
    }

    fn flush_soon(&mut self, place: usize) {
        let home = &mut self.homes[place];
        if home.flushing || home.disk.queue.is_empty() {
            return;
        }
        home.flushing = true;
        let run = home.run;
        let delay = 100
            + self.random.below(if self.random.clone().chance(10) {
                60_000
            } else {
                6000
            });
        self.at(delay, Event::Flush(place, run));
    }

    fn flush(&mut self, place: usize, run: u64) {
        if self.homes[place].run != run || self.homes[place].server.is_none() {
            return;
        }
        self.homes[place].flushing = false;
        for _ in 0..=self.random.below(12) {
            match self.homes[place].disk.flush_one() {
                Some(Queued::Batch(batch)) => {
                    batch.iter().for_each(|record| self.is_stable(record))
                }
                Some(Queued::Command(Command::Send(to, message))) => {
                    self.post(place, usize::from(to.0), &message)
                }
                Some(Queued::Command(Command::Answer(origin, answer))) => {
                    self.is_answered(origin, answer)
                }
                None => break,
            }
        }
        self.flush_soon(place);
    }

    fn post(&mut self, from: usize, to: usize, message: &Message) {
        let is_calm = self.now > BUSY_US || !self.plan.fails;
        let is_cut = self
            .cut
            .get(&(from, to))
            .is_some_and(|until| self.now < *until);
        if !is_calm && (is_cut || self.random.chance(12)) {
            return;
        }
        let copies = if !is_calm && self.random.chance(10) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let late = !is_calm && self.random.chance(12);
            let delay = 300 + self.random.below(if late { 900_000 } else { 8000 });
            self.at(delay, Event::Deliver(from, to, message.clone()));
        }
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
