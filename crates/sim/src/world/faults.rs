//! Faults: crashes, cut links, full disks, and an administrator who gives a replica up.
//!
//! The plan decides when they happen; the neighbouring files describe how the replicas continue.

use super::{CLOSE, Event, Stamp, World, place};
use crate::clock::Clock;
use crate::history::Decision;
use crate::packet::Packet;
use crate::plan::Plan;
use crate::replica::Replica;
use control::{
    ControlCore, Epoch, Incarnation, LeaseSettings, Moment, ReplicaSlot, SiteLease, View,
};
use std::time::Duration;

/// An event that happens to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A replica stops at once; what its disk has not written is lost.
    Crash(ReplicaSlot),
    /// It is about to stop in an orderly way, and gives up what it controls.
    Retire(ReplicaSlot),
    /// It is started again.
    Start(ReplicaSlot),
    /// Its machine stands still for this time, which its clock does not see.
    Pause(ReplicaSlot, Duration),
    /// Its machine is suspended for this time, which its clock sees.
    Suspend(ReplicaSlot, Duration),
    /// The machine continues.
    GoOn(ReplicaSlot),
    /// Its time of day is set forward by a number of microseconds, or back.
    SetClock(ReplicaSlot, i64),
    /// Cuts the direction from the first replica to the second.
    Cut(ReplicaSlot, ReplicaSlot),
    /// Heals this direction.
    Heal(ReplicaSlot, ReplicaSlot),
    /// A replica cannot write any more.
    Full(ReplicaSlot),
    /// It can write again.
    Mended(ReplicaSlot),
    /// An administrator gives up what only a lost replica has.
    GiveUp(ReplicaSlot),
    /// An administrator removes a replica for ever, with what only it has.
    Remove(ReplicaSlot),
    /// An administrator says at a replica that each stopped member is gone for ever, and
    /// the rest is the whole set.
    Recover(ReplicaSlot),
    /// Mends everything that was broken.
    HealAll,
}

/// Rules outside replication control that a test may switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Model {
    /// An update, or content, is sent only when it is stable.
    pub ship_when_stable: bool,
    /// Contents that may already be stored are sent again only to replicas without their version.
    pub versions_are_compared: bool,
    /// Controls are remembered across a crash.
    pub controls_durable: bool,
    /// A newcomer answers no client before it has everything that the others had when it was admitted.
    pub caught_up_before_lease: bool,
    /// Versions made after a settlement are larger than all versions that a lost replica can have made.
    pub versions_count_settlements: bool,
    /// New versions of the remaining replicas are larger than all versions that the replicas given up with the majority
    /// may have shown.
    pub recovered_pass_versions: bool,
    /// A replica outside the view that may have more than was kept of a lost stream takes no later updates.
    pub who_has_more_follows_nobody: bool,
    /// A replica that needs a copy of the others keeps its own until the members have everything that counts in it.
    pub copies_are_spared: bool,
    /// A replica that was given up discards what no other replica has.
    pub given_up_is_thrown_away: bool,
    /// Survivors are brought to the longest prefix that any of them holds before a lost replica is given up.
    pub longest_prefix: bool,
    /// Silent members are proposed for exclusion.
    pub silence_is_noticed: bool,
    /// No member leaves the view if no majority would remain in it, not even a member that cannot write.
    pub majority_stays: bool,
    /// A waiting replica outside the view takes the place of a silent member if too few members would remain.
    pub places_are_taken: bool,
    /// A member that was up to date in the view, and was restarted in it, still counts when others have to be level with it.
    pub starts_take_nothing: bool,
    /// A member that alone has everything that was answered leaves the view only by removal.
    pub complete_copies_stay: bool,
    /// A directory's entries are answered from the same copy as its attributes.
    pub entries_from_copy_of_attributes: bool,
    /// Locks are part of every copy, and are not only in the memory of their primary.
    pub locks_are_in_every_copy: bool,
    /// With durability `majority`, an answer waits until a majority has the change.
    pub answers_wait_for_majority: bool,
    /// A removed replica's loss is settled before majorities are counted without it.
    pub losses_settled_before_removal: bool,
    /// The locks of a lost replica's clients are given up when the clients have been absent for a lease, not before.
    pub absent_clients_have_a_lease: bool,
}

impl Model {
    /// Every rule in force.
    pub const ALL: Model = Model {
        ship_when_stable: true,
        versions_are_compared: true,
        controls_durable: true,
        caught_up_before_lease: true,
        versions_count_settlements: true,
        recovered_pass_versions: true,
        who_has_more_follows_nobody: true,
        copies_are_spared: true,
        given_up_is_thrown_away: true,
        longest_prefix: true,
        silence_is_noticed: true,
        majority_stays: true,
        places_are_taken: true,
        starts_take_nothing: true,
        complete_copies_stay: true,
        entries_from_copy_of_attributes: true,
        locks_are_in_every_copy: true,
        answers_wait_for_majority: true,
        losses_settled_before_removal: true,
        absent_clients_have_a_lease: true,
    };
}

/// The longest restart of an excluded replica, in microseconds.
const SLOWEST_START: u64 = 500_000;

/// The interval between checks whether survivors agree on a lost stream, and the number of checks.
const SETTLE_EVERY: Duration = Duration::from_millis(300);
const SETTLE_TIMES: u32 = 30;

impl World {
    pub(super) fn begin_failures(&mut self, plan: &Plan) {
        self.lease = LeaseSettings {
            rules: plan.settings.rules,
            ..plan.lease
        };
        let lease = self.lease;
        let slots: Vec<ReplicaSlot> = self.replicas.keys().copied().collect();
        for slot in &slots {
            let drift = plan.drifts.get(usize::from(slot.0) - 1).copied();
            let site = &mut self.replica(*slot).site;
            site.clock = Clock::new(drift.unwrap_or(0), Moment(0));
            site.lease = SiteLease::new(*slot, Incarnation(1), lease, Moment(0));
            self.schedule(Moment(0), Event::Tick(*slot, 1));
            let before = View {
                epoch: Epoch(0),
                ..self.agreed.present().clone()
            };
            let first = self.agreed.present().clone();
            let joins = !first.active.contains(slot);
            let replica = self.replica(*slot);
            replica.site.cut = joins;
            replica.site.caught_up = !joins;
            replica.site.stable.up_to_date_at = usize::from(!joins);
            replica.core = ControlCore::new(*slot, Incarnation(1), before, plan.settings);
            self.change_view(*slot, first);
        }
        for (place, (at, fault)) in plan.faults.iter().enumerate() {
            let event = plan.operations + u32::try_from(place).unwrap_or(u32::MAX);
            if plan.includes(event) && self.concerns_present(*fault) {
                self.schedule(Moment(0).after(*at), Event::Fault(*fault));
            }
        }
        if !plan.faults.is_empty() {
            self.fail(plan.mended_after(), Fault::HealAll);
        }
    }

    fn concerns_present(&self, fault: Fault) -> bool {
        let here = |slot: &ReplicaSlot| self.replicas.contains_key(slot);
        match fault {
            Fault::Crash(slot) | Fault::Start(slot) | Fault::Full(slot) => here(&slot),
            Fault::Retire(slot) => here(&slot),
            Fault::Pause(slot, _) | Fault::Suspend(slot, _) | Fault::GoOn(slot) => here(&slot),
            Fault::SetClock(slot, _) => here(&slot),
            Fault::Mended(slot) | Fault::GiveUp(slot) => here(&slot),
            Fault::Remove(slot) | Fault::Recover(slot) => here(&slot),
            Fault::Cut(from, to) | Fault::Heal(from, to) => here(&from) && here(&to),
            Fault::HealAll => true,
        }
    }

    /// Schedules a fault.
    pub fn fail(&mut self, after: Duration, fault: Fault) {
        let at = self.now.after(after);
        self.schedule(at, Event::Fault(fault));
    }

    pub(super) fn take_of_failures(&mut self, event: Event) -> Vec<ReplicaSlot> {
        let (slot, incarnation) = match event {
            Event::Flush(slot, incarnation)
            | Event::Tick(slot, incarnation)
            | Event::Enter(slot, incarnation)
            | Event::Retry(slot, incarnation) => (slot, incarnation),
            Event::Fault(fault) => {
                self.take_fault(fault);
                return self.replicas.keys().copied().collect();
            }
            Event::Settle(lost, times) => {
                self.go_on_settling(lost, times);
                return Vec::new();
            }
            Event::Again(number, handed) => return self.take_again(number, handed),
            _ => return Vec::new(),
        };
        if !self.runs(slot, incarnation) {
            return Vec::new();
        }
        match event {
            Event::Flush(..) => self.take_flush(slot),
            Event::Tick(..) => self.take_tick(slot),
            Event::Enter(..) => self.take_enter(slot),
            _ => self.take_retry(slot),
        }
        vec![slot]
    }

    fn take_again(&mut self, number: u64, handed: u32) -> Vec<ReplicaSlot> {
        let operation = &self.operations[place(number)];
        let (home, at) = (operation.home, operation.at);
        let site = &self.replicas[&home].site;
        let here = at == (home, site.incarnation);
        if !site.up || here || operation.handed != handed || operation.outcome.is_some() {
            return Vec::new();
        }
        self.begin(home, number);
        self.settle(home);
        vec![home]
    }

    pub(super) fn deliver_of_failures(
        &mut self,
        from: ReplicaSlot,
        to: ReplicaSlot,
        packet: Packet,
        stamp: Stamp,
    ) {
        match packet {
            Packet::LeaseRequest(asked, heads) => self.take_ask(to, from, asked, heads),
            Packet::LeaseGrant(asked) => self.take_promise(to, from, asked),
            Packet::Hello(hello) => self.answer_hello(to, from, &hello, stamp),
            Packet::Reply(reply) => self.take_reply(to, from, *reply, stamp),
            _ => {}
        }
    }

    /// Whether a part of a stream is accepted. It is refused from a replica outside the view that may not know the latest decisions
    /// about it.
    pub(super) fn takes_from(&self, slot: ReplicaSlot, from: ReplicaSlot, stamp: Stamp) -> bool {
        let replica = &self.replicas[&slot];
        let member = replica.core.view().active.contains(&from);
        let knows = stamp.entered >= replica.site.entered;
        !replica.site.closed_to.contains(&from) && (member || knows)
    }

    fn take_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(slot) => self.crash(slot),
            Fault::Retire(slot) => self.retire(slot),
            Fault::Start(slot) => self.start(slot),
            Fault::Pause(slot, long) => self.pause(slot, long, false),
            Fault::Suspend(slot, long) => self.pause(slot, long, true),
            Fault::SetClock(slot, by_us) => self.replica(slot).site.clock.set(by_us),
            Fault::GoOn(slot) => self.go_on(slot),
            Fault::Cut(from, to) => self.links.cut(from, to),
            Fault::Heal(from, to) => self.heal(from, to),
            Fault::Full(slot) => self.replica(slot).site.full = true,
            Fault::Mended(slot) => {
                self.replica(slot).site.full = false;
                self.settle(slot);
            }
            Fault::GiveUp(slot) => self.begin_settling(slot),
            Fault::Remove(slot) => self.begin_removing(slot),
            Fault::Recover(slot) => self.recover(slot),
            Fault::HealAll => {
                let slots: Vec<ReplicaSlot> = self.replicas.keys().copied().collect();
                for slot in &slots {
                    self.take_fault(Fault::Mended(*slot));
                    self.start(*slot);
                    let others = slots.iter().filter(|other| *other != slot);
                    others.for_each(|other| self.heal(*slot, *other));
                }
            }
        }
    }

    fn heal(&mut self, from: ReplicaSlot, to: ReplicaSlot) {
        if self.links.is_cut(from, to) {
            self.links.heal(from, to);
            self.schedule(self.now, Event::Reconnect(from, to));
        }
    }

    fn retire(&mut self, slot: ReplicaSlot) {
        let now = self.local(slot);
        let replica = self.replica(slot);
        if replica.site.up {
            replica.core.handle_retiring(now, &replica.tree);
            self.settle(slot);
        }
    }

    /// A replica stops. Its disk keeps the first part of what it was still writing.
    pub(super) fn crash(&mut self, slot: ReplicaSlot) {
        let unstable = self.replicas[&slot].site.unstable() as u64;
        let kept = self.random.below(unstable + 1);
        let replica = self.replica(slot);
        if !replica.site.up {
            return;
        }
        replica.site.clock.go_on();
        replica.site.flush(place(kept));
        replica.site.forget_unstable();
        replica.site.up = false;
        self.note_crash(slot);
    }

    /// An excluded replica forgets what is not stable, and is restarted.
    pub(super) fn start_anew(&mut self, slot: ReplicaSlot) {
        self.crash(slot);
        let after = Duration::from_micros(self.random.below(SLOWEST_START));
        self.fail(after, Fault::Start(slot));
    }

    fn start(&mut self, slot: ReplicaSlot) {
        if self.replicas[&slot].site.up || self.gone.contains(&slot) {
            return;
        }
        // Every other time the machine was restarted too, and its clock begins again.
        let previous = &self.replicas[&slot].site;
        let clock = match previous.incarnation % 2 {
            1 => Clock::new(previous.clock.ppm, self.now),
            _ => previous.clock.clone(),
        };
        let local = clock.local(self.now);
        let (lease, durable) = (self.lease, self.model.controls_durable);
        let previous = &self.replicas[&slot].site;
        let incarnation = Incarnation(previous.incarnation + 1);
        let lease = SiteLease::new(slot, incarnation, lease, local);
        let site = previous.started_anew(slot, clock, lease, local);
        let settings = self.settings;
        let replica = self.replica(slot);
        let alone = View::whole(Epoch(0), [slot].into());
        replica.core = ControlCore::new(slot, incarnation, alone, settings);
        replica.site = site;
        restore(replica, durable);
        self.schedule(self.now, Event::Tick(slot, incarnation.0));
        self.settle(slot);
        self.await_next_decision(slot);
        self.reconnect_to_all(slot);
        self.submit_again(slot);
    }

    fn reconnect_to_all(&mut self, slot: ReplicaSlot) {
        let others: Vec<ReplicaSlot> = self.replicas.keys().copied().collect();
        for other in others {
            if other != slot {
                self.schedule(self.now, Event::Reconnect(slot, other));
            }
        }
    }

    /// Clients repeat the operations that their replica has not answered.
    fn submit_again(&mut self, slot: ReplicaSlot) {
        for number in 0..self.operations.len() as u64 {
            let operation = &self.operations[place(number)];
            let waits = operation.outcome.is_none() && operation.begun <= self.now;
            if operation.home == slot && waits {
                let at = Moment(self.now.0 + self.random.below(SLOWEST_START));
                self.schedule(at, Event::Submit(number & !CLOSE));
            }
        }
    }

    pub(super) fn begin_settling(&mut self, lost: ReplicaSlot) {
        let view = self.agreed.present();
        let mut active = view.active.iter();
        if view.active.contains(&lost) || !active.all(|slot| self.may_settle(*slot)) {
            return;
        }
        if self.model.longest_prefix {
            for slot in view.active.clone() {
                let replica = self.replica(slot);
                replica.site.closed_to.insert(lost);
                // Waiting updates and contents are dropped, too.
                replica.arrived.retain(|(origin, _), _| *origin != lost);
                replica.contents.retain(|(from, _)| *from != lost);
            }
        }
        self.go_on_settling(lost, SETTLE_TIMES);
    }

    pub(super) fn may_settle(&self, slot: ReplicaSlot) -> bool {
        self.knows_everything(slot) && self.may_answer(slot)
    }

    /// All members send each other what they have of the lost stream until they have the same; then it is decided.
    fn go_on_settling(&mut self, lost: ReplicaSlot, times: u32) {
        let active: Vec<ReplicaSlot> = self.agreed.present().active.iter().copied().collect();
        let closed = |slot: &ReplicaSlot| {
            let site = &self.replicas[slot].site;
            self.may_settle(*slot) && (site.closed_to.contains(&lost) || !self.model.longest_prefix)
        };
        if active.contains(&lost) || times == 0 || !active.iter().all(closed) {
            self.listen_again(lost, &active);
            return;
        }
        if self.model.longest_prefix && !self.have_the_same(lost, &active) {
            self.bring_together(lost, &active);
            let at = self.now.after(SETTLE_EVERY);
            self.schedule(at, Event::Settle(lost, times - 1));
            return;
        }
        let frozen = |slot: &ReplicaSlot| {
            let frozen = self.replicas[slot].core.frozen();
            let theirs = frozen.filter(|control| control.name.holder == lost);
            theirs.map(|control| control.name.incarnation.0).max()
        };
        let newest = match self.unsettled.contains(&lost) {
            true => Some(u64::MAX - 1),
            false => active.iter().filter_map(frozen).max(),
        };
        let heads = active.iter().map(|slot| self.head_of(*slot, lost));
        let through = heads.max().unwrap_or(0);
        let decided = newest.is_some_and(|newest| {
            let below = Incarnation(newest + 1);
            let decision = Decision::Settled {
                lost,
                through,
                below,
            };
            self.decide(active[0], decision)
        });
        match decided {
            true => drop(self.unsettled.remove(&lost)),
            false => self.listen_again(lost, &active),
        }
    }

    /// No decision was made about a lost replica: its messages are accepted again.
    fn listen_again(&mut self, lost: ReplicaSlot, active: &[ReplicaSlot]) {
        for slot in active {
            self.replica(*slot).site.closed_to.remove(&lost);
        }
    }
}

/// Gives a restarted replica the state on its disk.
fn restore(replica: &mut Replica, controls_durable: bool) {
    let stable = replica.site.stable.clone();
    replica.take_copy(&stable);
    if controls_durable {
        for grant in stable.grants.values() {
            replica.core.restore(&replica.tree, grant.clone());
        }
        for grant in stable.set_aside.values() {
            replica.core.restore_set_aside(grant.clone());
        }
    }
    replica.arrived.clear();
    replica.contents.clear();
    // When a view is in force, it is known which members lack them.
    let dirty = replica.site.dirty_contents(replica.slot).into_iter();
    replica.unshipped = dirty
        .map(|content| (content.file, (content, Vec::new())))
        .collect();
}
