//! From an RPC call to an RPC reply, and periodic work.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nfs4::{CompoundArgs, PROC_NULL, PROGRAM, VERSION};
use oncrpc::{AcceptStat, AuthStat, CallHeader, ReplyHeader, VersionRange};
use oncrpc::{Credentials as RpcCredentials, RejectedReply};
use throttle::Throttle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use xdr::{Bytes, Reader, Rope, Writer};

use crate::callback::Callbacks;
use crate::compound;
use crate::connection::Connection;
use crate::data_server::{Connected, DataServer};
use crate::forgetting::Forgetting;
use crate::gates::Gates;
use crate::moving::Moving;
use crate::namespace::{Admission, Caller, Namespace};
use crate::observer::Observer;
use crate::places::Places;
use crate::records::{ClientRecord, ClientRecords};
use crate::state::{
    ConnectionId, Departure, FileKey, KEY_BYTES, LayoutEnd, Limits, Release, State, StateCounts,
};

/// The identity of the server for clients (RFC 8881, section 2.5).
#[derive(Clone)]
pub struct Identity {
    /// Names this server. Each replica has its own name, because clients would otherwise spread one session over
    /// several sites.
    pub server: Vec<u8>,
    /// The same at all replicas of a tree, so that clients may reclaim their state at another one.
    pub scope: Vec<u8>,
    /// Differs from that of every earlier start of this server.
    pub incarnation: u32,
    /// Secret random bytes, different at each start: the numbers of clients, sessions and states are derived from them.
    pub key: [u8; KEY_BYTES],
    /// This server's number among those with the same scope, if there are others. Clients of the others may then come
    /// here, as after a restart, and reclaim. `None` for a single server.
    pub place: Option<u16>,
}

/// The parameters of a service besides its name space.
pub struct ServiceOptions {
    /// The identity for clients.
    pub identity: Identity,
    /// Bounds and timeouts.
    pub limits: Limits,
    /// The clients that held state before the start.
    pub may_reclaim: Vec<ClientRecord>,
    /// Storage for such records.
    pub records: Arc<dyn ClientRecords>,
    /// Gets reports about operations.
    pub observer: Arc<dyn Observer>,
    /// Reads the clock.
    pub clock: fn() -> Instant,
}

/// One NFS server: its name space, and its memory of its clients.
pub struct Service {
    /// For work that outlives its request.
    pub(crate) own: Weak<Service>,
    pub(crate) identity: Identity,
    pub(crate) namespace: Namespace,
    /// The data server that is served instead of a name space.
    pub(crate) data_server: Option<Arc<dyn DataServer>>,
    pub(crate) records: Arc<dyn ClientRecords>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) callbacks: Callbacks,
    /// For requests that change a file's state both behind the file system boundary and in the tables.
    pub(crate) gates: Gates,
    pub(crate) moving: Moving,
    pub(crate) places: Places,
    pub(crate) forgetting: Forgetting,
    /// Notified at the end of a request for which another task may wait.
    requests_end: watch::Sender<()>,
    clock: fn() -> Instant,
    /// The time of this start.
    pub(crate) started: Instant,
    state: Mutex<State>,
    connections: Mutex<HashMap<ConnectionId, Open>>,
}

/// A connection, and its number in the count of a data server.
type Open = (Arc<dyn Connection>, Option<Connected>);

/// The number of opens and locks of vanished clients that are released concurrently: each may need another site.
const RELEASES_AT_ONCE: usize = 64;
/// The number of attempts to release, and the pause between them.
const RELEASE_ATTEMPTS: usize = 5;
const RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// Logs refused clients, and problems with their records, once and later with a count.
static REFUSALS: Throttle = Throttle::new();
const UNPRIVILEGED: throttle::Subject = ("a client is refused for its port", 0);
const UNKNOWN: throttle::Subject = ("a client is refused for its address", 0);
const RECORD: throttle::Subject = ("a client record cannot be removed", 0);

impl Service {
    /// A service that is ready for calls.
    #[must_use]
    pub fn new(namespace: Namespace, options: ServiceOptions) -> Arc<Service> {
        Service::serving(namespace, None, options)
    }

    /// A service in the role of a data server. A client with a handle may do what the handle permits, from any address.
    /// Nothing else is served.
    #[must_use]
    pub fn of_data_server(server: Arc<dyn DataServer>, options: ServiceOptions) -> Arc<Service> {
        Service::serving(Namespace::empty(), Some(server), options)
    }

    fn serving(
        namespace: Namespace,
        data_server: Option<Arc<dyn DataServer>>,
        options: ServiceOptions,
    ) -> Arc<Service> {
        let now = (options.clock)();
        let (incarnation, key) = (options.identity.incarnation, options.identity.key);
        let state = State::new(options.limits, incarnation, key, options.may_reclaim, now)
            .among_others(options.identity.place);
        let service = Arc::new_cyclic(|own| Service {
            own: own.clone(),
            identity: options.identity,
            namespace,
            data_server,
            records: options.records,
            observer: options.observer,
            callbacks: Callbacks::default(),
            gates: Gates::default(),
            moving: Moving::default(),
            places: Places::default(),
            forgetting: Forgetting::since(now),
            requests_end: watch::Sender::default(),
            clock: options.clock,
            started: now,
            state: Mutex::new(state),
            connections: Mutex::new(HashMap::new()),
        });
        service.watch_locks();
        service.watch_losses();
        service.watch_layouts();
        service.answer_for_clients();
        service
    }

    /// Wakes the waiters for locks when other sites change locks.
    fn watch_locks(&self) {
        for (tree, export) in self.namespace.exports().iter().enumerate() {
            let own = self.own.clone();
            export.file_system.on_lock_change(Arc::new(move |object| {
                if let Some(own) = own.upgrade() {
                    own.locks_changed(FileKey { tree, object });
                }
            }));
        }
    }

    /// Resets clients when others may have got their state.
    fn watch_losses(&self) {
        for export in self.namespace.exports() {
            let own = self.own.clone();
            export.file_system.on_loss(Arc::new(move || {
                let own = own.clone();
                Box::pin(async move {
                    if let Some(own) = own.upgrade() {
                        own.forget_clients().await;
                    }
                })
            }));
        }
    }

    /// Passes events of layouts on to clients.
    fn watch_layouts(&self) {
        for export in self.namespace.exports() {
            let Some(layouts) = &export.layouts else {
                continue;
            };
            let own = self.own.clone();
            layouts.on_event(Arc::new(move |event| {
                if let Some(own) = own.upgrade() {
                    own.layout_event(event);
                }
            }));
        }
    }

    /// Whether any export has layouts.
    pub(crate) fn offers_layouts(&self) -> bool {
        let exports = self.namespace.exports();
        exports.iter().any(|export| export.layouts.is_some())
    }

    /// Lets the file systems ask which clients belong to this server.
    fn answer_for_clients(&self) {
        for export in self.namespace.exports() {
            let own = self.own.clone();
            export
                .file_system
                .on_clients_asked(Arc::new(move |clients, for_good| {
                    let Some(own) = own.upgrade() else {
                        return Vec::new();
                    };
                    match for_good {
                        true => own.absent(clients),
                        false => own.state().unknown(clients),
                    }
                }));
        }
    }

    /// Answers one RPC call. `None` when the bytes are not a valid call; then the connection must be closed.
    pub async fn call(&self, connection: &Arc<dyn Connection>, record: Bytes) -> Option<Rope> {
        let request_bytes = record.len();
        let mut reader = Reader::new(record);
        let call = match CallHeader::parse(&mut reader) {
            Ok(call) => call,
            Err(error) => {
                let oncrpc::MessageError::Call(error) = error else {
                    return None;
                };
                return error.reply().map(|header| encode_reply(&header, None));
            }
        };
        if let Some(refusal) = refuse(&call) {
            return Some(encode_reply(&refusal, None));
        }
        let header = ReplyHeader::success(call.xid);
        if call.procedure == PROC_NULL {
            return Some(encode_reply(&header, None));
        }
        let peer = canonical(connection.peer());
        if self.data_server.is_none() && self.refuses(peer) {
            let cause = RejectedReply::AuthError(AuthStat::TooWeak);
            return Some(encode_reply(&ReplyHeader::rejected(call.xid, cause), None));
        }
        let Ok(compound) = CompoundArgs::parse(reader) else {
            let garbage = ReplyHeader::accepted(call.xid, AcceptStat::GarbageArguments);
            return Some(encode_reply(&garbage, None));
        };
        let caller = Caller {
            peer,
            credentials: call.credentials,
        };
        let body = compound::execute(self, connection, caller, compound, request_bytes).await;
        Some(encode_reply(&header, Some(&body)))
    }

    /// Whether a client gets answers only to NULL, because no export admits it. Otherwise it could create sessions, use
    /// up the resources for clients, and act in the name of others.
    fn refuses(&self, peer: SocketAddr) -> bool {
        let (subject, remedy) = match self.namespace.admission_of(peer) {
            Admission::Admitted => return false,
            Admission::UnprivilegedPort => (
                UNPRIVILEGED,
                "its port is above 1023; if that is right (NAT, clients without root), set `secure = false` for it",
            ),
            Admission::UnknownAddress => (UNKNOWN, "no [[export.allow]] is for its address"),
        };
        if let Some(sum) = REFUSALS.failed(subject, Instant::now()) {
            tracing::warn!(%peer, %sum, remedy, "a client is refused");
        }
        true
    }

    /// The addresses of connected clients.
    pub(crate) fn peers(&self) -> Vec<SocketAddr> {
        let connections = lock(&self.connections);
        let peers = connections.values().map(|(all, _)| canonical(all.peer()));
        peers.collect()
    }

    /// Registers a connection, so that clients can be called over it.
    pub fn connection_opened(&self, connection: Arc<dyn Connection>) {
        let connected = self.data_server.as_ref().map(|server| server.connected());
        lock(&self.connections).insert(connection.id(), (connection, connected));
    }

    /// The number of a connection in the data server's count; `None` if it is gone.
    pub(crate) fn connected(&self, connection: ConnectionId) -> Option<Connected> {
        let connections = lock(&self.connections);
        connections.get(&connection)?.1
    }

    /// Forgets a connection.
    pub fn connection_closed(&self, connection: ConnectionId) {
        lock(&self.connections).remove(&connection);
        self.state().connection_closed(connection);
    }

    /// Drops expired clients, ends the grace period when it is time, and lets file systems forget requests of ended
    /// sessions. Call it about once a second. The returned future releases the clients' state, which may need other
    /// sites; the next call must not wait for it.
    pub fn housekeep(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        self.forget_waiters();
        let now = self.now();
        let (expired, ended, after_grace) = {
            let mut state = self.state();
            let ended = state.take_ended_sessions();
            let expired = state.expire(now);
            (expired, ended, state.end_grace_if_due(now))
        };
        let service = self.clone();
        async move {
            tokio::join!(
                service.see_off(expired),
                service.end_grace(after_grace),
                service.forget_requests(ended),
            );
        }
    }

    /// Releases state that was not reclaimed in time.
    async fn end_grace(&self, over: Option<Vec<Departure>>) {
        let Some(records) = over else { return };
        self.see_off(records).await;
        // A reclaim that was delayed could otherwise get state that another client had in between and released.
        self.until(|state| !state.is_reclaiming()).await;
        // Without clients to wait for there was no grace period to report, but its end is recorded all the same.
        if self.in_grace() && !self.namespace.exports().is_empty() {
            tracing::info!("the grace period is over: nothing more can be reclaimed");
        }
        self.state().grace_has_ended();
        for export in self.namespace.exports() {
            if let Err(error) = export.file_system.end_reclaim().await {
                tracing::error!(export = %export.path, %error, "cannot clear removed files");
            }
        }
    }

    /// Which of these clients, by their names for file systems, do not belong to this server. From now on they may not
    /// reclaim anything here. If no other server has them either, their state is given up.
    #[must_use]
    pub fn absent(&self, clients: &[Arc<[u8]>]) -> Vec<Arc<[u8]>> {
        let now = self.now();
        self.state().absent(clients, now)
    }

    /// Forgets all clients, as a restart would, and closes their files here; their locks stay for them to reclaim. Call
    /// this when this server has been cut off for so long that its clients may have gone to others. When it returns, no
    /// request of them is running.
    pub async fn forget_clients(&self) {
        let departures = self.state().forget_clients();
        self.see_off(departures).await;
        // Some clients may have gone earlier.
        self.until(|state| !state.is_any_executing()).await;
    }

    /// The maximum memory for clients, in bytes.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.state().limits().memory_bytes
    }

    /// The amount of state of clients.
    #[must_use]
    pub fn counts(&self) -> StateCounts {
        self.state().counts()
    }

    /// Whether only reclaims are accepted now.
    #[must_use]
    pub fn in_grace(&self) -> bool {
        self.state().in_grace()
    }

    /// The exported name space.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// The state tables. The guard must not live across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<Arc<dyn Connection>> {
        let connections = lock(&self.connections);
        connections
            .get(&id)
            .map(|(connection, _)| connection.clone())
    }

    /// Releases the state of clients that have gone. Each is released independently, so that none waits for another.
    pub(crate) async fn see_off(&self, departures: impl IntoIterator<Item = Departure>) {
        for one in self.begin_to_see_off(departures) {
            if let Err(error) = one.await {
                tracing::error!(%error, "the state of a client was not released");
            }
        }
    }

    /// The same, but it completes even if no task waits for it.
    pub(crate) fn begin_to_see_off(
        &self,
        departures: impl IntoIterator<Item = Departure>,
    ) -> Vec<JoinHandle<()>> {
        let own = self.own.upgrade();
        let departures = departures.into_iter();
        let each = departures.filter_map(|departure| Some((own.clone()?, departure)));
        each.map(|(own, departure)| tokio::spawn(async move { own.see_off_one(departure).await }))
            .collect()
    }

    /// Notifies of the end of a request for which another task may wait.
    pub(crate) fn request_has_ended(&self) {
        self.requests_end.send_replace(());
    }

    /// Waits until a condition holds that the end of a request may cause.
    pub(crate) async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut end = self.requests_end.subscribe();
        while !holds(&self.state()) {
            // The sender lives as long as this.
            let _ = end.changed().await;
        }
    }

    async fn see_off_one(&self, departure: Departure) {
        // A write in progress must not arrive after another client got the lock.
        self.until(|state| !state.is_executing(&departure)).await;
        let name = self.state().may_be_elsewhere(&departure);
        if let Some(name) = name {
            let trees = self.trees_elsewhere(&name).await;
            self.state().stays(&departure, trees);
        }
        loop {
            let releases = self.state().next_releases(&departure);
            match releases {
                Some(releases) => self.release(releases).await,
                None => return,
            }
        }
    }

    /// Releases state of vanished clients behind the file system boundary.
    pub(crate) async fn release(&self, releases: Vec<Release>) {
        let mut under_way = JoinSet::new();
        for release in releases.into_iter().filter(|release| self.lets_go(release)) {
            if under_way.len() >= RELEASES_AT_ONCE {
                under_way.join_next().await;
            }
            if let Some(own) = self.own.upgrade() {
                under_way.spawn(async move { own.let_go(release).await });
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Releases one item. No other code would do it, so a busy file system is asked again.
    async fn let_go(&self, release: Release) {
        for attempt in 1.. {
            match self.try_to_let_go(&release).await {
                Ok(()) | Err(vfs::Error::Stale) => return,
                Err(vfs::Error::Delay)
                    if attempt < RELEASE_ATTEMPTS || comes_before_others(&release) =>
                {
                    tokio::time::sleep(RELEASE_PAUSE).await;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot release the state of a client");
                    return;
                }
            }
        }
    }

    async fn try_to_let_go(&self, release: &Release) -> vfs::Result<()> {
        match release {
            Release::Open(file, owner) => self.file_system(*file).close(file.object, owner).await,
            Release::Leave(file, owner) => self.file_system(*file).leave(file.object, owner).await,
            Release::Locks(file, owner) => {
                let all = vfs::ByteRange::EVERYTHING;
                let file_system = self.file_system(*file);
                let outcome = file_system.unlock(file.object, owner, all).await;
                self.locks_changed(*file);
                outcome
            }
            Release::Layout(file, holder, end) => {
                let layouts = self.namespace.exports()[file.tree].layouts.as_ref();
                match (layouts, end) {
                    (None, _) => Ok(()),
                    (Some(home), LayoutEnd::Returned) => home.returned(file.object, *holder).await,
                    (Some(home), LayoutEnd::Lost) => home.lost(file.object, *holder).await,
                }
            }
            Release::Record(owner) => {
                let removed = self.records.remove(owner.clone()).await;
                removed.map_err(|error| {
                    if let Some(sum) = REFUSALS.failed(RECORD, Instant::now()) {
                        tracing::error!(
                            %error, %sum,
                            "a client record cannot be removed: what the client held stays, as it could be reclaimed after a crash"
                        );
                    }
                    vfs::Error::Delay
                })
            }
        }
    }

    pub(crate) fn file_system(&self, file: FileKey) -> &dyn vfs::FileSystem {
        &*self.namespace.exports()[file.tree].file_system
    }
}

/// Whether no other client may get this client's state before this is complete: a lost layout, on which later state may
/// depend, and a record, with which the client could reclaim after a crash.
fn comes_before_others(release: &Release) -> bool {
    matches!(
        release,
        Release::Layout(_, _, LayoutEnd::Lost) | Release::Record(_)
    )
}

/// Locks a mutex whose data stays consistent even if a holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An IPv4 client of an IPv6 socket counts as an IPv4 client.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Why a call cannot be executed at all (RFC 5531, section 9).
fn refuse(call: &CallHeader) -> Option<ReplyHeader> {
    let refusal = |status| Some(ReplyHeader::accepted(call.xid, status));
    if call.program != PROGRAM {
        return refusal(AcceptStat::ProgramUnavailable);
    }
    if call.version != VERSION {
        let range = VersionRange {
            low: VERSION,
            high: VERSION,
        };
        return refusal(AcceptStat::ProgramMismatch(range));
    }
    if call.procedure > 1 {
        return refusal(AcceptStat::ProcedureUnavailable);
    }
    if call.procedure == 1 && matches!(call.credentials, RpcCredentials::Unsupported { .. }) {
        let cause = RejectedReply::AuthError(AuthStat::RejectedCredentials);
        return Some(ReplyHeader::rejected(call.xid, cause));
    }
    None
}

fn encode_reply(header: &ReplyHeader, body: Option<&Rope>) -> Rope {
    let mut writer = Writer::new();
    writer.write(header);
    if let Some(body) = body {
        writer.rope(body);
    }
    writer.finish()
}
