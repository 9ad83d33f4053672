//! The home's side of copies: which other metadata servers have some, and which callers wait until these servers have dropped them.
//!
//! The store reports each change ([`ChangeListener`]) before it becomes visible. Holders of copies are told at once. The caller that made
//! the change, or has seen it, gets its answer when no holder answers from such a copy any more: the holder has acknowledged, or its lease
//! has expired ([`homes::Holder`]).
//!
//! What must never enter: how holders are reached, and what the copies contain.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use control::Moment;
use homes::{Holder, Terms};
use pool::{LeaseClock, LeaseSettings};
use store::ChangeListener;
use tokio::sync::watch;
use vfs::{ObjectId, ReplicaSlot, RequestGroup};

use crate::claims::Claims;
use crate::home::Asker;
use crate::question::{Granted, News};
use crate::sessions::{Periods, Sessions};

/// One metadata server may have copies of at most this many objects.
const COPIES_MAX: usize = 1 << 17;
/// At most this many files have a noted lock waiter at another server. A waiter that is not noted polls.
const WANTED_MAX: usize = 1 << 12;
/// A metadata server is told of at most this many objects at once.
const NEWS_MAX: usize = 1024;
/// Delay before a server is told again, and before a lease is checked again. The lease clock runs while the machine is suspended, but
/// timers do not.
const PAUSE: Duration = Duration::from_millis(50);

/// The connection to metadata servers that have copies.
#[async_trait]
pub trait ToHolders: Send + Sync + 'static {
    /// Tells a run of a metadata server that copies are invalid. Returns whether it has dropped them.
    async fn tell(&self, to: Asker, news: News) -> bool;
}

/// A metadata server that may have copies.
#[derive(Default)]
struct Server {
    /// Its latest known run. 0: none.
    run: u64,
    /// It has said that all its copies are of this run of the home.
    has_met: bool,
    /// It may have copies that an earlier run of the home has granted.
    may_have_forgotten: bool,
    /// It is about to leave the pool or has left it. It gets no copies in any run.
    has_left: bool,
    holder: Holder,
    /// Sessions that its clients use.
    sessions: Sessions,
}

#[derive(Default)]
struct State {
    servers: BTreeMap<ReplicaSlot, Server>,
    /// A change is under way that readers may be about to see.
    is_changing: bool,
    /// Grows before and after each change.
    changes: u64,
    /// A server was refused a lock of these files and has a copy. When the lock is released, it is told as if the file had changed.
    wanted: BTreeSet<ObjectId>,
    periods: Periods,
    /// All sessions in use, from the latest time at which those of all servers were known. `None` once passed on.
    alive: Option<HashSet<RequestGroup>>,
}

/// Called with each file on which a client has released a lock.
type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// Which metadata servers have copies of which objects.
pub struct Holders {
    /// The run of the home.
    run: u64,
    now: LeaseClock,
    terms: Terms,
    /// Until then there may be copies that the previous run granted.
    forgotten_until: Moment,
    /// Whether there may be copies at all.
    is_in_use: AtomicBool,
    state: Mutex<State>,
    heard: watch::Sender<()>,
    link: OnceLock<Arc<dyn ToHolders>>,
    /// What other servers held before the home's start.
    pub(crate) claims: Claims,
    /// How long the home waits for a silent client.
    client_lease: Duration,
    lock_listeners: Mutex<Vec<LockListener>>,
}

/// The number of invalidations sent to each holder when an operation began. `None`: all earlier ones count, too.
pub(crate) struct Since(Option<BTreeMap<ReplicaSlot, u64>>);

impl Holders {
    /// Starts a run of a home. Its number must be larger than those of earlier runs. The `members` may have copies that an earlier run
    /// granted: no operation is answered until each member has said that it has none, or its lease has expired. Their clients may hold
    /// state, too; `client_lease` is the length of a client's lease. Nothing new is granted until each member has reported that state or
    /// can no longer do so, and not before the leases of data servers have expired. The state of clients of `given_up` was given up in an
    /// earlier run, and these servers may not know it yet.
    #[must_use]
    pub fn new(
        run: u64,
        (lease, client_lease): (LeaseSettings, Duration),
        now: LeaseClock,
        members: impl IntoIterator<Item = ReplicaSlot>,
        given_up: &BTreeSet<ReplicaSlot>,
    ) -> Arc<Holders> {
        let members: Vec<ReplicaSlot> = members.into_iter().collect();
        let forgotten_until = lease.granted_until(now());
        let claimed_until = forgotten_until.after(client_lease);
        let servers = members.iter().copied();
        let moments = (forgotten_until, claimed_until);
        let claims = Claims::new(now.clone(), moments, servers, given_up);
        let server = || Server {
            may_have_forgotten: true,
            ..Server::default()
        };
        let servers: BTreeMap<_, _> = members.iter().map(|slot| (*slot, server())).collect();
        Arc::new(Holders {
            run,
            forgotten_until,
            now,
            terms: Terms {
                lease,
                copies_max: COPIES_MAX,
                told_before_lease: true,
            },
            is_in_use: AtomicBool::new(!servers.is_empty()),
            state: Mutex::new(State {
                servers,
                ..State::default()
            }),
            heard: watch::Sender::new(()),
            link: OnceLock::new(),
            claims,
            client_lease,
            lock_listeners: Mutex::default(),
        })
    }

    /// Sets how holders are told.
    pub fn tell_by(&self, link: Arc<dyn ToHolders>) {
        // It is set once.
        let _ = self.link.set(link);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run of a metadata server has begun or continues. With `has_met`, it has no copies that an earlier run of the home granted.
    pub(crate) fn meet(self: &Arc<Self>, asker: Asker, has_met: bool) {
        let (is_new, meets) = {
            let mut state = self.state();
            let server = state.servers.entry(asker.server).or_default();
            let is_new = asker.run > server.run;
            if is_new {
                // Before the asker can get copies: a caller that changes something afterwards then tells of it.
                self.is_in_use.store(true, Ordering::SeqCst);
                server.run = asker.run;
                server.has_met = false;
                server.holder.restart();
            }
            let meets = has_met && asker.run == server.run && !server.has_met;
            server.has_met |= meets;
            server.may_have_forgotten &= !meets;
            (is_new, meets)
        };
        if is_new {
            tokio::spawn(tell_all(Arc::downgrade(self), asker));
        }
        if is_new || meets {
            self.heard.send_replace(());
        }
    }

    /// A metadata server is about to leave the pool and gets no more copies. Returns when it answers from none. Call it before the
    /// departure is stable, because a restarted home knows members only.
    pub(crate) async fn expect_parting(&self, slot: ReplicaSlot) {
        let until = {
            let mut state = self.state();
            let server = state.servers.entry(slot).or_default();
            server.has_left = true;
            let leased_until = server.holder.leased_until();
            match server.may_have_forgotten {
                true => leased_until.max(self.forgotten_until),
                false => leased_until,
            }
        };
        while (self.now)() < until {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// It stays in the pool after all.
    pub(crate) fn stays(&self, slot: ReplicaSlot) {
        if let Some(server) = self.state().servers.get_mut(&slot) {
            server.has_left = false;
        }
    }

    /// It has left, so it is told of nothing any more.
    pub(crate) fn part(&self, slot: ReplicaSlot) {
        let gone = Server {
            has_left: true,
            ..Server::default()
        };
        self.state().servers.insert(slot, gone);
        self.heard.send_replace(());
    }

    /// A number that stays the same as long as nothing changes. `None` during a change.
    pub(crate) fn unchanged(&self) -> Option<u64> {
        let state = self.state();
        (!state.is_changing).then_some(state.changes)
    }

    /// Grants the asker copies of these objects, which were read when [`Holders::unchanged`] returned `unchanged`. `None` if something has
    /// changed since: read the objects again before the asker may keep them.
    pub(crate) fn grant(
        &self,
        asker: Asker,
        objects: &[ObjectId],
        unchanged: Option<u64>,
    ) -> Option<Granted> {
        let mut state = self.state();
        let is_free = !state.is_changing && unchanged == Some(state.changes);
        let Some(server) = state.servers.get_mut(&asker.server) else {
            return Some(Granted::default());
        };
        if server.run != asker.run || !server.has_met || server.has_left {
            return Some(Granted::default());
        }
        if !is_free && !objects.is_empty() {
            return None;
        }
        let grant = (server.holder).grant((self.now)(), objects, is_free, self.terms);
        drop(state);
        if !grant.evicted.is_empty() {
            self.heard.send_replace(());
        }
        Some(Granted {
            told: grant.told,
            leased: grant.leased,
            keep: grant.keep,
        })
    }

    /// Renews the lease of the asker's copies with an answer that is not kept itself.
    pub(crate) fn grant_lease(&self, asker: Asker) -> Granted {
        self.grant(asker, &[], None).unwrap_or_default()
    }

    /// An operation begins.
    pub(crate) fn begin(&self) -> Since {
        if !self.is_in_use.load(Ordering::SeqCst) {
            return Since(None);
        }
        let state = self.state();
        let servers = state.servers.iter();
        Since(Some(
            servers
                .map(|(slot, server)| (*slot, server.holder.told()))
                .collect(),
        ))
    }

    /// An operation begins that may have been carried out before: its answer was lost.
    pub(crate) fn begin_again(&self) -> Since {
        Since(None)
    }

    /// Whether no server has copies.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_in_use.load(Ordering::SeqCst)
    }

    /// Waits until no server answers from a copy that was invalidated since the operation began, or from a copy of these objects.
    pub(crate) async fn settled(&self, Since(since): Since, objects: &[ObjectId]) {
        if self.is_idle() {
            return;
        }
        let mut heard = self.heard.subscribe();
        let since = since.unwrap_or_default();
        let span: BTreeMap<_, _> = {
            let state = self.state();
            let servers = state.servers.iter();
            let span = servers.map(|(slot, server)| {
                let first = since.get(slot).copied().unwrap_or(0);
                (*slot, (first, server.holder.told()))
            });
            span.collect()
        };
        while self.is_relied_upon(&span, objects) {
            tokio::select! {
                _ = heard.changed() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    fn is_relied_upon(
        &self,
        span: &BTreeMap<ReplicaSlot, (u64, u64)>,
        objects: &[ObjectId],
    ) -> bool {
        let now = (self.now)();
        let state = self.state();
        state.servers.iter().any(|(slot, server)| {
            let span = span.get(slot).copied().unwrap_or_default();
            let holder = &server.holder;
            server.may_have_forgotten && now < self.forgotten_until
                || holder.relies_on_any(now, span)
                || objects.iter().any(|object| holder.relies_on(now, *object))
        })
    }

    /// Has no server answer from copies of an object from now on, whether or not it changes in the store.
    pub async fn take_back(&self, object: ObjectId) {
        let since = self.begin();
        self.tell(&[object]);
        self.settled(since, &[object]).await;
    }

    fn tell(&self, objects: &[ObjectId]) {
        let mut is_told = false;
        for server in self.state().servers.values_mut() {
            let holder = &mut server.holder;
            for object in objects {
                is_told |= holder.tell(*object).is_some();
            }
        }
        if is_told {
            self.heard.send_replace(());
        }
    }

    /// Waits until all leases of the previous run have expired. Those of data servers are as long.
    pub(crate) async fn outlast_forgotten(&self) {
        while (self.now)() < self.forgotten_until {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A run of a metadata server reports sessions that its clients use; `is_last` completes the report.
    pub(crate) fn tell_sessions(&self, asker: Asker, some: Vec<RequestGroup>, is_last: bool) {
        if let Some(server) = self.state().servers.get_mut(&asker.server)
            && server.run == asker.run
        {
            server.sessions.tell(some, is_last);
        }
    }

    /// The sessions that clients of other servers use, asked for before request records age. `None` if some are unknown, for example
    /// because a server is away.
    pub(crate) fn sessions_elsewhere(&self) -> Option<HashSet<RequestGroup>> {
        let mut state = self.state();
        let State {
            servers, periods, ..
        } = &mut *state;
        let servers = servers.values_mut().filter(|server| !server.has_left);
        let mut sessions = servers.map(|server| &mut server.sessions).peekable();
        match sessions.peek() {
            None => Some(HashSet::new()),
            Some(_) => periods.end(sessions),
        }
    }

    /// Notes all sessions in use, at all servers.
    pub(crate) fn note_alive(&self, alive: &HashSet<RequestGroup>) {
        self.state().alive = Some(alive.clone());
    }

    /// Returns what was noted since the last call.
    pub(crate) fn take_alive(&self) -> Option<HashSet<RequestGroup>> {
        self.state().alive.take()
    }

    /// The home's time.
    pub(crate) fn now(&self) -> Moment {
        (self.now)()
    }

    /// How long a report of what a server's clients hold stays valid.
    pub(crate) fn state_stands_until(&self, heard: Moment) -> Moment {
        self.terms
            .lease
            .granted_until(heard)
            .after(self.client_lease)
    }

    /// The home's own clients have nothing to reclaim any more. Returns when this is also true for clients of other servers.
    pub(crate) async fn end_reclaim(&self) {
        self.claims.end_here();
        while self.claims.are_open() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(crate) fn on_lock_change(&self, listener: LockListener) {
        let listeners = self.lock_listeners.lock();
        listeners
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener);
    }

    /// A client of another server waits for a lock that another client has.
    pub(crate) fn want(&self, asker: Asker, file: ObjectId) {
        let granted = self.grant(asker, &[file], self.unchanged());
        if granted.is_some_and(|granted| granted.keep) {
            let mut state = self.state();
            if state.wanted.len() < WANTED_MAX {
                state.wanted.insert(file);
            }
        }
    }

    /// A client of the home has released locks of a file: tells waiting clients of other servers.
    pub(crate) fn locks_changed_here(&self, file: ObjectId) {
        let is_wanted = self.state().wanted.remove(&file);
        if is_wanted {
            self.tell(&[file]);
        }
    }

    /// A client of another server has released locks: tells all others.
    pub(crate) fn locks_changed(&self, file: ObjectId) {
        self.locks_changed_here(file);
        let listeners = self.lock_listeners.lock();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener(file));
    }

    /// What a run of a metadata server must be told now. `None` if the run has ended.
    fn news(&self, of: Asker) -> Option<News> {
        let state = self.state();
        let server = state.servers.get(&of.server)?;
        let telling = server.holder.telling().take(NEWS_MAX);
        (server.run == of.run).then(|| News {
            run: self.run,
            told: telling.collect(),
        })
    }

    fn has_taken(&self, taken: Asker, numbers: &[u64]) {
        if let Some(server) = self.state().servers.get_mut(&taken.server)
            && server.run == taken.run
        {
            numbers
                .iter()
                .for_each(|number| server.holder.has_taken(*number));
        }
        self.heard.send_replace(());
    }

    /// The home's run. Askers compare it with the run that granted their copies.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }
}

impl ChangeListener for Holders {
    fn changing(&self, objects: &[ObjectId]) {
        {
            // Even if no server has copies: one may get some before the change becomes visible.
            let mut state = self.state();
            state.is_changing = true;
            state.changes += 1;
        }
        if !self.is_idle() {
            self.tell(objects);
        }
    }

    fn changed(&self, _objects: &[ObjectId]) {
        let mut state = self.state();
        state.is_changing = false;
        state.changes += 1;
    }
}

/// Tells a run of a metadata server what to drop, as long as that run may continue.
async fn tell_all(holders: Weak<Holders>, to: Asker) {
    let Some(mut heard) = holders.upgrade().map(|holders| holders.heard.subscribe()) else {
        return;
    };
    loop {
        let Some(of) = holders.upgrade() else { return };
        heard.mark_unchanged();
        let Some(news) = of.news(to) else { return };
        if news.told.is_empty() {
            drop(of);
            // The holders are gone.
            if heard.changed().await.is_err() {
                return;
            }
            continue;
        }
        let numbers: Vec<u64> = news.told.iter().map(|(number, _)| *number).collect();
        let link = of.link.get().cloned();
        let taken = match link {
            Some(link) => link.tell(to, news).await,
            None => false,
        };
        match taken {
            true => of.has_taken(to, &numbers),
            false => tokio::time::sleep(PAUSE).await,
        }
    }
}
