//! Clients: each does one thing after another, and repeats what is not answered.

use super::disk::{CELL, CELLS};
use super::event::{Cargo, Io, IoReply, IoRequest, Node, Reply, Value, Wish};
use super::world::World;
use crate::pool::event::Event;
use pool::home::{Holder, Request};
use pool::{Access, Act, HANDLE_BYTES};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use vfs::{Extent, ObjectId};

/// One task of a client.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) file: ObjectId,
    pub(super) kind: Kind,
    /// It returns its layout when it is asked to.
    pub(super) obedient: bool,
    /// It ends without closing, and sends nothing to the home any more.
    pub(super) abandoned: bool,
    /// Its requests to data servers may be delayed for long; so it asks for a fence when it gives a request up. Other clients repeat at once.
    pub(super) held_up: bool,
    /// It waits for this time first.
    pub(super) pause: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Opens exclusively, writes cells, and closes.
    Write {
        cells: Vec<u64>,
        sync: bool,
        commit: bool,
        claim: bool,
    },
    Truncate(u64),
    Punch(u64),
    Remove,
    /// Asks for the attributes, reads a cell, and asks for the attributes again.
    Read(u64),
}

/// The state of a client's task.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Names session, open and layout.
    pub(super) number: u64,
    session: Session,
    opened: bool,
    handles: Option<Vec<(usize, [u8; HANDLE_BYTES])>>,
    todo: VecDeque<(u64, u64)>,
    /// Requests for the first of `todo` that may still be active.
    attempts: Vec<u64>,
    /// Cell: value, data server, its run, and the place of the write.
    unstable: BTreeMap<u64, (u64, usize, u64, u64)>,
    end: u64,
    claimed: bool,
    before: Option<u64>,
    read: Option<Option<Value>>,
    /// The request whose answer it waits for.
    waiting: Option<u64>,
    /// It was sent to a data server.
    at_server: bool,
    /// A data server did not answer in time, and earlier requests may still reach it. The home does not know it yet.
    gave_up: bool,
    recalled: bool,
}

/// A handle of an earlier session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old {
    session: u64,
    file: ObjectId,
    server: usize,
    /// Its place among the data servers of the file, and their number.
    share: (u64, u64),
    handle: [u8; HANDLE_BYTES],
    /// The session never returned its layout.
    abandoned: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) sessions: VecDeque<Session>,
    pub(super) run: Option<Run>,
    /// Handles of earlier sessions.
    pub(super) old: Vec<Old>,
}

enum Next {
    Home(Wish),
    Server(u64, Io),
    /// It needs the layout first.
    Layout(Access),
    End,
}

impl Run {
    /// The data server with a cell, and the handle for it.
    fn handle_for(&self, cell: u64) -> Option<(usize, [u8; HANDLE_BYTES])> {
        let handles = self.handles.as_ref()?;
        let place = cell.checked_rem(handles.len() as u64)?;
        handles.get(place as usize).copied()
    }

    /// Writes again what is not stable and was written to another data server than the present one.
    fn write_what_moved(&mut self) {
        let unstable = std::mem::take(&mut self.unstable);
        for (cell, of) in unstable {
            match self
                .handle_for(cell)
                .is_some_and(|(server, _)| server == of.1)
            {
                true => {
                    self.unstable.insert(cell, of);
                }
                false => self.todo.push_back((cell, of.0)),
            }
        }
    }

    fn next(&self) -> Next {
        let (file, holder) = (self.session.file, Holder(self.number));
        let core = |request| Next::Home(Wish::Core(file, request));
        match &self.session.kind {
            Kind::Truncate(cells) => core(Request::Change(Act::Truncate(cells * CELL))),
            Kind::Punch(cell) => core(Request::Change(Act::Punch(Extent {
                offset: cell * CELL,
                length: CELL,
            }))),
            Kind::Remove => core(Request::Change(Act::Remove)),
            Kind::Read(_) if self.before.is_none() => core(Request::Look),
            Kind::Read(cell) if self.read.is_none() => match &self.handles {
                None => Next::Layout(Access::Read),
                Some(_) => Next::Server(*cell, Io::Read(*cell)),
            },
            // This is the second time, which also ends the layout.
            Kind::Read(_) => core(Request::Return(holder)),
            Kind::Write { .. } if !self.opened => Next::Home(Wish::Lock(file)),
            Kind::Write {
                sync,
                commit,
                claim,
                ..
            } => {
                if let Some((cell, value)) = self.todo.front() {
                    return match &self.handles {
                        None => Next::Layout(Access::ReadWrite),
                        Some(_) => Next::Server(*cell, Io::Write(*cell, *value, *sync)),
                    };
                }
                if let Some(cell) = self.unstable.keys().next().filter(|_| *commit) {
                    return match &self.handles {
                        None => Next::Layout(Access::ReadWrite),
                        Some(_) => Next::Server(*cell, Io::Commit),
                    };
                }
                if *claim && !self.claimed {
                    return core(Request::Commit(holder, self.end));
                }
                if self.session.abandoned {
                    return Next::End;
                }
                Next::Home(Wish::Close(file, holder))
            }
        }
    }
}

/// Linux waits longer for a data server than a lease lasts (rule 10).
const SERVER_SILENCE: Duration = Duration::from_secs(8);
const HOME_SILENCE: Duration = Duration::from_secs(2);

impl World {
    pub(super) fn drive(&mut self, client: usize) {
        let Some(state) = self.clients.get_mut(client) else {
            return;
        };
        if state.run.is_none() {
            let Some(session) = state.sessions.pop_front() else {
                return;
            };
            let pause = session.pause;
            self.begin_session(client, session);
            self.after(pause, Event::Drive(client));
            return;
        }
        let Some(run) = state.run.as_mut().filter(|run| run.waiting.is_none()) else {
            return;
        };
        if run.gave_up {
            let (session, file) = (run.number, run.session.file);
            let lost = Request::Lost(Holder(session));
            return self.ask_home(client, session, Wish::Core(file, lost));
        }
        if run.recalled {
            run.recalled = false;
            run.handles = None;
            let wish = Wish::Core(run.session.file, Request::Return(Holder(run.number)));
            // The answer does not matter to the client.
            let session = run.number;
            let id = self.fresh();
            self.send(
                Node::Client(client),
                Node::Home,
                Cargo::Wish { id, session, wish },
            );
            self.after(Duration::from_millis(5), Event::Drive(client));
            return;
        }
        let next = run.next();
        let (session, file) = (run.number, run.session.file);
        match next {
            Next::Home(wish) => self.ask_home(client, session, wish),
            Next::Layout(access) => {
                let request = Request::Layout(Holder(session), access);
                self.ask_home(client, session, Wish::Core(file, request));
            }
            Next::Server(cell, io) => self.ask_server(client, cell, io),
            Next::End => self.end_session(client),
        }
    }

    fn begin_session(&mut self, client: usize, session: Session) {
        let number = self.fresh();
        let todo = match &session.kind {
            Kind::Write { cells, .. } => cells.iter().map(|cell| (*cell, self.fresh())).collect(),
            _ => VecDeque::new(),
        };
        self.clients[client].run = Some(Run {
            number,
            session,
            opened: false,
            handles: None,
            todo,
            attempts: Vec::new(),
            unstable: BTreeMap::new(),
            end: 0,
            claimed: false,
            before: None,
            read: None,
            waiting: None,
            at_server: false,
            gave_up: false,
            recalled: false,
        });
    }

    fn end_session(&mut self, client: usize) {
        if let Some(run) = self.clients[client].run.take() {
            let handles = run.handles.unwrap_or_default();
            let count = handles.len() as u64;
            let old = handles
                .into_iter()
                .zip(0..)
                .map(|((server, handle), place)| Old {
                    session: run.number,
                    file: run.session.file,
                    server,
                    share: (place, count),
                    handle,
                    abandoned: run.session.abandoned,
                });
            self.clients[client].old.extend(old);
            if self.random.chance(3) {
                let pause = Duration::from_millis(self.random.below(15_000));
                self.after(pause, Event::Replay(client));
            }
        }
        self.after(Duration::from_millis(10), Event::Drive(client));
    }

    fn ask_home(&mut self, client: usize, session: u64, wish: Wish) {
        let id = self.fresh();
        self.wait_for(client, id, false);
        self.send(
            Node::Client(client),
            Node::Home,
            Cargo::Wish { id, session, wish },
        );
    }

    fn ask_server(&mut self, client: usize, cell: u64, io: Io) {
        let id = self.fresh();
        let sent = self.tick();
        let Some(run) = self.clients[client].run.as_mut() else {
            return;
        };
        let Some((server, handle)) = run.handle_for(cell) else {
            return;
        };
        let connection = self.servers[server].connection;
        let held_up = run.session.held_up;
        if matches!(io, Io::Write(..)) {
            run.attempts.push(id);
        }
        let request = IoRequest {
            id,
            client: Some(client),
            session: run.number,
            file: run.session.file,
            handle,
            io,
            sent,
            connection,
            forged: false,
        };
        self.wait_for(client, id, true);
        if held_up && self.random.chance(20) {
            // It is delayed on its way, perhaps until long after its client gave it up.
            let delay = Duration::from_micros(self.random.below(14_000_000));
            let life = self.servers[server].life;
            return self.after(delay, Event::Late(server, life, request));
        }
        self.send(
            Node::Client(client),
            Node::Server(server),
            Cargo::Io(request),
        );
    }

    fn wait_for(&mut self, client: usize, id: u64, at_server: bool) {
        if let Some(run) = self.clients[client].run.as_mut() {
            run.waiting = Some(id);
            run.at_server = at_server;
        }
        let patience = match at_server {
            true => SERVER_SILENCE,
            false => HOME_SILENCE,
        };
        self.after(patience, Event::Silence(client, id));
    }

    /// Takes the answer to a request, if the client waits for it.
    fn answered(&mut self, client: usize, id: u64) -> Option<&mut Run> {
        let run = self.clients.get_mut(client)?.run.as_mut()?;
        if run.waiting != Some(id) {
            return None;
        }
        run.waiting = None;
        Some(run)
    }

    pub(super) fn silence(&mut self, client: usize, id: u64) {
        if let Some(run) = self.answered(client, id) {
            // A new handle from a better informed home may work.
            run.handles = None;
            run.gave_up |= run.at_server && run.session.held_up;
            self.drive(client);
        }
    }

    pub(super) fn recall(&mut self, client: usize, holder: Holder) {
        let run = self
            .clients
            .get_mut(client)
            .and_then(|client| client.run.as_mut());
        if let Some(run) = run.filter(|run| run.number == holder.0 && run.session.obedient) {
            // It returns only layouts that are not in use.
            run.recalled = run.handles.is_some();
            self.drive(client);
        }
    }

    pub(super) fn home_replied(&mut self, client: usize, id: u64, reply: Reply) {
        let Some(run) = self.answered(client, id) else {
            return;
        };
        match reply {
            Reply::Again => {
                self.after(Duration::from_millis(150), Event::Drive(client));
                return;
            }
            Reply::Expired | Reply::Gone => {
                self.end_session(client);
                return;
            }
            Reply::Size { .. } | Reply::Done if run.gave_up => run.gave_up = false,
            Reply::Layout(handles) => {
                run.handles = Some(handles);
                run.write_what_moved();
            }
            Reply::Size { change } => match &run.session.kind {
                Kind::Read(cell) if run.read.is_some() => {
                    let kept = (
                        run.session.file,
                        run.before == Some(change),
                        *cell,
                        run.read.flatten(),
                    );
                    self.keep(kept, change);
                    self.end_session(client);
                    return;
                }
                Kind::Read(_) => run.before = Some(change),
                Kind::Write { .. } if run.opened => run.claimed = true,
                _ => run.opened = true,
            },
            Reply::Done => {
                self.end_session(client);
                return;
            }
        }
        self.drive(client);
    }

    /// A reader may trust what it has read as long as the change attribute stays.
    fn keep(
        &mut self,
        (file, same, cell, value): (ObjectId, bool, u64, Option<Value>),
        change: u64,
    ) {
        if same {
            self.truth
                .kept
                .push((file, change, cell, value.map(|value| value.value)));
        }
    }

    pub(super) fn server_replied(&mut self, client: usize, server: usize, id: u64, reply: IoReply) {
        let Some(run) = self.answered(client, id) else {
            return;
        };
        match reply {
            IoReply::Stale => run.handles = None,
            IoReply::Read(value) => run.read = Some(value),
            IoReply::Written { run: of, order } => {
                let (file, sync) = (
                    run.session.file,
                    matches!(run.session.kind, Kind::Write { sync: true, .. }),
                );
                let attempts = std::mem::take(&mut run.attempts);
                if let Some((cell, value)) = run.todo.pop_front() {
                    run.end = run.end.max((cell + 1) * CELL);
                    run.unstable.insert(cell, (value, server, of, order));
                    if sync {
                        run.unstable.remove(&cell);
                        self.truth.commit(file, cell, order);
                    }
                }
                self.truth.superseded.extend(attempts);
            }
            IoReply::Committed { run: of } => {
                let file = run.session.file;
                let there: Vec<u64> = run
                    .unstable
                    .iter()
                    .filter(|(_, at)| at.1 == server)
                    .map(|(cell, _)| *cell)
                    .collect();
                let mut stable = BTreeSet::new();
                for cell in there {
                    let Some((value, _, of_write, order)) = run.unstable.remove(&cell) else {
                        continue;
                    };
                    if of_write == of {
                        stable.insert((cell, order));
                    } else {
                        run.todo.push_back((cell, value));
                    }
                }
                for (cell, order) in stable {
                    self.truth.commit(file, cell, order);
                }
            }
        }
        self.drive(client);
    }

    /// Uses a handle of an earlier session, or a handle that was never sealed.
    pub(super) fn replay(&mut self, client: usize) {
        let old = self.clients[client].old.clone();
        let Some(old) = self.random.pick(&old).copied() else {
            return;
        };
        let (session, file, server, mut handle) = (old.session, old.file, old.server, old.handle);
        let forged = self.random.chance(3);
        if forged {
            let bit = self.random.below(HANDLE_BYTES as u64 * 8) as usize;
            handle[bit / 8] ^= 1 << (bit % 8);
        }
        let cells: Vec<u64> = (0..CELLS)
            .filter(|cell| cell % old.share.1 == old.share.0)
            .collect();
        let cell = self.random.pick(&cells).copied().unwrap_or(0);
        let value = self.fresh();
        let io = if old.abandoned || forged {
            Io::Write(cell, value, true)
        } else {
            Io::Read(cell)
        };
        let request = IoRequest {
            id: self.fresh(),
            client: Some(client),
            session,
            file,
            handle,
            io,
            sent: self.tick(),
            connection: self.servers[server].connection,
            forged,
        };
        self.send(
            Node::Client(client),
            Node::Server(server),
            Cargo::Io(request),
        );
    }
}
