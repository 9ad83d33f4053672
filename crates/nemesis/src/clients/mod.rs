//! Clients at every site: they work without end, and record their operations and the answers.
//!
//! After a request of unknown outcome, a client comes back as the same client after a restart: its server then forgets its state.
//! The client reclaims nothing. So, from its point of view, a lock ends with the last request that succeeded
//! under it.
//!
//! What must never enter: judgement; see `check`.

mod answers;
pub mod content;
mod direct;
pub mod kernel;
mod layouts;
mod locks;
mod logs;
mod looks;
mod names;
mod registers;
mod rights;
mod target;
pub mod tree;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nfs4::LayoutIomode4;
use nfs4_client::{Client, DataServers};
use testbed::Place;
use tokio::task::JoinHandle;

use crate::history::{Act, Event, Outcome, Recorder, Time};
use crate::random::Random;
use answers::LIMIT;
use tree::{TOKENS, Tree};

pub use target::{Target, data_servers};

/// The longest pause between two operations of a client, in milliseconds.
const PAUSE_MS_MAX: u64 = 60;

/// How long a client waits after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// The state that all clients share.
#[derive(Debug)]
pub struct Common {
    /// The record of their operations.
    pub recorder: Recorder,
    /// The files that they work on.
    pub tree: Tree,
    /// Set when they have to finish.
    pub done: AtomicBool,
    /// How often a server answered that the client has to ask again later.
    pub put_off: AtomicU64,
    /// The number of reads and writes at data servers.
    pub direct: AtomicU64,
    seed: u64,
    last_value: AtomicU64,
    /// The last known directory of each token.
    tokens: Vec<AtomicUsize>,
}

impl Common {
    /// Clients of a run that begins now.
    pub fn new(seed: u64, tree: Tree) -> Self {
        Self {
            recorder: Recorder::new(),
            tree,
            done: AtomicBool::new(false),
            put_off: AtomicU64::new(0),
            direct: AtomicU64::new(0),
            seed,
            last_value: AtomicU64::new(0),
            tokens: (0..TOKENS)
                .map(|token| AtomicUsize::new(tree::token_start(token)))
                .collect(),
        }
    }

    /// A value that no other operation writes.
    fn fresh_value(&self) -> u64 {
        self.last_value.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records an operation that a client at a site began at `begin`.
    fn record(&self, (site, client): (usize, usize), begin: Time, act: Act, outcome: Outcome) {
        self.recorder.record(Event {
            site,
            client,
            begin,
            end: self.recorder.now(),
            act,
            outcome,
        });
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

/// The work of a client.
#[derive(Debug, Clone, Copy)]
enum Role {
    Registers,
    Names,
    Locks,
    Log(usize),
    Layouts,
    Rights,
    Looks,
}

/// The roles at every site.
const EVERYWHERE: [Role; 4] = [Role::Registers, Role::Registers, Role::Names, Role::Locks];

/// The additional roles in a pool.
const IN_POOLS: [Role; 4] = [Role::Layouts, Role::Layouts, Role::Rights, Role::Looks];

/// The additional roles at a member of a set with a pool. The promises about copies in a pool do not hold for a set.
const AT_MEMBERS_WITH_POOLS: [Role; 3] = [Role::Layouts, Role::Layouts, Role::Rights];

/// Puts clients to work at every site, with the layouts that `layouts` gives. They end when [`Common::done`] is set.
pub fn employ(
    common: &Arc<Common>,
    places: &[Place],
    layouts: impl Fn(usize) -> Option<LayoutIomode4>,
) -> Vec<JoinHandle<()>> {
    let mut clients = Vec::new();
    let targets: Vec<Target> = places.iter().map(Target::of).collect();
    for (site, place) in places.iter().enumerate() {
        let layouts = layouts(site);
        let in_pools = match layouts {
            Some(LayoutIomode4::Read) => &AT_MEMBERS_WITH_POOLS[..],
            Some(_) => &IN_POOLS,
            None => &[],
        };
        let logs = [Role::Log(site * 2), Role::Log(site * 2 + 1)];
        for role in [&EVERYWHERE[..], &logs, in_pools].concat() {
            let worker = Worker {
                common: Arc::clone(common),
                site,
                number: clients.len(),
                random: Random::new(common.seed, 1000 + clients.len() as u64),
                target: Target::of(place),
                targets: targets.clone(),
                writes_there: layouts == Some(LayoutIomode4::ReadWrite),
                data_servers: data_servers(
                    &targets[site],
                    format!("nemesis {} {} of layouts", common.seed, clients.len()),
                ),
                elsewhere: None,
                generation: 0,
                session: None,
            };
            clients.push(tokio::spawn(worker.work(role)));
        }
    }
    clients
}

/// One client.
#[derive(Debug)]
struct Worker {
    common: Arc<Common>,
    site: usize,
    number: usize,
    random: Random,
    target: Target,
    /// The servers of all sites.
    targets: Vec<Target>,
    /// There are layouts for writing here.
    writes_there: bool,
    /// Sessions with data servers.
    data_servers: DataServers,
    /// A session with another metadata server.
    elsewhere: Option<Client>,
    generation: u64,
    session: Option<Client>,
}

impl Worker {
    async fn work(mut self, role: Role) {
        match role {
            Role::Registers => self.registers().await,
            Role::Names => self.names().await,
            Role::Locks => self.locks().await,
            Role::Log(log) => self.log(log).await,
            Role::Layouts => self.layouts().await,
            Role::Rights => self.rights().await,
            Role::Looks => self.looks().await,
        }
        if let Some(client) = self.session.take() {
            self.count_put_off(&client);
            let _ = tokio::time::timeout(AFTER_FAILURE * 10, client.leave()).await;
        }
    }

    /// The connected client; none if the work ends before a server answers.
    async fn client(&mut self) -> Option<Client> {
        while self.session.is_none() && !self.common.is_done() {
            self.generation += 1;
            let name = format!("nemesis {} {}", self.common.seed, self.number);
            let connecting = self.target.client(&name, self.generation);
            match tokio::time::timeout(LIMIT, connecting).await {
                Ok(Ok(client)) => self.session = Some(client),
                Ok(Err(_)) | Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
            }
        }
        self.session.clone()
    }

    /// A pause, and the client; none if the work is over.
    async fn next(&mut self) -> Option<Client> {
        let pause = self.random.below(PAUSE_MS_MAX);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        match self.common.is_done() {
            true => None,
            false => self.client().await,
        }
    }

    fn now(&self) -> Time {
        self.common.recorder.now()
    }

    /// Records an operation that began at `begin`. After an unknown outcome the client restarts.
    async fn record(&mut self, begin: Time, act: Act, outcome: Outcome) {
        let is_unknown = matches!(outcome, Outcome::Unknown(_));
        let who = (self.site, self.number);
        self.common.record(who, begin, act, outcome);
        if is_unknown {
            self.forget().await;
        }
    }

    /// Gives the session up.
    async fn forget(&mut self) {
        if let Some(client) = self.session.take() {
            self.count_put_off(&client);
        }
        tokio::time::sleep(AFTER_FAILURE).await;
    }

    fn count_put_off(&self, client: &Client) {
        let times = client.session().times_put_off();
        self.common.put_off.fetch_add(times, Ordering::Relaxed);
    }
}
