//! Machines that stand still for a while, perhaps without noticing it: their events are delayed until afterwards.

use super::{Event, World, place};
use crate::world::Fault;
use control::{Moment, Question, ReplicaSlot};
use std::time::Duration;

impl World {
    /// A machine stands still. Its clock stops too, unless it `sees` the pause. Its own events are delayed by this time.
    pub(super) fn pause(&mut self, slot: ReplicaSlot, long: Duration, sees: bool) {
        let now = self.now;
        let site = &mut self.replica(slot).site;
        if !site.up || site.clock.still_until().is_some() {
            return;
        }
        site.clock.stand_still(now, long, sees);
        let events = std::mem::take(&mut self.events);
        for ((at, number), event) in events {
            let at = match does_itself(&event) == Some(slot) {
                true => at.after(long),
                false => at,
            };
            self.events.insert((at, number), event);
        }
        self.fail(long, Fault::GoOn(slot));
    }

    /// The machine continues.
    pub(super) fn go_on(&mut self, slot: ReplicaSlot) {
        let now = self.now;
        let clock = &mut self.replica(slot).site.clock;
        if clock.still_until().is_some_and(|until| until <= now) {
            clock.go_on();
        }
    }

    /// Until when an event at a machine that stands still has to wait.
    pub(super) fn put_off(&self, event: &Event) -> Option<Moment> {
        let home = |number: u64| self.operations[place(number)].home;
        let concerned = match event {
            Event::Deliver { to, .. } => vec![*to],
            Event::Submit(number) | Event::Again(number, _) => vec![home(*number)],
            Event::Look(question) => vec![self.readers[question.reader].home],
            Event::Reconnect(one, other) => vec![*one, *other],
            // Events that started outside meanwhile.
            _ => does_itself(event).into_iter().collect(),
        };
        let still = |slot: &ReplicaSlot| self.replicas.get(slot)?.site.clock.still_until();
        concerned.iter().filter_map(still).max()
    }

    pub(super) fn take_promise(&mut self, slot: ReplicaSlot, from: ReplicaSlot, asked: Question) {
        let now = self.local(slot);
        self.replica(slot).site.lease.handle_grant(now, from, asked);
    }
}

/// The machine at which an event happens by itself, without a message from elsewhere.
fn does_itself(event: &Event) -> Option<ReplicaSlot> {
    match event {
        Event::Alarm(slot)
        | Event::Flush(slot, _)
        | Event::Tick(slot, _)
        | Event::Enter(slot, _)
        | Event::Retry(slot, _)
        | Event::Write(slot, ..) => Some(*slot),
        _ => None,
    }
}
