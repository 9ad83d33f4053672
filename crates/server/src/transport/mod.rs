//! TCP connections: bytes in, records to the NFS service, replies out.
//!
//! The resources of a connection are bounded: by the largest record, by the number of its running requests, and by the
//! number of connections. Their total is bounded too. When no memory is left, requests wait. If that lasts, connections
//! are closed that hold much memory and transfer little.
//!
//! What must never enter: the content of calls and replies, beyond what distinguishes them.

mod buffers;
mod connection;
mod listener;
mod outbox;
mod pending_calls;
mod places;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nfs4_server::{ConnectionId, Service};
use throttle::Throttle;
use tokio::sync::watch;

use crate::configuration::TransportLimits;

use buffers::{Buffers, Pool, Space};
use connection::TcpConnection;
pub use listener::{ListenError, try_to_listen};
pub(crate) use listener::{Listener, accept};
use places::Places;

/// [`crate::decode_as_anything`] for received records.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    connection::decode_as_anything(bytes);
}

/// The maximum number of connections that are closed at once when descriptors or memory are lacking.
const RELIEF: usize = 16;

/// After this time without a lack of descriptors, the normal number of connections without a session is allowed again.
const RECOVERY: Duration = Duration::from_secs(60);
/// How long requests wait for memory before a connection is closed.
const MEMORY_PATIENCE: Duration = Duration::from_secs(1);
/// A connection that needs longer than this to transfer the memory that it holds, at the rate of the last second, may
/// be closed.
const SECONDS_TO_MOVE: u64 = 60;

/// Logs a lack of memory once, and later with a count.
static LACK: Throttle = Throttle::new();
const MEMORY: throttle::Subject = ("connections are closed for want of memory", 0);

/// The shared state of all connections.
pub(crate) struct Transport {
    service: Arc<Service>,
    limits: TransportLimits,
    /// The largest record accepted, in bytes.
    record_bytes: usize,
    open: Mutex<Open>,
    /// The number of connections in `open`, to wait until they end.
    open_count: watch::Sender<usize>,
    next_id: AtomicU64,
    buffers: Buffers,
    /// When memory use was last checked, in milliseconds since the start.
    looked: Mutex<u64>,
    traffic: Arc<Traffic>,
    started: Instant,
}

/// The connections that are not closed yet, and those of them that have a place: the others are being closed.
struct Open {
    connections: HashMap<ConnectionId, Arc<TcpConnection>>,
    places: Places,
    /// The last lack of descriptors, while it still matters.
    relieved: Option<Instant>,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Connections accepted.
    pub(crate) accepted: AtomicU64,
    /// Connections closed to make room for others.
    pub(crate) refused: AtomicU64,
    /// Bytes received, record marks included.
    pub(crate) received_bytes: AtomicU64,
    /// Bytes sent, record marks included.
    pub(crate) sent_bytes: AtomicU64,
}

impl Transport {
    /// Ready to serve connections.
    pub(crate) fn new(
        service: Arc<Service>,
        limits: TransportLimits,
        record_bytes: usize,
    ) -> Arc<Transport> {
        Arc::new(Transport {
            service,
            limits,
            record_bytes,
            open: Mutex::new(Open {
                connections: HashMap::new(),
                places: Places::new(limits.connections),
                relieved: None,
            }),
            open_count: watch::Sender::new(0),
            next_id: AtomicU64::new(1),
            buffers: Buffers::new(limits.buffer_bytes),
            looked: Mutex::new(0),
            traffic: Arc::default(),
            started: Instant::now(),
        })
    }

    /// The counters of the traffic so far.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The memory for requests and replies in transit, in bytes.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffers.used_bytes()
    }

    /// Connections open now.
    pub(crate) fn connections(&self) -> usize {
        *self.open_count.borrow()
    }

    /// Lets every connection finish its running requests and closes it. After `patience` it closes those that have not
    /// finished. Accepting must have ended.
    pub(crate) async fn drain(&self, patience: Duration) {
        for connection in self.open().connections.values() {
            connection.stop_reading();
        }
        let mut count = self.open_count.subscribe();
        if tokio::time::timeout(patience, count.wait_for(|open| *open == 0))
            .await
            .is_ok()
        {
            return;
        }
        let left: Vec<Arc<TcpConnection>> = self.open().connections.values().cloned().collect();
        tracing::warn!(
            connections = left.len(),
            "closing connections with unfinished requests"
        );
        left.iter().for_each(|connection| connection.cut());
    }

    /// Closes every connection at once, and discards unread data.
    pub(crate) fn cut_all(&self) {
        let all: Vec<Arc<TcpConnection>> = self.open().connections.values().cloned().collect();
        all.iter().for_each(|connection| connection.cut());
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_id(&self) -> ConnectionId {
        ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers a connection with the service and for [`Transport::drain`]. Returns the connection that is closed to make room.
    fn register(
        self: &Arc<Transport>,
        connection: Arc<TcpConnection>,
    ) -> (Registration, Option<Arc<TcpConnection>>) {
        let (id, address) = (connection.id, connection.address());
        self.service.connection_opened(connection.clone());
        let (count, victim) = {
            let mut open = self.open();
            if open.relieved.is_some_and(|at| at.elapsed() > RECOVERY) {
                open.relieved = None;
                open.places.recover();
            }
            open.connections.insert(id, connection);
            let Open {
                connections,
                places,
                ..
            } = &mut *open;
            let victim = places.enter(id, address, last_use(connections));
            (connections.len(), open.close(victim))
        };
        self.count_closed(victim.as_ref());
        self.open_count.send_replace(count);
        let registration = Registration {
            transport: self.clone(),
            id,
        };
        (registration, victim)
    }

    /// Descriptors are lacking: closes some connections without a session, so that the rest of the server has
    /// descriptors, and allows only few of them for a while. Returns the number of closed connections.
    fn relieve(&self) -> u64 {
        let mut open = self.open();
        open.relieved = Some(Instant::now());
        let victims = open.places.relieve(RELIEF);
        let closed = victims
            .iter()
            .filter_map(|victim| open.close(Some(*victim)));
        let closed = closed.count() as u64;
        self.traffic.refused.fetch_add(closed, Ordering::Relaxed);
        closed
    }

    /// Memory for this number of bytes of a request or reply, as soon as it is available.
    async fn space(&self, pool: &Pool, bytes: usize) -> Option<Space> {
        if let Some(space) = pool.try_take(bytes) {
            return Some(space);
        }
        let mut space = pin!(pool.take(bytes));
        loop {
            match tokio::time::timeout(MEMORY_PATIENCE, &mut space).await {
                Ok(space) => return space,
                Err(_) => self.relieve_memory(),
            }
        }
    }

    /// Memory has been lacking for some time: closes connections that hold most of it and transfer little.
    fn relieve_memory(&self) {
        let patience = MEMORY_PATIENCE.as_millis() as u64;
        let now = self.now();
        let since = {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_sub(*looked) < patience {
                return;
            }
            now.saturating_sub(std::mem::replace(&mut *looked, now))
        };
        let mut open = self.open();
        let mut stuck: Vec<_> = open
            .connections
            .values()
            .map(|connection| {
                (
                    connection.kept_bytes(),
                    connection.moved_since_last_look(),
                    connection.id,
                )
            })
            .filter(|(kept, moved, _)| *kept > 0 && *moved < kept / SECONDS_TO_MOVE)
            .map(|(kept, _, id)| (kept, id))
            .collect();
        // A longer time says nothing about the last second.
        if since > 2 * patience {
            return;
        }
        stuck.sort_unstable();
        let victims: Vec<_> = stuck.iter().rev().take(RELIEF).map(|(_, id)| *id).collect();
        for id in &victims {
            open.places.leave(*id);
            open.close(Some(*id));
        }
        drop(open);
        let closed = victims.len() as u64;
        self.traffic.refused.fetch_add(closed, Ordering::Relaxed);
        if closed > 0
            && let Some(sum) = LACK.failed(MEMORY, Instant::now())
        {
            let remedy = "raise `memory` in [limits], or find out what keeps these clients from taking their replies";
            tracing::warn!(closed, %sum, remedy, "memory for requests and replies is used up: connections that hardly move are closed");
        }
    }

    fn count_closed(&self, victim: Option<&Arc<TcpConnection>>) {
        let closed = u64::from(victim.is_some());
        self.traffic.refused.fetch_add(closed, Ordering::Relaxed);
    }

    /// A session has been used over a connection.
    fn establish(&self, id: ConnectionId) {
        self.open().places.establish(id);
    }

    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Open {
    /// Closes the connection that has to go. Its running requests are completed.
    fn close(&self, victim: Option<ConnectionId>) -> Option<Arc<TcpConnection>> {
        let connection = self.connections.get(&victim?)?.clone();
        connection.cut();
        Some(connection)
    }
}

fn last_use(
    connections: &HashMap<ConnectionId, Arc<TcpConnection>>,
) -> impl Fn(ConnectionId) -> u64 {
    move |id| {
        connections
            .get(&id)
            .map_or(0, |connection| connection.last_use())
    }
}

/// Keeps a connection registered while it exists.
struct Registration {
    transport: Arc<Transport>,
    id: ConnectionId,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.transport.service.connection_closed(self.id);
        let open = {
            let mut open = self.transport.open();
            open.connections.remove(&self.id);
            open.places.leave(self.id);
            open.connections.len()
        };
        self.transport.open_count.send_replace(open);
    }
}
