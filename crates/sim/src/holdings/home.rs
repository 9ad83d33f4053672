//! The home: each question has several steps, between which any event may happen.

use super::joined::{Answer, Asked, Question};
use super::world::{Event, SERVERS, World};
use ::homes::holdings::{Asking, Claims, Held, JoinedServer, Left};
use control::Moment;
use pool::LeaseSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::{ByteRange, LockKind, LockOwner, ObjectId, OpenOwner, ReplicaSlot, Share};

/// The length of a client's lease.
const CLIENT_LEASE: Duration = Duration::from_secs(4);
/// The interval between checks whether something has ended.
const LOOK_US: u64 = 5_000;

/// One joined server.
#[derive(Default)]
struct Account {
    joined: JoinedServer,
    /// Grows when active questions have to end before later ones begin.
    generation: u64,
    held: Held,
    heard: Moment,
}

/// An active question.
struct UnderWay {
    server: usize,
    generation: u64,
    /// Whether it opens or locks something.
    holds: bool,
}

/// The home, in one run.
pub(super) struct Home {
    pub(super) run: u64,
    pub(super) is_up: bool,
    /// The client that has locked each file.
    locks: BTreeMap<usize, usize>,
    accounts: BTreeMap<usize, Account>,
    pub(super) claims: Claims,
    /// By number: the server, and its run.
    layouts: BTreeMap<u64, (usize, u64)>,
    under_way: BTreeMap<u64, UnderWay>,
    /// Servers for which nothing is opened or locked now, and the question that requires this.
    alone: BTreeMap<usize, u64>,
    begun: u64,
    /// Servers that are being given up, one after another, as the home does it.
    giving_up: BTreeSet<usize>,
    /// What is stored on the disk.
    given_up: BTreeSet<ReplicaSlot>,
}

impl Default for Home {
    fn default() -> Home {
        Home {
            run: 0,
            is_up: false,
            locks: BTreeMap::new(),
            accounts: BTreeMap::new(),
            claims: Claims::new((Moment(0), Moment(0)), [], &BTreeSet::new()),
            layouts: BTreeMap::new(),
            under_way: BTreeMap::new(),
            alone: BTreeMap::new(),
            begun: 0,
            giving_up: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }
}

/// The step of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Hears,
    Begins,
    Waits,
    Does,
    /// A question about everything held waits until no open or lock is active.
    WaitsAlone,
    Fences,
    Settles,
    Notes,
}

/// A question at the home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) asked: Asked,
    pub(super) step: Step,
    pub(super) id: u64,
}

impl Task {
    fn asking(&self) -> Asking {
        Asking {
            run: self.asked.run,
            clients: self.asked.clients,
        }
    }
}

fn slot(server: usize) -> ReplicaSlot {
    ReplicaSlot(u16::try_from(server).unwrap_or(0) + 2)
}

fn object(file: usize) -> ObjectId {
    ObjectId::from_u64(10 + file as u64)
}

fn owner(client: usize) -> LockOwner {
    LockOwner {
        client: client.to_be_bytes().into(),
        owner: b"owner"[..].into(),
    }
}

fn opener(client: usize) -> OpenOwner {
    OpenOwner::new(&client.to_be_bytes(), b"owner")
}

/// Whether clients hold this file by an open that excludes all others, and not by a lock. Everything said of locks holds for both.
fn is_opened(file: usize) -> bool {
    file == 0
}

const ALONE: Share = Share {
    read: true,
    write: true,
    deny_read: true,
    deny_write: true,
};

impl World {
    pub(super) fn start_home(&mut self) {
        let run = self.home.run + 1;
        let given_up = std::mem::take(&mut self.home.given_up);
        let leased = match self.plan.rules.layouts_outlasted {
            true => LeaseSettings::default().granted_until(Moment(self.now)),
            false => Moment(self.now),
        };
        let moments = (leased, leased.after(CLIENT_LEASE));
        let mut claims = Claims::new(moments, (0..SERVERS).map(slot), &given_up);
        claims.end_here();
        self.home = Home {
            run,
            is_up: true,
            claims,
            given_up,
            ..Home::default()
        };
        self.at(1_000_000, Event::Look(run));
        self.home_is_there();
    }

    pub(super) fn crash_home(&mut self) {
        self.home.is_up = false;
        // A data server that knows no other run accepts them until its lease has run out.
        let until = LeaseSettings::default().relied_upon_until(Moment(self.now));
        for usable in self.usable.values_mut() {
            *usable = until.0.min(*usable);
        }
        self.home_is_gone();
    }

    pub(super) fn is_met(&mut self, server: usize, run: u64) {
        let now = Moment(self.now);
        let account = self.home.accounts.entry(server).or_default();
        account.meet(run);
        account.heard = now;
    }

    pub(super) fn step(&mut self, task: Task) {
        if !self.home.is_up || self.home.run != task.asked.to {
            return;
        }
        match task.step {
            Step::Hears => self.hears(task),
            Step::Begins => self.begins(task),
            Step::Waits => self.waits(task),
            Step::Does => self.does(task),
            Step::WaitsAlone => self.waits_alone(task),
            Step::Fences => self.fences(task),
            Step::Settles => self.settles(task),
            Step::Notes => self.notes(task),
        }
    }

    fn goes_on(&mut self, task: Task, step: Step) {
        let delay = self.pause();
        self.at(delay, Event::Step(Task { step, ..task }));
    }

    fn looks_again(&mut self, task: Task) {
        self.at(LOOK_US, Event::Step(task));
    }

    fn answers(&mut self, task: Task, answer: Answer) {
        let Asked {
            to,
            server,
            run,
            number,
            ..
        } = task.asked;
        if task.asked.question != Question::GiveBack {
            self.post(server, Event::Answered(server, (run, to, number), answer));
        }
    }

    /// Whether the home may carry it out.
    fn admits(&self, task: Task) -> bool {
        let account = self.home.accounts.get(&task.asked.server);
        !self.plan.rules.looked_at_again
            || account.is_some_and(|account| account.joined.admits(task.asking()))
    }

    fn hears(&mut self, task: Task) {
        let (server, now) = (task.asked.server, Moment(self.now));
        let account = self.home.accounts.entry(server).or_default();
        account.meet(task.asked.run);
        if account.joined.run() == task.asked.run {
            if account.joined.has_forgotten(task.asked.clients) {
                account.generation += 1;
            }
            if !account.joined.is_of(task.asking()) {
                return self.answers(task, Answer::Delay);
            }
            account.heard = now;
            if self.home.claims.take_late(slot(server)) {
                account.joined.give_up();
            }
            let is_given_up = account.joined.is_given_up();
            if is_given_up && task.asked.question != Question::HasForgotten {
                return self.answers(task, Answer::GivenUp);
            }
        }
        self.home.begun += 1;
        let id = self.home.begun;
        self.goes_on(Task { id, ..task }, Step::Begins);
    }

    fn begins(&mut self, task: Task) {
        use Question::{
            BeginAgain, EndReclaim, GiveBack, HasForgotten, Holds, Layout, Lease, Lock,
        };
        let server = task.asked.server;
        match task.asked.question {
            Lease => self.answers(task, Answer::Done),
            Holds(file, client) => {
                let may_hold = self.home.claims.expects(slot(server));
                let holds = may_hold || self.home.locks.get(&file) == Some(&client);
                self.answers(task, Answer::Holds(holds));
            }
            Lock(..) | Layout(..)
                if self.plan.rules.all_told_first
                    && !self.home.claims.are_over(Moment(self.now)) =>
            {
                self.answers(task, Answer::Delay);
            }
            BeginAgain | EndReclaim | HasForgotten | GiveBack => {
                self.goes_on(task, Step::WaitsAlone);
            }
            _ if !self.admits(task) => self.answers(task, Answer::Delay),
            _ => {
                let account = self.home.accounts.entry(server).or_default();
                let under_way = UnderWay {
                    server,
                    generation: account.generation,
                    holds: false,
                };
                self.home.under_way.insert(task.id, under_way);
                self.step(Task {
                    step: Step::Waits,
                    ..task
                });
            }
        }
    }

    /// Whether a question of a server is active that began before this generation.
    fn is_behind(&self, server: usize, generation: u64) -> bool {
        let mut under_way = self.home.under_way.values();
        under_way.any(|other| other.server == server && other.generation < generation)
    }

    fn waits(&mut self, task: Task) {
        let server = task.asked.server;
        let Some(own) = self.home.under_way.get(&task.id) else {
            return;
        };
        if self.is_behind(server, own.generation) {
            return self.looks_again(task);
        }
        if task.asked.question.is_holding() {
            if self.home.alone.contains_key(&server) {
                return self.looks_again(task);
            }
            if !self.admits(task) {
                self.home.under_way.remove(&task.id);
                return self.answers(task, Answer::Delay);
            }
            if let Some(own) = self.home.under_way.get_mut(&task.id) {
                own.holds = true;
            }
        }
        self.goes_on(task, Step::Does);
    }

    fn does(&mut self, task: Task) {
        let answer = match task.asked.question {
            Question::Lock(file, client) => self.lock(task, file, (client, None)),
            Question::LockAgain(file, client, grant) => {
                self.lock(task, file, (client, Some(grant)))
            }
            Question::Unlock(file, client) => {
                if self.home.locks.get(&file) == Some(&client) {
                    self.home.locks.remove(&file);
                }
                let account = self.home.accounts.entry(task.asked.server).or_default();
                account.holds_no_more(file, client);
                Answer::Done
            }
            Question::Write(file, client, grant) => {
                self.counts.written[0] += 1;
                self.uses("a write", file, (client, grant));
                Answer::Done
            }
            Question::Layout(..) => {
                self.grants += 1;
                let by = (task.asked.server, task.asked.run);
                self.home.layouts.insert(self.grants, by);
                self.usable.insert(self.grants, u64::MAX);
                Answer::Layout(self.grants)
            }
            Question::EndLayout(number) => {
                self.home.layouts.remove(&number);
                self.usable.remove(&number);
                Answer::Done
            }
            _ => Answer::Delay,
        };
        self.home.under_way.remove(&task.id);
        self.answers(task, answer);
    }

    /// Locks a file for a client, which may have had it before under a number.
    fn lock(&mut self, task: Task, file: usize, (client, had): (usize, Option<u64>)) -> Answer {
        let account = self.home.accounts.entry(task.asked.server).or_default();
        let Some(is_new) = account.is_to_hold(file, client) else {
            return Answer::Delay;
        };
        let holder = self.home.locks.get(&file).copied();
        if holder.is_some_and(|holder| holder != client) {
            if is_new {
                account.holds_no_more(file, client);
            }
            return Answer::Refused;
        }
        account.holds(file, client);
        self.home.locks.insert(file, client);
        if let Some(had) = had {
            self.uses("a lock that is told again", file, (client, had));
            return Answer::Granted(had);
        }
        if holder.is_none() {
            self.grants += 1;
            self.given[file] = (client, self.grants);
        }
        Answer::Granted(self.given[file].1)
    }

    fn waits_alone(&mut self, task: Task) {
        let server = task.asked.server;
        let generation = self
            .home
            .accounts
            .get(&server)
            .map_or(0, |account| account.generation);
        let is_behind = self.plan.rules.under_way_first && self.is_behind(server, generation);
        if is_behind || self.home.alone.contains_key(&server) {
            return self.looks_again(task);
        }
        self.home.alone.insert(server, task.id);
        self.goes_on(task, Step::Fences);
    }

    fn fences(&mut self, task: Task) {
        let server = task.asked.server;
        let mut under_way = self.home.under_way.values();
        if under_way.any(|other| other.server == server && other.holds) {
            return self.looks_again(task);
        }
        let until = match task.asked.question {
            Question::BeginAgain => task.asked.run,
            Question::EndReclaim => task.asked.run.saturating_sub(1),
            _ => u64::MAX,
        };
        if self.plan.rules.fenced_first {
            let layouts = self.home.layouts.iter();
            let ended = layouts.filter(|(_, (of, run))| *of == server && *run <= until);
            for number in ended.map(|(number, _)| *number).collect::<Vec<_>>() {
                self.home.layouts.remove(&number);
                self.usable.remove(&number);
            }
        }
        self.goes_on(task, Step::Settles);
    }

    fn settles(&mut self, task: Task) {
        let server = task.asked.server;
        self.home.alone.remove(&server);
        let is_overdue = self.is_overdue(server);
        let account = self.home.accounts.entry(server).or_default();
        let joined = &account.joined;
        let is_given_up = joined.is_given_up();
        if task.asked.question == Question::GiveBack {
            self.home.giving_up.remove(&server);
            if is_overdue && is_given_up {
                self.home.claims.give_up(slot(server));
            }
        }
        let goes = match task.asked.question {
            Question::GiveBack => is_given_up,
            Question::EndReclaim if self.plan.rules.told_to_this_run => {
                joined.admits(task.asking()) && joined.has_begun_telling()
            }
            Question::HasForgotten => joined.is_of(task.asking()),
            _ => joined.admits(task.asking()),
        };
        if !goes {
            return self.answers(task, Answer::Delay);
        }
        let left = match task.asked.question {
            Question::BeginAgain => {
                account.joined.begin_telling();
                account.held.begin_again();
                Left::default()
            }
            Question::EndReclaim => account.held.end_again(),
            _ => account.held.take(),
        };
        self.home.locks.retain(|file, client| {
            let (id, opener, owner) = (object(*file), opener(*client), owner(*client));
            let mut closed = left.closed.iter();
            let mut unlocked = left.unlocked.iter();
            !closed.any(|(of, by)| *of == id && *by == opener)
                && !unlocked.any(|(of, by, _)| *of == id && *by == owner)
        });
        match task.asked.question {
            Question::EndReclaim | Question::HasForgotten => self.goes_on(task, Step::Notes),
            _ => self.answers(task, Answer::Done),
        }
    }

    fn notes(&mut self, task: Task) {
        let server = task.asked.server;
        let account = self.home.accounts.entry(server).or_default();
        let is_so = match task.asked.question {
            Question::HasForgotten => account.joined.is_of(task.asking()),
            _ => account.joined.admits(task.asking()) && !account.is_silent(self.now),
        };
        if !is_so {
            return self.answers(task, Answer::Delay);
        }
        self.home.given_up.remove(&slot(server));
        self.home.claims.has_told(slot(server));
        if task.asked.question == Question::HasForgotten {
            let account = self.home.accounts.entry(server).or_default();
            account.joined.begin_anew(task.asking());
        }
        self.answers(task, Answer::Done);
    }

    /// Looks for lost servers.
    pub(super) fn look(&mut self, run: u64) {
        if !self.home.is_up || self.home.run != run {
            return;
        }
        self.at(1_000_000, Event::Look(run));
        for server in 0..SERVERS {
            let has_layout = self.home.layouts.values().any(|(of, _)| *of == server);
            let account = self.home.accounts.get(&server);
            let is_lost = account.is_some_and(|account| {
                let holds = has_layout || !account.held.is_empty();
                holds && account.is_silent(self.now) && !account.joined.is_given_up()
            });
            if (is_lost || self.is_overdue(server)) && self.home.giving_up.insert(server) {
                let delay = self.random.below(50_000);
                self.at(delay, Event::Noted(run, server));
            }
        }
    }

    /// It is stable that the holdings of a server's clients are given up.
    pub(super) fn noted(&mut self, run: u64, server: usize) {
        if !self.home.is_up || self.home.run != run {
            return;
        }
        if self.plan.rules.given_up_noted {
            self.home.given_up.insert(slot(server));
        }
        let is_late = self.is_overdue(server);
        let account = self.home.accounts.entry(server).or_default();
        let is_lost = is_late || account.is_silent(self.now);
        if is_lost {
            account.joined.give_up();
            account.generation += 1;
            self.counts.given_up += 1;
            let asked = Asked {
                to: run,
                server,
                run: 0,
                clients: 0,
                number: 0,
                question: Question::GiveBack,
            };
            self.home.begun += 1;
            let id = self.home.begun;
            let step = Step::WaitsAlone;
            self.step(Task { asked, step, id });
        } else {
            self.home.giving_up.remove(&server);
            self.home.given_up.remove(&slot(server));
        }
    }

    /// Whether a server has not told in time what its clients held before the home's start.
    fn is_overdue(&self, server: usize) -> bool {
        let overdue = self.home.claims.overdue(Moment(self.now));
        overdue.contains(&slot(server))
    }
}

impl Account {
    fn meet(&mut self, run: u64) {
        if self.joined.meet(run) {
            self.held.begin_again();
            self.generation += 1;
        }
    }

    /// Records it before the lock, as the home does. Whether the record is new.
    fn is_to_hold(&mut self, file: usize, client: usize) -> Option<bool> {
        match is_opened(file) {
            true => self.held.open(object(file), &opener(client), ALONE),
            false => self.held.locks(object(file), &owner(client)),
        }
    }

    fn holds(&mut self, file: usize, client: usize) {
        if !is_opened(file) {
            let (all, kind) = (ByteRange::EVERYTHING, LockKind::Write);
            self.held.locked(object(file), &owner(client), all, kind);
        }
    }

    fn holds_no_more(&mut self, file: usize, client: usize) {
        let all = ByteRange::EVERYTHING;
        match is_opened(file) {
            true => self.held.close(object(file), &opener(client)),
            false => self.held.unlocked(object(file), &owner(client), all, true),
        }
    }

    fn is_silent(&self, now: u64) -> bool {
        let stands = LeaseSettings::default().granted_until(self.heard);
        stands.after(CLIENT_LEASE) <= Moment(now)
    }
}
