//! All running parts of a server, for programs that ask for its status.
//!
//! What must never enter: changes to these parts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use nfs4_server::Service;
use replica::Replica;
use store::CommitMode;
use tokio::sync::Notify;
use vfs::{Counted, FileSystem};

use super::Origin;
use super::names::Names;
use super::pool::Role;
use super::trees::Tree;
use crate::configuration::Configuration;
use crate::health;
use crate::metrics::{OperationCounters, Page, exposition};
use crate::page::{Facts, History, Sample, Source};
use crate::status::{
    Alarm, ExportStatus, ReplicaStatus, SpaceStatus, Status, TrafficStatus, alarms, of_pool,
};
use crate::transport::{Traffic, Transport};

/// All running parts.
pub(super) struct Overview {
    pub(super) service: Arc<Service>,
    pub(super) transport: Arc<Transport>,
    pub(super) trees: Vec<Tree>,
    /// The server's role in its pool, if it belongs to one.
    pub(super) pool: Option<Role>,
    pub(super) operations: Arc<OperationCounters>,
    pub(super) origin: Origin,
    /// The configuration in force. Locked while another one is read.
    pub(super) running: tokio::sync::Mutex<Configuration>,
    pub(super) data: PathBuf,
    pub(super) names: Names,
    pub(super) incarnation: u32,
    /// The domain whose root is exported.
    pub(super) domain: Option<::names::Domain>,
    pub(super) commit: CommitMode,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) started: Instant,
    /// Set last, because the metrics are created from this value.
    pub(super) metrics: OnceLock<SocketAddr>,
    /// The same for the status page.
    pub(super) page: OnceLock<SocketAddr>,
    /// The data for the charts of the page.
    pub(super) history: Mutex<History>,
    /// Notified when a drain of clients begins.
    pub(super) draining: Notify,
}

impl Overview {
    /// The current state of everything.
    pub(super) async fn status(&self) -> Status {
        let counts = self.service.counts();
        let mut exports = Vec::new();
        for tree in &self.trees {
            exports.push(export_status(tree).await);
        }
        let pool = match &self.pool {
            Some(pool) => Some(pool.status().await),
            None => None,
        };
        let mut alarms: Vec<Alarm> = exports.iter().flat_map(alarms).collect();
        alarms.extend(pool.iter().flat_map(of_pool));
        Status {
            version: self.origin.build.version.to_owned(),
            build: self.origin.build.commit.to_owned(),
            process: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            data: self.data.clone(),
            replica: self.names.replica.clone(),
            set: self.names.set.clone(),
            incarnation: self.incarnation,
            listen: self.listen.clone(),
            metrics: self.metrics.get().copied(),
            page: self.page.get().copied(),
            commit: match self.commit {
                CommitMode::Sync => "sync".to_owned(),
                CommitMode::Async => "async".to_owned(),
            },
            in_grace: self.service.in_grace(),
            connections: self.transport.connections() as u64,
            clients: counts.clients as u64,
            sessions: counts.sessions as u64,
            opens: counts.opens as u64,
            locks: counts.locks as u64,
            reply_bytes: counts.memory.replies,
            state_bytes: counts.memory.states,
            buffer_bytes: self.transport.buffer_bytes(),
            memory_bytes: self.service.memory_limit(),
            operations: self.operations.total(),
            traffic: traffic_status(self.transport.traffic()),
            exports,
            pool,
            alarms,
        }
    }

    /// One line for the service manager.
    pub(super) fn summary(&self) -> String {
        let counts = self.service.counts();
        let shown = self.trees.iter().filter(|tree| !tree.is_withheld());
        let paths: Vec<String> = shown.map(|tree| tree.path.to_string()).collect();
        if let Some(Role::Data(_)) = &self.pool {
            return format!(
                "serving contents: {}",
                Counted(counts.clients as u64, "client")
            );
        }
        let grace = if self.service.in_grace() {
            "; grace period"
        } else {
            ""
        };
        let clients = Counted(counts.clients as u64, "client");
        let (paths, opens) = (paths.join(", "), Counted(counts.opens as u64, "open"));
        format!("serving {paths}: {clients}, {opens}{grace}")
    }

    /// The first tree whose storage has failed.
    pub(super) fn failed_tree(&self) -> Option<&Tree> {
        self.trees
            .iter()
            .find(|tree| tree.store.statistics().failed)
    }

    /// Pages for Prometheus.
    pub(super) fn into_page(self: Arc<Overview>) -> Page {
        Arc::new(move || {
            let overview = self.clone();
            Box::pin(async move {
                let status = overview.status().await;
                exposition(overview.operations.clone(), status)
            })
        })
    }
}

/// For monitoring programs and people.
impl Overview {
    /// The current health for each request; `None` after the server has stopped.
    pub(super) fn as_health(self: &Arc<Overview>) -> health::Asked {
        let overview = Arc::downgrade(self);
        Arc::new(move || {
            let overview = overview.upgrade();
            Box::pin(async move { Some(overview?.status().await) })
        })
    }

    /// Adds the current values of the counters to the history.
    pub(super) fn remember(&self, now: Instant) {
        let replicas = self.trees.iter().filter_map(|tree| tree.replica.as_ref());
        let (reads, changes) = self.operations.times();
        let mut sample = Sample {
            operations: self.operations.total(),
            reads,
            changes,
            ..Sample::default()
        };
        for (sent, received) in replicas.map(|replica| replica.wire_bytes()) {
            sample.sent_bytes += sent;
            sample.received_bytes += received;
        }
        self.history().add(now, sample);
    }

    /// The content of the page for each request; `None` after the server has stopped. A slow browser keeps no store
    /// open.
    pub(super) fn as_source(self: &Arc<Overview>) -> Source {
        let overview = Arc::downgrade(self);
        Arc::new(move || {
            let overview = overview.upgrade();
            Box::pin(async move { Some(overview?.facts().await) })
        })
    }

    async fn facts(&self) -> Facts {
        let host = rustix::system::uname();
        Facts {
            host: host.nodename().to_string_lossy().into_owned(),
            status: self.status().await,
            own_addresses: self.names.addresses.clone(),
            // A server without a set has no frozen objects.
            frozen: self.frozen().await.unwrap_or_default(),
            clients: self.clients(),
            rates: self.history().rates(Instant::now()),
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // If another task panicked while it held the lock, at most one sample is affected.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn export_status(tree: &Tree) -> ExportStatus {
    let fs_id = tree.store.properties().fs_id;
    let space = tree.store.space().await.inspect_err(|error| {
        tracing::warn!(tree = %tree.name, %error, "cannot tell how much space there is");
    });
    let space = space.map_or(SpaceStatus::default(), |space| SpaceStatus {
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
        available_bytes: space.available_bytes,
        tree_bytes: None,
    });
    let space = match space.is_nearly_full() {
        true => with_tree(tree, space).await,
        false => space,
    };
    ExportStatus {
        path: tree.path.to_string(),
        tree: tree.name.clone(),
        fs_id: format!("{:016x}:{:016x}", fs_id.major, fs_id.minor),
        space,
        store: tree.store.statistics(),
        replication: match &tree.replica {
            Some(replica) => replica_status(replica).await,
            None => None,
        },
    }
}

/// The status of a replica. Names and paths are read from its store, and clients must not wait for that.
async fn replica_status(replica: &Arc<Replica>) -> Option<ReplicaStatus> {
    let replica = replica.clone();
    let asked = tokio::task::spawn_blocking(move || replica.status());
    asked.await.ok()
}

/// Adds the size of the tree, for an administrator who has to free space.
async fn with_tree(tree: &Tree, space: SpaceStatus) -> SpaceStatus {
    let store = tree.store.clone();
    let counted = tokio::task::spawn_blocking(move || store.occupied_bytes()).await;
    SpaceStatus {
        tree_bytes: counted.ok().and_then(Result::ok),
        ..space
    }
}

fn traffic_status(traffic: &Traffic) -> TrafficStatus {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    TrafficStatus {
        accepted: count(&traffic.accepted),
        refused: count(&traffic.refused),
        received_bytes: count(&traffic.received_bytes),
        sent_bytes: count(&traffic.sent_bytes),
    }
}
