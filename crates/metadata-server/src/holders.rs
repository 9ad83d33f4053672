//! The home's side of copies: which other metadata servers have some, and who waits until they have dropped them.
//!
//! The store says what changes ([`ChangeListener`]), before anybody can see it. Holders of copies
//! are told at once. The caller that has made the change, or has seen it, is answered when none of
//! them answers from such a copy any more: because it has said so, or its lease has run out
//! ([`homes::Holder`]).
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
/// Files with a lock that a client at another server waits for. A waiter that is not noted asks again now and then.
const WANTED_MAX: usize = 1 << 12;
/// It is told of at most this many objects at once.
const NEWS_MAX: usize = 1024;
/// Before it is told again, and before it is looked again whether a lease has run out: the clock of leases goes on while the machine is suspended, timers
/// do not.
const PAUSE: Duration = Duration::from_millis(50);

/// The way to metadata servers that have copies.
#[async_trait]
pub trait ToHolders: Send + Sync + 'static {
    /// Tells a run of a metadata server that copies do not count any more. Whether it has dropped them.
    async fn tell(&self, to: Asker, news: News) -> bool;
}

/// A metadata server that may have copies.
#[derive(Default)]
struct Server {
    /// Its latest run. 0: none was heard of.
    run: u64,
    /// It has said that all its copies are of this run of the home.
    has_met: bool,
    /// It may have some that an earlier run has granted.
    may_have_forgotten: bool,
    /// It is about to leave the pool, or has left it, and gets nothing, in no run.
    has_left: bool,
    holder: Holder,
    /// What its clients use.
    sessions: Sessions,
}

#[derive(Default)]
struct State {
    servers: BTreeMap<ReplicaSlot, Server>,
    /// Whether somebody may be about to see what he does not see yet.
    is_changing: bool,
    /// Grows before and behind each change.
    changes: u64,
    /// A server that was refused a lock of these files has a copy, and hears that it was given back as if the file had changed.
    wanted: BTreeSet<ObjectId>,
    periods: Periods,
    /// All that are used, at the latest time when that was known of all servers; until it was passed on.
    alive: Option<HashSet<RequestGroup>>,
}

/// Hears of files of which locks were given back.
type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// Which metadata servers have copies of what.
pub struct Holders {
    /// Which run of the home this is.
    run: u64,
    now: LeaseClock,
    terms: Terms,
    /// Until then there may be copies of which the run before knew.
    forgotten_until: Moment,
    /// Whether there may be copies at all.
    is_in_use: AtomicBool,
    state: Mutex<State>,
    heard: watch::Sender<()>,
    link: OnceLock<Arc<dyn ToHolders>>,
    /// What other servers held before the home's start.
    pub(crate) claims: Claims,
    /// How long a client is waited for that is silent.
    client_lease: Duration,
    lock_listeners: Mutex<Vec<LockListener>>,
}

/// What had been told when an operation began, by holder. `None`: whatever was told before counts, too.
pub(crate) struct Since(Option<BTreeMap<ReplicaSlot, u64>>);

impl Holders {
    /// What a run of a home begins with, which has to be larger than those before. These metadata servers may have copies that an earlier
    /// run has granted: nobody is answered until each has said that it has none, or its lease has run out. And their clients, whose lease has
    /// this length, may hold something: nobody is given anything new until each has told that, or could no more, and not before leases of data
    /// servers have run out, either. What clients of `given_up` ones held was given up in an earlier run, and they may not have heard it.
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
        // Nobody else has set it.
        let _ = self.link.set(link);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run of a metadata server has begun, or goes on. With `has_met`, it has no copies that an earlier run of the home has granted.
    pub(crate) fn meet(self: &Arc<Self>, asker: Asker, has_met: bool) {
        let (is_new, meets) = {
            let mut state = self.state();
            let server = state.servers.entry(asker.server).or_default();
            let is_new = asker.run > server.run;
            if is_new {
                // Before anybody can get copies: a caller that changes something afterwards tells
                // of it.
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

    /// A metadata server is about to leave the pool, and gets no copies any more: returns when it answers from none. To be called before
    /// that is stable, since a home that is started anew knows of members alone.
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

    /// It has left, so that it is told of nothing any more.
    pub(crate) fn part(&self, slot: ReplicaSlot) {
        let gone = Server {
            has_left: true,
            ..Server::default()
        };
        self.state().servers.insert(slot, gone);
        self.heard.send_replace(());
    }

    /// A number that is the same as long as nothing changes. None while something does.
    pub(crate) fn unchanged(&self) -> Option<u64> {
        let state = self.state();
        (!state.is_changing).then_some(state.changes)
    }

    /// What goes with an answer about these objects, which were read when nothing had changed but this many times. None when something
    /// has changed since, and it has to be read again before it may be kept.
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

    /// An answer that is not kept gives a lease for what is.
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

    /// An operation begins that may have been carried out before, and whose answer was lost.
    pub(crate) fn begin_again(&self) -> Since {
        Since(None)
    }

    /// Whether nobody has copies.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_in_use.load(Ordering::SeqCst)
    }

    /// Waits until nobody answers from copies of which was told since an operation has begun, or from those of these objects.
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

    /// Has nobody answer from copies of an object from now on, whether or not it changes in the store.
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

    /// Waits until nothing counts that was granted by the run before, to data servers as well: their leases are as long.
    pub(crate) async fn outlast_forgotten(&self) {
        while (self.now)() < self.forgotten_until {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A run of a metadata server says which sessions its clients use; with `is_last`, it has told all.
    pub(crate) fn tell_sessions(&self, asker: Asker, some: Vec<RequestGroup>, is_last: bool) {
        if let Some(server) = self.state().servers.get_mut(&asker.server)
            && server.run == asker.run
        {
            server.sessions.tell(some, is_last);
        }
    }

    /// What is on record of requests is about to grow older: the sessions that clients of other servers use. `None` when not all of them are
    /// known, because a server is away for example.
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

    /// These sessions are used, at all servers.
    pub(crate) fn note_alive(&self, alive: &HashSet<RequestGroup>) {
        self.state().alive = Some(alive.clone());
    }

    /// What was noted since this was asked for last.
    pub(crate) fn take_alive(&self) -> Option<HashSet<RequestGroup>> {
        self.state().alive.take()
    }

    /// The home's time.
    pub(crate) fn now(&self) -> Moment {
        (self.now)()
    }

    /// Until when that counts which clients of a server hold of which was heard then.
    pub(crate) fn state_stands_until(&self, heard: Moment) -> Moment {
        self.terms
            .lease
            .granted_until(heard)
            .after(self.client_lease)
    }

    /// Clients of the home itself have nothing to reclaim any more. Returns when those of other servers have not, either.
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

    /// A client of another server wants a lock that somebody has.
    pub(crate) fn want(&self, asker: Asker, file: ObjectId) {
        let granted = self.grant(asker, &[file], self.unchanged());
        if granted.is_some_and(|granted| granted.keep) {
            let mut state = self.state();
            if state.wanted.len() < WANTED_MAX {
                state.wanted.insert(file);
            }
        }
    }

    /// A client of the home has given locks of a file back: clients of other servers hear it.
    pub(crate) fn locks_changed_here(&self, file: ObjectId) {
        let is_wanted = self.state().wanted.remove(&file);
        if is_wanted {
            self.tell(&[file]);
        }
    }

    /// A client of another server has: all others hear it.
    pub(crate) fn locks_changed(&self, file: ObjectId) {
        self.locks_changed_here(file);
        let listeners = self.lock_listeners.lock();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener(file));
    }

    /// What a run of a metadata server has to be told now; `None` when it has ended.
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

    /// The home's run, for who says what run his copies are of.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }
}

impl ChangeListener for Holders {
    fn changing(&self, objects: &[ObjectId]) {
        {
            // Also when nobody has copies: somebody may get some before the change can be seen.
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

/// Tells a run of a metadata server what it has to drop, as long as that run may go on.
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
