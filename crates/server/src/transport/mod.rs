//! TCP connections: bytes in, records to the NFS service, replies out.
//!
//! What a connection can make the server hold is bounded: by the largest record, by the number of its
//! requests that are under way, and by the number of connections.
//!
//! What must never enter: the content of calls and replies, beyond what tells one from the other.

mod connection;
mod listener;
mod outbox;
mod pending_calls;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nfs4_server::{ConnectionId, Service};
use tokio::sync::watch;

use crate::configuration::TransportLimits;

use connection::TcpConnection;
pub use listener::ListenError;
pub(crate) use listener::{Listener, accept};

/// What all connections share.
pub(crate) struct Transport {
    service: Arc<Service>,
    limits: TransportLimits,
    /// The largest record accepted, in bytes.
    record_bytes: usize,
    open: Mutex<HashMap<ConnectionId, Arc<TcpConnection>>>,
    /// How many there are in `open`, for those who wait for them to end.
    open_count: watch::Sender<usize>,
    next_id: AtomicU64,
    traffic: Arc<Traffic>,
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Connections accepted.
    pub(crate) accepted: AtomicU64,
    /// Connections closed at once because there were too many.
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
            open: Mutex::default(),
            open_count: watch::Sender::new(0),
            next_id: AtomicU64::new(1),
            traffic: Arc::default(),
        })
    }

    /// What went through so far.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Connections open now.
    pub(crate) fn connections(&self) -> usize {
        *self.open_count.borrow()
    }

    /// Lets every connection finish what it has begun and closes it; cuts off after `patience`
    /// those that do not finish. Accepting must have ended.
    pub(crate) async fn drain(&self, patience: Duration) {
        for connection in self.open().values() {
            connection.stop_reading();
        }
        let mut count = self.open_count.subscribe();
        if tokio::time::timeout(patience, count.wait_for(|open| *open == 0))
            .await
            .is_ok()
        {
            return;
        }
        let left: Vec<Arc<TcpConnection>> = self.open().values().cloned().collect();
        tracing::warn!(
            connections = left.len(),
            "closing connections with unfinished requests"
        );
        left.iter().for_each(|connection| connection.cut());
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ConnectionId, Arc<TcpConnection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_id(&self) -> ConnectionId {
        ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a connection known to the service and to [`Transport::drain`].
    fn register(self: &Arc<Transport>, connection: Arc<TcpConnection>) -> Registration {
        let id = connection.id;
        self.service.connection_opened(connection.clone());
        let open = {
            let mut open = self.open();
            open.insert(id, connection);
            open.len()
        };
        self.open_count.send_replace(open);
        Registration {
            transport: self.clone(),
            id,
        }
    }
}

/// Keeps a connection known while it lives.
struct Registration {
    transport: Arc<Transport>,
    id: ConnectionId,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.transport.service.connection_closed(self.id);
        let open = {
            let mut open = self.transport.open();
            open.remove(&self.id);
            open.len()
        };
        self.transport.open_count.send_replace(open);
    }
}
