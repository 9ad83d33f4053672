//! The one place where the pure core of replication control meets the rest: a lock around it, and what happens to its commands.
//!
//! A caller that needs the core takes a [`Guard`]. Everything inside is short and waits for nothing; when it ends, the core's commands are
//! carried out or handed on in order. The order of this and other locks: `state::locks`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use control::{Command, ControlCore, Depth, Envelope, Mark, Moment, Position, Proposal, Record};
use store::Store;
use tokio::sync::{mpsc, watch};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::lease_state::LeaseState;
use crate::driver::tree::{LocalTree, Parents};
use crate::state::ledger::{Ledger, Verdict};
use crate::state::locks::AroundCore;
use crate::state::outcomes::Outcomes;
use crate::state::shipping::Unshipped;

/// A command that takes time; carried out in order by `persistence`.
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

/// A range that no file reaches.
const NOTHING: std::ops::Range<u64> = u64::MAX - 1..u64::MAX;

struct State {
    core: ControlCore,
    parents: Parents,
    ledger: Ledger,
}

/// The core and what is locked with it, for as long as the lock is held.
pub(crate) struct Guard<'a> {
    pub(super) core: &'a mut ControlCore,
    pub(crate) tree: LocalTree<'a>,
    pub(crate) now: Moment,
    pub(crate) ledger: &'a mut Ledger,
    /// Somebody outside may be waiting for what changes while it is held.
    pub(crate) notifies: bool,
}

/// The core behind its lock.
pub(crate) struct Engine {
    state: AroundCore<State>,
    pub(crate) store: Arc<Store>,
    pub(crate) slot: ReplicaSlot,
    pub(crate) lease: Arc<LeaseState>,
    /// Which forwards must not be carried out any more, and what came of own ones.
    pub(crate) outcomes: Outcomes,
    steps: mpsc::UnboundedSender<Step>,
    alarm: watch::Sender<Option<Moment>>,
    notifications: watch::Sender<u64>,
    contents: watch::Sender<u64>,
    urgent: watch::Sender<u64>,
    stable_mark: watch::Sender<Mark>,
    /// The highest mark that an admitted operation has to wait for.
    demanded: watch::Sender<Mark>,
    foreign: AtomicUsize,
    alone: AtomicBool,
    began: Instant,
}

impl Engine {
    pub(crate) fn new(
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
            began: Instant::now(),
        }
    }

    /// Now, as the core knows time.
    pub(crate) fn now(&self) -> Moment {
        let micros = self.began.elapsed().as_micros();
        Moment(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The instant at which the core's clock shows `moment`.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.began + std::time::Duration::from_micros(moment.0)
    }

    /// Gives the caller the core, and carries out what it wants done.
    pub(crate) fn with_core<T>(&self, work: impl FnOnce(&mut Guard<'_>) -> T) -> T {
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
        commanded
    }

    fn hand_on(&self, step: Step) {
        // The receiver goes only when the replica stops; what is unsaid then is said again after a start.
        let _ = self.steps.send(step);
    }

    /// Somebody outside may be waiting for what has changed.
    pub(crate) fn notify(&self) {
        self.notifications.send_modify(|count| *count += 1);
    }

    /// Whether any other replica is known to control anything; when not, reads need not ask the core.
    pub(crate) fn anything_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire) > 0
    }

    /// Whether the set has no other member.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire) && !self.lease.is_barred()
    }

    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Release);
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

    /// Waits until somebody needs this mark to be stable.
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

    /// Changes whenever something has happened that somebody may have waited for.
    pub(crate) fn notifications(&self) -> watch::Receiver<u64> {
        self.notifications.subscribe()
    }

    /// Changes whenever there may be more file contents to ship.
    pub(crate) fn contents(&self) -> watch::Receiver<u64> {
        self.contents.subscribe()
    }

    /// Changes when somebody waits for contents that would rest otherwise.
    pub(crate) fn urgent_contents(&self) -> watch::Receiver<u64> {
        self.urgent.subscribe()
    }

    /// Somebody waits for this file to be shipped, or for all files.
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
        self.urgent.send_modify(|count| *count += 1);
        self.ring_contents();
    }

    /// There is more to ship.
    pub(crate) fn ring_contents(&self) {
        self.contents.send_modify(|count| *count += 1);
    }

    /// Waits until `fact` holds; looked at again whenever something has changed.
    pub(crate) async fn until<T>(&self, mut fact: impl FnMut(&mut Guard<'_>) -> Option<T>) -> T {
        let mut notifications = self.notifications();
        loop {
            notifications.borrow_and_update();
            if let Some(found) = self.with_core(&mut fact) {
                return found;
            }
            // The sender lives in `self`.
            let _ = notifications.changed().await;
        }
    }

    /// Wakes the core when it asked to be woken; for ever.
    pub(crate) async fn ring(&self) {
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
                    self.with_core(|guard| guard.core.handle_timer(guard.now, &guard.tree));
                }
            }
        }
    }
}

impl Guard<'_> {
    /// Looks whether everybody has all content of a file, after something was acknowledged or removed.
    pub(crate) fn settle_content(&mut self, file: ObjectId) {
        if self.ledger.pins.contains_key(&file) || !self.ledger.complete_at_active(file) {
            return;
        }
        self.core.handle_data_shipped(self.now, &self.tree, file);
        if self.ledger.unshipped.complete_everywhere(file) {
            self.ledger.shipped.insert(file);
        }
        self.ledger.note_handed_over(file);
        self.settle_previous();
    }

    /// A change of data that needs no content to be sent, such as a truncation, is complete at peers at once; they are told so.
    pub(crate) fn note_complete_without_content(&mut self, file: ObjectId) {
        if self.ledger.pins.contains_key(&file) {
            return;
        }
        let peers = self.ledger.unshipped.peers();
        let complete =
            peers.filter(|(_, backlog)| backlog.keeps_contents() && !backlog.lacks(file));
        let complete: Vec<ReplicaSlot> = complete.map(|(slot, _)| slot).collect();
        let position = self.ledger.last_position;
        for slot in complete {
            if self.ledger.active.contains(&slot) {
                self.ledger.unconfirmed.insert((slot, file));
                self.ledger.complete.push((slot, file, position));
            } else {
                self.tell_later(slot, file);
            }
        }
    }

    /// A peer that takes no part has all of a file, and is told so when it is back: as if it lacked what is behind the end.
    fn tell_later(&mut self, slot: ReplicaSlot, file: ObjectId) {
        let (now, follows) = (self.now, Position(self.ledger.last_position));
        if let Some(backlog) = self.ledger.unshipped.peer(slot) {
            backlog.changed(now, file, NOTHING, follows);
        }
    }

    /// What those could not be told who take part no longer they are told when they are back.
    pub(crate) fn put_off_telling(&mut self) {
        let ledger = &mut self.ledger;
        let away = |slot: &ReplicaSlot| !ledger.active.contains(slot);
        let late: Vec<(ReplicaSlot, ObjectId)> = (ledger.unconfirmed.iter())
            .filter(|(slot, _)| away(slot))
            .copied()
            .collect();
        let active = &ledger.active;
        ledger.complete.retain(|(slot, ..)| active.contains(slot));
        for (slot, file) in late {
            self.ledger.unconfirmed.remove(&(slot, file));
            self.tell_later(slot, file);
        }
    }

    /// The same for all files, when others take part than before.
    pub(crate) fn settle_all_contents(&mut self) {
        let backlogs = self.ledger.unshipped.peers();
        let mut files: BTreeSet<ObjectId> = backlogs
            .flat_map(|(_, backlog)| backlog.lacking())
            .collect();
        if let Some(previous) = &self.ledger.previous {
            files.extend(&previous.files);
        }
        files.into_iter().for_each(|file| self.settle_content(file));
        self.settle_previous();
    }

    /// A view is in force. Looks whether previous controls, which may have ended before, are to end now.
    pub(crate) fn look_at_previous(&mut self) {
        if self.ledger.previous.is_none() && !self.core.has_renounced() {
            self.ledger.take_up_again();
        }
        self.settle_all_contents();
    }

    /// Ends the controls of previous incarnations once everything made under them is everywhere.
    pub(crate) fn settle_previous(&mut self) {
        let Some(previous) = &self.ledger.previous else {
            return;
        };
        // Before a view is known nobody can tell who would miss something.
        let everywhere =
            !self.ledger.active.is_empty() && self.ledger.applied_by_active(previous.position);
        if everywhere && previous.files.is_empty() {
            self.ledger.previous = None;
            self.previous_settled();
        }
    }

    /// It was decided to go on without what earlier incarnations made, and what is here is the others' copy: nothing is to be handed over.
    pub(crate) fn give_up_previous(&mut self) {
        let Some(previous) = self.ledger.previous.take() else {
            return;
        };
        for file in previous.files {
            self.ledger.unshipped.removed(file);
            self.settle_content(file);
        }
        self.ledger.last_position = 0;
        self.previous_settled();
    }

    /// Whether all who take part, but for the absent, have everything that earlier incarnations made.
    pub(crate) fn has_handed_over(&self, absent: &BTreeSet<ReplicaSlot>) -> bool {
        let Some(previous) = &self.ledger.previous else {
            return true;
        };
        let ledger = &self.ledger;
        let counts = |slot: &ReplicaSlot| ledger.active.contains(slot) && !absent.contains(slot);
        let lacks = |file: &ObjectId| ledger.unshipped.lacking(*file).any(|slot| counts(&slot));
        let peers = ledger.unshipped.peers().map(|(slot, _)| slot);
        let mut peers = peers.filter(counts).peekable();
        let applied = |slot: ReplicaSlot| ledger.applied.get(&slot).copied().unwrap_or(0);
        peers.peek().is_some()
            && peers.all(|slot| applied(slot) >= previous.position)
            && !previous.files.iter().any(lacks)
    }

    /// Whether a control covers a file by itself or through a directory above it.
    pub(crate) fn covers(&self, grant: &Proposal, file: ObjectId) -> bool {
        let above = control::ancestors(&self.tree, file);
        let mut claims = grant.claims.iter();
        claims.any(|claim| {
            claim.object == file || (claim.depth == Depth::Deep && above.contains(&claim.object))
        })
    }
}
