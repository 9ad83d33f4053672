//! The home of the simulation: the core of production, a disk, locks, and leases of clients.

use super::disk::CELL;
use super::disk::HomeDisk;
use super::event::{Cargo, Event, HOME, Held, Node, Reply, Wish};
use super::mover::Mover;
use super::world::World;
use control::{Mark, OperationId};
use pool::home::{Command, Holder, Home, HomeSettings, Outcome, Record, Request};
use pool::{Act, IssueNumber, KeySource, ToHome};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use vfs::ObjectId;

/// A silent client loses its locks and layouts after this time.
const CLIENT_LEASE_US: u64 = 5_000_000;

/// The purpose of an operation of the core.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Wish(usize, u64),
    /// Releases the lock of a session when it is done.
    GiveUp(u64),
    /// A step of a move.
    Move(u64),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    file: ObjectId,
    request: Request,
    purpose: Purpose,
    closes: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct HomeNode {
    pub(super) core: Option<Home>,
    pub(super) life: u64,
    pub(super) disk: HomeDisk,
    /// The state of the disk when all records are stable.
    pub(super) rows: HomeDisk,
    pending: VecDeque<Record>,
    stable: Mark,
    held: Vec<Held>,
    operations: BTreeMap<OperationId, Operation>,
    next_operation: u64,
    /// Answers to requests that may be repeated; `None`: not answered yet.
    replies: BTreeMap<u64, Option<Reply>>,
    /// The session that has each file locked. Reclaimed after a restart.
    locks: BTreeMap<ObjectId, u64>,
    /// For each session, the time of its last message, and what it uses.
    heard: BTreeMap<u64, (usize, u64, BTreeSet<ObjectId>)>,
    expired: BTreeSet<u64>,
    /// Moves to carry out, one after another.
    pub(super) movers: VecDeque<Mover>,
}

impl HomeNode {
    pub(super) fn new(disk: HomeDisk) -> HomeNode {
        HomeNode {
            core: None,
            life: 0,
            rows: disk.clone(),
            disk,
            pending: VecDeque::new(),
            stable: Mark(0),
            held: Vec::new(),
            operations: BTreeMap::new(),
            next_operation: 0,
            replies: BTreeMap::new(),
            locks: BTreeMap::new(),
            heard: BTreeMap::new(),
            expired: BTreeSet::new(),
            movers: VecDeque::new(),
        }
    }

    /// Only a part of what waited for the disk is stored.
    pub(super) fn crash(&mut self, survive: usize) {
        for record in self.pending.iter().take(survive) {
            self.disk.apply(record);
        }
        self.core = None;
        self.pending.clear();
        self.stable = Mark(0);
        self.held.clear();
        self.operations.clear();
        self.replies.clear();
        self.movers.iter_mut().for_each(Mover::begin_anew);
        self.life += 1;
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }
}

impl World {
    pub(super) fn start_home(&mut self) {
        if self.home.core.is_some() {
            return;
        }
        let now = self.clock(Node::Home);
        let mut secret = [0; 32];
        secret.fill(self.random.bits() as u8);
        let settings = HomeSettings {
            rules: self.rules,
            key_life: self.key_life,
            ..HomeSettings::default()
        };
        let real = self.now.0;
        let node = &mut self.home;
        node.disk.issue += 1;
        let (issue, recovered) = (IssueNumber(node.disk.issue), node.disk.start());
        node.rows = node.disk.clone();
        node.disk.key = node.disk.key.next();
        node.rows.key = node.disk.key;
        let keys = (node.disk.key, KeySource::new(secret));
        node.core = Some(Home::new(HOME, issue, keys, settings, now, recovered));
        // Clients get the whole lease again to send a message.
        for heard in node.heard.values_mut() {
            heard.1 = real;
        }
        let life = node.life;
        self.after(Duration::from_millis(50), Event::Tick(Node::Home, life));
    }

    fn with_home(&mut self, call: impl FnOnce(&mut Home, control::Moment) -> Vec<Command>) {
        let now = self.clock(Node::Home);
        if let Some(core) = &mut self.home.core {
            let commands = call(core, now);
            self.home_commands(commands);
        }
    }

    pub(super) fn home_told(&mut self, from: usize, message: ToHome) {
        self.with_home(|core, now| core.handle(now, super::disk::number(from), message));
    }

    fn home_commands(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Persist(record) => {
                    self.home.rows.apply(&record);
                    self.home.pending.push_back(record);
                    let delay = Duration::from_micros(300 + self.random.below(8000));
                    self.after(delay, Event::Flush(self.home.life));
                }
                Command::Send { to, message, after } => {
                    let to = Node::Server(usize::from(to.0));
                    self.hold(after, to, Cargo::ToServer(message));
                }
                Command::Recall(_, holder) => {
                    let client = self.home.heard.get(&holder.0).map(|heard| heard.0);
                    if let Some(client) = client {
                        self.send(Node::Home, Node::Client(client), Cargo::Recall(holder));
                    }
                }
                Command::Answer {
                    operation,
                    outcome,
                    after,
                } => self.home_answer(operation, outcome, after),
            }
        }
    }

    /// Sends as soon as the disk has what must come first.
    fn hold(&mut self, after: Mark, to: Node, cargo: Cargo) {
        self.home.held.push(Held { after, to, cargo });
        self.release();
    }

    fn release(&mut self) {
        let stable = self.home.stable;
        let (now, later) = std::mem::take(&mut self.home.held)
            .into_iter()
            .partition(|held: &Held| held.after <= stable);
        self.home.held = later;
        let now: Vec<Held> = now;
        for held in now {
            if let Cargo::Reply { id, reply } = &held.cargo {
                self.home.replies.insert(*id, Some(reply.clone()));
            }
            match held.to {
                // A message of the home to itself.
                Node::Home => match held.cargo {
                    Cargo::MoveGoesOn(step, done) => self.move_goes_on(step, done),
                    cargo => self.given_up(&cargo),
                },
                to => self.send(Node::Home, to, held.cargo),
            }
        }
    }

    pub(super) fn flush(&mut self) {
        let node = &mut self.home;
        for record in std::mem::take(&mut node.pending) {
            node.disk.apply(&record);
            node.stable.0 += 1;
        }
        self.release();
    }

    fn home_answer(&mut self, operation: OperationId, outcome: Outcome, after: Mark) {
        let Some(Operation {
            file,
            request,
            purpose,
            closes,
        }) = self.home.operations.remove(&operation)
        else {
            return;
        };
        let row = self.home.rows.rows.get(&file);
        let change = row.map_or(0, |row| row.change);
        if let Outcome::Size(size) = outcome
            && row.is_some_and(|row| !row.row.unsettled)
        {
            self.check_settled(file, size);
        }
        let (client, id) = match purpose {
            Purpose::Wish(client, id) => (client, id),
            Purpose::Move(step) => {
                let done = matches!(outcome, Outcome::Done | Outcome::Size(_));
                return self.hold(after, Node::Home, Cargo::MoveGoesOn(step, done));
            }
            Purpose::GiveUp(session) => {
                let cargo = Cargo::Wish {
                    id: 0,
                    session,
                    wish: Wish::Lock(file),
                };
                self.hold(after, Node::Home, cargo);
                return;
            }
        };
        let reply = match outcome {
            Outcome::Layout(handles) => {
                let handles = handles.into_iter();
                Reply::Layout(
                    handles
                        .map(|(server, handle)| (usize::from(server.0), *handle.as_bytes()))
                        .collect(),
                )
            }
            Outcome::Conflict | Outcome::ThroughHome | Outcome::NoMove => Reply::Again,
            Outcome::NoLayout => Reply::Size { change },
            Outcome::Size(_) if closes.is_some() => Reply::Done,
            Outcome::Size(_) => Reply::Size { change },
            Outcome::Done => Reply::Done,
            Outcome::Gone => Reply::Gone,
        };
        let time = self.tick();
        if matches!(reply, Reply::Done) {
            self.note_change(file, request, time);
            if let Request::Change(act) = request {
                self.note_changed(file, act);
            }
        }
        if let Some(session) = closes {
            self.unlock(session);
        }
        self.hold(after, Node::Client(client), Cargo::Reply { id, reply });
    }

    fn note_change(&mut self, file: ObjectId, request: Request, time: u64) {
        match request {
            Request::Change(Act::Truncate(size)) => {
                self.truth.cuts.push((file, size / CELL, u64::MAX, time))
            }
            Request::Change(Act::Punch(hole)) => {
                let cell = hole.offset / CELL;
                self.truth.cuts.push((file, cell, cell, time))
            }
            Request::Change(Act::Remove) => {
                self.truth.removed.insert(file, time);
            }
            _ => {}
        }
    }

    fn unlock(&mut self, session: u64) {
        self.home.locks.retain(|_, owner| *owner != session);
        self.home.heard.remove(&session);
    }

    /// No request of the session can happen any more.
    fn given_up(&mut self, cargo: &Cargo) {
        if let Cargo::Wish { session, .. } = cargo {
            let time = self.tick();
            self.truth.fenced.insert(*session, time);
            self.unlock(*session);
        }
    }

    pub(super) fn wished(&mut self, client: usize, id: u64, session: u64, wish: Wish) {
        if self.home.core.is_none() {
            return;
        }
        let replied = self.home.replies.get(&id).cloned();
        let to = Node::Client(client);
        match replied {
            Some(Some(reply)) => return self.send(Node::Home, to, Cargo::Reply { id, reply }),
            Some(None) => return,
            None => {}
        }
        if self.home.expired.contains(&session) {
            return self.send(
                Node::Home,
                to,
                Cargo::Reply {
                    id,
                    reply: Reply::Expired,
                },
            );
        }
        let now = self.now.0;
        let heard = self
            .home
            .heard
            .entry(session)
            .or_insert_with(|| (client, now, BTreeSet::new()));
        heard.1 = now;
        let (file, request) = match wish {
            Wish::Renew => return,
            Wish::Lock(file) => {
                let owner = *self.home.locks.entry(file).or_insert(session);
                if owner != session {
                    return self.send(
                        Node::Home,
                        to,
                        Cargo::Reply {
                            id,
                            reply: Reply::Again,
                        },
                    );
                }
                (file, Request::Look)
            }
            Wish::Core(file, Request::Change(Act::Truncate(_) | Act::Punch(_)))
                if self.is_held(file) =>
            {
                let reply = Reply::Again;
                return self.send(Node::Home, to, Cargo::Reply { id, reply });
            }
            Wish::Core(file, request) => (file, request),
            Wish::Close(file, holder) => (file, Request::Return(holder)),
        };
        if let Some(heard) = self.home.heard.get_mut(&session) {
            heard.2.insert(file);
        }
        let Some(row) = self.home.rows.rows.get(&file).map(|row| row.row.clone()) else {
            return self.send(
                Node::Home,
                to,
                Cargo::Reply {
                    id,
                    reply: Reply::Gone,
                },
            );
        };
        self.home.replies.insert(id, None);
        let closes = matches!(wish, Wish::Close(..)).then_some(session);
        let purpose = Purpose::Wish(client, id);
        self.operate(
            Operation {
                file,
                request,
                purpose,
                closes,
            },
            &row,
        );
    }

    /// Sends the core a request for a file that is moved.
    pub(super) fn operate_move(&mut self, file: ObjectId, step: u64, request: Request) {
        if let Some(row) = self.home.rows.rows.get(&file).map(|row| row.row.clone()) {
            let operation = Operation {
                file,
                request,
                purpose: Purpose::Move(step),
                closes: None,
            };
            self.operate(operation, &row);
        } else {
            // The file to move does not exist any more.
            self.home.movers.pop_front();
        }
    }

    /// Tells the core the target of a move.
    pub(super) fn move_file(
        &mut self,
        row: &pool::home::FileRow,
        to: pool::home::FileRow,
        step: u64,
    ) {
        let operation = Operation {
            file: row.contents.object,
            // It only states the purpose.
            request: Request::Seal,
            purpose: Purpose::Move(step),
            closes: None,
        };
        let number = self.number(operation);
        self.with_home(|core, _| core.move_file(row, to, number));
    }

    fn number(&mut self, operation: Operation) -> OperationId {
        let number = OperationId(self.home.next_operation);
        self.home.next_operation += 1;
        self.home.operations.insert(number, operation);
        number
    }

    fn operate(&mut self, operation: Operation, row: &pool::home::FileRow) {
        let number = self.number(operation);
        self.with_home(|core, now| core.request(now, row, number, operation.request));
    }

    pub(super) fn home_tick(&mut self) {
        let real = self.now.0;
        let silent = |heard: &(usize, u64, BTreeSet<ObjectId>)| heard.1 + CLIENT_LEASE_US < real;
        let lost: Vec<u64> = self
            .home
            .heard
            .iter()
            .filter(|(_, heard)| silent(heard))
            .map(|(session, _)| *session)
            .collect();
        for session in lost {
            self.home.expired.insert(session);
            let is_on = |operation: &Operation| matches!(operation.purpose, Purpose::GiveUp(of) if of == session);
            if self.home.operations.values().any(is_on) {
                continue;
            }
            let files = self
                .home
                .heard
                .get(&session)
                .map(|heard| heard.2.clone())
                .unwrap_or_default();
            let rows: Vec<_> = files
                .iter()
                .filter_map(|file| self.home.rows.rows.get(file))
                .map(|row| row.row.clone())
                .collect();
            if rows.is_empty() {
                self.unlock(session);
            }
            for row in rows {
                let operation = Operation {
                    file: row.contents.object,
                    request: Request::Lost(Holder(session)),
                    purpose: Purpose::GiveUp(session),
                    closes: None,
                };
                self.operate(operation, &row);
            }
        }
        self.move_tick();
        self.with_home(|core, now| match core.next_timer() {
            Some(at) if at <= now => core.handle_timer(now),
            _ => Vec::new(),
        });
        let life = self.home.life;
        self.after(Duration::from_millis(50), Event::Tick(Node::Home, life));
    }
}
