//! The one place where the pure core of replication control meets the rest: a lock around it, and the execution of its commands.
//!
//! A module of this layer that needs the core takes a [`Guard`]. All work inside is short and waits for nothing; at its end the core's commands are
//! carried out or handed on in order. The order of this and other locks: `state::locks`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use control::{Command, ControlCore, Envelope, Epoch, Incarnation, Mark, Moment, Record, View};
use store::Store;
use tokio::sync::{mpsc, watch};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::lease_state::LeaseState;
use crate::driver::remembered::Remembered;
use crate::driver::tree::{LocalTree, Parents};
use crate::state::ledger::{Ledger, Verdict};
use crate::state::locks::{AroundCore, Table};
use crate::state::outcomes::Outcomes;
use crate::state::settings::{Durability, Settings};
use crate::state::shipping::{self, Unshipped};

/// A command that takes time; `persistence` carries these out in order.
#[derive(Debug)]
pub(crate) enum Step {
    /// Put a record into the durable control table.
    Persist {
        record: Record,
        /// Operations wait for control, perhaps for this one.
        awaited: bool,
    },
    /// Send, once this many records are stable.
    Send {
        to: ReplicaSlot,
        envelope: Envelope,
        after: Mark,
    },
}

struct State {
    core: ControlCore,
    parents: Parents,
    ledger: Ledger,
}

/// The core and what its lock protects, while the lock is held. No other layer sees it.
pub(super) struct Guard<'a> {
    pub(super) core: &'a mut ControlCore,
    pub(super) tree: LocalTree<'a>,
    pub(super) now: Moment,
    pub(super) ledger: &'a mut Ledger,
    /// A task outside may be waiting for what changes while it is held.
    pub(super) notifies: bool,
}

/// The core behind its lock.
pub(crate) struct Engine {
    state: AroundCore<State>,
    pub(crate) store: Arc<Store>,
    pub(crate) slot: ReplicaSlot,
    pub(crate) lease: Arc<LeaseState>,
    /// Which forwards must not be carried out any more, and the outcomes of this replica's forwards.
    pub(crate) outcomes: Outcomes,
    steps: mpsc::UnboundedSender<Step>,
    alarm: watch::Sender<Option<Moment>>,
    notifications: watch::Sender<u64>,
    contents: watch::Sender<u64>,
    urgent: watch::Sender<u64>,
    stable_mark: watch::Sender<Mark>,
    /// The highest mark for which an admitted operation has to wait.
    demanded: watch::Sender<Mark>,
    foreign: AtomicUsize,
    alone: AtomicBool,
    /// Held while the store is told whether others may have removed files open.
    telling_store: Table<()>,
    began: Instant,
}

impl Engine {
    /// The core with what was acknowledged before, and without peers yet. Its commands that take time go to `steps`.
    pub(crate) fn begin(
        store: Arc<Store>,
        settings: &Settings,
        incarnation: u64,
        remembered: &Remembered,
        steps: mpsc::UnboundedSender<Step>,
    ) -> Arc<Engine> {
        let slot = store.slot();
        let incarnation = Incarnation(incarnation);
        let core = ControlCore::new(slot, incarnation, alone(slot), settings.control);
        let unshipped = Unshipped::new(shipping::Settings {
            delay: settings.data_delay,
            busy_delay: match settings.durability {
                Durability::Relaxed => settings.busy_data_delay,
                Durability::Majority => Duration::ZERO,
            },
            in_flight_bytes: settings.peer.data_window_bytes,
            ..shipping::Settings::default()
        });
        let outside = View {
            active: BTreeSet::new(),
            ..alone(slot)
        };
        let lease = Arc::new(LeaseState::new(slot, incarnation, settings, outside));
        let engine = Engine::new(core, store, lease, unshipped, steps);
        engine.restore(remembered);
        Arc::new(engine)
    }

    /// Restores the control table of the last run.
    fn restore(&self, remembered: &Remembered) {
        self.with_core(|guard| {
            for grant in &remembered.granted {
                guard.restore(grant.clone());
            }
            for grant in &remembered.set_aside {
                guard.restore_set_aside(grant.clone());
            }
        });
    }

    fn new(
        core: ControlCore,
        store: Arc<Store>,
        lease: Arc<LeaseState>,
        unshipped: Unshipped,
        steps: mpsc::UnboundedSender<Step>,
    ) -> Engine {
        let slot = store.slot();
        Engine {
            state: AroundCore::new(State {
                core,
                parents: Parents::default(),
                ledger: Ledger::new(slot, unshipped),
            }),
            store,
            slot,
            lease,
            outcomes: Outcomes::default(),
            steps,
            alarm: watch::Sender::new(None),
            notifications: watch::Sender::new(0),
            contents: watch::Sender::new(0),
            urgent: watch::Sender::new(0),
            stable_mark: watch::Sender::new(Mark(0)),
            demanded: watch::Sender::new(Mark(0)),
            foreign: AtomicUsize::new(0),
            alone: AtomicBool::new(false),
            telling_store: Table::default(),
            began: Instant::now(),
        }
    }

    /// Now, on the core's clock.
    pub(crate) fn now(&self) -> Moment {
        let micros = self.began.elapsed().as_micros();
        Moment(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The instant at which the core's clock shows `moment`.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.began + std::time::Duration::from_micros(moment.0)
    }

    /// Gives a module of this layer the core, and carries out the core's commands. Other layers use named functions.
    pub(super) fn with_core<T>(&self, work: impl FnOnce(&mut Guard<'_>) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.now();
        let State {
            core,
            parents,
            ledger,
        } = &mut *state;
        let mut guard = Guard {
            core,
            tree: LocalTree {
                store: &self.store,
                parents,
            },
            now,
            ledger,
            notifies: false,
        };
        let outcome = work(&mut guard);
        let notifies = guard.notifies;
        let commanded = self.carry_out(core, ledger);
        self.foreign.store(core.foreign_grants(), Ordering::Release);
        drop(state);
        if notifies || commanded {
            self.notifications.send_modify(|count| *count += 1);
        }
        outcome
    }

    fn carry_out(&self, core: &mut ControlCore, ledger: &mut Ledger) -> bool {
        let mut commanded = false;
        while let Some(command) = core.next_command() {
            commanded = true;
            match command {
                Command::Persist(record) => {
                    ledger.read_past.note(&record);
                    match &record {
                        Record::Granted(proposal) => ledger.ages.begin(proposal.name, self.now()),
                        Record::Ended(name) => ledger.ages.end(*name),
                        Record::SetAside(proposal) => ledger.ages.end(proposal.name),
                        Record::Forgotten(_) => {}
                    }
                    let awaited = !ledger.verdicts.is_empty();
                    self.hand_on(Step::Persist { record, awaited });
                }
                Command::Send {
                    to,
                    envelope,
                    after,
                } => self.hand_on(Step::Send {
                    to,
                    envelope,
                    after,
                }),
                Command::Admit { operation, .. } => ledger.decide(operation, Verdict::Admitted),
                Command::ForwardTo { operation, holder } => {
                    ledger.decide(operation, Verdict::Elsewhere(holder));
                }
                Command::ArmTimer { at } => {
                    self.alarm.send_replace(Some(at));
                }
            }
        }
        ledger.read_past.all_recorded();
        commanded
    }

    fn hand_on(&self, step: Step) {
        // The receiver goes only when the replica stops; messages not sent then are sent after a restart.
        let _ = self.steps.send(step);
    }

    /// A task outside may be waiting for what has changed.
    pub(crate) fn notify(&self) {
        self.notifications.send_modify(|count| *count += 1);
    }

    /// Whether any other replica is known to control anything; if not, reads need not ask the core.
    pub(crate) fn anything_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire) > 0
    }

    /// Whether the set has no other member.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire) && !self.lease.is_barred()
    }

    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Release);
        self.tell_store();
    }

    /// Answers nothing any more, whatever is granted.
    pub(crate) fn bar(&self) {
        self.lease.bar();
        self.tell_store();
    }

    /// Makes the store record changes, and keep removed files while clients of other members may have them open. The store is told again whenever
    /// that changes, so that it need not ask.
    pub(crate) fn tell_store(&self) {
        let _last = self.telling_store.lock();
        self.store.replicate(!self.is_alone());
    }

    /// Remembers that the next answer has to wait for this mark.
    pub(crate) fn demand(&self, mark: Mark) {
        self.demanded.send_if_modified(|demanded| {
            let newer = mark > *demanded;
            *demanded = mark.max(*demanded);
            newer
        });
    }

    /// Waits until every control under which something was admitted is stable here.
    pub(crate) async fn demands_met(&self) {
        let demanded = *self.demanded.borrow();
        if *self.stable_mark.borrow() < demanded {
            let mut stable = self.stable_mark.subscribe();
            // The sender lives in `self`.
            let _ = stable.wait_for(|mark| *mark >= demanded).await;
        }
    }

    /// Waits until an operation needs this mark to be stable.
    pub(crate) async fn demanded(&self, mark: Mark) {
        let mut demanded = self.demanded.subscribe();
        // The sender lives in `self`.
        let _ = demanded.wait_for(|demanded| *demanded >= mark).await;
    }

    /// This many records of the control table are stable.
    pub(crate) fn marks_stable(&self, mark: Mark) {
        self.stable_mark.send_if_modified(|stable| {
            let newer = mark > *stable;
            *stable = mark.max(*stable);
            newer
        });
    }

    /// Changes whenever something has happened for which a task may wait.
    pub(crate) fn notifications(&self) -> watch::Receiver<u64> {
        self.notifications.subscribe()
    }

    /// Changes whenever there may be more file contents to ship.
    pub(crate) fn contents(&self) -> watch::Receiver<u64> {
        self.contents.subscribe()
    }

    /// Changes when an operation waits for contents that would rest otherwise.
    pub(crate) fn urgent_contents(&self) -> watch::Receiver<u64> {
        self.urgent.subscribe()
    }

    /// An operation waits for this file to be shipped, or for all files.
    pub(crate) fn expedite(&self, file: Option<ObjectId>) {
        let nothing = self.with_core(|guard| {
            let unshipped = &mut guard.ledger.unshipped;
            match file {
                Some(file) => unshipped.expedite(guard.now, file),
                None => unshipped.expedite_all(guard.now),
            }
            file.is_some_and(|file| unshipped.complete_everywhere(file))
        });
        if nothing {
            return;
        }
        self.notify_urgent();
    }

    /// Contents that would otherwise rest must be shipped.
    pub(super) fn notify_urgent(&self) {
        self.urgent.send_modify(|count| *count += 1);
        self.notify_of_contents();
    }

    /// There is more to ship.
    pub(crate) fn notify_of_contents(&self) {
        self.contents.send_modify(|count| *count += 1);
    }

    /// Waits until `fact` holds; it is checked again after every change.
    pub(crate) async fn until<T>(&self, mut fact: impl FnMut() -> Option<T>) -> T {
        let mut notifications = self.notifications();
        loop {
            notifications.borrow_and_update();
            if let Some(found) = fact() {
                return found;
            }
            // The sender lives in `self`.
            let _ = notifications.changed().await;
        }
    }

    /// The same for a fact that is checked while the core is locked.
    pub(super) async fn until_core<T>(
        &self,
        mut fact: impl FnMut(&mut Guard<'_>) -> Option<T>,
    ) -> T {
        self.until(|| self.with_core(&mut fact)).await
    }

    /// Wakes the core at the times for which it asked; for ever.
    pub(crate) async fn wake(&self) {
        let mut alarm = self.alarm.subscribe();
        loop {
            let at = *alarm.borrow_and_update();
            let due = async {
                match at {
                    Some(at) => tokio::time::sleep_until(self.instant(at).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = alarm.changed() => if changed.is_err() { return },
                () = due => {
                    self.alarm.send_if_modified(|armed| {
                        if *armed == at {
                            *armed = None;
                        }
                        false
                    });
                    self.with_core(|guard| guard.timer());
                }
            }
        }
    }
}

/// The view of a replica before it knows what the set agreed on. Nothing is admitted meanwhile.
fn alone(slot: ReplicaSlot) -> View {
    View::whole(Epoch(0), [slot].into())
}
