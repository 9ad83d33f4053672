//! Questions: of clients, of operations that this server decides, and of other metadata servers.

use super::{Command, Context, MetadataServer};
use crate::message::{Body, OperationName};
use crate::part::Part;
use crate::wish::{Answer, Look, Origin, Refusal};
use control::Moment;
use pool::HomeNumber;

/// Receives the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A client that asked here.
    Client(Origin),
    /// An operation that is decided here, by number.
    Operation(u64),
}

/// A question that another home has not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) home: HomeNumber,
    pub(super) look: Look,
    pub(super) purpose: Purpose,
}

/// The other metadata server that asks, its question, and the time of the question by its clock.
pub(super) type Asker = (HomeNumber, u64, Moment);

/// Goes on when an object is free again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    Operation(u64),
    Prepare(HomeNumber, (OperationName, u8), Part),
    Fetch(Asker, Look),
    Own(Purpose, Look),
}

impl MetadataServer {
    pub(super) fn ask_for_client(&mut self, context: &mut Context<'_>, origin: Origin, look: Look) {
        let purpose = Purpose::Client(origin);
        let mut questions = self.questions.values();
        if !questions.any(|question| question.purpose == purpose) {
            self.ask_for(context, purpose, look);
        }
    }

    pub(super) fn ask_for(&mut self, context: &mut Context<'_>, purpose: Purpose, look: Look) {
        let Some(home) = self.book.home(look.object()) else {
            return self.looked(context, purpose, Answer::Refused(Refusal::Stale));
        };
        if home == self.number {
            match self.look(context, &look) {
                Some(answer) => self.looked(context, purpose, answer),
                None => self.wait(look.object(), Waiter::Own(purpose, look)),
            }
            return;
        }
        let is_for_client = matches!(purpose, Purpose::Client(_));
        let copied = self.copied(context.now, home, &look);
        if let Some(answer) = copied.filter(|_| is_for_client) {
            return self.looked(context, purpose, answer);
        }
        let (question, asked) = (self.next_question, context.now);
        self.next_question += 1;
        let fetch = Body::Fetch {
            question,
            asked,
            look: look.clone(),
        };
        self.send(context, home, fetch);
        let asked = Question {
            home,
            look,
            purpose,
        };
        self.questions.insert(question, asked);
    }

    pub(super) fn looked(&mut self, context: &mut Context<'_>, purpose: Purpose, answer: Answer) {
        match purpose {
            Purpose::Client(origin) => context.commands.push(Command::Answer(origin, answer)),
            Purpose::Operation(number) => self.has_looked(context, number, answer),
        }
    }

    /// The answer of this home. `None`: an outcome has to be known first (rule 15).
    fn look(&self, context: &Context<'_>, look: &Look) -> Option<Answer> {
        let object = look.object();
        let name = match look {
            Look::Lookup(_, name) => Some(name),
            Look::Attributes(_) | Look::Acquire(_) | Look::Place(_) => None,
        };
        let hides = match look {
            Look::Place(_) => self.locks.hides_place(object),
            _ => self.locks.hides(object, name),
        };
        if hides && self.settings.rules.prepared_hides() {
            return None;
        }
        let row = context.tree.row(object);
        let answer = match (row, name) {
            (None, _) => Answer::Refused(Refusal::Stale),
            (Some(row), None) => Answer::Row(row),
            (Some(row), Some(_)) if row.kind != crate::tree::Kind::Directory => {
                Answer::Refused(Refusal::NotDirectory)
            }
            (Some(_), Some(name)) => context
                .tree
                .entry(object, name)
                .map_or(Answer::Refused(Refusal::NotFound), Answer::Entry),
        };
        Some(answer)
    }

    pub(super) fn fetch(&mut self, context: &mut Context<'_>, asker: Asker, look: Look) {
        let (from, question, asked) = asker;
        let object = look.object();
        let Some(answer) = self.look(context, &look) else {
            return self.wait(object, Waiter::Fetch(asker, look));
        };
        let (told, lease, keep) = self.grant(context, from, asked, object);
        let fetched = Body::Fetched {
            question,
            answer,
            told,
            lease,
            keep,
        };
        self.send(context, from, fetched);
    }

    pub(super) fn repeat_questions(&self, context: &mut Context<'_>) {
        for (number, question) in &self.questions {
            let fetch = Body::Fetch {
                question: *number,
                asked: context.now,
                look: question.look.clone(),
            };
            self.send(context, question.home, fetch);
        }
        for (origin, (home, wish)) in &self.requests {
            if *home != self.number {
                let (origin, wish) = (*origin, wish.clone());
                self.send(context, *home, Body::Request { origin, wish });
            }
        }
    }
}
