//! The messages that wait to be sent over one connection.
//!
//! There is no writing task. A task that has a message while no other task is sending sends for all tasks, until
//! nothing is left. So a single reply is sent without waking another task, and concurrent replies share one vectored
//! write.
//!
//! What must never enter: the meaning of the messages.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Buf;
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::OwnedSemaphorePermit;
use xdr::Rope;

use super::Traffic;
use super::buffers::Space;

/// A client that reads no byte for this time while replies wait for it is disconnected.
const STALL_MAX: Duration = Duration::from_secs(60);
/// The maximum number of buffers in one vectored write.
const SLICES_MAX: usize = 64;

/// The resources that a message holds until it is sent.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its place among the requests of its connection.
    pub(super) _place: OwnedSemaphorePermit,
    /// Its memory.
    pub(super) space: Space,
}

#[derive(Debug)]
struct Outgoing {
    message: Rope,
    _kept: Option<Kept>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Outgoing>,
    /// A task is sending, and will also send what is added now.
    sending: bool,
    /// Nothing can be sent any more.
    closed: bool,
}

/// The sending side of a connection.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: OwnedWriteHalf,
    queue: Mutex<Queue>,
    traffic: Arc<Traffic>,
    /// Bytes that wait to be sent.
    waiting_bytes: AtomicU64,
    /// Bytes sent so far.
    sent_bytes: AtomicU64,
}

impl Outbox {
    pub(super) fn new(socket: OwnedWriteHalf, traffic: Arc<Traffic>) -> Outbox {
        Outbox {
            socket,
            queue: Mutex::default(),
            traffic,
            waiting_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes that wait to be sent; 0 for a closed connection.
    pub(super) fn waiting_bytes(&self) -> u64 {
        match self.is_closed() {
            true => 0,
            false => self.waiting_bytes.load(Ordering::Relaxed),
        }
    }

    /// Bytes sent so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Sends a framed message after those that already wait. Returns when another task is going to send it, or when
    /// everything is sent. The message holds its resources until it is sent.
    ///
    /// The future must not be dropped before its end: the connection would be closed, because it is unknown how much of
    /// a message was sent.
    pub(super) async fn send(&self, message: Rope, kept: Option<Kept>) {
        {
            let mut queue = self.queue();
            if queue.closed {
                return;
            }
            let bytes = message.len() as u64;
            self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            queue.waiting.push_back(Outgoing {
                message,
                _kept: kept,
            });
            if queue.sending {
                return;
            }
            queue.sending = true;
        }
        let sending = Sending { outbox: self };
        match self.send_waiting().await {
            Ok(()) => std::mem::forget(sending),
            Err(error) => {
                tracing::debug!(%error, "cannot send");
                drop(sending);
            }
        }
    }

    /// Ends both directions at once; messages that wait are dropped.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        // An error means that the other side closed first.
        let _ = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Both);
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_closed(&self) -> bool {
        self.queue().closed
    }

    /// Reads nothing more from the other side, which still gets its replies.
    pub(super) fn stop_reading(&self) {
        // An error means that the other side closed first.
        let _ = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Read);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send_waiting(&self) -> io::Result<()> {
        loop {
            let batch = {
                let mut queue = self.queue();
                if queue.waiting.is_empty() {
                    queue.sending = false;
                    return Ok(());
                }
                std::mem::take(&mut queue.waiting)
            };
            self.send_batch(batch).await?;
        }
    }

    async fn send_batch(&self, mut batch: VecDeque<Outgoing>) -> io::Result<()> {
        while !batch.is_empty() {
            match self.write_some(&batch) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let bytes = count as u64;
                    self.traffic.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    consume(&mut batch, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let writable = tokio::time::timeout(STALL_MAX, self.socket.writable());
                    writable
                        .await
                        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_some(&self, batch: &VecDeque<Outgoing>) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut filled = 0;
        for outgoing in batch {
            filled += outgoing.message.chunks_vectored(&mut slices[filled..]);
            if filled == SLICES_MAX {
                break;
            }
        }
        self.socket.try_write_vectored(&slices[..filled])
    }
}

/// Removes the first `count` bytes, and messages that are sent completely.
fn consume(batch: &mut VecDeque<Outgoing>, mut count: usize) {
    while let Some(first) = batch.front_mut() {
        let sent = count.min(first.message.len());
        first.message.advance(sent);
        count -= sent;
        if !first.message.is_empty() {
            return;
        }
        batch.pop_front();
    }
}

/// The right to send. Losing it before all is sent leaves a partial message, which closes the connection.
struct Sending<'o> {
    outbox: &'o Outbox,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.outbox.close();
    }
}
