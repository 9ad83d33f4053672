//! A pool with scripted events: one home, one data server, one file. The test chooses every message,
//! every stall and every step of time; nothing is drawn at random.
//!
//! The cores are those of production. Records of the home are stable as soon as it has made them. The data server carries out a home's request
//! about contents as soon as its core lets it begin. Only reads and writes of clients take time, between [`Stage::begin`] and
//! [`Stage::end`].

use super::disk::{HomeDisk, Present, ServerDisk, forget, number};
use super::event::{HOME, Value};
use super::faults::FILES;
use control::{Moment, OperationId};
use pool::data_server::{self, DataServer, Ticket};
use pool::home::{self, FileRow, Home, HomeSettings, Outcome, Request};
use pool::{
    Access, ContentsId, Generation, Handle, IssueNumber, KeyNumber, KeySource, LeaseSettings,
    PlacementNumber, Rules, StoreIdentity, ToDataServer, ToHome,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use vfs::ObjectId;

/// The file.
const FILE: ObjectId = FILES[0];

/// The interval between timers of the home while time passes.
const STEP: Duration = Duration::from_millis(50);

/// How long the home seals handles with one key.
pub const KEY_LIFE: Duration = Duration::from_mins(1);

/// A client's request for a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellIo {
    /// Read its value.
    Read(u64),
    /// Write a value that may be lost with the run of the data server.
    Write(u64, u64),
    /// Write a value that stays.
    WriteStable(u64, u64),
}

impl CellIo {
    fn access(self) -> Access {
        match self {
            CellIo::Read(_) => Access::Read,
            CellIo::Write(..) | CellIo::WriteStable(..) => Access::ReadWrite,
        }
    }
}

/// A read or write that the data server has admitted.
#[derive(Debug)]
pub struct Admitted {
    ticket: Ticket,
    contents: ContentsId,
    io: CellIo,
}

/// The answer to a client if the data server carries its request out: the value of the cell.
pub type Told = Option<Option<u64>>;

/// The pool, and the contents of its disks.
#[derive(Debug)]
pub struct Stage {
    rules: Rules,
    now: Moment,
    home: Home,
    home_disk: HomeDisk,
    server: DataServer,
    server_disk: ServerDisk,
    present: Present,
    /// The last lease request of this run was answered.
    answered: bool,
    connection: u64,
    link_is_cut: bool,
    to_home: VecDeque<ToHome>,
    to_server: VecDeque<ToDataServer>,
    outcomes: BTreeMap<OperationId, Outcome>,
    operations: u64,
}

impl Stage {
    /// Home and data server run; the data server has no lease yet.
    #[must_use]
    pub fn new(rules: Rules) -> Stage {
        let (now, mut disk) = (Moment(1_000_000), HomeDisk::new(1, &[FILE]));
        let server_disk = ServerDisk {
            identity: StoreIdentity {
                store: 7,
                counter: StoreIdentity::counted_start(0),
                run: 1,
            },
            contents: BTreeMap::new(),
        };
        Stage {
            rules,
            now,
            home: start(rules, now, &mut disk),
            home_disk: disk,
            server: DataServer::new(number(0), LeaseSettings::default(), rules),
            present: present(&server_disk),
            server_disk,
            answered: false,
            connection: 0,
            link_is_cut: false,
            to_home: VecDeque::new(),
            to_server: VecDeque::new(),
            outcomes: BTreeMap::new(),
            operations: 0,
        }
    }

    /// Time passes at the home, and on the data server's clock. The data server itself does nothing, as if it stood still.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now.after(span);
        while self.now < end {
            self.now = self.now.after(STEP).min(end);
            if self.home.next_timer().is_some_and(|at| at <= self.now) {
                let commands = self.home.handle_timer(self.now);
                self.home_commands(commands);
            }
        }
    }

    /// Cuts the connection between home and data server: messages on their way are lost, and later ones do not arrive.
    pub fn cut(&mut self) {
        self.link_is_cut = true;
        self.to_home.clear();
        self.to_server.clear();
    }

    /// Mends the connection for later messages.
    pub fn mend(&mut self) {
        self.link_is_cut = false;
    }

    /// The data server sends a lease request.
    pub fn ask(&mut self) {
        if std::mem::take(&mut self.answered) {
            let counter = &mut self.server_disk.identity.counter;
            *counter = StoreIdentity::counted_answer(*counter);
        }
        let command = self.server.ask(self.now, HOME, self.server_disk.identity);
        self.server_commands(vec![command]);
    }

    /// The home receives all that the data server has sent.
    pub fn home_receives(&mut self) {
        while let Some(message) = self.to_home.pop_front() {
            let commands = self.home.handle(self.now, number(0), message);
            self.home_commands(commands);
        }
    }

    /// The connection breaks, and the next message from the home to the data server is lost.
    pub fn lose_next(&mut self) -> Option<ToDataServer> {
        self.to_server.pop_front()
    }

    /// Home and data server receive what was sent, and the messages that follow from it.
    pub fn exchange(&mut self) {
        self.home_receives();
        while self.server_receives_next() {
            self.home_receives();
        }
    }

    /// The data server receives the next message from the home, if there is one.
    pub fn server_receives_next(&mut self) -> bool {
        let Some(message) = self.to_server.pop_front() else {
            return false;
        };
        self.answered |= matches!(message, ToDataServer::Lease { .. });
        let commands = self.server.handle(self.now, &self.present, HOME, message);
        self.server_commands(commands);
        true
    }

    /// The data server asks for a lease, and all messages arrive.
    pub fn lease(&mut self) {
        self.ask();
        self.exchange();
    }

    /// The home loses what is not on its disk. It is restarted at once, under a new issue number, and keeps its key.
    pub fn restart_home(&mut self) {
        self.to_home.clear();
        self.to_server.clear();
        self.home = start(self.rules, self.now, &mut self.home_disk);
    }

    /// The data server loses what is not on its disk, and is restarted at once, without a lease.
    pub fn restart_server(&mut self) {
        self.to_home.clear();
        self.to_server.clear();
        self.connection += 1;
        self.server_disk.identity.run += 1;
        self.present = present(&self.server_disk);
        self.server = DataServer::new(number(0), LeaseSettings::default(), self.rules);
        self.answered = false;
        let counter = &mut self.server_disk.identity.counter;
        *counter = StoreIdentity::counted_start(*counter);
    }

    /// A request to the home. The messages between home and data server that follow still have to be exchanged.
    ///
    /// # Panics
    /// When the file is gone.
    pub fn request(&mut self, request: Request) -> OperationId {
        let operation = OperationId(self.operations);
        self.operations += 1;
        let row = self.home_disk.rows.get(&FILE).map(|row| row.row.clone());
        let row = row.expect("the file is there");
        let commands = self.home.request(self.now, &row, operation, request);
        self.home_commands(commands);
        operation
    }

    /// Begins to move the file, onto the same data server. Returns its future row.
    ///
    /// # Panics
    /// When the file is gone.
    pub fn move_file(&mut self) -> (OperationId, FileRow) {
        let operation = OperationId(self.operations);
        self.operations += 1;
        let row = self.home_disk.rows[&FILE].row.clone();
        let to = FileRow {
            contents: ContentsId {
                placement: PlacementNumber(self.home_disk.next_placement),
                ..row.contents
            },
            generation: Generation::FIRST,
            ..row.clone()
        };
        let commands = self.home.move_file(&row, to.clone(), operation);
        self.home_commands(commands);
        (operation, to)
    }

    /// The outcome of an operation, if it is done.
    #[must_use]
    pub fn outcome(&self, operation: OperationId) -> Option<&Outcome> {
        self.outcomes.get(&operation)
    }

    /// Lets time pass until an operation is done, at most half a minute.
    ///
    /// # Panics
    /// When it is not done by then.
    pub fn until_done(&mut self, operation: OperationId) -> Outcome {
        let end = self.now.after(Duration::from_secs(30));
        while self.now < end && self.outcome(operation).is_none() {
            self.pass(STEP);
        }
        let outcome = self.outcome(operation).cloned();
        outcome.expect("an operation is done within half a minute")
    }

    /// The same, and all messages arrive.
    ///
    /// # Panics
    /// When it is not done by then.
    pub fn until_done_exchanging(&mut self, operation: OperationId) -> Outcome {
        let end = self.now.after(Duration::from_secs(30));
        while self.now < end && self.outcome(operation).is_none() {
            self.exchange();
            self.pass(STEP);
        }
        self.until_done(operation)
    }

    /// The home gives a layout. Returns the client's handle for the data server.
    ///
    /// # Panics
    /// When the home gives none.
    pub fn layout(&mut self, holder: home::Holder, access: Access) -> Handle {
        let operation = self.request(Request::Layout(holder, access));
        if self.outcome(operation).is_none() {
            self.exchange();
        }
        match self.outcome(operation) {
            Some(Outcome::Layout(handles)) => handles[0].1,
            other => panic!("no layout: {other:?}"),
        }
    }

    /// A handle for the home's own reads and writes at the data server, for its present row.
    ///
    /// # Panics
    /// When the file is gone.
    pub fn own_handle(&self) -> Handle {
        let row = &self.home_disk.rows[&FILE].row;
        self.home.own_handle(row, number(0))
    }

    /// The same for contents that no row names yet.
    #[must_use]
    pub fn handle_of(&self, row: &FileRow) -> Handle {
        self.home.own_handle(row, number(0))
    }

    /// The size in the row; 0: there is no file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.home_disk.rows.get(&FILE).map_or(0, |row| row.row.size)
    }

    /// The newest key in leases.
    #[must_use]
    pub fn newest_key(&self) -> KeyNumber {
        self.home_disk.key
    }

    /// Whether the home believes that a holder has a layout for writing.
    #[must_use]
    pub fn is_written_by(&self, holder: home::Holder) -> bool {
        self.home.is_written(FILE, Some(holder))
    }

    /// Whether the home says that clients may use the file directly.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.home.held().contains(&FILE)
    }

    /// The number of tombstones at the data server.
    #[must_use]
    pub fn tombstones(&self) -> usize {
        let all = self.server_disk.contents.values();
        let fenced = all.filter_map(|contents| contents.fenced);
        fenced.filter(|fenced| fenced.removed).count()
    }

    /// Lets time pass until the home has had this number of further keys. The data server asks for a lease each second.
    pub fn pass_keys(&mut self, keys: u32) {
        let until = KeyNumber(self.newest_key().0 + keys);
        while self.newest_key() < until {
            self.pass(Duration::from_secs(1));
            self.lease();
        }
    }

    /// The number of contents with a cell at the data server.
    #[must_use]
    pub fn contents_kept(&self) -> usize {
        let all = self.present.contents.values();
        all.filter(|contents| !contents.cells.is_empty()).count()
    }

    /// The change attribute of the file; 0: there is no file.
    #[must_use]
    pub fn change(&self) -> u64 {
        self.home_disk.rows.get(&FILE).map_or(0, |row| row.change)
    }

    /// The value of a cell at the data server.
    #[must_use]
    pub fn value(&self, cell: u64) -> Option<u64> {
        let mut all = self.present.contents.values();
        all.find_map(|contents| contents.cells.get(&cell).map(|value| value.value))
    }

    /// The present connection of a client to the data server. Requests over another connection are ignored.
    #[must_use]
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// The time of the clocks.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// The data server checks a request of a client; `None`: it refuses it.
    pub fn begin(&mut self, handle: &Handle, io: CellIo) -> Option<Admitted> {
        self.begin_over(self.now, handle, io)
    }

    /// The same over a connection that was made at this moment, and has not been closed since.
    pub fn begin_over(
        &mut self,
        connected: Moment,
        handle: &Handle,
        io: CellIo,
    ) -> Option<Admitted> {
        let (bytes, times) = (handle.as_bytes(), (self.now, connected));
        let begun = self.server.begin(times, &self.present, bytes, io.access());
        let (ticket, capability) = begun.ok()?;
        Some(Admitted {
            ticket,
            contents: capability.contents(),
            io,
        })
    }

    /// An admitted request happens, and the client gets the answer, if it may.
    pub fn end(&mut self, admitted: Admitted) -> Told {
        let contents = self.present.contents.entry(admitted.contents).or_default();
        let told = match admitted.io {
            CellIo::Read(cell) => contents.cells.get(&cell).map(|value| value.value),
            CellIo::Write(cell, value) | CellIo::WriteStable(cell, value) => {
                contents.write(cell, Value { value, order: 0 });
                *self.present.writes.entry(admitted.contents).or_default() += 1;
                Some(value)
            }
        };
        if matches!(admitted.io, CellIo::WriteStable(..)) {
            self.flush(admitted.contents);
        }
        let (answered, commands) = self.server.finish(self.now, &self.present, admitted.ticket);
        self.server_commands(commands);
        answered.ok().map(|()| told)
    }

    /// A request of a client that takes no time at the data server.
    pub fn io(&mut self, handle: &Handle, io: CellIo) -> Told {
        let admitted = self.begin(handle, io)?;
        self.end(admitted)
    }

    fn flush(&mut self, contents: ContentsId) {
        if let Some(present) = self.present.contents.get(&contents) {
            let disk = &mut self.server_disk.contents;
            disk.insert(contents, present.clone());
        }
    }

    fn home_commands(&mut self, commands: Vec<home::Command>) {
        for command in commands {
            match command {
                home::Command::Persist(record) => self.home_disk.apply(&record),
                home::Command::Send { message, .. } if !self.link_is_cut => {
                    self.to_server.push_back(message);
                }
                home::Command::Answer {
                    operation, outcome, ..
                } => {
                    self.outcomes.insert(operation, outcome);
                }
                // Clients here return a layout when the test says so.
                home::Command::Send { .. } | home::Command::Recall(..) => {}
            }
        }
    }

    fn server_commands(&mut self, commands: Vec<data_server::Command>) {
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
            let further = match command {
                data_server::Command::Send(_, message) => {
                    if !self.link_is_cut {
                        self.to_home.push_back(message);
                    }
                    Vec::new()
                }
                data_server::Command::Forget(_, oldest) => {
                    forget(&mut self.present.contents, oldest);
                    forget(&mut self.server_disk.contents, oldest);
                    Vec::new()
                }
                data_server::Command::CarryOut(home, intent, key) => {
                    let contents = self.present.contents.entry(intent.contents).or_default();
                    contents.carry_out(&intent, key);
                    self.flush(intent.contents);
                    self.server.carried_out(&self.present, home, intent)
                }
                data_server::Command::MakeStable(home, question, contents) => {
                    self.flush(contents);
                    let present = &self.present;
                    self.server.made_stable(present, home, question, contents)
                }
                data_server::Command::DropConnections => {
                    self.connection += 1;
                    Vec::new()
                }
            };
            commands.extend(further);
        }
    }
}

fn start(rules: Rules, now: Moment, disk: &mut HomeDisk) -> Home {
    disk.issue += 1;
    let settings = HomeSettings {
        rules,
        key_life: KEY_LIFE,
        ..HomeSettings::default()
    };
    let (issue, source) = (IssueNumber(disk.issue), KeySource::new([9; 32]));
    Home::new(HOME, issue, (disk.key, source), settings, now, disk.start())
}

fn present(disk: &ServerDisk) -> Present {
    Present {
        run: disk.identity.run,
        contents: disk.contents.clone(),
        writes: BTreeMap::new(),
    }
}
