//! A metadata server over TCP whose files lie on data servers over TCP. The home is `pool::home`, with its rows in memory. A store has
//! names and attributes.
//!
//! What must never enter: decisions. They are tested in their own crates.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use control::{Moment, OperationId};
use data_server::{DataServer, Outward, Shelf};
use nfs4_client::{Client, Options};
use nfs4_server::{
    AccessMode, AccessRule, DeviceId, Export, FileLayout, Identity, LayoutAccess, LayoutEvent,
    LayoutHolder, LayoutProperties, Layouts, Limits, Namespace, NoLayout, NoObserver, Service,
    ServiceOptions, Squash,
};
use pool::home::{
    Command, FileRow, Holder, Home, HomeSettings, Outcome, Record, Recovered, Request,
};
use pool::{
    Access, Act, ContentsId, DataServerNumber, Generation, HomeNumber, IssueNumber, KeyNumber,
    KeySource, LeaseClock, LeaseSettings, PlacementNumber, ToDataServer, ToHome,
};
use store::{NewStore, Store, StoreOptions};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use vfs::{AccessCheck, Credentials, FileSystem, ObjectId, SetAttributes};
use xdr::Bytes;

use crate::fixture::{NothingToReclaim, tcp};

pub const UNIT: u32 = 65_536;
pub const DEVICE: DeviceId = DeviceId(*b"device of a pool");
const HOME: HomeNumber = HomeNumber(1);

type Listener = Arc<dyn Fn(LayoutEvent) + Send + Sync>;

/// The pool with the contents of files.
pub struct Pool {
    core: Mutex<Core>,
    servers: BTreeMap<DataServerNumber, Reached>,
    store: Arc<Store>,
    listener: Mutex<Option<Listener>>,
    started: Instant,
}

struct Core {
    home: Home,
    rows: BTreeMap<ObjectId, FileRow>,
    waiting: HashMap<OperationId, oneshot::Sender<Outcome>>,
    next: u64,
}

/// A data server, as the home reaches it.
struct Reached {
    messages: mpsc::UnboundedSender<ToDataServer>,
    address: SocketAddr,
}

/// Messages of a data server to the home.
struct Said(
    DataServerNumber,
    mpsc::UnboundedSender<(DataServerNumber, ToHome)>,
    tcp::Connections,
);

impl Outward for Said {
    fn send(&self, _: HomeNumber, message: ToHome) {
        let _home_is_gone = self.1.send((self.0, message));
    }

    fn drop_connections(&self) {
        self.2.lock().unwrap().abort_all();
    }
}

impl Pool {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_micros()).unwrap())
    }

    /// Has the home do a step, and carries out its commands in order.
    fn step(&self, step: impl FnOnce(&mut Home, Moment) -> Vec<Command>) {
        let mut core = self.core.lock().unwrap();
        let now = self.now();
        for command in step(&mut core.home, now) {
            match command {
                Command::Persist(Record::Row { row, .. }) => {
                    core.rows.insert(row.contents.object, row);
                }
                Command::Persist(_) => {}
                Command::Send { to, message, .. } => {
                    let _is_stopped = self.servers[&to].messages.send(message);
                }
                Command::Recall(_, Holder(holder)) => {
                    let listener = self.listener.lock().unwrap().clone();
                    let event = LayoutEvent::Recall(LayoutHolder(holder));
                    listener.expect("the service listens")(event);
                }
                Command::Answer {
                    operation, outcome, ..
                } => {
                    if let Some(asker) = core.waiting.remove(&operation) {
                        let _gave_up = asker.send(outcome);
                    }
                }
            }
        }
    }

    async fn ask(&self, object: ObjectId, request: Request) -> Outcome {
        let (asker, answer) = oneshot::channel();
        let (row, operation) = {
            let mut core = self.core.lock().unwrap();
            core.next += 1;
            let operation = OperationId(core.next);
            core.waiting.insert(operation, asker);
            let members = self.servers.keys().copied().collect();
            let row = core.rows.entry(object).or_insert_with(|| FileRow {
                contents: ContentsId {
                    object,
                    placement: PlacementNumber(1),
                },
                generation: Generation(1),
                members,
                size: 0,
                unsettled: false,
            });
            (row.clone(), operation)
        };
        self.step(|home, now| home.request(now, &row, operation, request));
        answer.await.unwrap()
    }

    /// Stores the settled size with the attributes.
    async fn set_size(&self, object: ObjectId, size: u64) -> vfs::Result<()> {
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let root = Credentials {
            user: 0,
            group: 0,
            groups: Arc::from([]),
            request: None,
        };
        let attributes = self.store.attributes(object).await?;
        if attributes.size != size {
            let root = AccessCheck::Open(&root);
            self.store.set_attributes(root, object, &set).await?;
        }
        Ok(())
    }

    /// Truncates a file, as SETATTR does.
    pub async fn truncate(&self, object: ObjectId, size: u64) {
        let change = Request::Change(Act::Truncate(size));
        let outcome = self.ask(object, change).await;
        assert_eq!(outcome, Outcome::Done);
        self.set_size(object, size).await.unwrap();
    }

    /// The size of a file, as the data servers report it.
    pub async fn look(&self, object: ObjectId) -> u64 {
        match self.ask(object, Request::Look).await {
            Outcome::Size(size) => size,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until all data servers have leases of the home.
    async fn is_served(&self) {
        let all_serve = || {
            let core = self.core.lock().unwrap();
            let now = self.now();
            let mut servers = self.servers.keys();
            servers.all(|server| core.home.serves(now, *server))
        };
        while !all_serve() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has clients forget the device.
    pub fn device_gone(&self) {
        let listener = self.listener.lock().unwrap().clone();
        listener.expect("the service listens")(LayoutEvent::DeviceGone(DEVICE));
    }
}

#[async_trait]
impl Layouts for Pool {
    fn properties(&self) -> LayoutProperties {
        LayoutProperties {
            stripe_unit: UNIT,
            threshold: Some(1000),
        }
    }

    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>> {
        let addresses = self.servers.values().map(|server| vec![server.address]);
        (device == DEVICE).then(|| addresses.collect())
    }

    async fn devices(&self) -> Vec<DeviceId> {
        vec![DEVICE]
    }

    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout> {
        let access = match access {
            LayoutAccess::Read => Access::Read,
            LayoutAccess::ReadWrite => Access::ReadWrite,
        };
        match self
            .ask(file, Request::Layout(Holder(holder.0), access))
            .await
        {
            Outcome::Layout(handles) => Ok(FileLayout {
                device: DEVICE,
                stripe_unit: UNIT,
                first_index: 0,
                handles: handles
                    .iter()
                    .map(|(_, handle)| Bytes::copy_from_slice(handle.as_bytes()))
                    .collect(),
            }),
            Outcome::Conflict => Err(NoLayout::Recalled),
            Outcome::ThroughHome => Err(NoLayout::ThroughServer),
            other => panic!("{other:?}"),
        }
    }

    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        match self.ask(file, Request::Return(Holder(holder.0))).await {
            Outcome::Size(size) => self.set_size(file, size).await,
            other => panic!("{other:?}"),
        }
    }

    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()> {
        match self.ask(file, Request::Lost(Holder(holder.0))).await {
            Outcome::Size(size) => self.set_size(file, size).await,
            Outcome::Done => {
                let size = self.look(file).await;
                self.set_size(file, size).await
            }
            other => panic!("{other:?}"),
        }
    }

    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout> {
        let commit = Request::Commit(Holder(holder.0), end.unwrap_or(0));
        match self.ask(file, commit).await {
            Outcome::Size(size) => {
                let set = self.set_size(file, size).await;
                set.map(|()| size).map_err(|_| NoLayout::Gone)
            }
            Outcome::NoLayout => Err(NoLayout::ThroughServer),
            other => panic!("{other:?}"),
        }
    }

    fn on_event(&self, listener: Listener) {
        *self.listener.lock().unwrap() = Some(listener);
    }
}

/// A metadata server and its data servers, running.
pub struct Site {
    pub pool: Arc<Pool>,
    pub service: Arc<Service>,
    pub address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
    _directory: TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Starts a data server.
async fn data_server(
    directory: &TempDir,
    number: DataServerNumber,
    said: &mpsc::UnboundedSender<(DataServerNumber, ToHome)>,
    tasks: &mut Vec<JoinHandle<()>>,
) -> Reached {
    let place = directory.path().join(format!("shelf {}", number.0));
    let shelf = Arc::new(Shelf::open(&StoreOptions::new(&place)).await.unwrap());
    let connections = tcp::Connections::default();
    let outward = Arc::new(Said(number, said.clone(), connections.clone()));
    let started = Instant::now();
    let now: LeaseClock = Arc::new(move || Moment(started.elapsed().as_micros() as u64));
    let lease = (LeaseSettings::default(), now);
    let server = DataServer::new(number, lease, shelf, outward);
    let major = format!("data server {}", number.0);
    let service = Service::of_data_server(Arc::new(server.clone()), options(&major, 90));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.push(tokio::spawn(tcp::accept(listener, service, connections)));
    let (messages, mut inbox) = mpsc::unbounded_channel();
    let receiver = server.clone();
    tasks.push(tokio::spawn(async move {
        while let Some(message) = inbox.recv().await {
            receiver.receive(HOME, message).await;
        }
    }));
    tasks.push(tokio::spawn(async move {
        loop {
            server.ask(HOME).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }));
    Reached { messages, address }
}

fn options(major: &str, lease_seconds: u64) -> ServiceOptions {
    ServiceOptions {
        identity: Identity {
            server: major.into(),
            scope: b"a pool".to_vec(),
            incarnation: 1,
            key: [1; 32],
            place: None,
        },
        limits: Limits {
            lease: Duration::from_secs(lease_seconds),
            ..Limits::default()
        },
        may_reclaim: Vec::new(),
        records: Arc::new(NothingToReclaim),
        observer: Arc::new(NoObserver),
        clock: Instant::now,
    }
}

impl Site {
    /// Two data servers, and clients with a lease of 90 seconds.
    pub async fn new() -> Site {
        Site::with_lease(90).await
    }

    pub async fn with_lease(seconds: u64) -> Site {
        let (directory, mut tasks) = (TempDir::new().unwrap(), Vec::new());
        let (said, mut heard) = mpsc::unbounded_channel();
        let mut servers = BTreeMap::new();
        for number in [DataServerNumber(1), DataServerNumber(2)] {
            let reached = data_server(&directory, number, &said, &mut tasks).await;
            servers.insert(number, reached);
        }
        let options_of_store = StoreOptions::new(directory.path().join("store"));
        let store = Arc::new(Store::create(&options_of_store, &NewStore::default()).unwrap());
        let recovered = recovered(&servers);
        let keys = (KeyNumber(1), KeySource::new([1; 32]));
        let (issue, settings) = (IssueNumber(1), HomeSettings::default());
        let home = Home::new(HOME, issue, keys, settings, Moment(0), recovered);
        let pool = Arc::new(Pool {
            core: Mutex::new(Core {
                home,
                rows: BTreeMap::new(),
                waiting: HashMap::new(),
                next: 0,
            }),
            servers,
            store: store.clone(),
            listener: Mutex::new(None),
            started: Instant::now(),
        });
        let receiving = pool.clone();
        tasks.push(tokio::spawn(async move {
            while let Some((from, message)) = heard.recv().await {
                receiving.step(|home, now| home.handle(now, from, message));
            }
        }));
        let ticking = pool.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                ticking.step(|home, now| home.handle_timer(now));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }));
        let (service, address) = serve(&pool, (1, seconds), &mut tasks).await;
        pool.is_served().await;
        Site {
            pool,
            service,
            address,
            tasks,
            _directory: directory,
        }
    }

    /// The metadata server restarts: its service knows no client, and its home knows no holder.
    pub async fn restart(&mut self) {
        {
            let mut core = self.pool.core.lock().unwrap();
            let recovered = recovered(&self.pool.servers);
            let keys = (KeyNumber(2), KeySource::new([2; 32]));
            let (settings, now) = (HomeSettings::default(), self.pool.now());
            core.home = Home::new(HOME, IssueNumber(2), keys, settings, now, recovered);
        }
        let served = serve(&self.pool, (2, 90), &mut self.tasks).await;
        (self.service, self.address) = served;
        self.pool.is_served().await;
    }

    pub async fn client(&self) -> Client {
        Client::connect(Options::at(self.address)).await.unwrap()
    }
}

fn recovered(servers: &BTreeMap<DataServerNumber, Reached>) -> Recovered {
    Recovered {
        servers: servers.keys().map(|number| (*number, None)).collect(),
        next_intent: 1000,
        ..Recovered::default()
    }
}

/// Starts a run of a metadata server over a pool.
async fn serve(
    pool: &Arc<Pool>,
    (run, lease_seconds): (u32, u64),
    tasks: &mut Vec<JoinHandle<()>>,
) -> (Arc<Service>, SocketAddr) {
    let store: Arc<dyn FileSystem> = pool.store.clone();
    let export = Export::new("/export".parse().unwrap(), store, vec![everybody()]);
    let namespace = Namespace::new(vec![export.with_layouts(pool.clone())]).unwrap();
    let mut options = options("metadata server", lease_seconds);
    options.identity.incarnation = run;
    let service = Service::new(namespace, options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = tcp::accept(listener, service.clone(), tcp::Connections::default());
    tasks.push(tokio::spawn(accepting));
    let kept = service.clone();
    tasks.push(tokio::spawn(async move {
        loop {
            tokio::spawn(kept.housekeep());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }));
    (service, address)
}

fn everybody() -> AccessRule {
    AccessRule {
        clients: "*".parse().unwrap(),
        mode: AccessMode::ReadWrite,
        squash: Squash::None,
        anonymous_user: 65534,
        anonymous_group: 65534,
        secure: false,
    }
}
