//! The change from one view to the next: its effect on controls, and which controls are frozen.
//!
//! A replica that leaves may have won controls that only some of the remaining members have acknowledged. So each
//! member first stops acknowledging, and the members tell each other what they know (`reports`). A frozen control
//! blocks all proposals, at every member, until it is given back or an agreed decision ends it. What must never enter:
//! how views are agreed.

use super::ControlCore;
use crate::claim::Proposal;
use crate::command::Record;
use crate::message::Message;
use crate::moment::Moment;
use crate::name::{ControlName, Epoch, Incarnation};
use crate::own::State;
use crate::tree::{Remembered, Tree};
use crate::view::View;
use std::collections::BTreeSet;
use vfs::ReplicaSlot;

impl ControlCore {
    /// A newer view is durably in force, and the leases that this replica has granted to replicas outside it have
    /// expired ([`crate::SiteLease::may_enter`]). Controls survive the change. Until every member has reported, nothing
    /// is acknowledged, no control ends, and no close is answered.
    pub fn handle_view(&mut self, now: Moment, tree: &impl Tree, view: View) {
        if view.epoch <= self.view.epoch {
            return;
        }
        let tree = &Remembered::new(tree);
        let previous = std::mem::replace(&mut self.view, view);
        if previous.configured != self.view.configured {
            self.since_configuration = self.next_number;
        }
        self.acceptor.drop_lost_waiters(&self.view);
        let newcomer = self.view.is_new(self.slot, &previous);
        let outside = self.view.has_lost(self.slot);
        if outside || newcomer && !previous.active.contains(&self.slot) {
            self.set_grants_aside(tree, outside || self.previous.is_unsettled());
            self.joined = true;
        }
        self.doubt_renunciation(&previous);
        self.forget_those_who_left(&previous);
        let repeated = self.settings.rules.said_again_in_new_view();
        for peer in self.reached().into_iter().filter(|_| repeated) {
            self.send_now(peer, Message::Repeat);
        }
        self.open_reports(&previous);
        for peer in self.peers().into_iter().filter(|_| repeated) {
            self.repeat_to(tree, peer);
        }
        self.to_judge
            .extend(self.own.iter().map(|(number, _)| number));
        self.review_everything(tree);
        self.try_to_settle(tree);
        self.run(now, tree);
    }

    /// Whether every member of the current view has reported, so that the frozen controls are known. Before that, a
    /// replica that joined the view again must not answer any client.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.reports.open
    }

    /// The number of the view in force here.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.view.epoch
    }

    /// The view in force here.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether every active replica has acknowledged every own control in force that is older than the current
    /// configuration. Only then may the configuration change again (counterexample 10): majorities of neighbouring
    /// configurations have a member in common, majorities of others may not. Newer controls are not waited for:
    /// otherwise a set with constant writes could never add a member.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let younger = |number: u64| number >= self.since_configuration;
        let mut own = self.own.iter().filter(|(number, _)| !younger(*number));
        self.is_settled()
            && own.all(|(_, control)| {
                let known = control.election.acknowledged_by_all(&self.view.active);
                known || control.state == State::Undecided
            })
    }

    /// Controls acknowledged here whose holders have left the view.
    pub fn frozen(&self) -> impl Iterator<Item = &Proposal> {
        let grants = self.acceptor.table().grants();
        grants.filter(|grant| self.view.has_lost(grant.name.holder))
    }

    /// All replicas have decided that these controls of a lost replica end: what was made under them and is not here is
    /// given up. `None`: all its controls of incarnations before `below`.
    pub fn handle_loss_settled(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        holder: ReplicaSlot,
        names: Option<&[ControlName]>,
        below: Incarnation,
    ) {
        let tree = &Remembered::new(tree);
        let ends = |name: &ControlName| {
            let ends = names.map_or(name.incarnation < below, |names| names.contains(name));
            name.holder == holder && ends
        };
        let over: Vec<ControlName> = self.set_aside.keys().copied().filter(ends).collect();
        for name in over {
            self.set_aside.remove(&name);
            self.persist(Record::Forgotten(name));
        }
        match names {
            None => self.end_previous(tree, holder, below),
            Some(names) => {
                let theirs = names.iter().filter(|name| name.holder == holder);
                for name in theirs {
                    self.end_foreign(tree, *name);
                }
            }
        }
        self.run(now, tree);
    }

    pub(super) fn end_foreign(&mut self, tree: &impl Tree, name: ControlName) {
        if self.acceptor.table().contains(name) {
            self.persist(Record::Ended(name));
        }
        let answers = self.acceptor.end(tree, &self.view, name, None);
        self.answers.extend(answers);
    }

    /// A replica that joins the view again learns again what others hold. Until then its old acknowledgements are set
    /// aside, also on disk: perhaps no other remaining replica knows them. Own previous controls remain, because they
    /// show what must still be handed over. This also holds for a replica that became active before it could do that
    /// ([`View`] in which it replaced another one).
    fn set_grants_aside(&mut self, tree: &impl Tree, keep_own: bool) {
        let own = keep_own.then_some(self.slot);
        for grant in self.acceptor.clear(tree, own) {
            if grant.name.holder == self.slot {
                self.persist(Record::Ended(grant.name));
            } else {
                self.persist(Record::SetAside(grant.clone()));
                self.set_aside.insert(grant.name, grant);
            }
        }
    }

    /// Stops waiting for replicas that left. Replicas that joined again do not know earlier acknowledgements.
    fn forget_those_who_left(&mut self, previous: &View) {
        let active = &self.view.active;
        let new: BTreeSet<ReplicaSlot> = active
            .iter()
            .filter(|slot| self.view.is_new(**slot, previous))
            .copied()
            .collect();
        let gone = |slot: &ReplicaSlot| !active.contains(slot) || new.contains(slot);
        for ending in self.endings.values_mut() {
            // A replica that joins again may remember a control that has ended, if it restarted without leaving the view.
            ending.unaware.retain(|slot| active.contains(slot));
        }
        self.endings.retain(|_, ending| !ending.unaware.is_empty());
        self.previous.tell_again(
            self.view
                .active
                .iter()
                .copied()
                .filter(|slot| *slot != self.slot)
                .collect(),
        );
        for removed in previous.configured.difference(&self.view.configured) {
            self.applied.remove(removed);
            self.ahead_of_us.remove(removed);
        }
        let numbers: Vec<u64> = self.own.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let Some(control) = self.own.find_mut(number) else {
                continue;
            };
            let undecided = control.state == State::Undecided;
            // An acknowledgement of a proposal may be taken back when a conflicting control was frozen.
            let forgotten = control.election.acknowledged().clone();
            let forgotten = forgotten.into_iter().filter(|slot| undecided || gone(slot));
            forgotten.for_each(|slot| control.election.forget(slot));
        }
    }

    /// The peers whose messages were dropped because this replica was not yet in its current view.
    fn reached(&mut self) -> Vec<ReplicaSlot> {
        let epoch = self.view.epoch;
        let reached = self.ahead_of_us.extract_if(.., |_, last| *last <= epoch);
        reached.map(|(peer, _)| peer).collect()
    }

    pub(super) fn send_now(&mut self, to: ReplicaSlot, message: Message) {
        self.send(to, message, crate::command::Mark(0));
    }
}
