//! One run of a metadata server: what it decides as a home, what it prepares for other homes, and which copies it has.

mod copies;
mod deciding;
mod holders;
mod locks;
mod looking;
mod peer;
mod preparing;

use crate::book::Book;
use crate::message::{Body, Message, OperationName};
use crate::part::Part;
use crate::rules::Rules;
use crate::tree::{Recovered, Tree};
use crate::wish::{Answer, Call, Origin, Wish};
use control::Moment;
use deciding::Operation;
use locks::Locks;
use looking::{Question, Waiter};
use peer::Peer;
use pool::{HomeNumber, LeaseSettings};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use vfs::ObjectId;

/// Times, bounds and rules of a metadata server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The leases under which copies are kept.
    pub lease: LeaseSettings,
    /// After this time, what was not answered is sent again.
    pub repeat: Duration,
    /// The maximum number of objects of which each other metadata server may have copies.
    pub copies_max: usize,
    /// For tests: the rules in force.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease: LeaseSettings::default(),
            repeat: Duration::from_millis(200),
            copies_max: 1 << 16,
            rules: Rules::ALL,
        }
    }
}

/// To be done in the given order, and only when everything that this call and earlier calls committed is stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A message for another metadata server.
    Send(HomeNumber, Message),
    /// The answer to a client that asked here.
    Answer(Origin, Answer),
}

/// One call: its time, its tree, and its commands.
struct Context<'a> {
    now: Moment,
    tree: &'a mut dyn Tree,
    commands: Vec<Command>,
}

/// One run of a metadata server.
#[derive(Clone, Debug)]
pub struct MetadataServer {
    number: HomeNumber,
    run: u64,
    book: Book,
    settings: Settings,
    /// Until then there may be copies that only the earlier run knew.
    forgotten_until: Moment,
    peers: BTreeMap<HomeNumber, Peer>,
    /// Unanswered changes that clients asked for here, and the homes that decide them.
    requests: BTreeMap<Origin, (HomeNumber, Wish)>,
    /// Questions to other homes that are not answered yet.
    questions: BTreeMap<u64, Question>,
    next_question: u64,
    /// The last answer to each client here, refusals included.
    answers: BTreeMap<u64, (u64, Answer)>,
    /// The operations that this home decides and has not decided yet, by number.
    operations: BTreeMap<u64, Operation>,
    next_operation: u64,
    /// The operations that were carried out, and the homes that may not know it.
    decided: BTreeMap<OperationName, BTreeSet<HomeNumber>>,
    /// Stably prepared parts of operations that other homes decide.
    prepared: BTreeMap<OperationName, BTreeMap<u8, Part>>,
    /// Such parts while copies are being revoked.
    preparing: BTreeMap<(OperationName, u8), Part>,
    /// Operations of other homes that this home carried out, until no server sends messages about them any more.
    finished: BTreeSet<OperationName>,
    locks: Locks,
    waiting: BTreeMap<ObjectId, Vec<Waiter>>,
    /// Waiters that need not wait any more.
    woken: VecDeque<Waiter>,
    ticked: Moment,
}

impl MetadataServer {
    /// Starts a metadata server, and returns its first commands. The number of its run is not 0, and larger than that of earlier runs.
    #[must_use]
    pub fn new(
        number: HomeNumber,
        run: u64,
        book: Book,
        settings: Settings,
        started: Moment,
        recovered: Recovered,
    ) -> (MetadataServer, Vec<Command>) {
        let others = book.homes().into_iter().filter(|home| *home != number);
        let forgotten_until = match settings.rules.forgotten_copies_waited_for() {
            true => settings.lease.granted_until(started),
            false => started,
        };
        let mut server = MetadataServer {
            number,
            run,
            peers: others
                .map(|home| (home, Peer::new(settings.copies_max)))
                .collect(),
            book,
            settings,
            forgotten_until,
            requests: BTreeMap::new(),
            questions: BTreeMap::new(),
            next_question: 1,
            answers: recovered.answers,
            operations: BTreeMap::new(),
            next_operation: 1,
            decided: recovered.decided,
            prepared: recovered.prepared,
            preparing: BTreeMap::new(),
            finished: BTreeSet::new(),
            locks: Locks::new(settings.rules),
            waiting: BTreeMap::new(),
            woken: VecDeque::new(),
            ticked: started,
        };
        for (operation, parts) in &server.prepared {
            for part in parts.values() {
                let (object, claim) = (part.object(), part.claim());
                server.locks.take(*operation, object, claim.clone());
                server.locks.prepared(*operation, object, &claim);
            }
        }
        let homes: Vec<HomeNumber> = server.peers.keys().copied().collect();
        let hello = |home| Command::Send(home, server.message(home, Body::Hello));
        let commands = homes.into_iter().map(hello).collect();
        (server, commands)
    }

    /// A client sends or repeats a request.
    pub fn call(
        &mut self,
        now: Moment,
        tree: &mut dyn Tree,
        origin: Origin,
        call: Call,
    ) -> Vec<Command> {
        self.with_context(now, tree, |server, context| match call {
            Call::Change(wish) => server.ask_for_change(context, origin, wish),
            Call::Look(look) => server.ask_for_client(context, origin, look),
        })
    }

    /// Another metadata server has sent a message.
    pub fn receive(
        &mut self,
        now: Moment,
        tree: &mut dyn Tree,
        from: HomeNumber,
        message: Message,
    ) -> Vec<Command> {
        self.with_context(now, tree, |server, context| {
            if server.admits(context, from, &message) {
                server.act(context, from, message.body);
            }
        })
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment, tree: &mut dyn Tree) -> Vec<Command> {
        self.ticked = now;
        self.with_context(now, tree, |server, context| {
            server.repeat_questions(context);
            server.repeat_tellings(context);
            server.repeat_operations(context);
            server.go_on(context);
        })
    }

    /// When [`MetadataServer::tick`] has something to do.
    #[must_use]
    pub fn wakes(&self) -> Option<Moment> {
        let is_idle = self.requests.is_empty()
            && self.questions.is_empty()
            && self.operations.is_empty()
            && self.decided.is_empty()
            && self.prepared.is_empty()
            && self.preparing.is_empty()
            && self.peers.values().all(|peer| peer.holder.has_been_told());
        (!is_idle).then(|| self.ticked.after(self.settings.repeat))
    }

    /// Whether nothing is active, locked, or waited for.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.wakes().is_none() && self.locks.is_empty() && self.waiting.is_empty()
    }

    /// A client is gone, and has no active request: its last answer is not needed any more.
    pub fn forget(&mut self, client: u64) {
        self.answers.remove(&client);
    }

    fn with_context(
        &mut self,
        now: Moment,
        tree: &mut dyn Tree,
        act: impl FnOnce(&mut MetadataServer, &mut Context<'_>),
    ) -> Vec<Command> {
        let mut context = Context {
            now,
            tree,
            commands: Vec::new(),
        };
        act(self, &mut context);
        while let Some(waiter) = self.woken.pop_front() {
            self.resume(&mut context, waiter);
        }
        context.commands
    }

    fn act(&mut self, context: &mut Context<'_>, from: HomeNumber, body: Body) {
        match body {
            Body::Hello => {}
            Body::Request { origin, wish } => self.request(context, from, origin, wish),
            Body::Answered { origin, answer } => self.answered(context, origin, answer),
            Body::Fetch {
                question,
                asked,
                look,
            } => self.fetch(context, (from, question, asked), look),
            Body::Fetched {
                question,
                answer,
                told,
                lease,
                keep,
            } => self.fetched(context, from, (question, answer), (told, lease, keep)),
            Body::Tell { number, object } => self.told_by(context, from, number, object),
            Body::Told { number } => {
                if let Some(peer) = self.peers.get_mut(&from) {
                    peer.holder.has_taken(number);
                }
                self.go_on(context);
            }
            Body::Prepare {
                operation,
                index,
                part,
            } => self.prepare(context, from, (operation, index), part),
            Body::Prepared {
                operation,
                index,
                result,
            } => self.is_prepared(context, from, (operation, index), result),
            Body::Finish { operation, done } => self.finish(context, from, operation, done),
            Body::Finished { operation } => self.is_finished(context, from, operation),
            Body::OutcomeRequest { operation } => self.tell_outcome(context, from, operation),
        }
    }

    fn message(&self, to: HomeNumber, body: Body) -> Message {
        let active = self.operations.keys().next().copied();
        let own = self.decided.keys().filter(|name| name.run == self.run);
        let decided = own.map(|name| name.number).min();
        let oldest = active.into_iter().chain(decided).min();
        Message {
            from_run: self.run,
            to_run: self.peers.get(&to).map_or(0, |peer| peer.run),
            oldest: oldest.unwrap_or(self.next_operation),
            body,
        }
    }

    fn send(&self, context: &mut Context<'_>, to: HomeNumber, body: Body) {
        context
            .commands
            .push(Command::Send(to, self.message(to, body)));
    }

    fn wait(&mut self, object: ObjectId, waiter: Waiter) {
        let waiting = self.waiting.entry(object).or_default();
        if !waiting.contains(&waiter) {
            waiting.push(waiter);
        }
    }

    /// An operation is over: its waiters go on.
    fn release(&mut self, operation: OperationName) {
        for object in self.locks.release(operation) {
            let waiters = self.waiting.remove(&object);
            self.woken.extend(waiters.into_iter().flatten());
        }
    }

    fn resume(&mut self, context: &mut Context<'_>, waiter: Waiter) {
        match waiter {
            Waiter::Operation(number) => self.advance(context, number),
            Waiter::Prepare(from, step, part) => self.prepare(context, from, step, part),
            Waiter::Fetch(asker, look) => self.fetch(context, asker, look),
            Waiter::Own(purpose, look) => self.ask_for(context, purpose, look),
        }
    }

    /// Copies that something waits for may be revoked.
    fn go_on(&mut self, context: &mut Context<'_>) {
        let operations: Vec<u64> = self.operations.keys().copied().collect();
        for number in operations {
            self.revoked(context, number);
        }
        let preparing: Vec<_> = self.preparing.keys().copied().collect();
        for step in preparing {
            self.make_prepared(context, step);
        }
    }
}
