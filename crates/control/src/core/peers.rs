//! Messages of the other replicas, and what is sent again over a new connection.
//!
//! Every message may be late, repeated or out of order. Each is judged by the name that it carries.

use super::ControlCore;
use crate::claim::{Obstacle, Proposal};
use crate::command::{Mark, Record};
use crate::message::{Envelope, Message};
use crate::moment::Moment;
use crate::name::{ControlName, Epoch};
use crate::own::State;
use crate::tree::{Remembered, Tree};
use std::cmp::Ordering;
use vfs::ReplicaSlot;

impl ControlCore {
    /// Takes a message from a peer whose identity the caller has verified.
    pub fn handle_message(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        from: ReplicaSlot,
        envelope: Envelope,
    ) {
        let tree = &Remembered::new(tree);
        // This order matters: a replica that is configured only in a later view must repeat its message there.
        if !self.is_in_force(from, &envelope) || !self.view.configured.contains(&from) {
            return;
        }
        self.keep_links_settled(tree);
        match envelope.message {
            Message::Propose {
                proposal,
                replaces,
                floor,
            } => self.on_propose(tree, from, proposal, replaces, floor),
            Message::Acknowledge { name } => self.on_acknowledge(tree, from, name),
            Message::Refuse {
                name,
                turn,
                obstacles,
            } => self.on_refuse(from, name, turn, obstacles),
            Message::Abort { name, floor } => self.on_end(tree, from, name, None, floor),
            Message::Release { name, next, floor } => self.on_end(tree, from, name, next, floor),
            Message::Ended { name } => self.on_ended(from, name),
            Message::Disown { name } => self.on_disown(tree, from, name),
            Message::Renounce { before } => self.on_renounce(tree, from, before),
            Message::Renounced { before } => self.on_renounced(from, before),
            Message::Repeat => {
                self.repeat_to(tree, from);
                self.ask_again(from);
            }
            Message::Report { part, last, told } => self.on_report(tree, from, part, last, told),
            Message::Revoke { name } => self.on_revoke(now, from, name),
        }
        self.run(now, tree);
    }

    fn keep_links_settled(&mut self, tree: &impl Tree) {
        if self.links_unsettled {
            self.settle_links(tree);
        }
    }

    /// Proposals and answers are valid in their own epoch, between active replicas. Ends are valid in any later one,
    /// and from any replica. A message from a later view than ours is dropped. We ask for it again when we have reached
    /// that view, and not in a view in between, because its sender would drop that request.
    fn is_in_force(&mut self, from: ReplicaSlot, envelope: &Envelope) -> bool {
        let Envelope { epoch, message } = envelope;
        let epoch: Epoch = *epoch;
        let outlives = self.settings.rules.ends_outlive_views();
        if ends_something(message) && outlives && epoch <= self.view.epoch {
            return true;
        }
        match epoch.cmp(&self.view.epoch) {
            Ordering::Equal => !self.view.has_lost(from) && !self.view.has_lost(self.slot),
            Ordering::Greater => {
                let last = self.ahead_of_us.entry(from).or_insert(epoch);
                *last = epoch.max(*last);
                false
            }
            Ordering::Less => false,
        }
    }

    fn on_propose(
        &mut self,
        tree: &impl Tree,
        from: ReplicaSlot,
        mut proposal: Proposal,
        replaces: Option<u64>,
        floor: u64,
    ) {
        let name = proposal.name;
        if name.holder != from || self.acceptor.waiting_count(from) >= self.settings.capacity {
            return;
        }
        if !self.settings.rules.announced_ancestors() {
            let claims = proposal.claims.iter_mut();
            claims.for_each(|claim| claim.ancestors.clear());
        }
        self.acceptor.raise_floor(name, floor);
        let replaced = replaces.map(|number| ControlName { number, ..name });
        if let Some(replaced) = replaced {
            self.persist(Record::Ended(replaced));
        }
        self.ask_about(&proposal.behind);
        let answers = self.acceptor.propose(tree, &self.view, proposal, replaced);
        self.answers.extend(answers);
    }

    fn on_acknowledge(&mut self, tree: &impl Tree, from: ReplicaSlot, name: ControlName) {
        let Some(number) = self.answered(name) else {
            self.disown_if_unknown(from, name);
            return;
        };
        self.note_acknowledgement(tree, number, from);
    }

    fn on_refuse(
        &mut self,
        from: ReplicaSlot,
        name: ControlName,
        turn: u64,
        obstacles: Vec<Obstacle>,
    ) {
        let Some(number) = self.answered(name) else {
            self.disown_if_unknown(from, name);
            return;
        };
        if let Some(control) = self.own.find_mut(number) {
            control.election.note_refusal(from, turn, obstacles);
            self.to_judge.insert(number);
        }
    }

    /// The own control that an answer belongs to.
    fn answered(&self, name: ControlName) -> Option<u64> {
        let number = self.own_number(name)?;
        if self.own.find(number).is_some() {
            return Some(number);
        }
        if self.settings.rules.answers_by_name() {
            return None;
        }
        let ending = self.endings.get(&number)?;
        let mut live = self.own.iter();
        let same_object = live.find(|(_, own)| {
            ending
                .objects
                .iter()
                .any(|object| own.claims_object(*object))
        });
        same_object.map(|(number, _)| number)
    }

    /// An answer to a control needs no reply if the end of that control is on its way to the sender. For any other
    /// control that we do not have, we make the sender clear its record. The sender may have noted the end and
    /// forgotten that, or may know the control only from a replica that released another one for it.
    fn disown_if_unknown(&mut self, from: ReplicaSlot, name: ControlName) {
        let number = self.own_number(name);
        let ending = number.and_then(|number| self.endings.get(&number));
        let ending = ending.is_some_and(|ending| ending.unaware.contains(&from));
        let ours = name.holder == self.slot && !self.may_be_needed(name);
        if ours && !ending && self.settings.rules.end_to_all() {
            self.send(from, Message::Disown { name }, Mark(0));
        }
    }

    fn on_end(
        &mut self,
        tree: &impl Tree,
        from: ReplicaSlot,
        name: ControlName,
        next: Option<Proposal>,
        floor: u64,
    ) {
        if name.holder != from {
            return;
        }
        self.acceptor.raise_floor(name, floor);
        let ours = next.as_ref().and_then(|next| self.own_number(next.name));
        self.to_judge.extend(ours);
        let durable = self.persist(Record::Ended(name));
        let answers = self.acceptor.end(tree, &self.view, name, next);
        self.answers.extend(answers);
        self.send(from, Message::Ended { name }, durable);
    }

    fn on_ended(&mut self, from: ReplicaSlot, name: ControlName) {
        let Some(number) = self.own_number(name) else {
            return;
        };
        if let Some(ending) = self.endings.get_mut(&number) {
            ending.unaware.remove(&from);
            if ending.unaware.is_empty() {
                self.endings.remove(&number);
            }
        }
        let (own, floor) = (self.name_of(number), self.floor());
        self.acceptor.raise_floor(own, floor);
    }

    fn on_disown(&mut self, tree: &impl Tree, from: ReplicaSlot, name: ControlName) {
        let of_lost = self.view.has_lost(name.holder);
        if name.holder == from || of_lost && self.settings.rules.ends_told_for_the_lost() {
            self.persist(Record::Ended(name));
            let answers = self.acceptor.end(tree, &self.view, name, None);
            self.answers.extend(answers);
        }
    }

    fn on_revoke(&mut self, now: Moment, from: ReplicaSlot, name: ControlName) {
        match self
            .own_number(name)
            .filter(|number| self.own.find(*number).is_some())
        {
            Some(number) => self.revoke(now, number),
            None => self.disown_if_unknown(from, name),
        }
    }

    /// Repeats to `peer` everything that it has not answered: its connection is new, and messages on the previous one
    /// may be lost.
    pub fn handle_connected(&mut self, now: Moment, tree: &impl Tree, peer: ReplicaSlot) {
        let tree = &Remembered::new(tree);
        self.repeat_to(tree, peer);
        self.ask_again(peer);
        self.run(now, tree);
    }

    pub(super) fn repeat_to(&mut self, tree: &impl Tree, peer: ReplicaSlot) {
        let floor = self.floor();
        let unanswered = self.own.iter().filter(|(_, control)| {
            !control.election.acknowledged_by(peer) && control.state <= State::Draining
        });
        let mut messages: Vec<Message> = unanswered
            .map(|(_, control)| Message::Propose {
                proposal: control.proposal.told_again(tree),
                replaces: None,
                floor,
            })
            .collect();
        let endings = self.endings.iter();
        let unaware = endings.filter(|(_, ending)| ending.unaware.contains(&peer));
        messages.extend(unaware.filter_map(|(number, _)| self.end_message(*number)));
        messages.extend(self.renunciation_for(peer));
        messages.extend(self.report_for(tree, peer));
        for message in messages {
            self.send(peer, message, Mark(0));
        }
    }
}

fn ends_something(message: &Message) -> bool {
    matches!(
        message,
        Message::Abort { .. }
            | Message::Release { .. }
            | Message::Ended { .. }
            | Message::Disown { .. }
            | Message::Renounce { .. }
            | Message::Renounced { .. }
    )
}
