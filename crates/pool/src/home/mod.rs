//! One home: the layouts of its files, the intents that data servers still owe, and the sizes of files that clients write directly.
//!
//! The requests for one file are handled in their order ([`Request`]). The caller has the rows and a clock, and carries
//! [`Command`]s out.

mod asking;
mod command;
mod fencing;
mod file;
mod keys;
mod moving;
mod request;
mod servers;
mod sweeping;

pub use command::{Command, Record};
pub use file::FileRow;
pub use request::{Holder, Outcome, Request};
pub use servers::{ServerView, Stranger};

use crate::handle::{Access, Capability, Handle};
use crate::keys::KeySource;
use crate::lease::LeaseSettings;
use crate::message::{Intent, IntentNumber, StoreIdentity, ToDataServer, ToHome};
use crate::numbers::{DataServerNumber, HomeNumber, IssueNumber, KeyNumber};
use crate::rules::Rules;
use control::{Mark, Moment, OperationId};
use file::File;
use keys::Keys;
use servers::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::ObjectId;

/// Times and rules of a home.
#[derive(Clone, Copy, Debug)]
pub struct HomeSettings {
    /// The leases of data servers.
    pub lease: LeaseSettings,
    /// How long clients that are asked for a layout may keep it before they are fenced.
    pub recall_patience: Duration,
    /// How long one key seals handles. It counts for the same time again, and longer if layouts under it are not returned yet.
    pub key_life: Duration,
    /// Other servers may change the files (rule 11). Clients get layouts only for reading, and only as long as [`Home::bound_clients`] says.
    pub shares_files: bool,
    /// For tests: the rules in force.
    pub rules: Rules,
}

impl Default for HomeSettings {
    fn default() -> HomeSettings {
        HomeSettings {
            lease: LeaseSettings::default(),
            recall_patience: Duration::from_secs(2),
            key_life: Duration::from_hours(24),
            shares_files: false,
            rules: Rules::ALL,
        }
    }
}

/// A stable intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// What is to be done.
    pub intent: Intent,
    /// The data servers that have not reported it as done.
    pub owed: BTreeSet<DataServerNumber>,
    /// The row includes the result of the intent.
    pub in_row: bool,
}

/// What a home finds on its disk when it starts.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The data servers of the pool, with the last known contents of each.
    pub servers: BTreeMap<DataServerNumber, Option<StoreIdentity>>,
    /// The intents, by number.
    pub intents: Vec<Owed>,
    /// The rows of all files with an intent whose result is not in the row.
    pub files: Vec<FileRow>,
    /// The targets of unfinished moves: contents that no row names ([`Recovered::give_moves_up`]).
    pub moves: Vec<FileRow>,
    /// Larger than every intent number used before.
    pub next_intent: u64,
}

/// One run of a home.
#[derive(Clone, Debug)]
pub struct Home {
    number: HomeNumber,
    issue: IssueNumber,
    keys: Keys,
    settings: HomeSettings,
    servers: BTreeMap<DataServerNumber, Server>,
    earlier_over: Moment,
    /// Data servers that were removed. Their leases may not have run out.
    dismissed: BTreeSet<DataServerNumber>,
    files: BTreeMap<ObjectId, File>,
    intents: BTreeMap<IntentNumber, Owed>,
    next_intent: u64,
    next_question: u64,
    /// Until then clients may read the files, and other servers may not change them unseen. `None`: only this home decides about the files.
    clients_until: Option<Moment>,
    /// The file of each question that is not answered yet.
    questions: BTreeMap<u64, ObjectId>,
    /// The number of records handed out.
    recorded: u64,
    /// The commands for the caller at the end of a call.
    commands: Vec<Command>,
}

impl Home {
    /// Starts a home. It has made the numbers of its issue and of its first key stable, and never used them before. The secret for its keys is
    /// drawn at random.
    #[must_use]
    pub fn new(
        number: HomeNumber,
        issue: IssueNumber,
        (first, source): (KeyNumber, KeySource),
        settings: HomeSettings,
        started: Moment,
        recovered: Recovered,
    ) -> Home {
        let forgotten = match settings.rules.forgotten_leases_waited_for() {
            true => settings.lease.granted_until(started),
            false => started,
        };
        // Without data servers there is no lease.
        let earlier_over = match recovered.servers.is_empty() {
            true => started,
            false => forgotten,
        };
        let server = |(number, identity)| (number, Server::new(identity, forgotten));
        let mut home = Home {
            number,
            issue,
            keys: Keys::new(first, source, started, settings.key_life),
            settings,
            servers: recovered.servers.into_iter().map(server).collect(),
            earlier_over,
            dismissed: BTreeSet::new(),
            files: BTreeMap::new(),
            intents: BTreeMap::new(),
            next_intent: recovered.next_intent,
            // Question numbers differ from those of other runs: an old answer may come late.
            next_question: issue.0 << 32,
            clients_until: settings.shares_files.then_some(Moment(0)),
            questions: BTreeMap::new(),
            recorded: 0,
            commands: Vec::new(),
        };
        for row in &recovered.files {
            home.files.insert(row.contents.object, File::new(row));
        }
        for owed in recovered.intents {
            home.resume(started, owed);
        }
        home
    }

    /// A data server has sent a message.
    pub fn handle(&mut self, now: Moment, from: DataServerNumber, message: ToHome) -> Vec<Command> {
        match message {
            ToHome::LeaseRequest { asked, identity } => self.ask(now, from, (asked, identity)),
            ToHome::Taken { number, report } => self.taken(now, from, number, report),
            ToHome::Looked { question, report } => {
                self.looked(now, from, question, report);
            }
        }
        self.take_commands()
    }

    /// A request for a file. `row` is its row; it does not count while the home knows better.
    pub fn request(
        &mut self,
        now: Moment,
        row: &FileRow,
        operation: OperationId,
        request: Request,
    ) -> Vec<Command> {
        let object = row.contents.object;
        self.files.entry(object).or_insert_with(|| File::new(row));
        self.accept(object, operation, request);
        self.advance(now, object);
        self.take_commands()
    }

    /// Until this moment no other server changes files without asking (rule 11). Data servers serve clients at most until then, and a server that
    /// asks is answered only after their layouts are fenced. The last call counts.
    pub fn bound_clients(&mut self, until: Moment) {
        if let Some(before) = &mut self.clients_until {
            *before = until;
        }
    }

    /// The files that clients may use directly: a client has a layout, or a fence of earlier layouts is not done. An
    /// [`Act::Fence`](crate::Act::Fence) that is requested from now on ends all earlier layouts of a file.
    #[must_use]
    pub fn held(&self) -> Vec<ObjectId> {
        let counts = self.settings.rules.fences_under_way_count();
        let held = self
            .files
            .iter()
            .filter(|(_, file)| !file.holders.is_empty() || (counts && file.is_being_fenced()));
        held.map(|(object, _)| *object).collect()
    }

    /// From when on no data server serves by a lease of an earlier run.
    #[must_use]
    pub fn earlier_over(&self) -> Moment {
        self.earlier_over
    }

    /// When [`Home::handle_timer`] has to be called, if nothing else happens.
    #[must_use]
    pub fn next_timer(&self) -> Option<Moment> {
        let files = self.files.values();
        let files = files.filter_map(|file| self.wakes(file)).min();
        let keys = self.keys_wake();
        Some(files.map_or(keys, |files| files.min(keys)))
    }

    /// Time has passed.
    pub fn handle_timer(&mut self, now: Moment) -> Vec<Command> {
        let objects: Vec<ObjectId> = self.files.keys().copied().collect();
        for object in objects {
            self.time_passed(now, object);
        }
        self.change_keys(now);
        self.take_commands()
    }

    /// A data server has joined the pool. A known one does not change.
    pub fn add_server(&mut self, number: DataServerNumber, joined: Moment) {
        let server = || Server::new(None, joined);
        self.servers.entry(number).or_insert_with(server);
    }

    /// Whether any client may write to a file directly; with a holder, whether this holder may.
    #[must_use]
    pub fn is_written(&self, object: ObjectId, by: Option<Holder>) -> bool {
        let Some(file) = self.files.get(&object) else {
            return false;
        };
        match by {
            None => file.has_writers(),
            Some(holder) => {
                let held = file.holders.get(&holder);
                held.is_some_and(|held| held.access == Access::ReadWrite)
            }
        }
    }

    /// A handle for the home's own reads and writes at one of the data servers of the file with this row.
    #[must_use]
    pub fn own_handle(&self, row: &FileRow, server: DataServerNumber) -> Handle {
        let capability = Capability {
            home: self.number,
            issue: self.issue,
            object: row.contents.object,
            placement: row.contents.placement,
            generation: row.generation,
            access: Access::Home,
        };
        self.keys.sealing().seal(&capability, server)
    }

    fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    fn record(&mut self, record: Record) -> Mark {
        self.recorded += 1;
        self.commands.push(Command::Persist(record));
        self.mark()
    }

    /// The position after all records until now.
    fn mark(&self) -> Mark {
        Mark(self.recorded)
    }

    fn send(&mut self, to: DataServerNumber, message: ToDataServer) {
        let after = self.mark();
        self.commands.push(Command::Send { to, message, after });
    }

    /// Sends a data server an intent to carry out.
    fn send_intent(&mut self, to: DataServerNumber, intent: Intent) {
        let key = self.keys.last_of_removed();
        self.send(to, ToDataServer::Take(intent, key));
    }

    fn answer(&mut self, operation: OperationId, outcome: Outcome) {
        let after = self.mark();
        self.commands.push(Command::Answer {
            operation,
            outcome,
            after,
        });
    }
}
