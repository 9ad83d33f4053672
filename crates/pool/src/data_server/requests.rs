//! A home's requests about contents wait for the reads and writes that have begun on these contents.

use super::{Command, DataServer, Fenced, Shelf, Ticket};
use crate::message::{Act, ContentsId, Intent, ToHome};
use crate::numbers::{HomeNumber, IssueNumber, KeyNumber};
use std::collections::BTreeSet;

/// A request of a home, and what has to finish first.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    home: HomeNumber,
    wish: Wish,
    /// Reads and writes that had begun before the request came.
    behind: BTreeSet<Ticket>,
    /// It is being carried out; no other request about these contents begins.
    under_way: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// With the last key that may have sealed handles of the removed contents.
    Intent(Intent, KeyNumber),
    Look(u64, ContentsId, bool),
}

impl Wish {
    fn contents(&self) -> ContentsId {
        match self {
            Wish::Intent(intent, _) => intent.contents,
            Wish::Look(_, contents, _) => *contents,
        }
    }

    fn is_intent(&self, intent: Intent) -> bool {
        matches!(self, Wish::Intent(wanted, _) if *wanted == intent)
    }
}

impl DataServer {
    pub(super) fn take_intent(
        &mut self,
        shelf: &impl Shelf,
        home: HomeNumber,
        (intent, key): (Intent, KeyNumber),
    ) -> Vec<Command> {
        let known = |waiting: &Waiting| waiting.home == home && waiting.wish.is_intent(intent);
        if self.waiting.iter().any(known) {
            return Vec::new();
        }
        self.enqueue(shelf, home, Wish::Intent(intent, key))
    }

    pub(super) fn look(
        &mut self,
        shelf: &impl Shelf,
        home: HomeNumber,
        issue: IssueNumber,
        (question, contents, stable): (u64, ContentsId, bool),
    ) -> Vec<Command> {
        if self.homes.get(&home).is_none_or(|side| side.issue != issue) {
            return Vec::new();
        }
        self.enqueue(shelf, home, Wish::Look(question, contents, stable))
    }

    fn enqueue(&mut self, shelf: &impl Shelf, home: HomeNumber, wish: Wish) -> Vec<Command> {
        let there = self
            .begun
            .iter()
            .filter(|(_, begun)| begun.1 == wish.contents());
        let behind = match self.rules.raise_waits() {
            true => there.map(|(ticket, _)| *ticket).collect(),
            false => BTreeSet::new(),
        };
        self.waiting.push_back(Waiting {
            home,
            wish,
            behind,
            under_way: false,
        });
        self.go_on(shelf, None)
    }

    /// Whether a request of a home about these contents waits, so that [`DataServer::finish`] may have to report their state.
    #[must_use]
    pub fn is_awaited(&self, contents: ContentsId) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| waiting.wish.contents() == contents)
    }

    /// Whether an intent waits for these contents or is being carried out.
    pub(super) fn is_being_fenced(&self, contents: ContentsId) -> bool {
        let fences = |waiting: &Waiting| matches!(waiting.wish, Wish::Intent(intent, _) if intent.contents == contents);
        self.waiting.iter().any(fences)
    }

    /// Begins the requests that have nothing left to wait for. `finished` has ended.
    pub(super) fn go_on(&mut self, shelf: &impl Shelf, finished: Option<Ticket>) -> Vec<Command> {
        if let Some(finished) = finished {
            for waiting in &mut self.waiting {
                waiting.behind.remove(&finished);
            }
        }
        let mut commands = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() {
            let waiting = &self.waiting[at];
            let contents = waiting.wish.contents();
            let is_first = self
                .waiting
                .iter()
                .take(at)
                .all(|other| other.wish.contents() != contents);
            if waiting.under_way || !waiting.behind.is_empty() || !is_first {
                at += 1;
                continue;
            }
            let (home, wish) = (waiting.home, waiting.wish);
            match self.step(shelf, home, wish) {
                Step::Finished(command) => {
                    self.waiting.remove(at);
                    commands.push(command);
                }
                Step::UnderWay(command) => {
                    self.waiting[at].under_way = true;
                    commands.push(command);
                    at += 1;
                }
            }
        }
        commands
    }

    fn step(&self, shelf: &impl Shelf, home: HomeNumber, wish: Wish) -> Step {
        match wish {
            Wish::Intent(intent, _) if self.is_carried_out(shelf, intent) => {
                let (number, report) = (intent.number, shelf.report(intent.contents));
                Step::Finished(Command::Send(home, ToHome::Taken { number, report }))
            }
            Wish::Intent(intent, key) => Step::UnderWay(Command::CarryOut(home, intent, key)),
            Wish::Look(question, contents, true) => {
                Step::UnderWay(Command::MakeStable(home, question, contents))
            }
            Wish::Look(question, contents, false) => {
                let report = shelf.report(contents);
                Step::Finished(Command::Send(home, ToHome::Looked { question, report }))
            }
        }
    }

    /// A repeated intent that was carried out must not cut what was written since. The first home removes the contents of a home that was given up,
    /// and its intents may have smaller numbers. Removed contents stay removed, so a removal may be carried out twice.
    fn is_carried_out(&self, shelf: &impl Shelf, intent: Intent) -> bool {
        let is_later = |fenced: Fenced| {
            let is_removed = fenced.removed || intent.act != Act::Remove;
            fenced.through >= intent.number && is_removed
        };
        shelf.fenced(intent.contents).is_some_and(is_later) && self.rules.intents_once()
    }

    /// [`Command::CarryOut`] is done and stable.
    pub fn carried_out(
        &mut self,
        shelf: &impl Shelf,
        home: HomeNumber,
        intent: Intent,
    ) -> Vec<Command> {
        let (number, report) = (intent.number, shelf.report(intent.contents));
        let taken = ToHome::Taken { number, report };
        self.end(shelf, home, |wish| wish.is_intent(intent), taken)
    }

    /// [`Command::MakeStable`] is done.
    pub fn made_stable(
        &mut self,
        shelf: &impl Shelf,
        home: HomeNumber,
        question: u64,
        contents: ContentsId,
    ) -> Vec<Command> {
        let report = shelf.report(contents);
        let looked = ToHome::Looked { question, report };
        let asked = Wish::Look(question, contents, true);
        self.end(shelf, home, |wish| *wish == asked, looked)
    }

    fn end(
        &mut self,
        shelf: &impl Shelf,
        home: HomeNumber,
        is_the_wish: impl Fn(&Wish) -> bool,
        answer: ToHome,
    ) -> Vec<Command> {
        let is_it = |waiting: &Waiting| {
            waiting.home == home && is_the_wish(&waiting.wish) && waiting.under_way
        };
        let Some(place) = self.waiting.iter().position(is_it) else {
            return Vec::new();
        };
        self.waiting.remove(place);
        let mut commands = vec![Command::Send(home, answer)];
        commands.extend(self.go_on(shelf, None));
        commands
    }
}

/// The result of a step.
enum Step {
    /// It is answered.
    Finished(Command),
    /// It is being carried out.
    UnderWay(Command),
}
