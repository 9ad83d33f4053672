//! Whether this replica may answer clients: its lease, and whether it is up to date.
//!
//! Every operation asks, so the answer takes a few loads, and three clock readings without a system call. The lease clock continues while the machine
//! is suspended, because the clocks of the granting replicas do. It does not notice that a virtual machine stood still, so each reading is compared
//! with the time of day.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use control::{
    ClockReading, ClockSight, Epoch, Incarnation, LeaseSettings, Moment, Question, SiteLease, View,
    readings, steady,
};
use tokio::sync::{Notify, watch};
use vfs::ReplicaSlot;

use crate::driver::clock::{lease_time, read_clocks};
use crate::state::locks::Table;
use crate::state::settings::Settings;

struct State {
    lease: SiteLease,
    /// The view in force, and an agreed one that is not in force yet.
    view: View,
    next: Option<View>,
}

/// What this replica may do now.
pub(crate) struct LeaseState {
    slot: ReplicaSlot,
    state: Table<State>,
    /// When the lease runs out, in microseconds of [`lease_time`]; 0 if there is none.
    until: AtomicU64,
    /// How far the time of day has been ahead of [`lease_time`], in microseconds. Stored after `until`, loaded before it: a reader that sees the
    /// distance after a jump sees that the lease has ended.
    ahead_us: AtomicI64,
    jump_allowed: Duration,
    /// The lease has ended early, and has to be requested again.
    ended_early: Notify,
    /// How many times one clock jumped against the other.
    jumps: AtomicU64,
    /// This replica has everything that closed files and answered updates elsewhere require.
    up_to_date: AtomicBool,
    /// This data directory was restored from an older copy: nothing is answered in its name.
    barred: AtomicBool,
    /// It was in the view in this incarnation, and no longer is: it has to restart.
    left: watch::Sender<Option<String>>,
    /// It was removed from the set, and never answers again.
    ended: AtomicBool,
    changes: watch::Sender<u64>,
    /// The number of the view in force.
    epoch: watch::Sender<u64>,
}

impl LeaseState {
    /// No replica takes part before it has been told so.
    pub(crate) fn new(
        slot: ReplicaSlot,
        incarnation: Incarnation,
        settings: &Settings,
        view: View,
    ) -> LeaseState {
        let lease = LeaseSettings {
            length: settings.site_lease,
            drift_ppm: settings.clock_drift_ppm,
            ..LeaseSettings::default()
        };
        let lease = LeaseState {
            slot,
            state: Table::new(State {
                lease: SiteLease::new(slot, incarnation, lease, lease_time()),
                view,
                next: None,
            }),
            until: AtomicU64::new(0),
            ahead_us: AtomicI64::new(i64::MIN),
            jump_allowed: lease.jump_allowed(),
            ended_early: Notify::new(),
            jumps: AtomicU64::new(0),
            up_to_date: AtomicBool::new(false),
            barred: AtomicBool::new(false),
            left: watch::Sender::new(None),
            ended: AtomicBool::new(false),
            changes: watch::Sender::new(0),
            epoch: watch::Sender::new(0),
        };
        lease.look_at_clocks_by(read_clocks);
        lease
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = work(&mut state);
        let until = state.lease.valid_until(&state.view);
        self.until
            .store(until.map_or(0, |until| until.0), Ordering::Release);
        let ahead_us = state.lease.ahead_us().unwrap_or(i64::MIN);
        self.ahead_us.store(ahead_us, Ordering::Release);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        outcome
    }

    /// Whether clients may be answered now.
    pub(crate) fn may_answer(&self) -> bool {
        self.may_answer_by(read_clocks)
    }

    fn may_answer_by(&self, read: impl Fn() -> ClockReading) -> bool {
        if self.is_barred() || !self.is_up_to_date() {
            return false;
        }
        if self.until.load(Ordering::Acquire) == u64::MAX {
            return true;
        }
        match self.steady(&read) {
            Some(now) => now.0 < self.until.load(Ordering::Acquire),
            None => {
                self.look_at_clocks_by(read);
                false
            }
        }
    }

    /// The moment, if the clocks are still as far apart as before.
    fn steady(&self, read: impl Fn() -> ClockReading) -> Option<Moment> {
        let ahead_us = self.ahead_us.load(Ordering::Acquire);
        steady(ahead_us, self.jump_allowed, read)
    }

    /// Ends the lease if one clock has jumped against the other.
    pub(crate) fn look_at_clocks(&self) {
        if self.steady(read_clocks).is_none() {
            self.look_at_clocks_by(read_clocks);
        }
    }

    fn look_at_clocks_by(&self, read: impl Fn() -> ClockReading) {
        let jumped = self.with(|state| {
            let mut sights = readings(read).map(|reading| state.lease.handle_clocks(reading));
            sights.find(|sight| *sight != ClockSight::Unclear) == Some(ClockSight::Jumped)
        });
        if jumped {
            self.jumps.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "the time of day has jumped: it was set, or this machine stood still; \
                 nobody is answered before the others have granted it anew"
            );
            self.ended_early.notify_one();
        }
    }

    /// Returns when grants have to be requested at once.
    pub(crate) async fn ended_early(&self) {
        self.ended_early.notified().await;
    }

    /// How many times one clock jumped against the other since the start.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }

    /// How many grants were dropped because this incarnation had not asked for them.
    pub(crate) fn unbelieved(&self) -> u64 {
        let state = self.state.lock();
        state.lease.unbelieved()
    }

    /// Answers nothing any more, whatever is granted.
    pub(super) fn bar(&self) {
        self.barred.store(true, Ordering::Release);
        self.set_up_to_date(false);
    }

    pub(crate) fn is_barred(&self) -> bool {
        self.barred.load(Ordering::Acquire)
    }

    /// Returns when clients may be answered.
    pub(crate) async fn answerable(&self) {
        let mut changes = self.changes.subscribe();
        while !self.may_answer() {
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    /// Returns when this replica was removed from the set.
    pub(crate) async fn ended(&self) {
        let mut changes = self.changes.subscribe();
        while !self.ended.load(Ordering::Acquire) {
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    /// How long clients may be answered if nothing more is granted, in microseconds; `None`: for ever.
    pub(crate) fn left_micros(&self) -> Option<u64> {
        let until = self.until.load(Ordering::Acquire);
        (until != u64::MAX).then(|| until.saturating_sub(lease_time().0))
    }

    pub(crate) fn is_up_to_date(&self) -> bool {
        self.up_to_date.load(Ordering::Acquire) && !self.ended.load(Ordering::Acquire)
    }

    /// From now on no client is answered. Returns whether that is new.
    pub(crate) fn end(&self) -> bool {
        let first = !self.ended.swap(true, Ordering::AcqRel);
        self.changes.send_modify(|count| *count += 1);
        first
    }

    /// An incarnation that has left is never up to date again.
    pub(crate) fn set_up_to_date(&self, up_to_date: bool) {
        let left = self.left.borrow();
        let up_to_date = up_to_date && left.is_none();
        self.up_to_date.store(up_to_date, Ordering::Release);
        drop(left);
        self.changes.send_modify(|count| *count += 1);
    }

    /// This replica has everything that it lacked when it took part again, in the view `since`. Returns whether it is up to date now: it is not if
    /// it has left that view, or if an agreed view that is not in force yet leaves it out. Until that one is in force, nothing tells whether it has
    /// answered anybody, and it would go on as the same incarnation (counterexample 92).
    pub(crate) fn come_up_to_date(&self, since: Epoch) -> bool {
        self.with(|state| {
            let views = [Some(&state.view), state.next.as_ref()];
            let mut views = views.into_iter().flatten();
            let stays = views.all(|view| view.since.get(&self.slot) == Some(&since));
            if stays {
                self.set_up_to_date(true);
            }
            stays
        })
    }

    /// A peer requests a lease. Returns whether it is granted.
    pub(crate) fn grant(&self, from: ReplicaSlot) -> bool {
        self.with(|state| {
            let State { lease, view, next } = state;
            let views: Vec<&View> = [&*view].into_iter().chain(next.as_ref()).collect();
            lease.handle_request(lease_time(), &views, from)
        })
    }

    /// The question for a lease request made now.
    pub(crate) fn request(&self) -> Question {
        self.with(|state| state.lease.request(lease_time()))
    }

    /// A peer has granted a lease, and says which request it answers.
    pub(crate) fn granted(&self, from: ReplicaSlot, question: Question) {
        let believed = self.with(|state| state.lease.handle_grant(lease_time(), from, question));
        if !believed {
            tracing::debug!(
                peer = from.0,
                "a grant that this incarnation did not ask for"
            );
        }
    }

    /// A later view is agreed. Returns when it may be entered.
    pub(crate) fn prepare(&self, next: &View) -> Moment {
        self.with(|state| {
            state.next = Some(next.clone());
            state.lease.may_enter(&state.view, next)
        })
    }

    /// The agreed view is in force.
    pub(crate) fn enter(&self, view: View) {
        let epoch = view.epoch.0;
        self.with(|state| {
            state.view = view;
            state.next = None;
        });
        self.epoch.send_replace(epoch);
    }

    /// Returns when a replica no longer takes part.
    pub(crate) async fn lost(&self, slot: ReplicaSlot) {
        let mut epoch = self.epoch.subscribe();
        while self.view().active.contains(&slot) {
            // The sender lives in `self`.
            let _ = epoch.changed().await;
        }
    }

    /// Whether a replica takes part in the view in force.
    pub(crate) fn has_in_view(&self, slot: ReplicaSlot) -> bool {
        let state = self.state.lock();
        state.view.active.contains(&slot)
    }

    /// The view in force.
    pub(crate) fn view(&self) -> View {
        let state = self.state.lock();
        state.view.clone()
    }

    /// This incarnation has left the view, or cannot continue.
    pub(crate) fn leave(&self, why: &str) {
        if !self.ended.load(Ordering::Acquire) {
            // Otherwise a restart would change nothing.
            self.left.send_if_modified(|left| {
                let first = left.is_none();
                left.get_or_insert_with(|| why.to_owned());
                first
            });
        }
        self.set_up_to_date(false);
    }

    /// The reason, once this incarnation cannot continue.
    pub(crate) fn has_left(&self) -> watch::Receiver<Option<String>> {
        self.left.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A replica that has the lease of three, and answers.
    fn answering() -> LeaseState {
        let slots = (1..=3).map(ReplicaSlot).collect();
        let view = View::whole(Epoch(1), slots);
        let (slot, first) = (ReplicaSlot(1), Incarnation(1));
        let lease = LeaseState::new(slot, first, &Settings::default(), view);
        lease.set_up_to_date(true);
        let question = lease.request();
        lease.granted(ReplicaSlot(2), question);
        lease
    }

    /// Both clocks, when the machine stood still unnoticed and the time of day is that much later.
    fn stood_still(for_us: u64) -> impl Fn() -> ClockReading {
        move || {
            let reading = read_clocks();
            ClockReading {
                time_of_day_us: reading.time_of_day_us + for_us,
                ..reading
            }
        }
    }

    #[test]
    fn counterexample_50_nothing_is_answered_after_a_pause_before_it_is_granted_anew() {
        let lease = answering();
        assert!(lease.may_answer());
        let after = stood_still(60_000_000);
        assert!(!lease.may_answer_by(&after), "its lease is a minute old");
        assert!(!lease.may_answer_by(&after), "nobody has granted anew");
        assert_eq!((lease.jumps(), lease.left_micros()), (1, Some(0)));
        let question = lease.request();
        lease.granted(ReplicaSlot(3), question);
        assert!(lease.may_answer_by(&after));
    }

    /// It would have answered in a view that it leaves, and gone on as if it had not.
    #[test]
    fn counterexample_92_no_replica_comes_up_to_date_when_an_agreed_view_leaves_it_out() {
        let view = |epoch, slots: &[u16], since: &[u64]| View {
            since: (slots.iter().zip(since))
                .map(|(slot, since)| (ReplicaSlot(*slot), Epoch(*since)))
                .collect(),
            ..View::whole(
                Epoch(epoch),
                slots.iter().copied().map(ReplicaSlot).collect(),
            )
        };
        let begin = || {
            let view = view(5, &[1, 2, 3], &[5, 1, 1]);
            let first = Incarnation(1);
            LeaseState::new(ReplicaSlot(1), first, &Settings::default(), view)
        };
        let lease = begin();
        lease.prepare(&view(6, &[2, 3], &[1, 1]));
        assert!(!lease.come_up_to_date(Epoch(5)) && !lease.is_up_to_date());
        let lease = begin();
        lease.prepare(&view(6, &[1, 2], &[5, 1]));
        assert!(!lease.come_up_to_date(Epoch(4)), "of an earlier view");
        assert!(lease.come_up_to_date(Epoch(5)) && lease.is_up_to_date());
    }

    #[test]
    fn a_process_that_loses_its_processor_between_readings_reads_again_and_keeps_its_lease() {
        let lease = answering();
        let readings = Cell::new(0);
        let interrupted = || {
            readings.set(readings.get() + 1);
            let mut reading = read_clocks();
            if readings.get() == 1 {
                // The time of day was read 300 ms after the first reading, and 300 ms before the last one.
                reading.time_of_day_us += 300_000;
                reading.after = reading.after.after(Duration::from_millis(600));
            }
            reading
        };
        assert!(lease.may_answer_by(interrupted));
        assert_eq!((lease.jumps(), readings.get()), (0, 2));
    }

    #[test]
    fn a_grant_that_was_asked_for_by_nobody_is_counted_and_gives_no_lease() {
        let lease = answering();
        let of_previous = Question {
            incarnation: Incarnation(0),
            ..lease.request()
        };
        lease.granted(ReplicaSlot(3), of_previous);
        assert_eq!(lease.unbelieved(), 1);
    }
}
