//! Waiting for the disk, and waiting for a lease.
//!
//! In a run without failures nothing waits for either, and no disk is written.

use super::{CLOSE, Event, World, place};
use crate::packet::Packet;
use crate::site::{Change, Deferred};
use crate::tree::{Intent, Outcome};
use control::{ControlName, Envelope, Mark, Moment, ReplicaSlot};
use std::time::Duration;

/// The longest time of a commit, in microseconds.
const SLOWEST_COMMIT: u64 = 8_000;

/// The interval between retries of what waits for a lease or for something frozen.
const RETRY_EVERY: Duration = Duration::from_millis(200);

/// A forwarded operation is forwarded again if it is not answered within this time.
const ANSWER_EXPECTED: Duration = Duration::from_secs(4);

impl World {
    /// The time on a replica's clock.
    pub(super) fn local(&self, slot: ReplicaSlot) -> Moment {
        self.replicas[&slot].site.local(self.now)
    }

    /// When a replica's clock shows this time.
    pub(super) fn moment_of(&self, slot: ReplicaSlot, local: Moment) -> Moment {
        if !self.failures {
            return local;
        }
        self.replicas[&slot].site.global(local).max(self.now)
    }

    /// Gives a replica's disk something to write.
    pub(super) fn store(&mut self, slot: ReplicaSlot, change: Change) {
        if !self.failures {
            return;
        }
        let incarnation = {
            let site = &mut self.replica(slot).site;
            site.write(change);
            if site.flushing {
                return;
            }
            site.flushing = true;
            site.incarnation
        };
        let at = Moment(self.now.0 + 100 + self.random.below(SLOWEST_COMMIT));
        self.schedule(at, Event::Flush(slot, incarnation));
    }

    pub(super) fn take_flush(&mut self, slot: ReplicaSlot) {
        let site = &mut self.replica(slot).site;
        site.flush(usize::MAX);
        site.flushing = false;
        while let Some(what) = self.replica(slot).site.next_deferred() {
            self.run_deferred(slot, what);
        }
        self.settle(slot);
    }

    /// Runs this once everything written so far is stable.
    pub(super) fn when_stable(&mut self, slot: ReplicaSlot, what: Deferred) {
        let place = self.replicas[&slot].site.end();
        self.when_stable_at(slot, place, what);
    }

    fn when_stable_at(&mut self, slot: ReplicaSlot, place: u64, what: Deferred) {
        if self.failures && !self.replicas[&slot].site.is_stable(place) {
            self.replica(slot).site.defer(place, what);
            return;
        }
        self.run_deferred(slot, what);
    }

    /// Sends once the records up to a mark are stable.
    pub(super) fn send_after(
        &mut self,
        slot: ReplicaSlot,
        to: ReplicaSlot,
        envelope: Envelope,
        after: Mark,
    ) {
        let marks = &self.replicas[&slot].site.marks;
        let written = after.0.checked_sub(1).and_then(|nth| marks.get(place(nth)));
        let at = written.copied().unwrap_or(0);
        let packet = Packet::Control(envelope);
        self.when_stable_at(slot, at, Deferred::Send(to, packet));
    }

    /// Answers that an operation was carried out, once that is stable.
    pub(super) fn finish_when_stable(&mut self, slot: ReplicaSlot, number: u64) {
        self.when_stable(slot, Deferred::Finish(number, Outcome::Done));
    }

    fn run_deferred(&mut self, slot: ReplicaSlot, what: Deferred) {
        match what {
            Deferred::Send(to, packet) => self.send(slot, to, packet),
            Deferred::Finish(number, outcome) => {
                if self.may_answer(slot) && self.is_held_as_asked(slot, number) {
                    self.finish(slot, number, outcome);
                } else {
                    self.park(slot, number);
                }
            }
            Deferred::Wrote(number, content) => self.close_written(slot, number, content),
            Deferred::Ship(position, update) => self.ship(slot, position, &update),
        }
    }

    /// Whether a replica may answer its clients now.
    pub(crate) fn may_answer(&self, slot: ReplicaSlot) -> bool {
        if !self.failures {
            return true;
        }
        let replica = &self.replicas[&slot];
        let site = &replica.site;
        let now = site.local(self.now);
        site.up
            && site.begun
            && site.clock.still_until().is_none()
            && !site.lease.has_missed_time(site.clock.reading(self.now))
            && (site.caught_up || !self.model.caught_up_before_lease)
            && (replica.core.is_settled() || !self.model.caught_up_before_lease)
            && site.lease.is_valid(now, replica.core.view())
    }

    /// Lets an operation or a close wait until it may be retried.
    pub(super) fn park(&mut self, slot: ReplicaSlot, number: u64) {
        let site = &mut self.replica(slot).site;
        site.parked.insert(number);
        if !std::mem::replace(&mut site.retrying, true) {
            let incarnation = site.incarnation;
            let at = self.now.after(RETRY_EVERY);
            self.schedule(at, Event::Retry(slot, incarnation));
        }
    }

    pub(super) fn take_retry(&mut self, slot: ReplicaSlot) {
        let site = &mut self.replica(slot).site;
        site.retrying = false;
        for number in std::mem::take(&mut site.parked) {
            if !self.may_answer(slot) {
                self.park(slot, number);
            } else if number & CLOSE == 0 {
                self.begin(slot, number);
            } else if let Intent::Write(file) = self.operations[place(number & !CLOSE)].intent {
                self.ask_to_close(slot, number & !CLOSE, file);
            }
            self.settle(slot);
        }
    }

    /// Limits the time that a home waits for the answer to a forwarded operation.
    pub(super) fn expect_answer(&mut self, number: u64) {
        if self.failures {
            let operation = &mut self.operations[place(number)];
            operation.at = (ReplicaSlot(0), 0);
            operation.handed += 1;
            let handed = operation.handed;
            let at = self.now.after(ANSWER_EXPECTED);
            self.schedule(at, Event::Again(number, handed));
        }
    }

    /// Whether this replica may handle an operation now.
    pub(super) fn may_begin(&mut self, slot: ReplicaSlot, number: u64) -> bool {
        if !self.failures {
            return true;
        }
        let site = &self.replicas[&slot].site;
        if !site.up || self.operations[place(number)].outcome.is_some() {
            return false;
        }
        let may = !site.full && self.may_answer(slot);
        if !may {
            self.park(slot, number);
        }
        may
    }

    pub(super) fn may_execute(&mut self, slot: ReplicaSlot, number: u64) -> bool {
        if self.failures && self.replicas[&slot].done.contains(&number) {
            self.finish_when_stable(slot, number);
            return false;
        }
        self.may_begin(slot, number)
    }

    /// Whether a write may take place; if not, its controls are released.
    pub(super) fn may_write(
        &mut self,
        slot: ReplicaSlot,
        number: u64,
        under: &[ControlName],
    ) -> bool {
        let previous = |name: &ControlName| {
            name.holder == slot && name.incarnation.0 < self.replicas[&slot].site.incarnation
        };
        if !self.replicas[&slot].site.up || under.iter().any(previous) {
            return false;
        }
        let may = self.may_begin(slot, number);
        if !may {
            let now = self.local(slot);
            let replica = self.replica(slot);
            replica.core.handle_let_go(now, &replica.tree, under);
        }
        may
    }

    pub(super) fn may_answer_close(&mut self, slot: ReplicaSlot, number: u64) -> bool {
        if !self.failures {
            return true;
        }
        let open = self.operations[place(number)].outcome.is_none();
        let may = self.may_answer(slot);
        if open && !may {
            self.park(slot, number | CLOSE);
        }
        open && may
    }

    /// Whether the holder of a control has left the view, as far as this replica knows.
    pub(super) fn is_lost(&self, slot: ReplicaSlot, holder: ReplicaSlot) -> bool {
        self.failures && !self.replicas[&slot].core.view().active.contains(&holder)
    }
}
