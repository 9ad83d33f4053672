//! Own proposals: made, judged, won, downgraded, withdrawn and repeated.
//!
//! `election` decides what an answer means; this file executes the verdict.

use super::ControlCore;
use crate::claim::{Claim, Depth, Proposal};
use crate::command::Record;
use crate::election::Verdict;
use crate::message::Message;
use crate::moment::Moment;
use crate::name::ControlName;
use crate::own::{Ending, Origin, OwnControl, State, Waiting};
use crate::tree::{Tree, chain};
use crate::update::{Need, NeedKind};
use std::collections::BTreeSet;
use vfs::{ObjectId, ReplicaSlot};

impl ControlCore {
    /// Proposes control of what is needed, first to this replica's own acceptor. The proposal goes behind those that
    /// already wait here, so that a busy site cannot overtake them for ever.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn propose(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        needs: Vec<Need>,
        waiting: Vec<Waiting>,
        origin: Origin,
        deep: bool,
        replaces: Option<u64>,
        behind: &[ControlName],
    ) {
        let number = self.next_number;
        self.next_number += 1;
        let claims = claims(tree, &needs, deep);
        let mut proposal = Proposal {
            name: self.name_of(number),
            claims,
            downgradable: deep,
            behind: behind.to_vec(),
        };
        if self.settings.rules.acceptor_queue() {
            let senior = self.acceptor.waiting_against(tree, &proposal);
            proposal.behind.extend(senior);
            proposal.behind.sort_unstable();
            proposal.behind.dedup();
        } else {
            proposal.behind.clear();
        }
        let (state, wanted) = (State::Undecided, proposal.clone());
        let control = OwnControl::new(now, wanted, needs, origin, state, waiting);
        self.own.insert(control);
        self.review(tree, number);
        let message = Message::Propose {
            proposal: proposal.clone(),
            replaces,
            floor: self.floor(),
        };
        self.send_to_all(&self.peers(), &message);
        let previous = replaces.map(|number| self.name_of(number));
        if let Some(previous) = previous {
            self.persist(Record::Ended(previous));
        }
        self.ask_about(&proposal.behind);
        let answers = self.acceptor.propose(tree, &self.view, proposal, previous);
        self.answers.extend(answers);
    }

    pub(super) fn judge(&mut self, now: Moment, tree: &impl Tree, number: u64) {
        let Some(control) = self.own.find_mut(number) else {
            return;
        };
        if control.state != State::Undecided {
            return;
        }
        if self.settings.rules.acceptor_queue() {
            let acceptor = &self.acceptor;
            control
                .election
                .forget_obstacles(|name| acceptor.has_ended(name));
        }
        let rank = control.proposal.rank();
        match control.election.judge(&self.view, rank) {
            Verdict::Won => self.win(now, tree, number),
            Verdict::Wait => self.ask_again_without_queue(number),
            Verdict::Downgrade => self.downgrade(now, tree, number),
            Verdict::MakeWay(ahead) => self.make_way(now, tree, number, &ahead),
        }
    }

    fn win(&mut self, now: Moment, tree: &impl Tree, number: u64) {
        let name = self.name_of(number);
        let Some(control) = self.own.find_mut(number) else {
            return;
        };
        control.state = State::Held;
        control.last_used = now;
        let origin = control.origin;
        let deep = control.is_deep();
        let objects: Vec<ObjectId> = control.objects().collect();
        // Closes consider only controls in force.
        for object in &objects {
            self.closes.wake_at(*object, deep);
        }
        let waiting = self.own.take_waiting(number);
        self.review(tree, number);
        self.schedule(number);
        for operation in waiting {
            self.submit(now, tree, operation);
        }
        if self.acceptor.longest_waiter(name).is_some() {
            self.revoke(now, number);
        }
        if origin != Origin::Upgrade {
            for object in objects {
                self.consider_upgrade(now, tree, object);
            }
        }
    }

    /// Section 3.2: a proposal that cannot get deep control asks for shallow control.
    fn downgrade(&mut self, now: Moment, tree: &impl Tree, number: u64) {
        let Some(control) = self.own.find(number) else {
            return;
        };
        if control.origin == Origin::Demanded {
            self.replace(now, tree, number, &[]);
        } else {
            self.withdraw(tree, number, None);
        }
    }

    /// Makes way for `ahead`: operations are forwarded to the winner if possible; the others wait behind it. A proposal
    /// that no acceptor has granted and no release has named blocks nothing, and may stay unchanged.
    fn make_way(&mut self, now: Moment, tree: &impl Tree, number: u64, ahead: &[ControlName]) {
        let Some(control) = self.own.find(number) else {
            return;
        };
        let name = control.proposal.name;
        let stands_back = ahead
            .iter()
            .all(|other| control.proposal.behind.contains(other));
        let named = self.acceptor.is_named(name) && !stands_back;
        let is_in_the_way = named || !control.election.acknowledged().is_empty();
        let waiting = self.own.take_waiting(number);
        let staying = match ahead.last() {
            Some(winner) => self.forward_losers(tree, waiting, *winner),
            None => waiting,
        };
        if staying.is_empty() {
            self.withdraw(tree, number, None);
            return;
        }
        self.own.wait_for(number, staying);
        if is_in_the_way {
            self.replace(now, tree, number, ahead);
        }
    }

    /// Withdraws a proposal and makes it again in one message, shallow and under a new name.
    fn replace(&mut self, now: Moment, tree: &impl Tree, number: u64, behind: &[ControlName]) {
        let Some(control) = self.own.find(number) else {
            return;
        };
        let needs = control.needs.clone();
        let origin = control.origin;
        let waiting = self.own.take_waiting(number);
        let replaces = Some(number);
        let previous = self.begin_ending(tree, number, None);
        self.propose(now, tree, needs, waiting, origin, false, replaces, behind);
        self.send_end(number, previous);
    }

    /// Ends an undecided proposal or, with `released`, a control.
    pub(super) fn withdraw(
        &mut self,
        tree: &impl Tree,
        number: u64,
        released: Option<Option<Proposal>>,
    ) {
        let name = self.name_of(number);
        let next = released.clone().flatten();
        let previous = self.begin_ending(tree, number, released);
        self.persist(Record::Ended(name));
        let answers = self.acceptor.end(tree, &self.view, name, next);
        self.answers.extend(answers);
        self.send_end(number, previous);
    }

    /// Removes a control from the own ones. Every replica that it was proposed to must be told of its end.
    fn begin_ending(
        &mut self,
        tree: &impl Tree,
        number: u64,
        released: Option<Option<Proposal>>,
    ) -> Option<OwnControl> {
        let previous = self.own.remove(number)?;
        self.forget(tree, &previous);
        let objects = previous.objects().collect();
        let mut unaware = self.peers();
        if !self.settings.rules.end_to_all() {
            unaware.retain(|peer| previous.election.acknowledged_by(*peer));
        }
        if !unaware.is_empty() {
            let ending = Ending {
                released,
                objects,
                unaware,
            };
            self.endings.insert(number, ending);
        }
        let (name, floor) = (self.name_of(number), self.floor());
        self.acceptor.raise_floor(name, floor);
        Some(previous)
    }

    fn send_end(&mut self, number: u64, previous: Option<OwnControl>) {
        if previous.is_none() {
            return;
        }
        let Some(ending) = self.endings.get(&number) else {
            return;
        };
        let unaware = ending.unaware.clone();
        if let Some(message) = self.end_message(number) {
            self.send_to_all(&unaware, &message);
        }
    }

    pub(super) fn end_message(&self, number: u64) -> Option<Message> {
        let ending = self.endings.get(&number)?;
        let name = self.name_of(number);
        let floor = self.floor();
        Some(match &ending.released {
            None => Message::Abort { name, floor },
            Some(next) => Message::Release {
                name,
                next: next.clone(),
                floor,
            },
        })
    }

    /// Figure 1 as printed: when all answers have arrived, propose once more to those that refused.
    fn ask_again_without_queue(&mut self, number: u64) {
        if self.settings.rules.acceptor_queue() {
            return;
        }
        let Some(control) = self.own.find(number) else {
            return;
        };
        if !control.election.is_complete(&self.view) {
            return;
        }
        let peers = self.peers();
        let refused = peers
            .iter()
            .filter(|peer| control.election.refused_by(**peer));
        let refused: BTreeSet<ReplicaSlot> = refused.copied().collect();
        let message = Message::Propose {
            proposal: control.proposal.clone(),
            replaces: None,
            floor: self.floor(),
        };
        self.send_to_all(&refused, &message);
        if let Some(control) = self.own.find_mut(number) {
            control.election.begin_round(&refused);
        }
    }

    /// Whether deep control of `directory` is worth proposing: no other replica controls anything below it, and it was
    /// not taken away from here recently.
    pub(super) fn deep_is_welcome(
        &self,
        now: Moment,
        tree: &impl Tree,
        directory: ObjectId,
    ) -> bool {
        let ancestry = self.acceptor.table().ancestry();
        let backing_off = self.back_off.iter().any(|(given_up, until)| {
            *until > now && (*given_up == directory || tree.above(*given_up).contains(&directory))
        });
        self.settings.strategies.deep_control
            && !ancestry.others_below(directory, self.slot)
            && !backing_off
    }

    /// Section 3.3, fourth: many own controls below a directory, and none of other replicas, suggest deep control of
    /// it. The nearest such directory is tried.
    fn consider_upgrade(&mut self, now: Moment, tree: &impl Tree, object: ObjectId) {
        if !self.settings.strategies.upgrade || self.own.len() >= self.settings.capacity {
            return;
        }
        let Some(parent) = tree.parents(object).first().copied() else {
            return;
        };
        let busy = chain(tree, parent).find(|directory| {
            let ancestry = self.acceptor.table().ancestry();
            ancestry.count_of(*directory, self.slot) >= self.settings.upgrade_threshold
        });
        let Some(directory) = busy else {
            return;
        };
        let kind = NeedKind::Directory;
        let need = Need {
            object: directory,
            kind,
        };
        let covered = !self.own.deep_at(chain(tree, directory)).is_empty();
        if !covered && self.deep_is_welcome(now, tree, directory) {
            let needs = vec![need];
            self.propose(
                now,
                tree,
                needs,
                Vec::new(),
                Origin::Upgrade,
                true,
                None,
                &[],
            );
        }
    }
}

/// One claim for each needed object. Only a moved directory must be deep. Another directory becomes deep if that is
/// wanted, and then the proposal can be downgraded.
pub(super) fn claims(tree: &impl Tree, needs: &[Need], deep: bool) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    for need in needs {
        let depth = match need.kind {
            NeedKind::MovedDirectory => Depth::Deep,
            NeedKind::Directory if deep => Depth::Deep,
            _ => Depth::Shallow,
        };
        match claims.iter_mut().find(|claim| claim.object == need.object) {
            Some(claim) => claim.depth = claim.depth.max(depth),
            None => claims.push(Claim::new(tree, need.object, depth)),
        }
    }
    claims
}
