//! The reports that the members of a new view exchange, and what follows when all have arrived.
//!
//! Every member reports the controls that it acknowledges of replicas that left, and the controls that it holds. When a
//! member has all reports, it knows which controls may have been won. Those are frozen; controls that were certainly
//! not won end. `views` decides when a view begins, and what its beginning does to controls.

use super::ControlCore;
use super::previous::FIRST_START;
use crate::acceptor::Answer;
use crate::claim::{Depth, Proposal};
use crate::command::Record;
use crate::message::{Message, Told};
use crate::name::ControlName;
use crate::own::State;
use crate::tree::Tree;
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ObjectId, ReplicaSlot};

/// The approximate maximum size of a part of a report, in bytes. A message of the control lane has at most 48 KiB.
const PART_BYTES: usize = 24 << 10;

/// The report of one member so far.
#[derive(Clone, Debug, Default)]
struct Report {
    next: u32,
    complete: bool,
    told: Told,
}

/// The reports of the present view.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// Some member has not reported yet.
    pub(super) open: bool,
    /// A view has been entered since the start.
    entered: bool,
    /// This is the first view since the start, and this replica was active before that.
    first: bool,
    /// This replica was active in the previous view, and may not have all reports of it.
    unsettled: bool,
    others: BTreeMap<ReplicaSlot, Report>,
}

impl Reports {
    /// The number of replicas that have reported, while some have not.
    pub(super) fn len(&self) -> usize {
        self.others.len()
    }
}

impl ControlCore {
    /// Begins to wait for the reports of a view that this replica has just entered.
    pub(super) fn open_reports(&mut self, previous: &View) {
        let takes_part = !self.view.has_lost(self.slot);
        let first = !self.reports.entered && self.incarnation > FIRST_START;
        let missed_one = self.view.epoch.0 > previous.epoch.0 + 1;
        let unsettled = self.reports.open || first || missed_one;
        self.reports = Reports {
            open: takes_part,
            entered: true,
            first,
            unsettled: unsettled && previous.active.contains(&self.slot),
            others: BTreeMap::new(),
        };
        if takes_part && self.settings.rules.reports_before_acknowledging() {
            self.acceptor.pause();
        }
    }

    /// The current report of this replica, for a member that may need it because it may have restarted.
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
        let set_aside = self.set_aside.values();
        let set_aside = set_aside.filter(|grant| self.view.has_lost(grant.name.holder));
        Told {
            lost: self.frozen().cloned().collect(),
            held: held.map(|(_, control)| control.proposal.clone()).collect(),
            previous: self.previous_controls().cloned().collect(),
            set_aside: set_aside.cloned().collect(),
            unsettled: self.reports.unsettled,
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
            // The peer repeats its report over a new connection: what it was told before may be lost.
            let lost = [told.lost, told.set_aside].concat();
            return self.tell_what_has_ended(&[from].into(), &lost);
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

    /// The end of a control may have reached this replica, but not all others, before its holder was lost. There the
    /// control would block proposals, and the replicas that know its end would not ask for a decision to end it.
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

    /// When all members have reported: freezes the controls that may have been won, ends those that certainly were not,
    /// and continues.
    pub(super) fn try_to_settle(&mut self, tree: &impl Tree) {
        let others = &self.reports.others;
        let reported = |slot: &ReplicaSlot| others.get(slot).is_some_and(|report| report.complete);
        if !self.reports.open || !self.peers().iter().all(reported) {
            return;
        }
        self.reports.open = false;
        let others = std::mem::take(&mut self.reports.others).into_values();
        let mut reports: Vec<Told> = others.map(|report| report.told).collect();
        reports.push(self.own_report());
        self.count_what_was_set_aside(&mut reports);
        // Sent to all peers, because all of them have entered the view: a replica that does not know a control learns
        // it from the same reports.
        let lost: Vec<Proposal> = reports.iter().flat_map(|told| told.lost.clone()).collect();
        self.tell_what_has_ended(&self.peers(), &lost);
        self.learn_what_is_held(tree, &reports);
        for control in self.may_have_been_won(tree, &reports) {
            self.freeze(tree, control, &reports);
        }
        self.forget_what_was_set_aside();
        let answers = self.acceptor.resume(tree, &self.view);
        self.answers.extend(answers);
        self.acknowledge_what_nobody_told_of(&reports);
        self.to_judge
            .extend(self.own.iter().map(|(number, _)| number));
        self.propose_own_again(tree);
        self.review_everything(tree);
    }

    /// The members that stayed in the previous view know together which controls may have been won. But if they have
    /// not exchanged all reports and one of them was lost, only a majority of all replicas that ever acknowledged
    /// anything knows it. Then the former acknowledgements of returning members count too.
    fn count_what_was_set_aside(&self, reports: &mut [Told]) {
        let needed = reports.iter().any(|told| told.unsettled);
        if needed && self.settings.rules.set_aside_counts() {
            for told in reports {
                told.lost.append(&mut told.set_aside);
            }
        }
    }

    /// All controls that may have been won are known again.
    fn forget_what_was_set_aside(&mut self) {
        for name in std::mem::take(&mut self.set_aside).into_keys() {
            self.persist(Record::Forgotten(name));
        }
    }

    /// Proposes the undecided own controls to this replica's own acceptor again. The controls that they made way for
    /// may have ended while this replica was outside the view.
    fn propose_own_again(&mut self, tree: &impl Tree) {
        let own = self.own.iter();
        let undecided = own.filter(|(_, control)| control.state == State::Undecided);
        let proposals: Vec<Proposal> = undecided
            .map(|(_, control)| control.proposal.clone())
            .collect();
        for proposal in proposals {
            self.ask_about(&proposal.behind);
            let answers = self.acceptor.propose(tree, &self.view, proposal, None);
            self.answers.extend(answers);
        }
    }

    /// Repeats acknowledgements of members' controls that are acknowledged here, but that their holders did not report. Such a control has not been won yet,
    /// or has ended. Outside the view, or just before another view, a replica that released another control for it may have repeated it here, and an
    /// acknowledgement sent then was not valid anywhere. The holder disowns a control that has ended.
    fn acknowledge_what_nobody_told_of(&mut self, reports: &[Told]) {
        let told = reports
            .iter()
            .flat_map(|told| told.held.iter().chain(&told.previous));
        let told: BTreeSet<ControlName> = told.map(|control| control.name).collect();
        let grants = self.acceptor.table().grants().map(|grant| grant.name);
        let untold = grants.filter(|name| {
            name.holder != self.slot
                && !self.view.has_lost(name.holder)
                && !told.contains(name)
                && !self.acceptor.is_disputed(*name)
        });
        let untold: Vec<ControlName> = untold.collect();
        self.answers
            .extend(untold.into_iter().map(Answer::GrantedBefore));
    }

    /// A holder that restarted does not propose again what it held, and replicas that had acknowledged it may have
    /// forgotten it.
    fn learn_what_is_held(&mut self, tree: &impl Tree, reports: &[Told]) {
        if !self.settings.rules.reports_tell_held() {
            return;
        }
        let previous = self.previous(tree, reports);
        let held = reports.iter().flat_map(|told| &told.held).chain(&previous);
        let own = self.slot;
        for control in held.filter(|control| control.name.holder != own) {
            self.freeze(tree, control.clone(), reports);
        }
    }

    /// What members had proposed before their restart. A proposal ends if a member holds a conflicting control.
    fn previous(&mut self, tree: &impl Tree, reports: &[Told]) -> Vec<Proposal> {
        let held = Held::told(reports);
        let previous = reports.iter().flat_map(|told| told.previous.clone());
        let (over, previous): (Vec<_>, Vec<_>) =
            previous.partition(|control| held.exclude(tree, control));
        for control in over {
            self.end_foreign(tree, control.name);
        }
        previous
    }

    /// Controls of replicas that left. They end if the members together prove that no majority can have acknowledged
    /// them, or if a member holds a conflicting control.
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
        let held = Held::told(reports);
        let won = |count: usize, control: &Proposal| {
            freezes && count + silent >= enough && !held.exclude(tree, control)
        };
        let (won, lost): (Vec<_>, Vec<_>) = acknowledged
            .into_values()
            .partition(|(count, control)| won(*count, control));
        for (_, control) in lost {
            self.end_foreign(tree, control.name);
        }
        won.into_iter().map(|(_, control)| control).collect()
    }

    /// A control that a replica holds, or may hold, blocks all others from now on. A conflicting grant here cannot have
    /// been won, and waits. But of two controls that may be held it is unknown which one was won.
    fn freeze(&mut self, tree: &impl Tree, control: Proposal, reports: &[Told]) {
        let previous = reports.iter().flat_map(|told| &told.previous);
        let against = self.acceptor.conflicts(tree, &control).into_iter();
        let undecided = against.filter(|name| {
            !self.view.has_lost(name.holder)
                && !previous.clone().any(|previous| previous.name == *name)
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

    /// Acknowledges a control that a replica holds, or may hold.
    fn learn(&mut self, tree: &impl Tree, control: Proposal) {
        if let Some(answer @ Answer::Granted(_)) = self.acceptor.adopt(tree, control) {
            self.answers.push_back(answer);
        }
    }
}

/// The controls that members of the view hold. What a member had proposed before its restart may never have been won, and is not among them.
struct Held<'r> {
    all: Vec<&'r Proposal>,
    /// By the objects that they claim: there may be tens of thousands of them, and as many controls to compare with them.
    at: BTreeMap<ObjectId, Vec<&'r Proposal>>,
}

impl<'r> Held<'r> {
    fn told(reports: &'r [Told]) -> Held<'r> {
        let all: Vec<&Proposal> = reports.iter().flat_map(|told| &told.held).collect();
        let mut at = BTreeMap::<ObjectId, Vec<&Proposal>>::new();
        for control in &all {
            for claim in &control.claims {
                at.entry(claim.object).or_default().push(control);
            }
        }
        Held { all, at }
    }

    /// Whether one of them conflicts with a control, so that no majority can have acknowledged that one.
    fn exclude(&self, tree: &impl Tree, control: &Proposal) -> bool {
        let conflicts = |other: &&Proposal| other.conflicts_with(tree, control);
        let mut claims = control.claims.iter();
        if claims.clone().any(|claim| claim.depth == Depth::Deep) {
            return self.all.iter().any(conflicts);
        }
        claims.any(|claim| {
            let above = tree.above(claim.object);
            let mut objects = [claim.object]
                .into_iter()
                .chain(claim.ancestors.iter().copied())
                .chain(above.iter().copied());
            objects.any(|object| {
                let there = self.at.get(&object);
                there.is_some_and(|there| there.iter().any(conflicts))
            })
        })
    }
}

impl Told {
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Proposal> {
        let Told {
            lost,
            held,
            previous,
            set_aside,
            unsettled: _,
        } = self;
        let present = lost.iter_mut().chain(held);
        present.chain(previous).chain(set_aside)
    }

    fn extend(&mut self, more: Told) {
        self.lost.extend(more.lost);
        self.held.extend(more.held);
        self.previous.extend(more.previous);
        self.set_aside.extend(more.set_aside);
        self.unsettled |= more.unsettled;
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
    tell(&told.previous, |part| &mut part.previous);
    tell(&told.set_aside, |part| &mut part.set_aside);
    for (_, part) in &mut parts {
        part.unsettled = told.unsettled;
    }
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

/// The approximate encoded size of a control.
fn bytes_of(control: &Proposal) -> usize {
    let claims = control.claims.iter();
    let claims: usize = claims.map(|claim| 16 + 10 * claim.ancestors.len()).sum();
    32 + claims + 24 * control.behind.len()
}
