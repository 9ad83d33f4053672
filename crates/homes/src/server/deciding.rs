//! Operations that this home decides (rule 15).

use super::looking::{Purpose, Waiter};
use super::{Command, Context, MetadataServer};
use crate::message::{Body, OperationName};
use crate::part::{self, Part, Plan};
use crate::tree::{Entry, Record};
use crate::wish::{Answer, Look, Origin, Refusal, Wish};
use pool::HomeNumber;
use std::collections::BTreeSet;
use vfs::ObjectId;

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Makes the plan. For a rename: the entry of the source name, once it is known.
    Planning(Option<Entry>),
    /// Waits until the home of the source name says which entry it has.
    Finding,
    /// Handles this part next.
    Taking(usize),
    /// This home prepares this part. It waits until the copies are revoked.
    Revoking(usize),
    /// Has asked the home of this part to prepare it.
    Asked(usize),
    /// Everything is prepared. Checks whether this directory lies in the directory that is moved.
    Walking(ObjectId),
}

/// An operation that is not decided yet.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    origin: Origin,
    /// The server that gets the answer.
    asker: HomeNumber,
    wish: Wish,
    stage: Stage,
    plan: Plan,
}

impl MetadataServer {
    /// A client here wants a change.
    pub(super) fn ask_for_change(&mut self, context: &mut Context<'_>, origin: Origin, wish: Wish) {
        if self.requests.contains_key(&origin) {
            return;
        }
        let answers = self.answers.get(&origin.client);
        if let Some((_, answer)) = answers.filter(|(number, _)| *number == origin.number) {
            return context.commands.push(Command::Answer(origin, *answer));
        }
        let Some(home) = self.book.home(wish.decided_at()) else {
            let stale = Answer::Refused(Refusal::Stale);
            return context.commands.push(Command::Answer(origin, stale));
        };
        self.requests.insert(origin, (home, wish.clone()));
        if home == self.number {
            self.request(context, home, origin, wish);
        } else {
            self.send(context, home, Body::Request { origin, wish });
        }
    }

    /// A change that this home decides. It may be a repeat.
    pub(super) fn request(
        &mut self,
        context: &mut Context<'_>,
        asker: HomeNumber,
        origin: Origin,
        wish: Wish,
    ) {
        match self.answers.get(&origin.client) {
            Some((number, answer)) if *number == origin.number => {
                return self.answer(context, asker, origin, *answer);
            }
            Some((number, _)) if *number > origin.number => {
                // The client got this answer long ago. The request at the asker still has to end.
                let stale = Answer::Refused(Refusal::Stale);
                return self.answer(context, asker, origin, stale);
            }
            _ => {}
        }
        if self.book.home(wish.decided_at()) != Some(self.number) {
            return;
        }
        let mut operations = self.operations.values_mut();
        if let Some(active) = operations.find(|operation| operation.origin == origin) {
            active.asker = asker;
            return;
        }
        let operation = Operation {
            origin,
            asker,
            wish,
            stage: Stage::Planning(None),
            plan: Plan::default(),
        };
        self.begin(context, operation);
    }

    fn begin(&mut self, context: &mut Context<'_>, mut operation: Operation) {
        let number = self.next_operation;
        self.next_operation += 1;
        let source = match &operation.wish {
            Wish::Rename { from, .. } => Some(Look::Lookup(from.0, from.1.clone())),
            _ => None,
        };
        if source.is_some() {
            operation.stage = Stage::Finding;
        }
        self.operations.insert(number, operation);
        match source {
            Some(look) => self.ask_for(context, Purpose::Operation(number), look),
            None => self.advance(context, number),
        }
    }

    fn name_of(&self, number: u64) -> OperationName {
        OperationName {
            decider: self.number,
            run: self.run,
            number,
        }
    }

    fn set(&mut self, number: u64, stage: Stage) {
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.stage = stage;
        }
    }

    /// The answer to a question of an operation is known.
    pub(super) fn has_looked(&mut self, context: &mut Context<'_>, number: u64, answer: Answer) {
        let Some(operation) = self.operations.get(&number) else {
            return;
        };
        match (operation.stage, answer) {
            (Stage::Finding, Answer::Entry(entry)) => {
                self.set(number, Stage::Planning(Some(entry)));
                self.advance(context, number);
            }
            (Stage::Finding, Answer::Refused(refusal)) => self.refuse(context, number, refusal),
            (Stage::Walking(_), Answer::Row(row)) => match row.parent {
                Some(parent) => {
                    self.set(number, Stage::Walking(parent));
                    self.walk(context, number);
                }
                None => self.carry_out(context, number),
            },
            (Stage::Walking(_), _) => self.refuse(context, number, Refusal::Changed),
            _ => {}
        }
    }

    /// Goes on until the operation has to wait.
    pub(super) fn advance(&mut self, context: &mut Context<'_>, number: u64) {
        while let Some(operation) = self.operations.get(&number) {
            let goes_on = match operation.stage {
                Stage::Planning(source) => self.plan(context, number, source),
                Stage::Taking(at) if at == operation.plan.parts.len() => {
                    self.all_prepared(context, number);
                    false
                }
                Stage::Taking(at) => self.take(context, number, at),
                _ => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    fn plan(&mut self, context: &mut Context<'_>, number: u64, source: Option<Entry>) -> bool {
        let Some(operation) = self.operations.get_mut(&number) else {
            return false;
        };
        if let Some((directory, name)) = operation.wish.name()
            && self.locks.hides(directory, Some(name))
        {
            self.wait(directory, Waiter::Operation(number));
            return false;
        }
        match part::plan(&operation.wish, source, context.tree) {
            Ok(mut plan) => {
                if self.settings.rules.ascending_order() {
                    plan.parts.sort_by_key(|part| (part.object(), part.claim()));
                }
                operation.plan = plan;
                operation.stage = Stage::Taking(0);
                true
            }
            Err(refusal) => {
                self.refuse(context, number, refusal);
                false
            }
        }
    }

    fn take(&mut self, context: &mut Context<'_>, number: u64, at: usize) -> bool {
        let Some(part) = self.part(number, at) else {
            return false;
        };
        let (object, claim) = (part.object(), part.claim());
        match self.book.home(object) {
            None => {
                self.refuse(context, number, Refusal::Stale);
                return false;
            }
            Some(home) if home != self.number => {
                self.set(number, Stage::Asked(at));
                self.ask_to_prepare(context, number, at);
                return false;
            }
            Some(_) => {}
        }
        let name = self.name_of(number);
        if self.locks.conflicts(name, object, &claim) {
            self.wait(object, Waiter::Operation(number));
            return false;
        }
        let result = part.verify(context.tree);
        if result == Err(Refusal::Changed) {
            self.refuse(context, number, Refusal::Changed);
            return false;
        }
        self.locks.take(name, object, claim);
        self.note(number, result);
        if result.is_err() || !part.revokes() {
            self.set(number, Stage::Taking(at + 1));
            return true;
        }
        self.tell(context, object);
        if self.is_revoked(context.now, object) {
            self.set(number, Stage::Taking(at + 1));
            return true;
        }
        self.set(number, Stage::Revoking(at));
        false
    }

    /// Copies that the operation waits for may be revoked.
    pub(super) fn revoked(&mut self, context: &mut Context<'_>, number: u64) {
        let stage = self
            .operations
            .get(&number)
            .map(|operation| operation.stage);
        let Some(Stage::Revoking(at)) = stage else {
            return;
        };
        let Some(part) = self.part(number, at) else {
            return;
        };
        if self.is_revoked(context.now, part.object()) {
            self.set(number, Stage::Taking(at + 1));
            self.advance(context, number);
        }
    }

    fn part(&self, number: u64, at: usize) -> Option<Part> {
        self.operations.get(&number)?.plan.parts.get(at).cloned()
    }

    /// Notes that a part is refused. The other parts are still prepared, so that all refusals were seen at one moment.
    fn note(&mut self, number: u64, result: Result<(), Refusal>) {
        if let Some(operation) = self.operations.get_mut(&number) {
            let refusal = &mut operation.plan.refusal;
            *refusal = refusal.or(result.err());
        }
    }

    fn ask_to_prepare(&self, context: &mut Context<'_>, number: u64, at: usize) {
        let home = self
            .part(number, at)
            .and_then(|part| Some((self.book.home(part.object())?, part)));
        if let (Some((home, part)), Ok(index)) = (home, u8::try_from(at)) {
            let operation = self.name_of(number);
            let prepare = Body::Prepare {
                operation,
                index,
                part,
            };
            self.send(context, home, prepare);
        }
    }

    pub(super) fn is_prepared(
        &mut self,
        context: &mut Context<'_>,
        from: HomeNumber,
        (name, index): (OperationName, u8),
        result: Result<(), Refusal>,
    ) {
        let number = name.number;
        let is_active = name == self.name_of(number) && self.operations.contains_key(&number);
        if !is_active {
            // The other home waits for an outcome that it has not received.
            return self.tell_outcome(context, from, name);
        }
        let at = usize::from(index);
        let stage = self
            .operations
            .get(&number)
            .map(|operation| operation.stage);
        let part = self.part(number, at);
        let home = part.and_then(|part| self.book.home(part.object()));
        if stage != Some(Stage::Asked(at)) || home != Some(from) {
            return;
        }
        if result == Err(Refusal::Changed) {
            return self.refuse(context, number, Refusal::Changed);
        }
        self.note(number, result);
        self.set(number, Stage::Taking(at + 1));
        self.advance(context, number);
    }

    fn all_prepared(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(operation) = self.operations.get(&number) else {
            return;
        };
        if let Some(refusal) = operation.plan.refusal {
            return self.refuse(context, number, refusal);
        }
        let moves = operation.plan.moved.is_some() && self.settings.rules.ancestors_asked();
        match &operation.wish {
            Wish::Rename { to, .. } if moves => {
                let directory = to.0;
                self.set(number, Stage::Walking(directory));
                self.walk(context, number);
            }
            _ => self.carry_out(context, number),
        }
    }

    /// Asks for the parent of the directory that is next on the way to the root.
    fn walk(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(operation) = self.operations.get(&number) else {
            return;
        };
        let Stage::Walking(directory) = operation.stage else {
            return;
        };
        if operation.plan.moved == Some(directory) {
            return self.refuse(context, number, Refusal::Cycle);
        }
        if directory == ObjectId::ROOT {
            return self.carry_out(context, number);
        }
        let look = Look::Place(directory);
        self.ask_for(context, Purpose::Operation(number), look);
    }

    /// Carries out an operation. One batch has the changes of this home, the other homes to notify, and the answer.
    fn carry_out(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(operation) = self.operations.remove(&number) else {
            return;
        };
        let name = self.name_of(number);
        let home = |part: &&Part| self.book.home(part.object());
        let parts = &operation.plan.parts;
        let is_own = |part: &&Part| home(part) == Some(self.number);
        let others: BTreeSet<HomeNumber> = parts
            .iter()
            .filter(|part| !is_own(part))
            .filter_map(|part| home(&part))
            .collect();
        let mut batch = part::effects(parts.iter().filter(is_own), context.tree);
        let changed: Vec<ObjectId> = parts.iter().filter(is_own).map(Part::object).collect();
        let answer = Answer::Done(operation.plan.made);
        if !others.is_empty() && self.settings.rules.outcome_is_stable() {
            batch.push(Record::Decided(name, others.clone()));
        }
        if self.settings.rules.requests_recorded() {
            batch.push(Record::Answered(operation.origin, answer));
        }
        context.tree.commit(batch);
        changed
            .into_iter()
            .for_each(|object| self.tell(context, object));
        if !others.is_empty() {
            self.decided.insert(name, others.clone());
        }
        for home in others {
            let finish = Body::Finish {
                operation: name,
                done: true,
            };
            self.send(context, home, finish);
        }
        self.release(name);
        self.conclude(context, &operation, answer);
    }

    /// Undoes what was prepared. Starts again if something has changed meanwhile.
    fn refuse(&mut self, context: &mut Context<'_>, number: u64, refusal: Refusal) {
        let Some(mut operation) = self.operations.remove(&number) else {
            return;
        };
        let name = self.name_of(number);
        let asked = match operation.stage {
            Stage::Planning(_) | Stage::Finding => 0,
            Stage::Taking(at) | Stage::Revoking(at) => at,
            Stage::Asked(at) => at + 1,
            Stage::Walking(_) => operation.plan.parts.len(),
        };
        let parts = operation.plan.parts.iter().take(asked);
        let homes = parts.filter_map(|part| self.book.home(part.object()));
        let others: BTreeSet<HomeNumber> = homes.filter(|home| *home != self.number).collect();
        for home in others {
            let finish = Body::Finish {
                operation: name,
                done: false,
            };
            self.send(context, home, finish);
        }
        self.release(name);
        if refusal != Refusal::Changed {
            return self.conclude(context, &operation, Answer::Refused(refusal));
        }
        operation.stage = Stage::Planning(None);
        operation.plan = Plan::default();
        self.begin(context, operation);
    }

    fn conclude(&mut self, context: &mut Context<'_>, operation: &Operation, answer: Answer) {
        let origin = operation.origin;
        self.answers.insert(origin.client, (origin.number, answer));
        self.answer(context, operation.asker, origin, answer);
    }

    fn answer(
        &mut self,
        context: &mut Context<'_>,
        asker: HomeNumber,
        origin: Origin,
        answer: Answer,
    ) {
        // The client may have repeated its request at this server after it asked the other server.
        self.answered(context, origin, answer);
        if asker != self.number {
            self.send(context, asker, Body::Answered { origin, answer });
        }
    }

    pub(super) fn answered(&mut self, context: &mut Context<'_>, origin: Origin, answer: Answer) {
        if self.requests.remove(&origin).is_some() {
            // A repeat may come before the answer is sent. It must not be asked again: the server that refused may forget the refusal.
            self.answers.insert(origin.client, (origin.number, answer));
            context.commands.push(Command::Answer(origin, answer));
        }
    }

    /// Sends the outcome of an operation, if it is decided. An operation that is neither active nor on record was not and will not be carried out.
    pub(super) fn tell_outcome(
        &self,
        context: &mut Context<'_>,
        to: HomeNumber,
        operation: OperationName,
    ) {
        let is_active = operation == self.name_of(operation.number)
            && self.operations.contains_key(&operation.number);
        if operation.decider != self.number || is_active {
            return;
        }
        let owing = self.decided.get(&operation);
        let done = owing.is_some_and(|owing| owing.contains(&to));
        self.send(context, to, Body::Finish { operation, done });
    }

    pub(super) fn is_finished(
        &mut self,
        context: &mut Context<'_>,
        from: HomeNumber,
        operation: OperationName,
    ) {
        let Some(owing) = self.decided.get_mut(&operation) else {
            return;
        };
        if owing.remove(&from) {
            let owing = owing.clone();
            if owing.is_empty() {
                self.decided.remove(&operation);
            }
            context.tree.commit(vec![Record::Decided(operation, owing)]);
        }
    }

    pub(super) fn repeat_operations(&self, context: &mut Context<'_>) {
        for (operation, owing) in &self.decided {
            for home in owing {
                let finish = Body::Finish {
                    operation: *operation,
                    done: true,
                };
                self.send(context, *home, finish);
            }
        }
        for (number, operation) in &self.operations {
            if let Stage::Asked(at) = operation.stage {
                self.ask_to_prepare(context, *number, at);
            }
        }
        self.ask_for_outcomes(context);
    }
}
