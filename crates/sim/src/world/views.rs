//! Grants, silent members, and how decisions come into force at one replica after another.
//!
//! The leases decide how long a grant counts, and when a view may be entered.

use super::{Event, World};
use crate::history::Decision;
use crate::packet::Packet;
use crate::replica::{Content, Replica};
use crate::site::{Change, Heads, head};
use control::{Incarnation, Moment, Question, ReplicaSlot, View};
use std::collections::BTreeSet;

impl World {
    /// Whether an event belongs to a replica that still runs in that incarnation.
    pub(super) fn runs(&self, slot: ReplicaSlot, incarnation: u64) -> bool {
        let site = &self.replicas[&slot].site;
        site.up && site.incarnation == incarnation
    }

    pub(super) fn take_tick(&mut self, slot: ReplicaSlot) {
        let local = self.local(slot);
        let next = self.moment_of(slot, local.after(self.lease.length / 5));
        let incarnation = self.replicas[&slot].site.incarnation;
        self.schedule(next, Event::Tick(slot, incarnation));
        self.look_at_clocks(slot);
        let question = self.replica(slot).site.lease.request(local);
        let heads = self.replicas[&slot].site.stable.heads.clone();
        for peer in self.everybody_else(slot) {
            self.send(slot, peer, Packet::LeaseRequest(question, heads.clone()));
        }
        self.exclude_the_silent(slot);
        if self.runs(slot, incarnation) && self.replicas[&slot].site.begun {
            self.synchronise(slot);
            self.look_after_absent(slot);
            self.take_over(slot);
            self.remove_the_gone(slot);
        }
    }

    fn look_at_clocks(&mut self, slot: ReplicaSlot) {
        let now = self.now;
        let site = &mut self.replica(slot).site;
        let reading = site.clock.reading(now);
        site.lease.handle_clocks(reading);
    }

    /// Why a replica is not at rest yet, in runs with failures.
    pub(crate) fn unrest(&self, replica: &Replica) -> Option<&'static str> {
        let site = &replica.site;
        let lacks = [
            (!site.up, "does not run"),
            (!self.knows_everything(replica.slot), "lacks a decision"),
            (
                !replica.core.view().active.contains(&replica.slot),
                "is not admitted",
            ),
            (!replica.core.is_settled(), "has not heard every report"),
            (!site.caught_up, "is not up to date"),
            (!site.renounced, "has not renounced its previous controls"),
            (site.admitted != site.incarnation, "is known as it was"),
            (site.unstable() > 0, "writes"),
            (!replica.arrived.is_empty(), "has not applied everything"),
        ];
        let lack = lacks.into_iter().find(|(lacks, _)| *lacks);
        lack.filter(|_| self.failures).map(|(_, lack)| lack)
    }

    fn everybody_else(&self, slot: ReplicaSlot) -> Vec<ReplicaSlot> {
        let slots = self.replicas.keys().copied();
        slots.filter(|other| *other != slot).collect()
    }

    /// A replica asks for a grant. It gets one if it takes part in every view known here.
    pub(super) fn take_ask(
        &mut self,
        slot: ReplicaSlot,
        from: ReplicaSlot,
        asked: Question,
        heads: Heads,
    ) {
        let local = self.local(slot);
        self.replica(slot).site.said.insert(from, (local, heads));
        let learnt = self.replicas[&slot].site.learnt;
        let newest = self.agreed.view(learnt).clone();
        let replica = self.replica(slot);
        let views = [replica.core.view(), &newest];
        let refused_before = views.iter().any(|view| !view.active.contains(&from));
        if replica.site.lease.handle_request(local, &views, from) && !refused_before {
            self.send(slot, from, Packet::LeaseGrant(asked));
        }
    }

    /// Proposes to exclude a member that has not granted for three fifths of a lease, or this replica itself
    /// if it cannot write.
    fn exclude_the_silent(&mut self, slot: ReplicaSlot) {
        let replica = &self.replicas[&slot];
        let view = replica.core.view();
        if !self.knows_everything(slot) || !view.active.contains(&slot) {
            return;
        }
        let now = self.local(slot);
        let site = &replica.site;
        let silent = |peer: &&ReplicaSlot| {
            let last = site.lease.last_grant(**peer).unwrap_or_default();
            let patient = last.max(site.since).after(self.lease.length * 3 / 5);
            **peer != slot && patient < now && self.model.silence_is_noticed
        };
        let mut lost: Vec<ReplicaSlot> = view.active.iter().filter(silent).copied().collect();
        if site.full {
            lost.push(slot);
        }
        // A removed replica goes first: the place of any other replica may still be needed.
        let first = lost.iter().find(|lost| self.gone.contains(lost));
        let Some(first) = first.or(lost.first()).copied() else {
            return;
        };
        let least = match self.model.majority_stays {
            true => self.agreed.present().majority(),
            false => 0,
        };
        let view = match self.can_do_without(slot, first) {
            true => self.with_data(self.agreed.without(first, least)),
            false => None,
        };
        let lost: BTreeSet<ReplicaSlot> = lost.into_iter().filter(|lost| *lost != slot).collect();
        if let Some(view) = view.or_else(|| self.who_takes_their_places(slot, &lost)) {
            self.decide(slot, Decision::View(view));
        }
    }

    /// Whether another member has everything that was answered, as far as `slot` can know. Also true if the lost one has no contents, or never comes back.
    fn can_do_without(&self, slot: ReplicaSlot, lost: ReplicaSlot) -> bool {
        let active = &self.replicas[&slot].core.view().active;
        let mut others = active.iter().filter(|other| **other != lost);
        !self.model.complete_copies_stay
            || self.gone.contains(&lost)
            || !self.holds_data(lost)
            || others.any(|other| self.holds_data(*other) && self.is_up_to_date(*other))
    }

    /// A view in which replicas outside take the places of the silent members. They must be level with every other member, and have at least
    /// as much of the silent members' streams as this replica.
    fn who_takes_their_places(
        &self,
        slot: ReplicaSlot,
        out: &BTreeSet<ReplicaSlot>,
    ) -> Option<View> {
        let replica = &self.replicas[&slot];
        let view = replica.core.view();
        if !self.model.places_are_taken {
            return None;
        }
        let rest: BTreeSet<ReplicaSlot> = view.active.difference(out).copied().collect();
        let own = replica.heads();
        let waiting = replica.site.waiting.iter();
        let fit = waiting.filter(|(outside, said)| {
            let as_much = |lost: &ReplicaSlot| head(&said.heads, *lost) >= head(&own, *lost);
            let level = rest.is_subset(&said.level_with);
            !view.active.contains(outside) && level && out.iter().all(as_much)
        });
        let fit: BTreeSet<ReplicaSlot> = fit.map(|(outside, _)| *outside).collect();
        self.with_data(self.agreed.replacing(out, &fit))
    }

    /// Notes the incarnations that this replica, the proposer, admits with a view.
    fn note_admitted(&mut self, by: ReplicaSlot, view: &View) {
        let new = view.active.iter().copied();
        let new = new.filter(|slot| view.since.get(slot) == Some(&view.epoch));
        for slot in new.collect::<Vec<_>>() {
            let said = self.replicas[&by].site.waiting.get(&slot);
            let said = said.map(|said| said.incarnation).filter(|_| slot != by);
            let site = &mut self.replica(slot).site;
            site.admitted = said.unwrap_or(site.incarnation);
        }
    }

    /// Whether every decision is in force at a replica.
    pub(super) fn knows_everything(&self, slot: ReplicaSlot) -> bool {
        let site = &self.replicas[&slot].site;
        site.begun && site.entered == self.agreed.len()
    }

    fn reaches_majority(&self, slot: ReplicaSlot) -> bool {
        let configured = &self.agreed.present().configured;
        let members = self.replicas.values();
        let members = members.filter(|other| configured.contains(&other.slot));
        let reached = members.filter(|other| {
            let both = !self.links.is_cut(slot, other.slot) && !self.links.is_cut(other.slot, slot);
            let runs = other.site.up && other.site.clock.still_until().is_none();
            other.slot == slot || (runs && both)
        });
        reached.count() >= self.agreed.present().majority()
    }

    /// Proposes a decision. Whether it was made.
    pub(super) fn decide(&mut self, slot: ReplicaSlot, decision: Decision) -> bool {
        if !self.knows_everything(slot) || !self.reaches_majority(slot) {
            return false;
        }
        if self.traced {
            println!("             {}: decided {decision:?}", slot.0);
        }
        self.note_decision(&decision);
        if let Decision::View(view) = &decision {
            self.note_admitted(slot, view);
        }
        self.agreed.decisions.push(decision);
        let known = self.agreed.len();
        self.learn(slot, known);
        for peer in self.everybody_else(slot) {
            self.send(slot, peer, Packet::Known);
        }
        true
    }

    /// A replica learns of decisions. If it has answered clients in a view and was excluded since, it restarts.
    pub(super) fn learn(&mut self, slot: ReplicaSlot, known: usize) {
        let site = &mut self.replica(slot).site;
        if known <= site.learnt {
            return;
        }
        let news = site.learnt..known;
        site.learnt = known;
        let site = &self.replicas[&slot].site;
        let answered = site.begun && site.caught_up;
        let took_part = answered && self.replicas[&slot].core.view().active.contains(&slot);
        let excluded = news.into_iter().any(|place| {
            let decision = &self.agreed.decisions[place];
            matches!(decision, Decision::View(view) if !view.active.contains(&slot))
        });
        if took_part && excluded {
            self.start_anew(slot);
        } else {
            self.await_next_decision(slot);
        }
    }

    /// Schedules the next decision to take effect as soon as it may.
    pub(super) fn await_next_decision(&mut self, slot: ReplicaSlot) {
        if let Some(at) = self.may_enter_next(slot) {
            let at = self.moment_of(slot, at).max(self.now);
            let incarnation = self.replicas[&slot].site.incarnation;
            self.schedule(at, Event::Enter(slot, incarnation));
        }
    }

    fn may_enter_next(&self, slot: ReplicaSlot) -> Option<Moment> {
        let replica = &self.replicas[&slot];
        let site = &replica.site;
        if site.begun && site.entered >= site.learnt {
            return None;
        }
        let newest = self.agreed.view(site.learnt);
        Some(site.lease.may_enter(replica.core.view(), newest))
    }

    pub(super) fn take_enter(&mut self, slot: ReplicaSlot) {
        self.look_at_clocks(slot);
        match self.may_enter_next(slot) {
            Some(at) if at <= self.local(slot) => self.enter(slot),
            Some(_) => self.await_next_decision(slot),
            None => {}
        }
    }

    /// All known decisions take effect at once. A replica that has missed a view in which another replica
    /// was away learns this from the newest view. A restarted replica begins with
    /// the decisions that it knew.
    fn enter(&mut self, slot: ReplicaSlot) {
        let replica = self.replica(slot);
        let news = replica.site.entered..replica.site.learnt;
        replica.site.entered = news.end;
        replica.site.begun = true;
        replica.site.heads_at_entry = replica.heads();
        replica.site.heard.clear();
        replica.site.level_with.clear();
        replica.site.waiting.clear();
        replica.site.closed_to.clear();
        let newest = self.agreed.view(news.end).clone();
        let is_given_up = self.agreed.decisions[news.clone()]
            .iter()
            .any(|decision| matches!(decision, Decision::Settled { lost, .. } if *lost == slot));
        for place in news {
            let settlements = self.agreed.settlements(place + 1);
            match self.agreed.decisions[place] {
                Decision::View(_) => {}
                Decision::Settled {
                    lost,
                    through,
                    below,
                } => self.end_lost(slot, lost, through, below, settlements),
                Decision::Recovered if self.model.recovered_pass_versions => {
                    self.pass_versions(slot, settlements);
                }
                Decision::Recovered => {}
            }
        }
        self.enter_view(slot, newest);
        self.settle(slot);
        if is_given_up {
            // Its open requests end with this. Only here does it learn that it was given up.
            self.start_anew(slot);
        }
    }

    fn end_lost(
        &mut self,
        slot: ReplicaSlot,
        lost: ReplicaSlot,
        through: u64,
        below: Incarnation,
        settlements: u64,
    ) {
        let now = self.local(slot);
        let model = self.model;
        let replica = self.replica(slot);
        let outside = !replica.core.view().active.contains(&slot);
        let longer = replica.applied.get(&lost).copied().unwrap_or(0) > through;
        if lost == slot {
            replica.site.cut = model.given_up_is_thrown_away;
        } else if outside || longer {
            replica.site.stale = true;
        }
        // Arrived parts of the stream that were not applied are given up with the rest.
        replica.arrived.retain(|(origin, _), _| *origin != lost);
        replica.contents.retain(|(origin, _)| *origin != lost);
        let core = &mut replica.core;
        core.handle_loss_settled(now, &replica.tree, lost, None, below);
        if model.versions_count_settlements {
            self.pass_versions(slot, settlements);
        }
    }

    /// Makes new versions here larger than all versions that a lost replica may have shown.
    fn pass_versions(&mut self, slot: ReplicaSlot, settlements: u64) {
        self.replica(slot).tree.count_settlements(settlements);
        self.store(slot, Change::Settlements(settlements));
    }

    fn enter_view(&mut self, slot: ReplicaSlot, view: View) {
        let now = self.local(slot);
        let witnesses = self.witnesses.clone();
        let replica = self.replica(slot);
        if view.epoch == replica.core.view().epoch {
            return;
        }
        let previous: BTreeSet<ReplicaSlot> = replica.core.view().active.clone();
        replica.site.since = now;
        if !view.active.contains(&slot) || !previous.contains(&slot) {
            replica.site.caught_up = false;
        }
        let before = replica.core.view();
        let others = view.active.iter().copied().filter(|other| *other != slot);
        // They include members with a later incarnation, which may not have taken what was sent to
        // them before.
        let newcomers: Vec<ReplicaSlot> =
            others.filter(|other| view.is_new(*other, before)).collect();
        let mut lacking = newcomers.clone();
        lacking.retain(|newcomer| !witnesses.contains(newcomer));
        for (_, missing) in replica.unshipped.values_mut() {
            missing.retain(|peer| view.active.contains(peer) && !newcomers.contains(peer));
            missing.extend(lacking.iter().copied());
        }
        replica.core.handle_view(now, &replica.tree, view);
        // The members may have changed: the present ones may lack what was made here before.
        replica.site.renounced &= replica.site.incarnation == 1 || replica.core.has_renounced();
        self.note_shipped_to_all(slot);
        for newcomer in newcomers {
            self.say_again(slot, newcomer);
        }
        self.synchronise(slot);
    }

    /// Notes contents that no active member lacks any more.
    pub(super) fn note_shipped_to_all(&mut self, slot: ReplicaSlot) {
        let replica = self.replica(slot);
        let unshipped = replica.unshipped.values();
        let shipped = unshipped.filter(|(_, missing)| missing.is_empty());
        let shipped: Vec<_> = shipped.map(|(content, _)| *content).collect();
        for content in shipped {
            self.note_shipped(slot, content);
        }
    }

    /// All active members have this content. A replica that is not up to date may not know all members, so it still remembers the content.
    pub(super) fn note_shipped(&mut self, slot: ReplicaSlot, content: Content) {
        let now = self.local(slot);
        let replica = self.replica(slot);
        let core = &mut replica.core;
        core.handle_data_shipped(now, &replica.tree, content.file);
        if replica.site.caught_up {
            replica.unshipped.remove(&content.file);
            self.store(slot, Change::Shipped(content.file, content.version));
        }
    }
}
