//! From one view to the next: what every member tells the others, and what freezes.
//!
//! Whoever leaves may have won controls that only some of the remaining have acknowledged. So each member
//! first stops to acknowledge, then tells all others what it acknowledges of those who left; when it has heard
//! from everybody it knows what they may hold. That is frozen: it stands in everybody's way, at every
//! member, until it is given back or an agreed decision ends it. How views are agreed never enters.

use super::ControlCore;
use super::former::FIRST_START;
use crate::acceptor::Answer;
use crate::claim::Proposal;
use crate::command::Record;
use crate::message::{Message, Told};
use crate::moment::Moment;
use crate::name::{ControlName, Epoch, Incarnation};
use crate::own::State;
use crate::tree::{Remembered, Tree};
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ObjectId, ReplicaSlot};

/// A part of a report has about so many bytes at most; a message of the control lane takes 48 KiB.
const PART_BYTES: usize = 24 << 10;

/// What one member has told so far.
#[derive(Clone, Debug, Default)]
struct Report {
    next: u32,
    complete: bool,
    told: Told,
}

/// The reports of the present view.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// Not everybody has reported yet.
    open: bool,
    /// A view has been entered since the start.
    entered: bool,
    /// It is the first one since the start, and this replica had taken part before that.
    first: bool,
    others: BTreeMap<ReplicaSlot, Report>,
}

impl ControlCore {
    /// A newer view is in force, durably, and this replica's promises to whoever is not in it have run out
    /// ([`crate::SiteLease::may_enter`]). Controls survive it. Until every member has reported nothing is
    /// acknowledged, no control ends, and no close is answered.
    pub fn handle_view(&mut self, now: Moment, tree: &impl Tree, view: View) {
        if view.epoch <= self.view.epoch {
            return;
        }
        let tree = &Remembered::new(tree);
        let former = std::mem::replace(&mut self.view, view);
        self.acceptor.drop_lost_waiters(&self.view);
        let newcomer = self.view.is_new(self.slot, &former);
        let outside = self.view.has_lost(self.slot);
        if outside || newcomer && !former.active.contains(&self.slot) {
            self.forget_grants(tree, outside || self.former.is_unsettled());
            self.joined = true;
        }
        self.forget_those_who_left(&former);
        let ahead_of_us = std::mem::take(&mut self.ahead_of_us);
        let repeated = self.settings.rules.said_again_in_new_view();
        for peer in ahead_of_us.into_iter().filter(|_| repeated) {
            self.send_now(peer, Message::Repeat);
        }
        self.open_reports();
        for peer in self.peers().into_iter().filter(|_| repeated) {
            self.repeat_to(tree, peer);
        }
        self.to_judge
            .extend(self.own.iter().map(|(number, _)| number));
        self.review_everything(tree);
        self.try_to_settle(tree);
        self.run(now, tree);
    }

    /// Whether every member of the present view has reported, so that what froze is known. Before that a
    /// replica that takes part anew must not answer anybody.
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

    /// Whether every own control in force is acknowledged by every active replica. Only then may the
    /// configuration change (counterexample 10).
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let mut own = self.own.iter();
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

    /// The frozen control that covers an object, if its primary has left the view.
    pub fn frozen_control(&self, tree: &impl Tree, object: ObjectId) -> Option<ControlName> {
        let question = self.question(tree, object);
        let conflicts = self.acceptor.conflicts(tree, &question);
        conflicts
            .into_iter()
            .find(|name| self.view.has_lost(name.holder))
    }

    /// All replicas have decided that these controls of one that left end: what was made under them and
    /// is not here is given up. `None`: all its controls of incarnations before `below`.
    pub fn handle_loss_settled(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        holder: ReplicaSlot,
        names: Option<&[ControlName]>,
        below: Incarnation,
    ) {
        let tree = &Remembered::new(tree);
        match names {
            None => self.end_former(tree, holder, below),
            Some(names) => {
                let theirs = names.iter().filter(|name| name.holder == holder);
                for name in theirs {
                    self.end_foreign(tree, *name);
                }
            }
        }
        self.run(now, tree);
    }

    fn end_foreign(&mut self, tree: &impl Tree, name: ControlName) {
        if self.acceptor.table().contains(name) {
            self.persist(Record::Ended(name));
        }
        let answers = self.acceptor.end(tree, &self.view, name, None);
        self.answers.extend(answers);
    }

    /// What others hold is learnt anew by whoever takes part again. Its own former controls still tell what it
    /// has to hand over, also when it takes part before it could ([`View`] in which it took somebody's place).
    fn forget_grants(&mut self, tree: &impl Tree, keep_own: bool) {
        let own = keep_own.then_some(self.slot);
        for name in self.acceptor.clear(tree, own) {
            self.persist(Record::Ended(name));
        }
    }

    /// Nobody who left is waited for, and nobody who is there anew knows what was acknowledged before.
    fn forget_those_who_left(&mut self, former: &View) {
        let active = &self.view.active;
        let new: BTreeSet<ReplicaSlot> = active
            .iter()
            .filter(|slot| self.view.is_new(**slot, former))
            .copied()
            .collect();
        let gone = |slot: &ReplicaSlot| !active.contains(slot) || new.contains(slot);
        for ending in self.endings.values_mut() {
            ending.unaware.retain(|slot| !gone(slot));
        }
        self.endings.retain(|_, ending| !ending.unaware.is_empty());
        self.former.tell_again(
            self.view
                .active
                .iter()
                .copied()
                .filter(|slot| *slot != self.slot)
                .collect(),
        );
        let numbers: Vec<u64> = self.own.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let Some(control) = self.own.find_mut(number) else {
                continue;
            };
            let undecided = control.state == State::Undecided;
            // What was acknowledged for a proposal may be taken back when something froze.
            let forgotten = control.election.acknowledged().clone();
            let forgotten = forgotten.into_iter().filter(|slot| undecided || gone(slot));
            forgotten.for_each(|slot| control.election.forget(slot));
        }
    }

    fn open_reports(&mut self) {
        let takes_part = !self.view.has_lost(self.slot);
        let first = !self.reports.entered && self.incarnation > FIRST_START;
        self.reports = Reports {
            open: takes_part,
            entered: true,
            first,
            others: BTreeMap::new(),
        };
        if takes_part && self.settings.rules.reports_before_acknowledging() {
            self.acceptor.pause();
        }
    }

    /// This replica's report as of now, for a member that may need it: it may have been started anew.
    pub(super) fn report_for(&self, tree: &impl Tree, peer: ReplicaSlot) -> Vec<Message> {
        let outside = self.view.has_lost(peer) || self.view.has_lost(self.slot);
        if outside || !self.reports.entered {
            return Vec::new();
        }
        let mut told = self.own_report();
        for control in told.all_mut() {
            *control = control.told_again(tree);
        }
        parts(&told)
    }

    fn own_report(&self) -> Told {
        let own = self.own.iter();
        let held = own.filter(|(_, control)| control.state != State::Undecided);
        Told {
            lost: self.frozen().cloned().collect(),
            held: held.map(|(_, control)| control.proposal.clone()).collect(),
            former: self.former_controls().cloned().collect(),
        }
    }

    pub(super) fn on_report(
        &mut self,
        tree: &impl Tree,
        from: ReplicaSlot,
        part: u32,
        last: bool,
        told: Told,
    ) {
        if !self.reports.open {
            // Said again over a new connection: what it was told before may be lost.
            return self.tell_what_has_ended(&[from].into(), &told.lost);
        }
        let report = self.reports.others.entry(from).or_default();
        if report.complete {
            return;
        }
        if part == 0 {
            *report = Report::default();
        }
        if part != report.next {
            return;
        }
        report.next += 1;
        report.told.extend(told);
        report.complete = last;
        self.try_to_settle(tree);
    }

    /// The end of a control may have reached this replica and not others before its holder was lost. There it would
    /// stand in everybody's way, and nobody who knows better would have it decided that it ends.
    fn tell_what_has_ended(&mut self, peers: &BTreeSet<ReplicaSlot>, lost: &[Proposal]) {
        let names: BTreeSet<ControlName> = lost.iter().map(|control| control.name).collect();
        let known =
            |name: &ControlName| self.view.has_lost(name.holder) && self.acceptor.has_ended(*name);
        for name in names.into_iter().filter(known).collect::<Vec<_>>() {
            for &peer in peers {
                self.send_now(peer, Message::Disown { name });
            }
        }
    }

    /// Once everybody has reported: freezes what may have been won, ends what certainly was not, and goes
    /// on.
    fn try_to_settle(&mut self, tree: &impl Tree) {
        let others = &self.reports.others;
        let reported = |slot: &ReplicaSlot| others.get(slot).is_some_and(|report| report.complete);
        if !self.reports.open || !self.peers().iter().all(reported) {
            return;
        }
        self.reports.open = false;
        let others = std::mem::take(&mut self.reports.others).into_values();
        let mut reports: Vec<Told> = others.map(|report| report.told).collect();
        // To all, who have all entered the view: whoever knows nothing of a control learns it from the same reports.
        let lost: Vec<Proposal> = reports.iter().flat_map(|told| told.lost.clone()).collect();
        self.tell_what_has_ended(&self.peers(), &lost);
        reports.push(self.own_report());
        self.learn_what_is_held(tree, &reports);
        for control in self.may_have_been_won(tree, &reports) {
            self.freeze(tree, control, &reports);
        }
        let answers = self.acceptor.resume(tree, &self.view);
        self.answers.extend(answers);
        self.to_judge
            .extend(self.own.iter().map(|(number, _)| number));
        self.propose_own_again(tree);
        self.review_everything(tree);
    }

    /// Asks this replica's own acceptor once more for what is undecided.
    fn propose_own_again(&mut self, tree: &impl Tree) {
        let own = self.own.iter();
        let undecided = own.filter(|(_, control)| control.state == State::Undecided);
        let proposals: Vec<Proposal> = undecided
            .map(|(_, control)| control.proposal.clone())
            .collect();
        for proposal in proposals {
            let answers = self.acceptor.propose(tree, &self.view, proposal, None);
            self.answers.extend(answers);
        }
    }

    /// A holder that was started anew does not propose again what it held, and others who had acknowledged that
    /// may know nothing any more.
    fn learn_what_is_held(&mut self, tree: &impl Tree, reports: &[Told]) {
        if !self.settings.rules.reports_tell_held() {
            return;
        }
        let former = self.former(tree, reports);
        let held = reports.iter().flat_map(|told| &told.held).chain(&former);
        let own = self.slot;
        for control in held.filter(|control| control.name.holder != own) {
            self.freeze(tree, control.clone(), reports);
        }
    }

    /// What members had asked for before they were started anew, unless somebody holds what excludes it: that ends.
    fn former(&mut self, tree: &impl Tree, reports: &[Told]) -> Vec<Proposal> {
        let former = reports.iter().flat_map(|told| told.former.clone());
        let (over, former): (Vec<_>, Vec<_>) =
            former.partition(|control| is_excluded(tree, control, reports));
        for control in over {
            self.end_foreign(tree, control.name);
        }
        former
    }

    /// Controls of those who left, unless the members together prove that no majority can have acknowledged
    /// one, or that somebody here holds what excludes it. The latter end.
    fn may_have_been_won(&mut self, tree: &impl Tree, reports: &[Told]) -> Vec<Proposal> {
        let mut acknowledged: BTreeMap<ControlName, (usize, Proposal)> = BTreeMap::new();
        for control in reports.iter().flat_map(|told| &told.lost) {
            let entry = acknowledged
                .entry(control.name)
                .or_insert_with(|| (0, control.clone()));
            entry.0 += 1;
        }
        let silent = self.view.configured.difference(&self.view.active).count();
        let enough = match self.settings.rules.freezes_across_configurations() {
            true => self.view.majority_of_neighbours(),
            false => self.view.majority(),
        };
        let freezes = self.settings.rules.lost_controls_freeze();
        let won = |count: usize, control: &Proposal| {
            freezes && count + silent >= enough && !is_excluded(tree, control, reports)
        };
        let (won, lost): (Vec<_>, Vec<_>) = acknowledged
            .into_values()
            .partition(|(count, control)| won(*count, control));
        for (_, control) in lost {
            self.end_foreign(tree, control.name);
        }
        won.into_iter().map(|(_, control)| control).collect()
    }

    /// A control that somebody holds, or may hold, stands in everybody's way from now on. What was granted
    /// here against it cannot have been won, and waits; but of two that may be held nobody knows which was won.
    fn freeze(&mut self, tree: &impl Tree, control: Proposal, reports: &[Told]) {
        let former = reports.iter().flat_map(|told| &told.former);
        let against = self.acceptor.conflicts(tree, &control).into_iter();
        let undecided = against.filter(|name| {
            !self.view.has_lost(name.holder) && !former.clone().any(|former| former.name == *name)
        });
        for name in undecided.collect::<Vec<_>>() {
            if self.reports.first {
                // Its holder may have been told in this very view that it is acknowledged here.
                self.acceptor.dispute(name);
            } else {
                self.persist(Record::Ended(name));
                self.acceptor.retract(tree, name);
            }
        }
        self.learn(tree, control);
    }

    /// Acknowledges what somebody is known to hold, or may hold.
    fn learn(&mut self, tree: &impl Tree, control: Proposal) {
        if let Some(answer @ Answer::Granted(_)) = self.acceptor.adopt(tree, control) {
            self.answers.push_back(answer);
        }
    }

    fn send_now(&mut self, to: ReplicaSlot, message: Message) {
        self.send(to, message, crate::command::Mark(0));
    }
}

/// Whether a member of the view holds what excludes a control, so that no majority can have acknowledged that. What
/// a member had asked for before it was started anew it may never have won, so that excludes nothing.
fn is_excluded(tree: &impl Tree, control: &Proposal, reports: &[Told]) -> bool {
    let mut held = reports.iter().flat_map(|told| &told.held);
    held.any(|other| other.conflicts_with(tree, control))
}

impl Told {
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Proposal> {
        let Told { lost, held, former } = self;
        lost.iter_mut().chain(held).chain(former)
    }

    fn extend(&mut self, more: Told) {
        self.lost.extend(more.lost);
        self.held.extend(more.held);
        self.former.extend(more.former);
    }
}

fn parts(told: &Told) -> Vec<Message> {
    let mut parts: Vec<(usize, Told)> = vec![Default::default()];
    let mut tell = |controls: &[Proposal], list: fn(&mut Told) -> &mut Vec<Proposal>| {
        for control in controls {
            let bytes = bytes_of(control);
            if parts.last().is_some_and(|part| part.0 + bytes > PART_BYTES) {
                parts.push(Default::default());
            }
            if let Some((sum, part)) = parts.last_mut() {
                *sum += bytes;
                list(part).push(control.clone());
            }
        }
    };
    tell(&told.lost, |part| &mut part.lost);
    tell(&told.held, |part| &mut part.held);
    tell(&told.former, |part| &mut part.former);
    let count = parts.len();
    let numbered = (0_u32..).zip(parts);
    numbered
        .map(|(part, (_, told))| Message::Report {
            part,
            last: part as usize + 1 == count,
            told,
        })
        .collect()
}

/// About so many bytes a control takes on its way.
fn bytes_of(control: &Proposal) -> usize {
    let claims = control.claims.iter();
    let claims: usize = claims.map(|claim| 16 + 10 * claim.ancestors.len()).sum();
    32 + claims + 24 * control.behind.len()
}
