//! From a configuration to a running server, and to its end.
//!
//! What must never enter: the work of the parts; this module only connects them.

mod answers;
mod drain;
mod full_disk;
mod housekeeping;
mod junctions;
mod names;
mod offers;
mod opening;
mod overview;
mod places;
mod pool;
mod process;
mod reload;
mod replication;
mod signals;
mod trees;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nfs4_server::{Identity, Namespace, NamespaceError, Service, ServiceOptions};
use tokio::sync::{Notify, watch};
use vfs::FileSystem;

use crate::configuration::{Configuration, ConfigurationError, TransportLimits};
use crate::data_directory::{DataDirectory, DataDirectoryError, MakeSpace, SealedFileError};
use crate::metrics::{EndpointError, OperationCounters};
use crate::page::PageError;
use crate::pools::PoolPlaceError;
use crate::set::{self, MembershipError};
use crate::status::{Status, StatusSocket};
use crate::transport::{self, ListenError, Listener, Transport};

use names::Names;
use opening::Opened;
use overview::Overview;
pub(crate) use pool::decode_as_anything;
use replication::refusal_to_listen;
pub use signals::Signals;
use trees::Tree;

/// How long running requests may take when the server stops.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long the other replicas may take to get missing data when the server stops.
const PARTING_PATIENCE: Duration = Duration::from_secs(10);
/// How long a stop waits for data to become stable. What is left loses nothing: the system, or a data server, has it, and the next start knows of it.
const SYNC_PATIENCE: Duration = Duration::from_secs(20);
/// How long a server that stops waits for the threads of its stores.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
/// How long abandoned work may take to end after everything was closed, and how often to check: only reference counts
/// show that no task uses a store any more.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(2);
const LEFTOVER_PAUSE: Duration = Duration::from_millis(10);

/// Identifies the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from, or `unknown`.
    pub commit: &'static str,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.commit)
    }
}

/// Reads the configuration again, command line included.
pub type Reread = Arc<dyn Fn() -> Result<Configuration, ConfigurationError> + Send + Sync>;

/// What a server knows about its program.
#[derive(Clone)]
pub struct Origin {
    /// The program.
    pub build: Build,
    /// How to read its configuration again.
    pub reread: Reread,
}

/// Why a server does not start, or why it has ended. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// An address cannot be listened at.
    #[error("cannot accept connections: {0}")]
    Listen(#[from] ListenError),
    /// The files of the server's set are unusable.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The server cannot listen for other replicas.
    #[error("{}", refusal_to_listen(.0, .1))]
    PeerListen(SocketAddr, io::Error),
    /// The replica cannot start.
    #[error(transparent)]
    Replica(#[from] replica::StartError),
    /// No export shows the tree that the set keeps.
    #[error(
        "this server belongs to a set, and no export shows the tree \"{0}\" that the set keeps; add an [[export]] with `tree = \"{0}\"`, or name another tree with `tree` in [replication]"
    )]
    ReplicatedTreeNotShown(String),
    /// An attempt to join a set or a pool was interrupted.
    #[error(
        "this server has begun to join a {kind} and has no answer, so it would serve a tree that no other server has. Give `meridian {kind} join TOKEN` again, with the same token; or remove {path} if it is to join none"
    )]
    JoinInterrupted {
        /// What it was to join: the word of the command.
        kind: &'static str,
        /// The file with the request.
        path: PathBuf,
    },
    /// The tree is a member's copy, but the files of the membership are missing.
    #[error(
        "the tree in {path} is the copy of replica {slot} of a set, or the store of metadata server {slot} of a pool, and the set's files (`set/set.json`), or the pool's (`pool`), are missing, so this server would take changes that no other server hears of. Put back the whole data directory from one backup; or replace the copy of a set with `meridian set rejoin`"
    )]
    SetMissing {
        /// The path of the tree.
        path: PathBuf,
        /// The member whose copy it is.
        slot: u16,
    },
    /// The server is a member whose copy of the tree is missing.
    #[error(
        "this server is a member of a set and had a copy of its tree, and {0} is missing: what it had promised the others went with it. Mount the disk that holds it, or put back the whole data directory from one backup; if it is lost, replace the copy with `meridian set rejoin`"
    )]
    TreeMissing(PathBuf),
    /// A tree that was created here is missing.
    #[error(
        "the tree \"{tree}\" was made here, and there is nothing of it in {path}: an empty one in its place would silently be less than was answered. Mount the disk that holds it, or restore a backup. If it was removed on purpose, or is lost, `meridian check --repair --accept-loss` gives it up, and the next start makes a new, empty one"
    )]
    TreeLost {
        /// Its name.
        tree: String,
        /// Its expected path.
        path: PathBuf,
    },
    /// There is a tree that does not belong to the set.
    #[error(
        "the tree \"{tree}\" in {path} is not this replica's copy of the set's tree; move it away, so that a new copy is made, or restore the `set` directory that belongs to it"
    )]
    OtherTree {
        /// Its name.
        tree: String,
        /// Where it is.
        path: PathBuf,
    },
    /// The data directory belongs to another member.
    #[error(
        "the file `member` in {path} says that the copy there is that of {theirs}, and the files in `set` make this server {own}; put back the whole data directory from one backup, or replace the copy with `meridian set rejoin`"
    )]
    OtherMember {
        /// Which data directory.
        path: PathBuf,
        /// The member that it belongs to.
        theirs: String,
        /// The identity of this server.
        own: String,
    },
    /// The files of the server's pool are unusable.
    #[error(transparent)]
    PoolPlace(#[from] PoolPlaceError),
    /// The server cannot listen for data servers.
    #[error(
        "cannot listen for data servers at {0}: {1}; `ss -ltnp 'sport = :{port}'` shows who else does. It is the port that `meridian pool create` was given",
        port = .0.port()
    )]
    PoolListen(SocketAddr, io::Error),
    /// The server's certificate in its pool cannot be used.
    #[error(transparent)]
    PoolIdentity(#[from] peer::IdentityError),
    /// The contents of a data server cannot be used.
    #[error(transparent)]
    Shelf(#[from] data_server::ShelfError),
    /// No export shows the tree with striped files.
    #[error(
        "this server is the metadata server of a pool, and no export shows the tree \"{0}\" whose files lie there; add an [[export]] with `tree = \"{0}\"`"
    )]
    PooledTreeNotShown(String),
    /// The book of groups of data servers cannot be used.
    #[error(
        "{0}; without it nobody can tell where files lie. Put the `pool` directory back from a backup"
    )]
    Book(SealedFileError),
    /// The stored state of the home cannot be loaded.
    #[error(
        "cannot take up what the metadata server has kept of its data servers: {0}; check the disk, or run `meridian check`"
    )]
    Home(vfs::Error),
    /// There are contents of a data server, but the files of its pool are missing.
    #[error(
        "{0} holds the contents of a data server, and the files of its pool (`pool`) are missing, so nobody can tell whose they are. Put back the whole data directory from one backup"
    )]
    PoolMissing(PathBuf),
    /// There is the store of a joined metadata server, but the files of its pool are missing.
    #[error(
        "{0} is the store of a metadata server that has joined a pool, and the files of the pool (`pool`) are missing: clients would be shown an empty tree. Put back the whole data directory from one backup; nothing that clients have written lies here"
    )]
    StoreOfPool(PathBuf),
    /// The store of a joined metadata server is missing.
    #[error(
        "this server is a metadata server of a pool, and its store in {0} is missing. Mount the disk that holds it, or put back the whole data directory from one backup; if it is lost, let a new metadata server join with an empty data directory"
    )]
    StoreMissing(PathBuf),
    /// The first metadata server of the pool does not answer a joined one that starts for the first time.
    #[error(
        "this metadata server starts for the first time, and the first one of its pool, at {addresses}, does not say which tree it is to show: {trouble}. See that it runs and can be reached there, and start again"
    )]
    HomeAway {
        /// Its addresses.
        addresses: String,
        /// The reason, if known.
        trouble: String,
    },
    /// The contents of a data server are missing.
    #[error(
        "this data server had contents, and there are none in {0}. Mount the disk that holds them, or put back the whole data directory from one backup; if they are lost, let a new data server join with an empty data directory"
    )]
    ContentsMissing(PathBuf),
    /// There are contents, but no record of their owner.
    #[error(
        "{0} holds contents (`shelf`) that no file `member` says to be those of this data server; put back the whole data directory from one backup"
    )]
    ContentsUnmarked(PathBuf),
    /// The contents belong to another data server.
    #[error(
        "the contents in {path} are those of {theirs}, and the files in `pool` make this server {own}; put back the whole data directory from one backup"
    )]
    OtherPool {
        /// The data directory.
        path: PathBuf,
        /// The owner of the contents.
        theirs: String,
        /// The identity of this server.
        own: String,
    },
    /// A metadata server has contents of a data server.
    #[error(
        "this server is the metadata server of its pool, and {0} holds the contents of a data server; move them away, or put back the `pool` directory that belongs to them"
    )]
    ContentsAtMetadataServer(PathBuf),
    /// A data server has trees.
    #[error(
        "this server is a data server of its pool, which shows no trees, and there are some in {0}; move them to the data directory of another server, or put back the `pool` directory that belongs to them"
    )]
    TreesAtDataServer(PathBuf),
    /// The server belongs to a set and a pool, but the pool does not store the contents of the member's copy.
    #[error(
        "{0} belongs to a set and to a pool, and only the first metadata server of a pool can be a member of a set, and only while no other one has joined; put back the whole data directory from one backup"
    )]
    SetAndPool(PathBuf),
    /// The pool of a member of a set is for a tree other than the set's.
    #[error(
        "this server keeps the tree \"{kept}\" with its set, and its pool is for the files of the tree \"{striped}\"; name that with `tree` in [replication], or move the directory `pool` away and make a pool anew"
    )]
    PoolOfOtherTree {
        /// The tree whose files the pool is for.
        striped: String,
        /// The tree that the set keeps.
        kept: String,
    },
    /// The metrics port cannot be used.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// The status page cannot be served.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A store cannot be opened.
    #[error("cannot open the tree \"{tree}\": {source}")]
    Tree {
        /// Its name.
        tree: String,
        /// The error.
        source: store::StoreError,
    },
    /// The exports conflict.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The status socket cannot be created.
    #[error("cannot make the status socket in the data directory: {0}; {remedy}", remedy = process::to_make_the_socket(.0))]
    StatusSocket(io::Error),
    /// The process's limit for file sizes is below the size of the server's own files.
    #[error(
        "this process may make files of at most {0} bytes, and the server's own have up to 128 MiB; raise the limit of file sizes (`LimitFSIZE` in the unit, `ulimit -f`), and start again"
    )]
    FileSizes(u64),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
    /// A store has failed while the server was running.
    #[error(
        "stable storage of the tree \"{0}\" has failed, so nothing more can be promised; see the log and `dmesg`, mend the disk or free space, run `meridian check`, and start again"
    )]
    StorageFailed(String),
    /// A second signal came before the shutdown was complete.
    #[error("stopped at once; what was not yet on stable storage is treated as after a crash")]
    Interrupted,
}

/// Why a server has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal came.
    Stopped,
    /// Its set continued without it, or its disk is full: the server must open everything again, as after a crash.
    StartAnew,
}

/// A server that accepts connections.
pub struct Server {
    overview: Arc<Overview>,
    /// Becomes true when no more connections are to be accepted.
    stop: watch::Sender<bool>,
    status_socket: StatusSocket,
    data: DataDirectory,
}

impl Server {
    /// Opens everything and starts serving.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub async fn start(configuration: Configuration, origin: Origin) -> Result<Server, ServeError> {
        process::settle_limits()?;
        let data = DataDirectory::open_or_create(&configuration.data)?;
        set::warn_of_exposures(data.path());
        // Ports are opened before stores: opening a large store may take time, and a taken port should be reported at
        // once. Clients that connect in the meantime wait.
        let listeners = configuration
            .listen
            .iter()
            .map(|address| Listener::bind(*address));
        let listeners = listeners.collect::<Result<Vec<Listener>, ListenError>>()?;
        let mut pool = pool::Prepared::read(&data, &configuration)?;
        let incarnation = data.next_incarnation()?;
        if let Some(pool) = &mut pool {
            pool.call(incarnation, configuration.limits.lease)?;
        }
        let this_start = (incarnation, origin.build);
        let opened = opening::open((&data, &configuration), pool, this_start).await?;
        let Opened {
            trees,
            membership,
            pool,
        } = opened;
        let operations = Arc::new(OperationCounters::default());
        let names = Names::new(data.identity(), membership.as_ref());
        let identity = names.as_identity(incarnation, pool.as_ref());
        let options = service_options(
            &data,
            identity.map_err(DataDirectoryError::Random)?,
            &configuration,
            operations.clone(),
            full_disk::beside_stores(&data, &trees),
        )?;
        let service = match &pool {
            Some(pool::Role::Data(server)) => Service::of_data_server(server.as_served(), options),
            _ => Service::new(namespace(&configuration, &trees)?, options),
        };
        let record_bytes = configuration.record_bytes();
        let limits = TransportLimits {
            connections: process::affordable_connections(configuration.transport.connections),
            ..configuration.transport
        };
        let overview = Arc::new(Overview {
            transport: Transport::new(service.clone(), limits, record_bytes),
            service,
            trees,
            pool,
            operations,
            origin,
            running: tokio::sync::Mutex::new(configuration.clone()),
            data: data.path().to_owned(),
            names,
            incarnation,
            domain: configuration.domain.clone(),
            commit: configuration.commit,
            listen: listeners.iter().map(|listener| listener.address).collect(),
            started: Instant::now(),
            metrics: OnceLock::new(),
            page: OnceLock::new(),
            history: Mutex::default(),
            draining: Notify::new(),
        });
        if let Some(pool::Role::Data(server)) = &overview.pool {
            server.serve_by(&overview.transport);
        }
        let (stop, stopping) = watch::channel(false);
        offers::begin(&configuration, &overview, &stopping).await?;
        tokio::spawn(places::keep(overview.clone(), stopping.clone()));
        let answering = overview.clone().into_answering();
        let socket =
            StatusSocket::open(data.path(), answering).map_err(ServeError::StatusSocket)?;
        // More clients may have connected in the meantime than there are descriptors: the server's own descriptors come first.
        for listener in listeners {
            let accepting =
                transport::accept(listener, overview.transport.clone(), stopping.clone());
            tokio::spawn(accepting);
        }
        Ok(Server {
            overview,
            stop,
            status_socket: socket,
            data,
        })
    }

    /// The current state of the server.
    pub async fn status(&self) -> Status {
        self.overview.status().await
    }

    /// Serves until a signal comes, then shuts everything down.
    ///
    /// # Errors
    /// [`ServeError::StorageFailed`] when a store fails in the meantime, [`ServeError::Interrupted`] when a second
    /// signal comes.
    pub async fn run(self, signals: Signals) -> Result<Ending, ServeError> {
        let Signals {
            stop: mut signals,
            hangup,
            ..
        } = signals;
        reload::at_hangup(&self.overview, hangup);
        process::tell_ready();
        let ended = tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "stopping: requests under way are finished first");
                process::tell_stopping();
                Ok(Ending::Stopped)
            }
            why = self.left_behind() => {
                tracing::warn!(why, "this replica cannot go on as it is; it starts anew");
                Ok(Ending::StartAnew)
            }
            end = housekeeping::keep(&self.overview) => {
                if end.is_err() {
                    process::tell_stopping();
                }
                end
            }
            () = self.overview.drained() => {
                tracing::info!("stopping: clients were sent to other servers");
                process::tell_stopping();
                Ok(Ending::Stopped)
            }
        };
        let patient = !matches!(ended, Ok(Ending::StartAnew));
        tokio::select! {
            () = self.put_away(patient) => {}
            _ = signals.next() => return Err(ServeError::Interrupted),
        }
        let Server {
            overview,
            data,
            status_socket,
            ..
        } = self;
        drop(status_socket);
        if matches!(ended, Ok(Ending::StartAnew)) {
            // Operations that wait for an event that will never happen keep the stores open until the process is replaced.
            return ended;
        }
        let stores = overview.trees.iter();
        let stores: Vec<_> = stores.map(|tree| Arc::downgrade(&tree.store)).collect();
        // Closing a store waits for its threads.
        let closing = tokio::task::spawn_blocking(move || drop(overview));
        match tokio::time::timeout(CLOSE_PATIENCE, closing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a store was not closed in order"),
            // What is not stable is treated as after a crash.
            Err(_) => tracing::warn!(
                "a store is not closed: its threads wait for a data server, or for a slow disk"
            ),
        }
        // Abandoned work keeps them open for a moment.
        let begun = Instant::now();
        while stores.iter().any(|store| store.strong_count() > 0)
            && begun.elapsed() < LEFTOVER_PATIENCE
        {
            tokio::time::sleep(LEFTOVER_PAUSE).await;
        }
        tracing::info!(data = %data.path().display(), "stopped");
        ended
    }

    /// Waits until a replica cannot continue, and returns the reason.
    async fn left_behind(&self) -> String {
        let mut replicas = self
            .overview
            .trees
            .iter()
            .filter_map(|tree| tree.replica.as_ref());
        let Some(replica) = replicas.next() else {
            return std::future::pending().await;
        };
        let mut left = replica.has_left();
        let why = left.wait_for(Option::is_some).await;
        // The sender lives in the replica.
        why.map(|why| why.clone().unwrap_or_default())
            .unwrap_or_default()
    }

    /// Shuts everything down in order. With `patient` false it does not wait for clients and replicas, which wait for
    /// something that will not happen in this incarnation.
    async fn put_away(&self, patient: bool) {
        self.stop.send_replace(true);
        let patience = if patient {
            DRAIN_PATIENCE
        } else {
            Duration::ZERO
        };
        self.overview.transport.drain(patience).await;
        for tree in &self.overview.trees {
            let Some(replica) = tree.replica.as_ref().filter(|_| patient) else {
                continue;
            };
            if !replica.stop(PARTING_PATIENCE).await {
                tracing::info!(tree = %tree.name, "other replicas lack something; they get it after the next start");
            }
        }
        for Tree { name, store, .. } in &self.overview.trees {
            match tokio::time::timeout(SYNC_PATIENCE, store.sync()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(tree = %name, %error, "cannot put everything on stable storage");
                }
                // One file after the other would wait for it.
                Err(_) => {
                    tracing::warn!(tree = %name, "not everything is on stable storage: a data server does not answer, or a disk is slow");
                }
            }
        }
        // Last, because data servers serve only under its leases.
        if let Some(pool) = &self.overview.pool {
            pool.put_away().await;
        }
    }
}

/// The name space that clients see.
fn namespace(configuration: &Configuration, trees: &[Tree]) -> Result<Namespace, ServeError> {
    let exports = trees.iter().filter_map(Tree::export).collect();
    Ok(match &configuration.domain {
        Some(domain) => Namespace::in_domain(exports, domain.as_str())?,
        None => Namespace::new(exports)?,
    })
}

fn service_options(
    data: &DataDirectory,
    identity: Identity,
    configuration: &Configuration,
    operations: Arc<OperationCounters>,
    make_space: MakeSpace,
) -> Result<ServiceOptions, ServeError> {
    let records = data.client_records(make_space)?;
    Ok(ServiceOptions {
        identity,
        limits: configuration.limits.clone(),
        may_reclaim: records.all(),
        records: Arc::new(records),
        observer: operations,
        clock: Instant::now,
    })
}
