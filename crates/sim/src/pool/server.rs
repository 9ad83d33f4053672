//! A data server of the simulation: the core of production, a disk, and a queue for requests while it stands still.

use super::disk::{Contents, Present, ServerDisk, forget, number, server_of};
use super::event::{Cargo, Event, HOME, Io, IoReply, IoRequest, Node, Value};
use super::world::World;
use pool::data_server::{Command, DataServer, Ticket};
use pool::{Access, ContentsId, Intent, KeyNumber, LeaseSettings, StoreIdentity, ToDataServer};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A request that has begun.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    request: IoRequest,
    contents: ContentsId,
    /// When it was admitted, as the number of the event.
    admitted: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ServerNode {
    pub(super) core: Option<DataServer>,
    pub(super) life: u64,
    pub(super) suspended: bool,
    pub(super) inbox: VecDeque<Event>,
    pub(super) disk: ServerDisk,
    pub(super) present: Option<Present>,
    pub(super) begun: BTreeMap<Ticket, Begun>,
    pub(super) connection: u64,
    snapshot: Option<ServerDisk>,
    pub(super) restored: bool,
    /// The last lease request was answered.
    answered: bool,
}

impl ServerNode {
    pub(super) fn new(store: u128) -> ServerNode {
        ServerNode {
            core: None,
            life: 0,
            suspended: false,
            inbox: VecDeque::new(),
            disk: ServerDisk {
                identity: StoreIdentity {
                    store,
                    counter: 0,
                    run: 0,
                },
                contents: BTreeMap::new(),
            },
            present: None,
            begun: BTreeMap::new(),
            connection: 0,
            snapshot: None,
            restored: false,
            answered: false,
        }
    }

    pub(super) fn crash(&mut self) {
        self.core = None;
        self.present = None;
        self.begun.clear();
        self.inbox.clear();
        self.suspended = false;
        self.life += 1;
        self.connection += 1;
    }

    pub(super) fn keep_snapshot(&mut self) {
        self.snapshot = Some(self.disk.clone());
    }

    /// Restores the disk from the snapshot, if there is one and a report was answered since; the machine has to be started.
    pub(super) fn restore(&mut self, known: Option<StoreIdentity>) -> bool {
        let counter = known.map_or(0, |known| known.counter);
        let Some(disk) = self
            .snapshot
            .take()
            .filter(|disk| StoreIdentity::counted_answer(disk.identity.counter) <= counter)
        else {
            return false;
        };
        self.crash();
        self.restored = true;
        self.disk = disk;
        true
    }
}

impl World {
    pub(super) fn start_server(&mut self, place: usize) {
        let run = self.random.bits();
        let rules = self.rules;
        let node = &mut self.servers[place];
        if node.core.is_some() {
            return;
        }
        node.core = Some(DataServer::new(
            number(place),
            LeaseSettings::default(),
            rules,
        ));
        node.disk.identity.run = run;
        node.answered = false;
        let counter = &mut node.disk.identity.counter;
        *counter = StoreIdentity::counted_start(*counter);
        node.present = Some(Present {
            run,
            contents: node.disk.contents.clone(),
            writes: BTreeMap::new(),
        });
        let life = node.life;
        self.after(
            Duration::from_millis(1),
            Event::Tick(Node::Server(place), life),
        );
    }

    pub(super) fn server_tick(&mut self, place: usize) {
        let now = self.clock(Node::Server(place));
        let node = &mut self.servers[place];
        if std::mem::take(&mut node.answered) {
            let counter = &mut node.disk.identity.counter;
            *counter = StoreIdentity::counted_answer(*counter);
        }
        if let Some(core) = &mut node.core {
            let command = core.ask(now, HOME, node.disk.identity);
            self.server_commands(place, vec![command]);
        }
        let life = self.servers[place].life;
        self.after(
            Duration::from_secs(1),
            Event::Tick(Node::Server(place), life),
        );
    }

    /// Calls the core.
    fn with_server<T>(
        &mut self,
        place: usize,
        call: impl FnOnce(&mut DataServer, control::Moment, &Present) -> T,
    ) -> Option<T> {
        let now = self.clock(Node::Server(place));
        let node = &mut self.servers[place];
        Some(call(node.core.as_mut()?, now, node.present.as_ref()?))
    }

    pub(super) fn server_told(&mut self, place: usize, message: ToDataServer) {
        self.servers[place].answered |= matches!(message, ToDataServer::Lease { .. });
        let commands = self.with_server(place, |core, now, shelf| {
            core.handle(now, shelf, HOME, message)
        });
        self.server_commands(place, commands.unwrap_or_default());
    }

    fn server_commands(&mut self, place: usize, commands: Vec<Command>) {
        let life = self.servers[place].life;
        for command in commands {
            let delay = match command {
                Command::Forget(..) => 0,
                _ => 500 + self.random.below(10_000),
            };
            let delay = Duration::from_micros(delay);
            match command {
                Command::Send(_, message) => {
                    self.send(Node::Server(place), Node::Home, Cargo::ToHome(message));
                }
                Command::CarryOut(_, intent, key) => {
                    self.after(delay, Event::CarryOut(place, life, intent, key))
                }
                Command::Forget(_, oldest) => self.forget(place, oldest),
                Command::MakeStable(_, question, contents) => {
                    self.after(delay, Event::MakeStable(place, life, question, contents));
                }
                Command::DropConnections => self.servers[place].connection += 1,
            }
        }
    }

    fn forget(&mut self, place: usize, oldest: KeyNumber) {
        let node = &mut self.servers[place];
        let present = node.present.as_mut().map(|present| &mut present.contents);
        present.into_iter().for_each(|all| forget(all, oldest));
        forget(&mut node.disk.contents, oldest);
    }

    pub(super) fn carry_out(&mut self, place: usize, intent: Intent, key: KeyNumber) {
        let node = &mut self.servers[place];
        if let Some(present) = &mut node.present {
            let contents = present.contents.entry(intent.contents).or_default();
            contents.carry_out(&intent, key);
            node.disk.contents.insert(intent.contents, contents.clone());
        }
        // For a file that is moved, contents that its row does not name promise nothing.
        let rows = &self.home.rows.rows;
        let row = rows.get(&intent.contents.object).map(|row| row.row.clone());
        if let Some(row) = row.filter(|row| row.contents == intent.contents) {
            let is_here = |cell: u64| server_of(&row, cell) == place;
            self.truth.carry_out(place, &intent, is_here);
        }
        let commands = self.with_server(place, |core, _, shelf| {
            core.carried_out(shelf, HOME, intent)
        });
        self.server_commands(place, commands.unwrap_or_default());
    }

    pub(super) fn make_stable(&mut self, place: usize, question: u64, contents: ContentsId) {
        self.flush_contents(place, contents);
        let commands = self.with_server(place, |core, _, shelf| {
            core.made_stable(shelf, HOME, question, contents)
        });
        self.server_commands(place, commands.unwrap_or_default());
    }

    fn flush_contents(&mut self, place: usize, contents: ContentsId) {
        let node = &mut self.servers[place];
        let present = node
            .present
            .as_ref()
            .and_then(|present| present.contents.get(&contents));
        if let Some(present) = present {
            node.disk.contents.insert(contents, present.clone());
        }
    }

    pub(super) fn io_arrives(&mut self, place: usize, request: IoRequest) {
        if request.connection != self.servers[place].connection {
            return;
        }
        let wanted = match request.io {
            Io::Read(_) => Access::Read,
            Io::Write(..) | Io::Commit => Access::ReadWrite,
            Io::Copy(..) => Access::Home,
        };
        let begun = self.with_server(place, |core, now, shelf| {
            // Requests over another connection were dropped with it.
            core.begin((now, now), shelf, &request.handle, wanted)
        });
        let (ticket, capability) = match begun {
            None => return,
            Some(Err(_)) => {
                self.io_reply(place, &request, IoReply::Stale);
                return;
            }
            Some(Ok(begun)) => begun,
        };
        self.check_admitted(place, &request);
        let admitted = self.tick();
        let begun = Begun {
            request,
            contents: capability.contents(),
            admitted,
        };
        self.servers[place].begun.insert(ticket, begun);
        let slow = if self.random.chance(12) {
            3_000_000
        } else {
            20_000
        };
        let delay = Duration::from_micros(100 + self.random.below(slow));
        let life = self.servers[place].life;
        self.after(delay, Event::IoEnd(place, life, ticket));
    }

    pub(super) fn io_end(&mut self, place: usize, ticket: Ticket) {
        let Some(begun) = self.servers[place].begun.remove(&ticket) else {
            return;
        };
        let request = begun.request;
        let order = self.tick();
        if matches!(request.io, Io::Write(..)) {
            self.check_write(place, &request, begun.admitted);
        }
        let Some(present) = self.servers[place].present.as_mut() else {
            return;
        };
        let run = present.run;
        let reply = match request.io {
            Io::Read(cell) => {
                let contents = present.contents.get(&begun.contents);
                IoReply::Read(contents.and_then(|contents| contents.cells.get(&cell).copied()))
            }
            Io::Write(cell, value, _) => {
                let contents: &mut Contents = present.contents.entry(begun.contents).or_default();
                contents.write(cell, Value { value, order });
                *present.writes.entry(begun.contents).or_default() += 1;
                IoReply::Written { run, order }
            }
            Io::Copy(cell, value) => {
                let contents: &mut Contents = present.contents.entry(begun.contents).or_default();
                match value {
                    Some(value) => contents.write(cell, value),
                    None => {
                        contents.cells.remove(&cell);
                    }
                }
                *present.writes.entry(begun.contents).or_default() += 1;
                IoReply::Written { run, order }
            }
            Io::Commit => IoReply::Committed { run },
        };
        if matches!(request.io, Io::Write(_, _, true) | Io::Commit) {
            self.flush_contents(place, begun.contents);
        }
        let finished = self.with_server(place, |core, now, shelf| core.finish(now, shelf, ticket));
        let Some((answered, commands)) = finished else {
            return;
        };
        self.server_commands(place, commands);
        let reply = if answered.is_ok() {
            reply
        } else {
            IoReply::Stale
        };
        self.check_reply(place, &request, reply);
        self.io_reply(place, &request, reply);
    }

    fn io_reply(&mut self, place: usize, request: &IoRequest, reply: IoReply) {
        let cargo = Cargo::IoReply {
            id: request.id,
            reply,
        };
        let to = request.client.map_or(Node::Home, Node::Client);
        self.send(Node::Server(place), to, cargo);
    }

    /// Handles the queued requests, in random order.
    pub(super) fn resume(&mut self, place: usize) {
        if !std::mem::take(&mut self.servers[place].suspended) {
            return;
        }
        let life = self.servers[place].life;
        for event in std::mem::take(&mut self.servers[place].inbox) {
            match event {
                Event::Deliver {
                    cargo: Cargo::Io(request),
                    ..
                } => {
                    let delay = Duration::from_micros(self.random.below(4_000_000));
                    self.after(delay, Event::Late(place, life, request));
                }
                other => self.after(Duration::ZERO, other),
            }
        }
    }
}
