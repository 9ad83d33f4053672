//! The acceptor's side of an election: it grants proposals without conflicts, queues the others, and grants them later.
//!
//! This replaces the polling of Figure 1, where the losers may ask again before the winner does, for ever. Pure
//! bookkeeping: the caller gets the answers and sends them.

use crate::ancestry::Change;
use crate::claim::{Obstacle, Proposal, Rank};
use crate::ended::EndedControls;
use crate::message::MAX_OBSTACLES;
use crate::moment::Moment;
use crate::name::{ControlName, Incarnation};
use crate::rules::Rules;
use crate::table::ControlTable;
use crate::tree::Tree;
use crate::view::View;
use crate::waiting::{Waiter, Waiting};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use vfs::{ObjectId, ReplicaSlot};

/// The result of a proposal at this acceptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Granted now; not durable yet.
    Granted(Proposal),
    /// Granted before; the acknowledgement must be sent again.
    GrantedBefore(ControlName),
    /// Waiting, or (without the queue) refused.
    Refused(ControlName, Vec<Obstacle>),
}

/// One replica in its role as acceptor of all proposals, including its own.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    slot: ReplicaSlot,
    rules: Rules,
    waiting: Waiting,
    ended: EndedControls,
    arrivals: u64,
    /// While true, nothing is granted or acknowledged: the frozen controls are not known yet.
    paused: bool,
    /// Proposals that were granted before the pause and proposed again during it.
    repeated: BTreeSet<ControlName>,
    /// Controls that were acknowledged before the start and are not acknowledged again. A conflicting control may have
    /// been won, or their holders may rely on the acknowledgement. They block all other proposals.
    disputed: BTreeSet<ControlName>,
}

impl Acceptor {
    pub(crate) fn new(slot: ReplicaSlot, rules: Rules) -> Acceptor {
        Acceptor {
            slot,
            rules,
            waiting: Waiting::default(),
            ended: EndedControls::default(),
            arrivals: 0,
            paused: false,
            repeated: BTreeSet::new(),
            disputed: BTreeSet::new(),
        }
    }

    pub(crate) fn table(&self) -> &ControlTable {
        self.waiting.table()
    }

    /// Records a link that was added or removed. `settle` then grants what has become possible.
    pub(crate) fn note_link(
        &mut self,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
        change: Change,
    ) {
        self.waiting.note_link(tree, object, parent, change);
    }

    /// Whether all counters and remembered places are correct (I6).
    pub(crate) fn is_exact(&self, tree: &impl Tree) -> bool {
        self.waiting.is_exact(tree)
    }

    /// Records that the whole tree was replaced.
    pub(crate) fn note_replaced(&mut self, tree: &impl Tree) {
        self.waiting.note_replaced(tree);
    }

    /// The waiting proposals, each with the obstacles that its proposer was last told.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&Proposal, &[Obstacle])> {
        let waiters = self.waiting.iter();
        waiters.map(|waiter| (&waiter.proposal, waiter.told.as_slice()))
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a release has named this waiting proposal, so that it may block others.
    pub(crate) fn is_named(&self, name: ControlName) -> bool {
        let waiter = self.waiting.get(name);
        waiter.is_some_and(|waiter| waiter.named)
    }

    pub(crate) fn has_ended(&self, name: ControlName) -> bool {
        self.ended.contains(name)
    }

    /// The number of remembered entries about ended, repeated and disputed controls.
    pub(crate) fn ended_len(&self) -> usize {
        self.ended.len() + self.repeated.len() + self.disputed.len()
    }

    pub(crate) fn raise_floor(&mut self, origin: ControlName, floor: u64) {
        if self.rules.ended_remembered() {
            self.ended.raise_floor(origin, floor);
        }
    }

    pub(crate) fn waiting_count(&self, holder: ReplicaSlot) -> usize {
        self.waiting.iter_of(holder).count()
    }

    /// Judges a new or repeated proposal. `replaces` ends an earlier proposal, whose place in the queue the new one inherits.
    pub(crate) fn propose(
        &mut self,
        tree: &impl Tree,
        view: &View,
        proposal: Proposal,
        replaces: Option<ControlName>,
    ) -> Vec<Answer> {
        let name = proposal.name;
        let previous = replaces.and_then(|previous| self.forget(tree, previous));
        if self.ended.contains(name) {
            return self.settle(tree, view);
        }
        if self.table().contains(name) {
            if self.paused {
                self.repeated.insert(name);
                return Vec::new();
            }
            if self.disputed.contains(&name) {
                return Vec::new();
            }
            return vec![Answer::GrantedBefore(name)];
        }
        if let Some(waiter) = self.waiting.get_mut(name) {
            waiter.told.clear();
            return self.settle(tree, view);
        }
        let arrival = self.next_arrival();
        let place = previous
            .as_ref()
            .map_or(arrival, |previous| previous.arrival);
        let named = previous.as_ref().is_some_and(|previous| previous.named);
        let mut waiter = Waiter::new(proposal, place, named);
        waiter.favoured = previous.and_then(|previous| previous.favoured);
        self.waiting.add(tree, waiter);
        let answers = self.settle(tree, view);
        if !self.rules.acceptor_queue() {
            self.waiting.take(name);
        }
        answers
    }

    /// Restores a control that was acknowledged before a restart. Controls that conflicted then were in dispute, and are again.
    pub(crate) fn restore(&mut self, tree: &impl Tree, grant: Proposal) {
        if self.table().contains(grant.name) {
            return;
        }
        let against = self.conflicts(tree, &grant);
        if !against.is_empty() {
            self.disputed.insert(grant.name);
            self.disputed.extend(against);
        }
        self.waiting.grant(tree, grant);
    }

    /// Records a control that came with an applied update (inheritance). It cannot conflict, because its parent control
    /// was granted here before the update was applied.
    pub(crate) fn adopt(&mut self, tree: &impl Tree, proposal: Proposal) -> Option<Answer> {
        let name = proposal.name;
        if self.ended.contains(name) {
            return None;
        }
        if self.table().contains(name) {
            self.disputed.remove(&name);
            return Some(Answer::GrantedBefore(name));
        }
        self.waiting.take(name);
        self.waiting.grant(tree, proposal.clone());
        Some(Answer::Granted(proposal))
    }

    /// Ends a control or a waiting proposal. Then grants what has become possible, `next` first.
    pub(crate) fn end(
        &mut self,
        tree: &impl Tree,
        view: &View,
        name: ControlName,
        next: Option<Proposal>,
    ) -> Vec<Answer> {
        self.forget(tree, name);
        if let Some(next) = next.filter(|_| self.rules.release_names_waiter()) {
            self.give_precedence(tree, next);
        }
        self.settle(tree, view)
    }

    /// Ends everything that `holder` held or proposed before this incarnation. Then grants what has become possible.
    /// Returns the controls that were acknowledged here, and the answers.
    pub(crate) fn renounce(
        &mut self,
        tree: &impl Tree,
        view: &View,
        holder: ReplicaSlot,
        before: Incarnation,
    ) -> (Vec<ControlName>, Vec<Answer>) {
        let held: Vec<ControlName> = self.table().held_before(holder, before).collect();
        for name in &held {
            self.waiting.end(tree, *name);
        }
        let previous = |name: &ControlName| name.holder == holder && name.incarnation < before;
        self.waiting.retain(|name| !previous(name));
        self.ended.renounce(holder, before);
        (held, self.settle(tree, view))
    }

    fn give_precedence(&mut self, tree: &impl Tree, next: Proposal) {
        let name = next.name;
        if self.ended.contains(name) || self.table().contains(name) || !self.rules.acceptor_queue()
        {
            return;
        }
        if let Some(waiter) = self.waiting.get_mut(name) {
            waiter.named = true;
            return;
        }
        let arrival = self.next_arrival();
        self.waiting.add(tree, Waiter::new(next, arrival, true));
    }

    /// Removes the control, and remembers only that it ended. Returns the waiter, if it was waiting. The earlier queue
    /// place of a granted proposal is not kept.
    fn forget(&mut self, tree: &impl Tree, name: ControlName) -> Option<Waiter> {
        if self.rules.ended_remembered() {
            self.ended.insert(name);
        }
        self.waiting.end(tree, name);
        self.waiting.take(name)
    }

    /// Of the proposals that wait for this control, the one that has waited longest.
    pub(crate) fn longest_waiter(&self, name: ControlName) -> Option<&Proposal> {
        let held = self.table().grant(name)?;
        let waiters = self.waiting.iter();
        let conflicting = waiters.filter(|waiter| waiter.is_blocked_by_control(held));
        let longest = conflicting.min_by_key(|waiter| waiter.arrival)?;
        Some(&longest.proposal)
    }

    /// The waiting proposals of `holder` that a granted control blocks.
    pub(crate) fn held_up_by(
        &self,
        holder: ReplicaSlot,
        control: &Proposal,
    ) -> impl Iterator<Item = ControlName> {
        let theirs = self.waiting.iter_of(holder);
        let held_up = theirs.filter(|waiter| waiter.is_blocked_by_control(control));
        held_up.map(|waiter| waiter.proposal.name)
    }

    /// The waiting proposals of others that conflict with `proposal`.
    pub(crate) fn waiting_against(
        &self,
        tree: &impl Tree,
        proposal: &Proposal,
    ) -> Vec<ControlName> {
        let waiting = self.waiting.iter().map(|waiter| &waiter.proposal);
        let conflicting = waiting.filter(|other| other.conflicts_with(tree, proposal));
        conflicting.map(|other| other.name).collect()
    }

    /// Favours a waiting proposal until a moment, unless that already happened and it is too early for a second time.
    /// Its successors inherit this.
    pub(crate) fn favour(&mut self, now: Moment, name: ControlName, until: Moment, again: Moment) {
        if let Some(waiter) = self.waiting.get_mut(name)
            && waiter.favoured.is_none_or(|(_, again)| again <= now)
        {
            waiter.favoured = Some((until, again));
        }
    }

    /// Until when a proposal that conflicts with this one is favoured.
    pub(crate) fn favoured_against(
        &self,
        now: Moment,
        tree: &impl Tree,
        proposal: &Proposal,
    ) -> Option<Moment> {
        let favoured = self.waiting.iter().filter_map(|waiter| {
            let (until, _) = waiter.favoured.filter(|(until, _)| *until > now)?;
            let conflicts = waiter.proposal.conflicts_with(tree, proposal);
            conflicts.then_some(until)
        });
        favoured.max()
    }

    /// Records that waiting proposals have been won elsewhere. Returns whether that was new for any of them.
    pub(crate) fn note_won(&mut self, names: &[ControlName]) -> bool {
        let mut news = false;
        for name in names {
            if let Some(waiter) = self.waiting.get_mut(*name) {
                news |= !waiter.won;
                waiter.won = true;
            }
        }
        news
    }

    /// Grants and acknowledges nothing until [`Acceptor::resume`].
    pub(crate) fn pause(&mut self) {
        self.paused = true;
        self.repeated.clear();
    }

    /// Ends the pause: repeats the answers for repeated proposals, and grants what has become possible.
    pub(crate) fn resume(&mut self, tree: &impl Tree, view: &View) -> Vec<Answer> {
        self.paused = false;
        let repeated = std::mem::take(&mut self.repeated);
        let repeated = repeated.into_iter();
        let granted =
            repeated.filter(|name| self.table().contains(*name) && !self.disputed.contains(name));
        let mut answers: Vec<Answer> = granted.map(Answer::GrantedBefore).collect();
        answers.extend(self.settle(tree, view));
        answers
    }

    /// Makes a granted proposal wait again, because an older conflicting one may have been won.
    pub(crate) fn retract(&mut self, tree: &impl Tree, name: ControlName) {
        if let Some(grant) = self.table().grant(name).cloned() {
            self.waiting.end(tree, name);
            let arrival = self.next_arrival();
            self.waiting.add(tree, Waiter::new(grant, arrival, false));
        }
    }

    /// Keeps a control that was acknowledged before the start, but does not acknowledge it while another control conflicts.
    pub(crate) fn dispute(&mut self, name: ControlName) {
        self.disputed.insert(name);
    }

    /// Whether a control is acknowledged here, and not in dispute.
    pub(crate) fn acknowledges(&self, name: ControlName) -> bool {
        self.table().contains(name) && !self.disputed.contains(&name)
    }

    pub(crate) fn is_disputed(&self, name: ControlName) -> bool {
        self.disputed.contains(&name)
    }

    /// Acknowledges again the disputed controls that no other control conflicts with any more.
    fn end_disputes(&mut self, tree: &impl Tree) -> Vec<Answer> {
        let mut answers = Vec::new();
        for name in std::mem::take(&mut self.disputed) {
            match self.table().grant(name) {
                Some(grant) if !self.conflicts(tree, grant).is_empty() => {
                    self.disputed.insert(name);
                }
                Some(_) => answers.push(Answer::GrantedBefore(name)),
                None => {}
            }
        }
        answers
    }

    /// Removes all grants, except those of `keep`, and all waiting proposals. Returns the removed grants.
    pub(crate) fn clear(&mut self, tree: &impl Tree, keep: Option<ReplicaSlot>) -> Vec<Proposal> {
        let grants = self.table().grants();
        let grants = grants.filter(|grant| Some(grant.name.holder) != keep);
        let grants: Vec<Proposal> = grants.cloned().collect();
        for grant in &grants {
            self.waiting.end(tree, grant.name);
        }
        self.waiting.retain(|_| false);
        grants
    }

    /// The controls of others that conflict with a proposal.
    pub(crate) fn conflicts(&self, tree: &impl Tree, proposal: &Proposal) -> BTreeSet<ControlName> {
        self.table().conflicts(tree, proposal)
    }

    /// Drops the proposals of replicas that have left the view; their controls stay, frozen.
    pub(crate) fn drop_lost_waiters(&mut self, view: &View) {
        self.waiting.retain(|name| !view.has_lost(name.holder));
    }

    /// Grants every waiting proposal that is not blocked any more, in order, and reports changed obstacles to the others.
    pub(crate) fn settle(&mut self, tree: &impl Tree, view: &View) -> Vec<Answer> {
        if self.paused {
            return Vec::new();
        }
        let mut answers = self.end_disputes(tree);
        if self.waiting.is_empty() {
            return answers;
        }
        let order = self.order();
        let mut ahead = Vec::new();
        for name in &order {
            if self.is_blocked(tree, view, *name, &ahead) {
                ahead.push(*name);
            } else if let Some(waiter) = self.waiting.take(*name) {
                self.waiting.grant(tree, waiter.proposal.clone());
                answers.push(Answer::Granted(waiter.proposal));
            }
        }
        answers.extend(self.refusals(tree, view, &ahead));
        answers
    }

    /// The order of grants: proposals that a release has named, then by rank; this replica's own proposals last.
    fn order(&self) -> Vec<ControlName> {
        let mut order: Vec<&Waiter> = self.waiting.iter().collect();
        order.sort_by_key(|waiter| {
            let name = waiter.proposal.name;
            let foreign = name.holder != self.slot;
            Reverse((
                waiter.named,
                foreign,
                waiter.proposal.rank(),
                Reverse(name.number),
            ))
        });
        order.iter().map(|waiter| waiter.proposal.name).collect()
    }

    fn refusals(&mut self, tree: &impl Tree, view: &View, order: &[ControlName]) -> Vec<Answer> {
        let mut refusals = Vec::new();
        for (place, name) in order.iter().enumerate() {
            let obstacles = self.obstacles(tree, view, *name, &order[..place]);
            let Some(waiter) = self.waiting.get_mut(*name) else {
                continue;
            };
            if waiter.told != obstacles {
                waiter.told.clone_from(&obstacles);
                refusals.push(Answer::Refused(*name, obstacles));
            }
        }
        refusals
    }

    /// Whether a waiting proposal is blocked: by conflicting controls, by competitors that it has made way for, or by
    /// named waiters ahead of it.
    fn is_blocked(
        &self,
        tree: &impl Tree,
        view: &View,
        name: ControlName,
        ahead: &[ControlName],
    ) -> bool {
        self.waiting.get(name).is_some_and(|waiter| {
            waiter.has_conflicts()
                || self.unfinished(view, &waiter.proposal).next().is_some()
                || self.reserved(tree, view, waiter, ahead).next().is_some()
        })
    }

    /// Named waiters ahead of this one that block it. They must not block proposals of a replica whose control they
    /// wait for: before it can relinquish, all replicas have to acknowledge its narrower controls.
    fn reserved<'a>(
        &'a self,
        tree: &'a impl Tree,
        view: &'a View,
        waiter: &'a Waiter,
        ahead: &'a [ControlName],
    ) -> impl Iterator<Item = ControlName> + 'a {
        let holder = waiter.proposal.name.holder;
        let ahead = ahead.iter().filter_map(|other| self.waiting.get(*other));
        let named = ahead.filter(|other| other.named && !waiter.won);
        let reserved = named.filter(move |other| {
            self.unfinished(view, &other.proposal).next().is_none()
                && !other.is_blocked_by(holder)
                && other.proposal.conflicts_with(tree, &waiter.proposal)
        });
        reserved.map(|other| other.proposal.name)
    }

    /// The obstacles of a waiting proposal, the highest ranks first.
    fn obstacles(
        &self,
        tree: &impl Tree,
        view: &View,
        name: ControlName,
        ahead: &[ControlName],
    ) -> Vec<Obstacle> {
        let Some(waiter) = self.waiting.get(name) else {
            return Vec::new();
        };
        let mut obstacles = waiter.highest(view, MAX_OBSTACLES);
        let others = self.unfinished(view, &waiter.proposal);
        let others = others.chain(self.reserved(tree, view, waiter, ahead));
        obstacles.extend(others.map(|other| self.describe(view, other)));
        obstacles.sort_unstable_by(|one, other| other.cmp(one));
        obstacles.dedup();
        obstacles.truncate(MAX_OBSTACLES);
        obstacles
    }

    fn describe(&self, view: &View, name: ControlName) -> Obstacle {
        let granted = self.table().grant(name);
        let known = granted.or_else(|| Some(&self.waiting.get(name)?.proposal));
        let unknown = Rank {
            firm: true,
            holder: name.holder,
        };
        Obstacle {
            rank: known.map_or(unknown, Proposal::rank),
            name,
            frozen: view.has_lost(name.holder),
        }
    }

    /// The competitors that a proposal has made way for and that have not ended. While there are any, the proposal must
    /// not block others, because it may be waiting for exactly those.
    fn unfinished<'a>(
        &'a self,
        view: &'a View,
        proposal: &'a Proposal,
    ) -> impl Iterator<Item = ControlName> + 'a {
        let behind = proposal.behind.iter().copied();
        behind.filter(|other| {
            !self.ended.contains(*other) && !view.has_lost(other.holder) && self.may_know(*other)
        })
    }

    /// Without memory of ended controls, an unknown name may belong to one of them.
    fn may_know(&self, name: ControlName) -> bool {
        self.rules.ended_remembered() || self.knows(name)
    }

    /// Whether a control is granted or waits here.
    pub(crate) fn knows(&self, name: ControlName) -> bool {
        self.table().contains(name) || self.waiting.contains(name)
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}
