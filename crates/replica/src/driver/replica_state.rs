//! What the parts of a replica share: the copy, the core, the connections, and who is in the set.

mod completed;
mod decisions;
mod kept;
mod members;
mod nonsense;
mod peers;
mod repeats;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use control::ClockDifference;
use peer::set::SetDirectory;
use peer::{Endpoint, Lane, RequestError, Signatures};
use store::Store;
use throttle::Throttle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::driver::engine::Engine;
use crate::driver::lease_state::LeaseState;
use crate::state::arrivals::Inbox;
use crate::state::clients::Servers;
use crate::state::conversations::Conversations;
use crate::state::copies::{Copies, Held, TRIMMED, trimmed_before};
use crate::state::forward::{Answer, Forwarded, Handed, Operation};
use crate::state::free_space::FreeSpace;
use crate::state::lineage::Lineage;
use crate::state::locks::{BeforeCore, BeforeCoreGuard, Table, TableGuard};
use crate::state::losses::Losses;
use crate::state::members::{Membership, REMOVED};
use crate::state::opens::Opens;
use crate::state::outbound::Outbound;
use crate::state::outcomes::{Outcomes, Unanswered};
use crate::state::pace::Pace;
use crate::state::peers::Peers;
use crate::state::removed::Removed;
use crate::state::scrub::Scrub;
use crate::state::segments::Segments;
use crate::state::settings::Settings;
use crate::state::views::{Arrival, Debt, Fit, News};
use crate::state::wire::{self, LeaseRequest, Origin};

/// A forwarded operation that has not been answered by then is given up; its outcome is unknown.
const FORWARD_LIMIT: Duration = Duration::from_secs(600);

/// The last writer is remembered for at most this many files; for other files, a sender of an older
/// version reads again.
const WRITERS: usize = 65_536;

/// At most this many may wait at once, of all peers. Fewer than a peer may have carried out at
/// once, lest reads hold up everything else.
pub(crate) const WAITING_AT_ONCE: usize = 128;

/// What is told of once, with sums later.
const OUTSIDE: &str = "this replica does not take part";

/// Counts for people and metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) forwarded: AtomicU64,
    pub(crate) served: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) content_bytes: AtomicU64,
    /// Files whose contents this replica asked for when it began with a copy.
    pub(crate) to_fetch: AtomicU64,
    /// Files that a crash may have damaged and that have to get a new version.
    pub(crate) recovering: AtomicU64,
    /// Messages of relayed updates that were dropped.
    pub(crate) relays_refused: AtomicU64,
}

pub(crate) struct ReplicaState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) settings: Settings,
    pub(crate) incarnation: u64,
    /// When this incarnation began.
    pub(crate) began: Instant,
    pub(crate) set: SetDirectory,
    /// This replica is a witness: it follows the rows, keeps no contents, and serves nobody.
    pub(crate) is_witness: bool,
    pub(crate) endpoint: OnceLock<Endpoint>,
    pub(crate) signatures: Signatures,
    pub(crate) outbound: Outbound,
    pub(crate) opens: Opens,
    pub(crate) removed: Removed,
    pub(crate) outcomes: Outcomes,
    pub(crate) servers: Servers,
    /// The others may have given up what clients of this server held before its start.
    pub(crate) others_went_on: AtomicBool,
    pub(crate) inboxes: Table<BTreeMap<ReplicaSlot, Arc<Inbox>>>,
    pub(crate) conversations: Conversations,
    /// Copies that others are being sent.
    pub(crate) copies: Copies,
    /// Held while a page of the copy that this replica takes is taken in.
    pub(crate) copying: tokio::sync::Mutex<()>,
    pub(crate) membership: Table<Membership>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) views: OnceLock<Arc<view::Views>>,
    pub(crate) peers: Peers,
    /// What those lack who take part anew.
    debts: BeforeCore<BTreeMap<ReplicaSlot, Debt>>,
    arrival: Table<Arrival>,
    /// What keeps this replica outside the view, for people.
    obstacle: Table<Option<String>>,
    /// Without whom this replica could take part.
    fit: Table<Option<Fit>>,
    /// What cannot be stored here at present, for people.
    trouble: Table<Option<String>>,
    /// Who changed files last while this replica took no part.
    writers: Table<BTreeMap<ObjectId, ReplicaSlot>>,
    /// Somebody does not keep any more what this replica lacks.
    pub(crate) needs_copy: AtomicBool,
    trimmed: AtomicU64,
    pub(crate) losses: Losses,
    /// For what those are sent who are not in the view.
    pub(crate) pace: Pace,
    /// What may be filled at the others.
    pub(crate) free_space: FreeSpace,
    pub(crate) scrub: Scrub,
    /// What is told in the log of what fails again and again.
    pub(crate) throttle: Throttle,
    pub(crate) segments: Segments,
    /// Who of the view lacked more than is kept when that was looked at last.
    slow: watch::Sender<Option<kept::Lag>>,
    /// Somebody waits until a majority knows to be complete.
    pub(crate) majority_awaited: AtomicU64,
    /// Taken while a read of a peer's waits for contents to arrive there.
    pub(crate) fetches: Semaphore,
    /// How much of the tree is here; clients are answered when it is everything.
    pub(crate) held: watch::Sender<Held>,
    requests: AtomicU64,
    lock_listeners: Table<Vec<LockListener>>,
    /// The replica stops.
    parting: watch::Sender<bool>,
    /// What applies the streams of others; ends with the replica.
    tasks: Table<Vec<JoinHandle<()>>>,
}

/// What [`ReplicaState::new`] is made of.
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) settings: Settings,
    pub(crate) incarnation: u64,
    pub(crate) set: SetDirectory,
    pub(crate) is_witness: bool,
    pub(crate) held: Held,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) signatures: Signatures,
}

/// Told of files whose locks have changed at another site.
type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

impl ReplicaState {
    pub(crate) fn new(parts: Parts) -> ReplicaState {
        let pace = Pace::new(parts.settings.return_bytes_per_second);
        ReplicaState {
            store: parts.engine.store.clone(),
            outcomes: parts.engine.outcomes.clone(),
            free_space: FreeSpace::new(parts.settings.space_reserve),
            scrub: Scrub::new(parts.settings.scrub_rate),
            settings: parts.settings,
            incarnation: parts.incarnation,
            began: Instant::now(),
            set: parts.set,
            is_witness: parts.is_witness,
            endpoint: OnceLock::new(),
            signatures: parts.signatures,
            outbound: Outbound::default(),
            opens: Opens::default(),
            removed: Removed::default(),
            servers: Servers::default(),
            others_went_on: AtomicBool::new(false),
            inboxes: Table::default(),
            conversations: Conversations::default(),
            copies: Copies::default(),
            copying: tokio::sync::Mutex::default(),
            membership: Table::default(),
            metrics: Metrics::default(),
            lease: parts.engine.lease.clone(),
            engine: parts.engine,
            lineage: parts.lineage,
            views: OnceLock::new(),
            peers: Peers::default(),
            debts: BeforeCore::default(),
            arrival: Table::default(),
            obstacle: Table::default(),
            fit: Table::default(),
            trouble: Table::default(),
            writers: Table::default(),
            needs_copy: AtomicBool::new(false),
            trimmed: AtomicU64::new(0),
            losses: Losses::default(),
            pace,
            throttle: Throttle::default(),
            segments: Segments::default(),
            slow: watch::Sender::new(None),
            majority_awaited: AtomicU64::new(0),
            fetches: Semaphore::new(WAITING_AT_ONCE),
            held: watch::Sender::new(parts.held),
            requests: AtomicU64::new(0),
            lock_listeners: Table::default(),
            parting: watch::Sender::new(false),
            tasks: Table::default(),
        }
    }

    pub(crate) fn slot(&self) -> ReplicaSlot {
        self.engine.slot
    }

    /// What was known lately of a replica that was removed does not count any more.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.peers.forget(slot);
        self.debts.lock().remove(&slot);
    }

    /// This replica was removed from the set: it serves nobody and talks to nobody any more.
    pub(crate) fn end_as_removed(&self) {
        if self.lease.end() {
            tracing::error!("{REMOVED}");
            self.part();
        }
    }

    /// Whether everything of the tree is here.
    pub(crate) fn is_whole(&self) -> bool {
        *self.held.borrow() == Held::Everything
    }

    /// Whether this replica takes part in the view in force.
    pub(crate) fn takes_part(&self) -> bool {
        self.lease.view().active.contains(&self.slot())
    }

    /// Whether every member takes part, this replica too, which has all and everybody's report.
    pub(crate) fn all_take_part(&self) -> bool {
        let all_active = |state: &view::ViewState| {
            state.losses.keys().all(|slot| state.is_settled(*slot))
                && state.members.values().all(|member| member.active)
        };
        self.takes_part()
            && self.lease.is_up_to_date()
            && self.view_state().is_some_and(|state| all_active(&state))
            && self.engine.is_settled()
    }

    /// This many bytes were sent to a peer. Returns when more may be, if it is on its way back into
    /// the view.
    pub(crate) async fn sent(&self, to: ReplicaSlot, bytes: u64) {
        self.conversations.note_sent(to, bytes);
        if !self.lease.view().active.contains(&to) {
            self.pace.spend(bytes).await;
        }
    }

    /// What the others have said lately.
    pub(crate) fn news(&self) -> BTreeMap<ReplicaSlot, News> {
        self.peers.news()
    }

    fn note_news<T>(&self, slot: ReplicaSlot, note: impl FnOnce(&mut News) -> T) -> T {
        self.peers
            .with(slot, |peer| note(peer.news.get_or_insert_with(News::new)))
    }

    /// A peer has answered a question just now.
    pub(crate) fn note_heard(&self, slot: ReplicaSlot) {
        self.note_news(slot, |news| news.heard = Instant::now());
    }

    /// A peer's answer has shown how far its time of day is from the own one.
    pub(crate) fn note_clock(&self, slot: ReplicaSlot, difference: ClockDifference) {
        self.note_news(slot, |news| news.clock.note(difference));
    }

    /// Notes what a peer says of itself. Returns whether that is something else than before.
    pub(crate) fn note_said(&self, slot: ReplicaSlot, ask: LeaseRequest) -> bool {
        self.note_news(slot, |news| {
            let before = news.said.as_ref();
            let differs = before.is_none_or(|(before, _)| before.differs(&ask));
            news.said = Some((ask, Instant::now()));
            differs
        })
    }

    /// Bytes that users may still fill at a peer, as it said last.
    pub(crate) fn available_at(&self, slot: ReplicaSlot) -> Option<u64> {
        self.peers.with(slot, |peer| {
            let (ask, _) = peer.news.as_ref()?.said.as_ref()?;
            Some(ask.available)
        })
    }

    /// Nobody counts as silent who could not be heard.
    pub(crate) fn forget_silence(&self) {
        self.peers.with_each(|_, peer| {
            if let Some(news) = &mut peer.news {
                news.heard = Instant::now();
            }
        });
    }

    pub(crate) fn debts(&self) -> BeforeCoreGuard<'_, BTreeMap<ReplicaSlot, Debt>> {
        self.debts.lock()
    }

    pub(crate) fn owe(&self, slot: ReplicaSlot, debt: Debt) {
        self.debts().insert(slot, debt);
    }

    pub(crate) fn arrival(&self) -> TableGuard<'_, Arrival> {
        self.arrival.lock()
    }

    /// A file is complete at a peer up to a place of our stream; the peer is told soon.
    pub(crate) fn note_completed(&self, peer: ReplicaSlot, file: ObjectId, position: u64) {
        self.peers
            .with(peer, |peer| peer.completed.insert(file, position));
    }

    pub(crate) fn take_completed(&self) -> Vec<(ReplicaSlot, Vec<(ObjectId, u64)>)> {
        let mut completed = Vec::new();
        self.peers.with_each(|slot, peer| {
            let files = std::mem::take(&mut peer.completed);
            if !files.is_empty() {
                completed.push((slot, files.into_iter().collect()));
            }
        });
        completed
    }

    /// The last record that is not kept any more.
    pub(crate) fn trimmed(&self) -> u64 {
        self.trimmed.load(Ordering::Acquire)
    }

    /// What an earlier incarnation has noted.
    pub(crate) fn remember_trimmed(&self) -> Result<()> {
        let noted = trimmed_before(&self.store)?;
        self.trimmed.store(noted, Ordering::Release);
        Ok(())
    }

    /// Our stream up to here is kept no longer, or was never kept in this copy, which took the
    /// place of another: a replica that lacks some of it cannot get that from us.
    pub(crate) async fn note_trimmed(&self, position: u64) -> Result<()> {
        if position > self.trimmed() {
            let rows = vec![(TRIMMED.to_vec(), Some(position.to_be_bytes().to_vec()))];
            let ticket = self.store.put_facts(rows).await?;
            self.store.wait_stable(ticket).await?;
            self.trimmed.fetch_max(position, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Somebody has changed the data of these files, while this replica takes no part.
    pub(crate) fn note_writer(&self, writer: ReplicaSlot, files: &[ObjectId]) {
        if !files.is_empty() && !self.lease.is_up_to_date() {
            let mut writers = self.writers.lock();
            writers.extend(files.iter().map(|file| (*file, writer)));
            while writers.len() > WRITERS {
                writers.pop_first();
            }
        }
    }

    /// Who changed the data of a file last, as far as it was noted.
    pub(crate) fn last_writer(&self, file: ObjectId) -> Option<ReplicaSlot> {
        self.writers.lock().get(&file).copied()
    }

    /// Everything is here now; who wrote it does not matter any more.
    pub(crate) fn forget_writers(&self) {
        self.writers.lock().clear();
    }

    /// What the set agreed on last, as far as it is known here.
    pub(crate) fn view_state(&self) -> Option<Arc<view::ViewState>> {
        let state = self.views.get()?.state().borrow().clone();
        (state.epoch > 0).then_some(state)
    }

    pub(crate) fn obstacle(&self) -> Option<String> {
        self.obstacle.lock().clone()
    }

    pub(crate) fn set_obstacle(&self, obstacle: Option<String>) {
        let mut known = self.obstacle.lock();
        if *known != obstacle {
            if let Some(obstacle) = &obstacle
                && let Some(sum) = self.is_to_tell_of(OUTSIDE, throttle::kind_of(obstacle))
            {
                tracing::info!(obstacle, %sum, "this replica does not take part");
            }
            *known = obstacle;
        }
    }

    pub(crate) fn fit(&self) -> TableGuard<'_, Option<Fit>> {
        self.fit.lock()
    }

    pub(crate) fn set_fit(&self, fit: Option<Fit>) {
        *self.fit() = fit;
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    /// Whether it was decided that what a lost replica alone had is given up.
    pub(crate) fn is_given_up(&self, slot: ReplicaSlot) -> bool {
        let state = self.view_state();
        state.is_some_and(|state| state.is_settled(slot))
    }

    /// Takes up from the store how far streams have been applied. Updates name those of removed members too that they follow.
    pub(crate) fn note_applied_streams(&self) -> vfs::Result<()> {
        let applied = self.store.applied_all()?;
        self.engine.note_applied_here(applied);
        Ok(())
    }

    /// Has somebody told of files whose locks have changed elsewhere.
    pub(crate) fn listen_for_locks(&self, listener: LockListener) {
        self.lock_listeners.lock().push(listener);
    }

    /// The locks of a file have changed for somebody of another site.
    pub(crate) fn tell_of_locks(&self, file: ObjectId) {
        // They take locks of their own.
        let listeners = self.lock_listeners.lock().clone();
        listeners.iter().for_each(|listener| listener(file));
    }

    /// Returns when the replica stops.
    pub(crate) async fn parted(&self) {
        let mut parting = self.parting.subscribe();
        // The sender lives in `self`.
        let _ = parting.wait_for(|parting| *parting).await;
    }

    /// Ends all conversations.
    pub(crate) fn part(&self) {
        self.parting.send_replace(true);
        self.scrub.stop();
        // First, so that no session begins behind what ends here.
        if let Some(endpoint) = self.endpoint.get() {
            endpoint.close();
        }
        let mut tasks = self.tasks.lock();
        tasks.drain(..).for_each(|task| task.abort());
        drop(tasks);
        self.inboxes().clear();
        self.conversations.end_all();
        self.copies.end_all();
    }

    /// Gives up all control, and returns when every member that is in contact knows that, and has everything that was made here.
    /// Control does not end while a member of the view is not in contact; nobody waits for that.
    pub(crate) async fn everything_everywhere(&self) {
        self.engine.expedite(None);
        self.engine.with_core(|guard| guard.retire());
        self.engine
            .until_core(|guard| {
                let present = |slot: &ReplicaSlot| self.outbound.is_in_session(*slot);
                let present: BTreeSet<ReplicaSlot> =
                    self.others().into_iter().filter(present).collect();
                let ledger = &guard.ledger;
                let mut peers = ledger.unshipped.peers();
                let done = peers.all(|(slot, backlog)| {
                    let applied = ledger.applied.get(&slot).copied().unwrap_or(0);
                    !present.contains(&slot)
                        || (backlog.files() == 0 && applied >= ledger.last_position)
                });
                let own = self.slot();
                let mut active = guard.ledger.active.iter().filter(|slot| **slot != own);
                let may_retire = self.takes_part() && active.all(|slot| present.contains(slot));
                (done && (!may_retire || guard.has_retired(&present))).then_some(())
            })
            .await;
    }

    pub(crate) fn inbox(&self, from: ReplicaSlot) -> Option<Arc<Inbox>> {
        self.inboxes().get(&from).cloned()
    }

    pub(crate) fn inboxes(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Arc<Inbox>>> {
        self.inboxes.lock()
    }

    /// Has another replica carry an operation out.
    ///
    /// # Errors
    /// The operation's own, and [`Error::Delay`] when the replica cannot be asked, or did not answer and may be
    /// asked once more.
    pub(crate) async fn forward(
        &self,
        to: ReplicaSlot,
        (operation, removed): (Operation, bool),
        deadline: Instant,
    ) -> Result<Handed> {
        let peer = self.endpoint.get().and_then(|endpoint| endpoint.peer(to));
        let peer = peer.ok_or(Error::Delay)?;
        let session = tokio::select! {
            session = tokio::time::timeout_at(deadline, peer.ready()) => session,
            () = self.lease.lost(to) => return Ok(Handed::NotPrimary),
        };
        let session = session.map_err(|_| Error::Delay)?;
        let lane = match operation.is_bulky() {
            true => Lane::Data,
            false => Lane::Control,
        };
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let watch = operation.repeated_on().map(|_| self.outcomes.watch(number));
        let forwarded = Forwarded {
            origin: Origin {
                slot: self.slot().0,
                incarnation: self.incarnation,
                number,
            },
            operation,
            removed,
        };
        self.metrics.forwarded.fetch_add(1, Ordering::Relaxed);
        let message = wire::payload(wire::Kind::Forward, &forwarded);
        let limit = Instant::now() + FORWARD_LIMIT;
        let reply = tokio::select! {
            reply = session.request(lane, message, limit) => Some(reply),
            () = self.lease.lost(to) => None,
        };
        match reply {
            Some(Ok(reply)) => match wire::decode::<Answer>(&reply.payload) {
                Ok(Answer::Done(outcome)) => outcome.map(Handed::Done),
                Ok(Answer::NotPrimary) => Ok(Handed::NotPrimary),
                Err(error) => {
                    self.refuse_nonsense(session.peer(), &error.to_string());
                    Err(Error::Delay)
                }
            },
            Some(Err(RequestError::Busy | RequestError::NotSent(_) | RequestError::Refused(_))) => {
                Ok(Handed::NotPrimary)
            }
            // Nobody knows whether it was carried out.
            None | Some(Err(RequestError::OutcomeUnknown(_))) => {
                tracing::debug!(peer = to.0, "a forward will not be answered");
                let unanswered = watch.map(|watch| Unanswered {
                    watch,
                    by: session.peer(),
                    epoch: self.lease.view().epoch,
                });
                unanswered.map(Handed::Unanswered).ok_or(Error::Delay)
            }
            Some(Err(error)) => {
                tracing::debug!(peer = to.0, %error, "a forward was not answered");
                Err(Error::Delay)
            }
        }
    }
}
