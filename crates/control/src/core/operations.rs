//! A client's operation, from its arrival until it may be executed, here or at another replica.
//!
//! Figure 2, first half: execute what this replica controls, forward what another one controls, and propose control of
//! the rest.

use super::proposing::claims;
use super::{ControlCore, Overloaded};
use crate::claim::{Claim, Depth, Proposal};
use crate::command::{Admission, Command, Mark, OperationId};
use crate::message::Message;
use crate::moment::Moment;
use crate::name::{ControlName, Position};
use crate::own::{Origin, State, Waiting};
use crate::settings::Contention;
use crate::tree::{Remembered, Tree, chain};
use crate::update::{Asker, Need, NeedKind, Subject, Update};
use vfs::ObjectId;

impl ControlCore {
    /// Takes an operation that changes something. It ends with [`Command::Admit`] or [`Command::ForwardTo`], at once if
    /// the objects are already controlled.
    pub fn handle_operation(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        operation: OperationId,
        (update, asker): (&Update, Asker),
    ) -> Result<(), Overloaded> {
        let tree = &Remembered::new(tree);
        let needs = self.needs_of(tree, update);
        if self.coverage(tree, &needs).is_none() && self.is_full() {
            return Err(Overloaded);
        }
        let waiting = Waiting {
            operation,
            update: *update,
            asker,
        };
        self.submit(now, tree, waiting);
        self.run(now, tree);
        Ok(())
    }

    /// Admits an update at once if it is covered by controls in force. Otherwise returns `None`, and nothing has
    /// changed. The caller executes the update before any other call of the core, or holds the controls.
    pub fn try_admit(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        (update, asker): (&Update, Asker),
    ) -> Option<Admission> {
        let tree = &Remembered::new(tree);
        let needs = self.needs_of(tree, update);
        let under = self.coverage(tree, &needs)?;
        let admission = self.make_use(now, tree, (&needs, keeps(update, asker)), &under);
        self.run(now, tree);
        Some(admission)
    }

    fn is_full(&self) -> bool {
        let controls = self.own.len() + self.endings.len();
        let waiting = self.own.waiting_count() + self.standing_back.len();
        controls.max(waiting) >= self.settings.capacity
    }

    /// Records the position in this replica's stream of an update that was made under `under`. The creation of an
    /// object is reported for its inherited control in the same way.
    pub fn handle_update(
        &mut self,
        tree: &impl Tree,
        update: &Update,
        under: &[ControlName],
        position: Position,
    ) {
        let tree = &Remembered::new(tree);
        for name in under {
            let number = self.own_number(*name);
            if let Some(control) = number.and_then(|number| self.own.find_mut(number)) {
                control.last_update = control.last_update.max(position);
            }
        }
        if moves_something(update) {
            self.last_move = self.last_move.max(position);
        }
        self.pass_holds_on(tree, update, under);
        self.answer_closes(tree);
    }

    /// The own deep controls that cover a directory.
    pub(super) fn deep_reaching(&self, tree: &impl Tree, directory: ObjectId) -> Vec<u64> {
        self.own.deep_at(chain(tree, directory))
    }

    /// The needs of an update at this moment. A file that a rename moves across the border of an own deep control needs
    /// its own control. Otherwise a replica that applies the rename would consider the file uncontrolled, while content
    /// that was written and closed under the deep control is still in transit.
    fn needs_of(&self, tree: &impl Tree, update: &Update) -> Vec<Need> {
        let mut needs = update.needs(self.settings.rules);
        if let Update::Rename {
            from,
            to,
            moved: Subject::File(file),
            ..
        } = update
            && self.settings.rules.crossing_file_own_control()
            && self.deep_reaching(tree, *from) != self.deep_reaching(tree, *to)
        {
            let moved = needs.iter_mut().filter(|need| need.object == *file);
            moved.for_each(|need| need.kind = NeedKind::LoneFile);
        }
        needs
    }

    /// Executes, forwards, joins an election that is in progress, or begins one.
    pub(super) fn submit(&mut self, now: Moment, tree: &impl Tree, waiting: Waiting) {
        let needs = self.needs_of(tree, &waiting.update);
        if let Some(under) = self.coverage(tree, &needs) {
            self.admit(now, tree, waiting, &needs, &under);
        } else if let Some(foreign) = self.forwarding_target(tree, &needs) {
            self.forward(waiting.operation, &needs, foreign);
        } else if let Some(number) = self.election_for(tree, &needs) {
            self.own.wait_for(number, vec![waiting]);
        } else if let Some(until) = self.stands_back_until(now, tree, &needs) {
            self.standing_back.add(waiting, until);
        } else {
            let deep = self.wants_deep(now, tree, &needs);
            self.propose(
                now,
                tree,
                needs,
                vec![waiting],
                Origin::Demanded,
                deep,
                None,
                &[],
            );
        }
    }

    /// The own controls in force that together meet all needs, or `None`.
    pub(super) fn coverage(&self, tree: &impl Tree, needs: &[Need]) -> Option<Vec<u64>> {
        let mut under = Vec::new();
        for need in needs {
            let meeting = self.own.meeting(tree, need);
            let in_force = meeting.iter().find(|(_, own)| own.state == State::Held);
            under.push(in_force.map(|(number, _)| *number)?);
        }
        under.sort_unstable();
        under.dedup();
        Some(under)
    }

    fn admit(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        waiting: Waiting,
        needs: &[Need],
        under: &[u64],
    ) {
        let keeps = keeps(&waiting.update, waiting.asker);
        let Admission { under, after } = self.make_use(now, tree, (needs, keeps), under);
        self.commands.push_back(Command::Admit {
            operation: waiting.operation,
            under,
            after,
        });
    }

    /// Records the use of the controls in force: it prolongs them if `keeps` is true. In any case they last until the
    /// update is reported. The use may also cause further proposals.
    fn make_use(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        (needs, keeps): (&[Need], bool),
        under: &[u64],
    ) -> Admission {
        let mut after = Mark(0);
        for number in under {
            if let Some(control) = self.own.find(*number) {
                after = after.max(control.durable);
            }
        }
        for need in needs.iter().filter(|_| keeps) {
            self.touch(now, tree, need);
        }
        for number in under {
            if self.candidates.remove(*number) {
                self.schedule(*number);
            }
        }
        if let [need] = needs
            && need.kind == NeedKind::File
        {
            self.announce_file(now, tree, *need);
        }
        let under = under.iter().map(|number| self.name_of(*number)).collect();
        Admission { under, after }
    }

    /// Section 3.3, third: a file written under deep control gets its own shallow control. It is announced without
    /// waiting, so that further writes do not prolong the deep control.
    fn announce_file(&mut self, now: Moment, tree: &impl Tree, need: Need) {
        let wanted = self.settings.strategies.file_control_under_deep;
        let space = self.own.len() < self.settings.capacity;
        if wanted && space && self.own.at(need.object).next().is_none() {
            let needs = vec![need];
            self.propose(
                now,
                tree,
                needs,
                Vec::new(),
                Origin::Announced,
                false,
                None,
                &[],
            );
        }
    }

    /// The control to which an operation on one object is forwarded, if it is forwarded at all. Groups wait. A file
    /// with several links that deep control elsewhere seems to cover waits too: the holder of that control could not
    /// serve it either.
    fn forwarding_target(&self, tree: &impl Tree, needs: &[Need]) -> Option<ControlName> {
        let [need] = needs else {
            return None;
        };
        let question = self.question(tree, need.object);
        let conflicts = self.acceptor.table().conflicts(tree, &question);
        conflicts
            .into_iter()
            .find(|name| self.would_serve(need, *name))
    }

    fn would_serve(&self, need: &Need, holder: ControlName) -> bool {
        match need.kind {
            NeedKind::File => true,
            NeedKind::LoneFile => {
                let grant = self.acceptor.table().grant(holder);
                grant.is_some_and(|grant| {
                    grant.claims.iter().any(|claim| claim.object == need.object)
                })
            }
            NeedKind::Directory => self.settings.directory_contention == Contention::Forward,
            NeedKind::MovedDirectory => false,
        }
    }

    /// A shallow proposal that is never sent, to find out which controls would conflict with it.
    pub(super) fn question(&self, tree: &impl Tree, object: ObjectId) -> Proposal {
        self.question_with(vec![Claim::new(tree, object, Depth::Shallow)])
    }

    /// The same for all needs of an operation.
    pub(super) fn question_of(&self, tree: &impl Tree, needs: &[Need]) -> Proposal {
        self.question_with(claims(tree, needs, false))
    }

    fn question_with(&self, claims: Vec<Claim>) -> Proposal {
        Proposal {
            name: self.name_of(0),
            claims,
            downgradable: false,
            behind: Vec::new(),
        }
    }

    /// Forwards an operation. For a directory it also asks the holder to relinquish: otherwise two sites that share a
    /// directory might forward for ever, although the deep control elsewhere was not needed.
    fn forward(&mut self, operation: OperationId, needs: &[Need], foreign: ControlName) {
        let holder = foreign.holder;
        self.commands
            .push_back(Command::ForwardTo { operation, holder });
        if needs.iter().any(|need| need.kind == NeedKind::Directory) {
            self.send(holder, Message::Revoke { name: foreign }, Mark(0));
        }
    }

    /// Forwards operations that lost an election to the winner. Returns those that cannot be forwarded. An operation
    /// that is covered by an own control that is being given up would come back at once, because the winner waits for
    /// the end of that control.
    pub(super) fn forward_losers(
        &mut self,
        tree: &impl Tree,
        waiting: Vec<Waiting>,
        winner: ControlName,
    ) -> Vec<Waiting> {
        let mut staying = Vec::new();
        for loser in waiting {
            let needs = loser.update.needs(self.settings.rules);
            let forwardable = match needs.as_slice() {
                [need] => {
                    need.kind != NeedKind::LoneFile
                        && self.would_serve(need, winner)
                        && !self.is_giving_up(tree, need)
                }
                _ => false,
            };
            if forwardable {
                self.forward(loser.operation, &needs, winner);
            } else {
                staying.push(loser);
            }
        }
        staying
    }

    /// Whether an own control that admits nothing more still covers this need.
    fn is_giving_up(&self, tree: &impl Tree, need: &Need) -> bool {
        let meeting = self.own.meeting(tree, need);
        let mut states = meeting.iter().map(|(_, own)| own.state);
        states.any(|state| state == State::Draining)
    }

    /// An undecided own proposal that will meet all needs.
    fn election_for(&self, tree: &impl Tree, needs: &[Need]) -> Option<u64> {
        let (first, rest) = needs.split_first()?;
        let candidates = self.own.meeting(tree, first);
        let fitting = candidates.iter().find(|(number, control)| {
            control.state == State::Undecided
                && control.origin == Origin::Demanded
                && rest.iter().all(|need| {
                    let meeting = self.own.meeting(tree, need);
                    meeting.iter().any(|(other, _)| other == number)
                })
        });
        fitting.map(|(number, _)| *number)
    }

    /// Figure 2: deep control of a directory is proposed whenever no other replica controls anything below it. Renames
    /// and links are excepted: they would block two subtrees for one entry.
    fn wants_deep(&self, now: Moment, tree: &impl Tree, needs: &[Need]) -> bool {
        let mut directories = needs.iter().filter(|need| need.kind == NeedKind::Directory);
        let single = matches!((directories.next(), directories.next()), (Some(_), None));
        let plain = needs
            .iter()
            .all(|need| matches!(need.kind, NeedKind::Directory | NeedKind::File));
        let directory = needs.iter().find(|need| need.kind == NeedKind::Directory);
        single
            && plain
            && directory.is_some_and(|need| self.deep_is_welcome(now, tree, need.object))
    }
}

/// Whether an update prolongs the controls that it is made under. A change of a file that another replica has forwarded does not: if no client of this
/// replica changes the file any more, its control ends here, and moves to where the file is changed.
fn keeps(update: &Update, asker: Asker) -> bool {
    let of_file = matches!(
        update,
        Update::Change(Subject::File(_) | Subject::LinkedFile(_))
    );
    asker == Asker::Own || !of_file
}

/// Whether the update moves an object to another place. Deep control of that place may be won later, or may cover the
/// last remaining name.
fn moves_something(update: &Update) -> bool {
    match update {
        Update::Link { .. } => true,
        Update::Remove { removed, .. } => matches!(removed, Subject::LinkedFile(_)),
        Update::Rename {
            from, to, replaced, ..
        } => from != to || matches!(replaced, Some(Subject::LinkedFile(_))),
        Update::Change(_) | Update::Create { .. } => false,
    }
}
