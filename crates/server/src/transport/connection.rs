//! One connection: splits the stream into records, passes calls to the service and answers to their callers.
//!
//! A received request is executed completely even if the connection breaks meanwhile: the session's reply cache must
//! have its result when the client sends it again over another connection (RFC 8881, section 2.10.6.2).
//!
//! What must never enter: any part of a call after its first two words.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nfs4_server::{CallbackError, Connection, ConnectionId, Service, largest_reply};
use oncrpc::{CallHeader, Credentials, Message, OpaqueAuth, RecordError, RecordSplitter};
use throttle::Throttle;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;
use xdr::{Bytes, Reader, Rope, Writer};

use super::buffers::Space;
use super::outbox::{Kept, Outbox};
use super::pending_calls::PendingCalls;
use super::{Registration, Transport};

/// How long a client may take to answer a call.
const CALLBACK_PATIENCE: Duration = Duration::from_secs(10);
/// A request counts once for each unit of this size, so that fewer large ones run concurrently.
const COUNTED_PIECE_BYTES: usize = 128 << 10;
/// A request that runs longer than this waits for another server, perhaps for a minute, and must not delay others: its
/// memory is not counted any more. The number of requests of a connection stays bounded.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// A partly received record up to this size needs no memory beyond that of the connection.
const SMALL_RECORD_BYTES: usize = 64 << 10;
/// The version of callback programs (RFC 8881, section 20).
const CALLBACK_VERSION: u32 = 1;
/// Logs the end of connections because of their input once, and later with a count: any host can cause such ends.
static ENDS: Throttle = Throttle::new();
const ENDED: throttle::Subject = ("connections are closed for what came over them", 0);
/// The second word of a reply (RFC 5531, section 9, `msg_type`).
const REPLY: u32 = 1;

/// A client's connection.
pub(super) struct TcpConnection {
    pub(super) id: ConnectionId,
    peer: SocketAddr,
    outbox: Arc<Outbox>,
    calls: PendingCalls,
    /// The transport that manages its place.
    transport: Weak<Transport>,
    /// The last use by a session, in milliseconds since the start and at least 1; 0 for never.
    last_use: AtomicU64,
    /// Bytes received so far.
    received_bytes: AtomicU64,
    /// Memory reserved for a large record that is not complete, in bytes.
    receiving_bytes: AtomicU64,
    /// Bytes received and sent up to the last check.
    moved_bytes: AtomicU64,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed it")]
    Closed,
    #[error("the stream ended inside a record")]
    Cut,
    #[error("{0}")]
    Broken(#[from] std::io::Error),
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error("a record is too short to be a call or a reply")]
    NoMessage,
}

/// Serves a connection until it ends.
pub(super) async fn run(
    input: OwnedReadHalf,
    connection: Arc<TcpConnection>,
    registration: Registration,
) {
    let (peer, transport) = (connection.peer, registration.transport.clone());
    let in_flight = transport.limits.requests_per_connection;
    let requests = Requests {
        service: transport.service.clone(),
        connection: connection.clone(),
        space: Arc::new(Semaphore::new(in_flight)),
        in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
    };
    let end = requests.read_all(input, &transport).await;
    match &end {
        End::Closed => tracing::debug!(%peer, "connection closed"),
        End::Broken(error) => tracing::debug!(%peer, %error, "connection broken"),
        // The reason was logged when the outbox closed.
        _ if connection.outbox.is_closed() => {}
        end => tell_of_end(peer, end),
    }
    connection.calls.close();
    if !matches!(end, End::Closed | End::Cut) {
        connection.outbox.close();
    }
    requests.finish().await;
}

fn tell_of_end(peer: SocketAddr, reason: &dyn std::fmt::Display) {
    if let Some(sum) = ENDS.failed(ENDED, Instant::now()) {
        tracing::warn!(%peer, %reason, %sum, "closing a connection");
    }
}

impl TcpConnection {
    /// A connection that sends through this half of a stream.
    pub(super) fn new(
        output: OwnedWriteHalf,
        peer: SocketAddr,
        transport: &Arc<Transport>,
    ) -> Arc<TcpConnection> {
        Arc::new(TcpConnection {
            id: transport.new_id(),
            peer,
            outbox: Arc::new(Outbox::new(output, transport.traffic.clone())),
            calls: PendingCalls::default(),
            transport: Arc::downgrade(transport),
            last_use: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            receiving_bytes: AtomicU64::new(0),
            moved_bytes: AtomicU64::new(0),
        })
    }

    pub(super) fn address(&self) -> IpAddr {
        self.peer.ip()
    }

    /// The last use by a session, in milliseconds since the start; 0 for never.
    pub(super) fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// The memory that it keeps and that its client could free, in bytes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.receiving_bytes.load(Ordering::Relaxed) + self.outbox.waiting_bytes()
    }

    /// The number of bytes received and sent since the last call.
    pub(super) fn moved_since_last_look(&self) -> u64 {
        let moved = self.received_bytes.load(Ordering::Relaxed) + self.outbox.sent_bytes();
        moved.saturating_sub(self.moved_bytes.swap(moved, Ordering::Relaxed))
    }

    /// Accepts no further request.
    pub(super) fn stop_reading(&self) {
        self.outbox.stop_reading();
    }

    /// Closes the connection, whatever is in progress.
    pub(super) fn cut(&self) {
        self.outbox.close();
    }
}

/// The resources that a request holds while it is executed.
struct Admitted {
    request: Space,
    /// The resources that its reply still holds.
    kept: Kept,
}

/// The requests of one connection.
struct Requests {
    service: Arc<Service>,
    connection: Arc<TcpConnection>,
    /// Space for running requests and unsent replies.
    space: Arc<Semaphore>,
    in_flight: u32,
}

impl Requests {
    async fn read_all(&self, input: OwnedReadHalf, transport: &Transport) -> End {
        let mut begun = Begun::default();
        let end = self.read_to_end(input, transport, &mut begun).await;
        begun.go_on_alone();
        end
    }

    async fn read_to_end(
        &self,
        mut input: OwnedReadHalf,
        transport: &Transport,
        begun: &mut Begun,
    ) -> End {
        let mut splitter = RecordSplitter::new(transport.record_bytes);
        // For the current record, if it is large.
        let mut space = None;
        loop {
            let expected = splitter.expected_bytes();
            if expected > SMALL_RECORD_BYTES && space.is_none() {
                begun.go_on_alone();
                space = transport.space(&transport.buffers.requests, expected).await;
                self.receiving(expected);
            }
            let read = tokio::select! {
                biased;
                () = begun.end() => continue,
                read = input.read_buf(splitter.read_buffer()) => read,
            };
            begun.go_on_alone();
            match read {
                Ok(0) if splitter.is_between_records() => return End::Closed,
                Ok(0) => return End::Cut,
                Ok(count) => {
                    let bytes = count as u64;
                    let all = &transport.traffic.received_bytes;
                    all.fetch_add(bytes, Ordering::Relaxed);
                    let own = &self.connection.received_bytes;
                    own.fetch_add(bytes, Ordering::Relaxed);
                }
                Err(error) => return error.into(),
            }
            match self
                .take_records(&mut splitter, &mut space, transport)
                .await
            {
                Ok(last) => *begun = last,
                Err(end) => return end,
            }
        }
    }

    /// Starts all complete requests. Returns the last one, unless it is finished.
    async fn take_records(
        &self,
        splitter: &mut RecordSplitter,
        space: &mut Option<Space>,
        transport: &Transport,
    ) -> Result<Begun, End> {
        let mut begun = Begun::default();
        let mut next = splitter.next_record()?;
        while let Some(record) = next {
            self.receiving(0);
            let following = splitter.next_record();
            let is_last = matches!(following, Ok(None));
            begun = self.take(record, space.take(), is_last, transport).await?;
            match following {
                Ok(following) => next = following,
                Err(error) => {
                    begun.go_on_alone();
                    return Err(error.into());
                }
            }
        }
        Ok(begun)
    }

    /// Records the memory that is reserved for an incomplete record.
    fn receiving(&self, bytes: usize) {
        let receiving = &self.connection.receiving_bytes;
        receiving.store(bytes as u64, Ordering::Relaxed);
    }

    /// Starts a request. The last received request runs in this task, because there is nothing else to do: many finish
    /// at once. It is returned if it has to wait; the others run in separate tasks.
    async fn take(
        &self,
        record: Bytes,
        space: Option<Space>,
        is_last: bool,
        transport: &Transport,
    ) -> Result<Begun, End> {
        let (transaction, kind) = message_start(&record).ok_or(End::NoMessage)?;
        if kind == REPLY {
            self.connection.calls.answered(transaction, record);
            return Ok(Begun::default());
        }
        let Some(admitted) = self.admit(&record, space, transport).await else {
            return Ok(Begun::default());
        };
        let service = self.service.clone();
        let mut answer = Box::pin(answer(service, self.connection.clone(), record, admitted));
        if !is_last {
            tokio::spawn(answer);
            return Ok(Begun::default());
        }
        Ok(match is_ready(answer.as_mut()).await {
            true => Begun::default(),
            false => Begun(Some(answer)),
        })
    }

    /// Waits for a place among the requests of the connection, and for memory. `None` means a closed semaphore, and
    /// none is ever closed.
    async fn admit(
        &self,
        record: &Bytes,
        space: Option<Space>,
        transport: &Transport,
    ) -> Option<Admitted> {
        let bytes = record.len();
        let pieces = u32::try_from(bytes / COUNTED_PIECE_BYTES).unwrap_or(u32::MAX);
        let count = pieces.saturating_add(1).min(self.in_flight);
        let place = self.space.clone().acquire_many_owned(count).await.ok()?;
        let buffers = &transport.buffers;
        let request = match space {
            Some(space) => space,
            None => transport.space(&buffers.requests, bytes).await?,
        };
        let largest = largest_reply(record).min(transport.record_bytes);
        let reply = transport.space(&buffers.replies, largest).await?;
        Some(Admitted {
            request,
            kept: Kept {
                _place: place,
                space: reply,
            },
        })
    }

    /// Waits until every request has been executed and its reply was sent or abandoned.
    async fn finish(&self) {
        // An error means a closed semaphore, and this one is never closed.
        let _ = self.space.acquire_many(self.in_flight).await;
    }
}

/// A started request that waits for something, if there is one. The connection's task continues it while nothing else
/// arrives, so that a client with one request at a time wakes no other thread.
#[derive(Default)]
struct Begun(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Begun {
    /// Returns when it is answered; never if there is none.
    async fn end(&mut self) {
        match &mut self.0 {
            Some(answer) => answer.as_mut().await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }

    /// Continues it in a separate task: from now on the connection waits for other events, or ends.
    fn go_on_alone(&mut self) {
        if let Some(answer) = self.0.take() {
            tokio::spawn(answer);
        }
    }
}

/// The transaction number and the kind of a message (RFC 5531, section 9).
fn message_start(record: &[u8]) -> Option<(u32, u32)> {
    let (transaction, rest) = record.split_first_chunk()?;
    let kind = rest.first_chunk()?;
    Some((u32::from_be_bytes(*transaction), u32::from_be_bytes(*kind)))
}

/// Runs a future until it first has to wait.
async fn is_ready<F: Future<Output = ()>>(mut future: Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

async fn answer(
    service: Arc<Service>,
    connection: Arc<TcpConnection>,
    record: Bytes,
    admitted: Admitted,
) {
    let Admitted { request, mut kept } = admitted;
    let mut request = Some(request);
    let unanswered = Unanswered {
        connection: &connection,
    };
    let known: Arc<dyn Connection> = connection.clone();
    let mut call = pin!(service.call(&known, record));
    let reply = match tokio::time::timeout(COUNTED_FOR, &mut call).await {
        Ok(reply) => reply,
        Err(_) => {
            request = None;
            kept.space.shrink_to(1);
            call.await
        }
    };
    let framed = reply.and_then(|reply| oncrpc::frame(reply).ok());
    let Some(framed) = framed else {
        tell_of_end(connection.peer, &"what came is no RPC call");
        return;
    };
    if request.is_none()
        && let Some(transport) = connection.transport.upgrade()
        && let Some(space) = transport
            .space(&transport.buffers.replies, framed.len())
            .await
    {
        kept.space = space;
    }
    drop(request);
    kept.space.shrink_to(framed.len());
    connection.outbox.send(framed, Some(kept)).await;
    std::mem::forget(unanswered);
}

/// Closes the connection when a request ends without an answer. So the client does not wait in vain, but connects again
/// and repeats the request.
struct Unanswered<'c> {
    connection: &'c TcpConnection,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.connection.cut();
    }
}

#[async_trait]
impl Connection for TcpConnection {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn session_used(&self) {
        let Some(transport) = self.transport.upgrade() else {
            return;
        };
        if self
            .last_use
            .swap(transport.now().max(1), Ordering::Relaxed)
            == 0
        {
            transport.establish(self.id);
        }
    }

    async fn call_back(
        &self,
        program: u32,
        procedure: u32,
        credentials: &Credentials,
        arguments: Rope,
    ) -> Result<Bytes, CallbackError> {
        let call = self.calls.expect().ok_or(CallbackError::Closed)?;
        let header = CallHeader {
            xid: call.transaction,
            program,
            version: CALLBACK_VERSION,
            procedure,
            credentials: credentials.clone(),
            verifier: OpaqueAuth::none(),
        };
        let mut message = Writer::new();
        message.write(&header);
        message.rope(&arguments);
        let framed = oncrpc::frame(message.finish());
        let framed = framed.map_err(|error| CallbackError::Refused(error.to_string()))?;
        // In a separate task, because the caller may stop waiting at any time.
        let outbox = self.outbox.clone();
        tokio::spawn(async move { outbox.send(framed, None).await });
        let record = tokio::time::timeout(CALLBACK_PATIENCE, call.answer()).await;
        let record = record
            .map_err(|_| CallbackError::TimedOut)?
            .ok_or(CallbackError::Closed)?;
        results_of(record)
    }
}

/// [`crate::decode_as_anything`] for records.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    let _ = message_start(bytes);
    let _ = results_of(Bytes::copy_from_slice(bytes));
}

/// The part after the header of a reply with results.
fn results_of(record: Bytes) -> Result<Bytes, CallbackError> {
    let mut reader = Reader::new(record);
    match Message::parse(&mut reader) {
        Ok(Message::Reply(header)) if header.is_success() => Ok(reader.into_rest()),
        Ok(Message::Reply(header)) => Err(CallbackError::Refused(header.to_string())),
        Ok(Message::Call(_)) => Err(CallbackError::Refused(
            "a call came as an answer".to_owned(),
        )),
        Err(error) => Err(CallbackError::Refused(error.to_string())),
    }
}
