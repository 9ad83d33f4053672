//! Whether this replica may answer clients: its lease, and whether it is up to date.
//!
//! Asked for at every operation, so the answer is a few loads. Its clock goes on while the machine is
//! suspended, because the clocks of those who promised do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use control::{LeaseSettings, Moment, SiteLease, View};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use vfs::ReplicaSlot;

use crate::settings::Settings;

struct State {
    lease: SiteLease,
    /// The view in force, and an agreed one that is not in force yet.
    view: View,
    next: Option<View>,
}

/// What this replica may do now.
pub(crate) struct Standing {
    state: Mutex<State>,
    /// When the lease runs out, in microseconds of [`now`]; 0 when there is none.
    until: AtomicU64,
    /// It has everything that closed files and answered updates elsewhere ask for.
    up_to_date: AtomicBool,
    /// It was in the view in this incarnation, and is not any more: it has to start anew.
    left: watch::Sender<Option<String>>,
    changes: watch::Sender<u64>,
    /// The number of the view in force.
    epoch: watch::Sender<u64>,
}

/// Now, on the clock of leases.
pub(crate) fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment(seconds * 1_000_000 + nanos / 1_000)
}

impl Standing {
    /// Nobody takes part who has not been told so.
    pub(crate) fn new(slot: ReplicaSlot, settings: &Settings, view: View) -> Standing {
        let lease = LeaseSettings {
            length: settings.site_lease,
            drift_ppm: settings.clock_drift_ppm,
            ..LeaseSettings::default()
        };
        Standing {
            state: Mutex::new(State {
                lease: SiteLease::new(slot, lease, now()),
                view,
                next: None,
            }),
            until: AtomicU64::new(0),
            up_to_date: AtomicBool::new(false),
            left: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            epoch: watch::Sender::new(0),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = work(&mut state);
        let until = state.lease.valid_until(&state.view);
        self.until
            .store(until.map_or(0, |until| until.0), Ordering::Release);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        outcome
    }

    /// Whether clients may be answered now.
    pub(crate) fn may_answer(&self) -> bool {
        let until = self.until.load(Ordering::Acquire);
        self.up_to_date.load(Ordering::Acquire) && (until == u64::MAX || now().0 < until)
    }

    /// Returns when clients may be answered.
    pub(crate) async fn answerable(&self) {
        let mut changes = self.changes.subscribe();
        while !self.may_answer() {
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    /// How long clients may be answered if nothing more is promised, in microseconds; `None`: for ever.
    pub(crate) fn left_micros(&self) -> Option<u64> {
        let until = self.until.load(Ordering::Acquire);
        (until != u64::MAX).then(|| until.saturating_sub(now().0))
    }

    pub(crate) fn is_up_to_date(&self) -> bool {
        self.up_to_date.load(Ordering::Acquire)
    }

    pub(crate) fn set_up_to_date(&self, up_to_date: bool) {
        self.up_to_date.store(up_to_date, Ordering::Release);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Somebody asks for a promise.
    pub(crate) fn ask(&self, from: ReplicaSlot) -> bool {
        self.with(|state| {
            let State { lease, view, next } = state;
            let views: Vec<&View> = [&*view].into_iter().chain(next.as_ref()).collect();
            lease.handle_ask(now(), &views, from)
        })
    }

    /// Somebody has promised.
    pub(crate) fn promise(&self, from: ReplicaSlot, asked: u64) {
        self.with(|state| state.lease.handle_promise(from, Moment(asked)));
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

    /// Returns when a replica does not take part any more.
    pub(crate) async fn lost(&self, slot: ReplicaSlot) {
        let mut epoch = self.epoch.subscribe();
        while self.view().active.contains(&slot) {
            // The sender lives in `self`.
            let _ = epoch.changed().await;
        }
    }

    /// The view in force.
    pub(crate) fn view(&self) -> View {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.view.clone()
    }

    /// This incarnation has left the view, or cannot go on.
    pub(crate) fn leave(&self, why: &str) {
        self.set_up_to_date(false);
        self.left.send_if_modified(|left| {
            let first = left.is_none();
            left.get_or_insert_with(|| why.to_owned());
            first
        });
    }

    /// Says why, once this incarnation cannot go on.
    pub(crate) fn has_left(&self) -> watch::Receiver<Option<String>> {
        self.left.subscribe()
    }
}
