//! The run: pending events, and their order.

use super::client::Client;
use super::disk::{HomeDisk, number};
use super::event::{Cargo, Event, Lives, Node, Wish};
use super::faults::{FILES, Fault, Plan};
use super::home::HomeNode;
use super::server::ServerNode;
use super::truth::Truth;
use crate::random::Random;
use crate::violation::Violation;
use control::Moment;
use pool::Rules;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// From then on nothing fails any more.
const FAULTS_END: Duration = Duration::from_secs(45);

/// Much longer than any run needs to come to rest.
const LIMIT: Duration = Duration::from_secs(180);

/// A pool and its clients.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    pub(super) rules: Rules,
    pub(super) random: Random,
    pub(super) now: Moment,
    events: BTreeMap<(Moment, u64), Event>,
    next: u64,
    /// The number of events so far.
    pub happened: u64,
    crash_at: Option<(u64, Node)>,
    pub(super) home: HomeNode,
    pub(super) servers: Vec<ServerNode>,
    pub(super) clients: Vec<Client>,
    drifts: Vec<i64>,
    pub(super) copies_changes: bool,
    pub(super) keeps_changes_beyond: bool,
    pub(super) copies_slowly: bool,
    pub(super) key_life: Duration,
    cut: BTreeSet<(Node, Node)>,
    last_arrival: BTreeMap<(Node, Node), Moment>,
    pub(super) truth: Truth,
    pub(super) violation: Option<(&'static str, String)>,
    /// Whether events are printed.
    pub traced: bool,
}

impl World {
    /// Sets up the world.
    #[must_use]
    pub fn new(plan: &Plan) -> World {
        let mut random = Random::new(plan.seed ^ 0x706f_6f6c);
        let servers = (0..plan.servers).map(|_| ServerNode::new(u128::from(random.bits())));
        let servers: Vec<ServerNode> = servers.collect();
        let clients = plan.clients.iter().map(|sessions| Client {
            sessions: sessions.iter().cloned().collect(),
            ..Client::default()
        });
        let mut world = World {
            seed: plan.seed,
            rules: plan.rules,
            random,
            now: Moment(1_000_000),
            events: BTreeMap::new(),
            next: 0,
            happened: 0,
            crash_at: plan.crash_at,
            home: HomeNode::new(HomeDisk::new(plan.servers, &FILES)),
            servers,
            clients: clients.collect(),
            drifts: plan.drifts.clone(),
            copies_changes: plan.copies_changes,
            keeps_changes_beyond: plan.keeps_changes_beyond,
            copies_slowly: plan.copies_slowly,
            key_life: plan.key_life,
            cut: BTreeSet::new(),
            last_arrival: BTreeMap::new(),
            truth: Truth::default(),
            violation: None,
            traced: false,
        };
        world.start_home();
        (0..plan.servers).for_each(|place| world.start_server(place));
        for client in 0..world.clients.len() {
            world.after(Duration::from_millis(1), Event::Drive(client));
            world.after(
                Duration::from_millis(500),
                Event::Tick(Node::Client(client), 0),
            );
        }
        for (at, (file, count, first)) in &plan.moves {
            world.after(*at, Event::Move(*file, *count, *first));
        }
        for (at, fault) in &plan.faults {
            world.after(*at, Event::Fault(*fault));
        }
        world
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn run(&mut self) -> Result<(), Violation> {
        let begun = self.now;
        let mut mended = false;
        while self.now < begun.after(LIMIT) && !(mended && self.is_at_rest()) {
            if !mended && self.now >= begun.after(FAULTS_END) {
                mended = true;
                self.mend_all();
            }
            self.step();
            if let Some(violation) = self.violation.take() {
                return Err(self.name(violation));
            }
        }
        if self.servers.iter().all(|server| !server.restored) {
            self.check_rest();
        }
        self.violation
            .take()
            .map_or(Ok(()), |violation| Err(self.name(violation)))
    }

    fn name(&self, (invariant, sight): (&'static str, String)) -> Violation {
        Violation {
            invariant,
            sight,
            at: (self.seed, self.now),
        }
    }

    /// Whether all clients are done, and no data server owes anything.
    fn is_at_rest(&self) -> bool {
        let idle = |client: &Client| client.run.is_none() && client.sessions.is_empty();
        let moved = self.home.movers.is_empty() && self.home.disk.moves.is_empty();
        self.clients.iter().all(idle) && self.home.disk.intents.is_empty() && moved
    }

    pub(super) fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now.after(delay), event);
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }

    /// A number that was not used before.
    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The number of the present event among all events.
    pub(super) fn tick(&mut self) -> u64 {
        self.truth.time += 1;
        self.truth.time
    }

    /// The clock of a node, with its own speed.
    pub(super) fn clock(&self, node: Node) -> Moment {
        let drift = match node {
            Node::Home => self.drifts.first(),
            Node::Server(place) => self.drifts.get(place + 1),
            Node::Client(_) => None,
        };
        let now = i128::from(self.now.0);
        let late = now * i128::from(drift.copied().unwrap_or(0)) / 1_000_000;
        Moment(u64::try_from(now + late).unwrap_or(0))
    }

    fn life(&self, node: Node) -> u64 {
        match node {
            Node::Home => self.home.life,
            Node::Server(place) => self.servers[place].life,
            Node::Client(_) => 0,
        }
    }

    pub(super) fn send(&mut self, from: Node, to: Node, cargo: Cargo) {
        if self.cut.contains(&(from.min(to), from.max(to))) {
            return;
        }
        let delay = Duration::from_micros(50 + self.random.below(4000));
        let last = self
            .last_arrival
            .get(&(from, to))
            .copied()
            .unwrap_or_default();
        let at = self.now.after(delay).max(last);
        self.last_arrival.insert((from, to), at);
        let lives = (self.life(from), self.life(to));
        self.at(
            at,
            Event::Deliver {
                from,
                to,
                cargo,
                lives,
            },
        );
    }

    fn step(&mut self) {
        let Some(((at, _), event)) = self.events.pop_first() else {
            self.now = self.now.after(LIMIT);
            return;
        };
        self.now = at.max(self.now);
        self.happened += 1;
        if self.traced {
            println!("{:>12} {event:?}", self.now.0);
        }
        self.happen(event);
        if let Some((_, node)) = self.crash_at.filter(|(number, _)| *number == self.happened) {
            self.fault(Fault::Crash(node, Duration::from_millis(700)));
        }
    }

    /// Whether a data server in this life can act now; otherwise the event is handled when it continues, if it lives.
    fn can_do(&mut self, place: usize, life: u64, event: &Event) -> bool {
        let node = &mut self.servers[place];
        if node.suspended && node.life == life {
            node.inbox.push_back(event.clone());
        }
        node.life == life && !node.suspended && node.core.is_some()
    }

    fn happen(&mut self, event: Event) {
        match event.clone() {
            Event::Deliver {
                from,
                to,
                cargo,
                lives,
            } => self.deliver(&event, (from, to), cargo, lives),
            Event::Tick(Node::Home, life) if life == self.home.life => self.home_tick(),
            Event::Tick(Node::Server(place), life) if self.can_do(place, life, &event) => {
                self.server_tick(place)
            }
            Event::Tick(Node::Client(client), _) => self.client_tick(client),
            Event::Flush(life) if life == self.home.life => self.flush(),
            Event::IoEnd(place, life, ticket) if self.can_do(place, life, &event) => {
                self.io_end(place, ticket)
            }
            Event::Late(place, life, request) if self.can_do(place, life, &event) => {
                self.io_arrives(place, request)
            }
            Event::CarryOut(place, life, intent, key) if self.can_do(place, life, &event) => {
                self.carry_out(place, intent, key)
            }
            Event::MakeStable(place, life, question, contents)
                if self.can_do(place, life, &event) =>
            {
                self.make_stable(place, question, contents);
            }
            Event::Silence(client, id) => self.silence(client, id),
            Event::Drive(client) => self.drive(client),
            Event::Replay(client) => self.replay(client),
            Event::Fault(fault) => self.fault(fault),
            Event::Move(file, count, first) => self.will_move(file, count, first),
            Event::Restart(Node::Home) => self.start_home(),
            Event::Restart(Node::Server(place)) => self.start_server(place),
            Event::Resume(place) => self.resume(place),
            Event::Mend(one, other) => {
                self.cut.remove(&(one, other));
            }
            _ => {}
        }
    }

    fn deliver(&mut self, event: &Event, (from, to): (Node, Node), cargo: Cargo, lives: Lives) {
        if lives != (self.life(from), self.life(to))
            || self.cut.contains(&(from.min(to), from.max(to)))
        {
            return;
        }
        if let Node::Server(place) = to
            && !self.can_do(place, lives.1, event)
        {
            return;
        }
        match (from, to, cargo) {
            (Node::Server(place), _, Cargo::ToHome(message)) => self.home_told(place, message),
            (_, Node::Server(place), Cargo::ToServer(message)) => self.server_told(place, message),
            (_, Node::Server(place), Cargo::Io(request)) => self.io_arrives(place, request),
            (Node::Client(client), _, Cargo::Wish { id, session, wish }) => {
                self.wished(client, id, session, wish)
            }
            (_, Node::Client(client), Cargo::Reply { id, reply }) => {
                self.home_replied(client, id, reply)
            }
            (_, Node::Client(client), Cargo::Recall(holder)) => self.recall(client, holder),
            (Node::Server(place), Node::Client(client), Cargo::IoReply { id, reply }) => {
                self.server_replied(client, place, id, reply);
            }
            (Node::Server(_), Node::Home, Cargo::IoReply { id, reply }) => {
                self.copied(id, reply);
            }
            _ => {}
        }
    }

    fn client_tick(&mut self, client: usize) {
        let session = self.clients[client].run.as_ref().map(|run| run.number);
        if let Some(session) = session {
            let id = self.fresh();
            let wish = Cargo::Wish {
                id,
                session,
                wish: Wish::Renew,
            };
            self.send(Node::Client(client), Node::Home, wish);
        }
        self.after(Duration::from_secs(1), Event::Tick(Node::Client(client), 0));
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(Node::Home, down) => {
                let survive = self.random.below(self.home.pending() as u64 + 1) as usize;
                self.home.crash(survive);
                self.after(down, Event::Restart(Node::Home));
            }
            Fault::Crash(Node::Server(place), down) => {
                self.servers[place].crash();
                self.after(down, Event::Restart(Node::Server(place)));
            }
            Fault::Crash(Node::Client(_), _) => {}
            Fault::Suspend(place, span) => {
                self.servers[place].suspended = self.servers[place].core.is_some();
                self.after(span, Event::Resume(place));
            }
            Fault::Cut(one, other, span) => {
                let link = (one.min(other), one.max(other));
                self.cut.insert(link);
                self.after(span, Event::Mend(link.0, link.1));
            }
            Fault::Snapshot(place) => self.servers[place].keep_snapshot(),
            Fault::Restore(place) => {
                let known = self
                    .home
                    .disk
                    .identities
                    .get(&number(place))
                    .copied()
                    .flatten();
                if self.servers[place].restore(known) {
                    self.after(
                        Duration::from_millis(300),
                        Event::Restart(Node::Server(place)),
                    );
                }
            }
        }
    }

    fn mend_all(&mut self) {
        self.cut.clear();
        self.events
            .retain(|_, event| !matches!(event, Event::Fault(_)));
        self.start_home();
        for place in 0..self.servers.len() {
            self.resume(place);
            self.start_server(place);
        }
    }
}
