//! A session: the state between one incarnation of this replica and one of a peer. It survives its connections and ends
//! when either of the two restarts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::compression::{self, Gauge};
use crate::connection::Arrived;
use crate::error::{Refusal, RequestError, SendError};
use crate::flow::{LaneState, Outgoing, locked};
use crate::handler::Sender;
use crate::message::{Lane, Message};
use crate::settings::Settings;
use crate::status::Counters;
use crate::wire::Role;

/// The maximum number of our requests that wait for a reply. It bounds the table of requests.
const REQUESTS_PENDING_MAX: usize = 16 * 1024;

/// Lanes before the first data lane.
pub(crate) const FIRST_DATA_LANE: u32 = 2;

/// The kind of lane that an index of the hello names.
pub(crate) fn lane_kind(index: u32) -> Lane {
    match index {
        0 => Lane::Control,
        1 => Lane::Metadata,
        _ => Lane::Data,
    }
}

type Reply = Result<Message, RequestError>;

/// The inside of a [`Session`].
#[derive(Debug)]
pub(crate) struct SessionState {
    pub peer: Sender,
    pub lanes: Vec<Arc<LaneState>>,
    pub counters: Arc<Counters>,
    /// Limits how many of the peer's requests are worked on.
    pub serving: Arc<Semaphore>,
    inlets: Vec<mpsc::UnboundedSender<Arrived>>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Reply>>>,
    next_request: AtomicU64,
    gauge: Mutex<Option<Gauge>>,
    ended: watch::Sender<bool>,
    /// Notified when the control lane is silent.
    silent: Notify,
}

impl SessionState {
    /// A session with nothing sent or received, and for each lane the queue of what arrives.
    pub(crate) fn new(
        peer: Sender,
        data_lanes: u32,
        settings: &Settings,
        counters: Arc<Counters>,
    ) -> (SessionState, Vec<mpsc::UnboundedReceiver<Arrived>>) {
        let lanes: Vec<_> = (0..FIRST_DATA_LANE + data_lanes)
            .map(|index| {
                let lane = lane_kind(index);
                let window = settings.window_bytes(lane, data_lanes);
                Arc::new(LaneState::new(lane, index, window))
            })
            .collect();
        // The type is unbounded; credit bounds the content.
        let (inlets, outlets) = lanes.iter().map(|_| mpsc::unbounded_channel()).unzip();
        let state = SessionState {
            peer,
            lanes,
            counters,
            serving: Arc::new(Semaphore::new(settings.requests_served_max)),
            inlets,
            pending: Mutex::new(HashMap::new()),
            next_request: AtomicU64::new(1),
            gauge: Mutex::new(settings.compression.then(Gauge::new)),
            ended: watch::Sender::new(false),
            silent: Notify::new(),
        };
        (state, outlets)
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits for the end of the session.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so this returns only when the session has ended.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Ends the session. Connections stop, and each caller that waits for a reply learns that the outcome is unknown.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
        // Closing their channel tells the waiting callers.
        locked(&self.pending).clear();
    }

    /// The control lane is silent, so the connections of the other lanes are closed too.
    pub(crate) fn fall_silent(&self) {
        self.silent.notify_waiters();
    }

    /// Waits until the control lane falls silent.
    pub(crate) async fn fell_silent(&self) {
        self.silent.notified().await;
    }

    /// Hands on an arrived message without waiting: a reply to the caller of the request, everything else to the
    /// handler's queue of this lane.
    pub(crate) fn deliver(&self, lane: &LaneState, arrived: Arrived) {
        let reply = match arrived.role {
            Role::Reply => Ok(arrived.message),
            Role::Busy => Err(RequestError::Busy),
            Role::Refused => {
                let reason = String::from_utf8_lossy(&arrived.message.body);
                Err(RequestError::Refused(Refusal(reason.into_owned())))
            }
            Role::OneWay | Role::Request | Role::Quiet => {
                if let Some(inlet) = self.inlets.get(lane.index as usize) {
                    // The receiver is gone only after the end of the session.
                    let _ = inlet.send(arrived);
                }
                return;
            }
        };
        if let Some(waiter) = locked(&self.pending).remove(&arrived.request) {
            // A caller that gave up waiting is not an error.
            let _ = waiter.send(reply);
        }
    }

    /// Prepares a message for the wire.
    pub(crate) async fn prepare(
        &self,
        lane: Lane,
        role: Role,
        request: u64,
        message: Message,
    ) -> Outgoing {
        let cost = message.cost();
        let plain_length = message.payload.len();
        let payload_checksum = crc32c::crc32c(&message.payload);
        let (payload, compressed) = self.compressed(lane, message.payload).await;
        Outgoing {
            role,
            request,
            kind: message.kind,
            body: message.body,
            payload,
            plain_bytes: if compressed {
                u32::try_from(plain_length).expect("payloads are bounded far below 4 GiB")
            } else {
                0
            },
            payload_checksum,
            cost,
            ticket: None,
        }
    }

    async fn compressed(&self, lane: Lane, payload: Bytes) -> (Bytes, bool) {
        let wanted = lane == Lane::Data
            && locked(&self.gauge)
                .as_mut()
                .is_some_and(|gauge| gauge.wants(payload.len()));
        if !wanted {
            return (payload, false);
        }
        let plain_length = payload.len();
        let (payload, compressed) = compression::compress(payload).await;
        if let Some(gauge) = locked(&self.gauge).as_mut() {
            gauge.learn(plain_length, payload.len());
        }
        (payload, compressed)
    }

    /// The least loaded lane of this kind.
    fn choose(&self, lane: Lane) -> &Arc<LaneState> {
        self.lanes
            .iter()
            .filter(|candidate| candidate.lane == lane)
            .min_by_key(|candidate| candidate.queued())
            .expect("a session has a lane of every kind from its beginning")
    }
}

/// A handle for sending to one incarnation of a peer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Session(pub(crate) Arc<SessionState>);

impl Session {
    /// The replica and incarnation at the other end.
    #[must_use]
    pub fn peer(&self) -> Sender {
        self.0.peer
    }

    /// Whether the incarnation at the other end is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// The recent round-trip time of a small message on the control lane. `None` before it was measured.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.0.counters.rtt()
    }

    /// Whether this kind of lane, or all data lanes, are connected now. If not, messages wait.
    #[must_use]
    pub fn is_connected(&self, lane: Lane) -> bool {
        let mut lanes = self.0.lanes.iter().filter(|one| one.lane == lane);
        !self.has_ended() && lanes.all(|lane| lane.is_connected())
    }

    /// Waits until there is a connection for this kind of lane. `false`: the session has ended.
    pub async fn connected(&self, lane: Lane) -> bool {
        let lanes = async {
            for lane in self.0.lanes.iter().filter(|one| one.lane == lane) {
                lane.connected().await;
            }
        };
        tokio::select! {
            biased;
            () = self.0.ended() => false,
            () = lanes => true,
        }
    }

    /// Sends a message, waiting for space. It reaches the peer exactly once, unless one of the two incarnations ends
    /// first; then it is unknown whether it did. Arrival says nothing about stable storage: the handler sends such
    /// acknowledgements as its own messages.
    ///
    /// # Errors
    /// [`SendError::TooLarge`] and [`SendError::Ended`].
    pub async fn send(&self, lane: Lane, message: Message) -> Result<(), SendError> {
        SendError::check_size(lane, &message)?;
        self.push(lane, Role::OneWay, 0, message).await
    }

    /// Sends without waiting, in the order of the calls. Data sent this way is not compressed.
    ///
    /// # Errors
    /// As [`Session::send`], and [`SendError::Full`].
    pub fn try_send(&self, lane: Lane, message: Message) -> Result<(), SendError> {
        SendError::check_size(lane, &message)?;
        if self.has_ended() {
            return Err(SendError::Ended(self.peer().incarnation));
        }
        self.0.choose(lane).try_push(Outgoing {
            role: Role::OneWay,
            request: 0,
            kind: message.kind,
            cost: message.cost(),
            body: message.body,
            plain_bytes: 0,
            payload_checksum: crc32c::crc32c(&message.payload),
            payload: message.payload,
            ticket: None,
        })
    }

    /// Sends a request and waits for its reply until `deadline`. Dropping the future stops the waiting, but the peer
    /// may still execute the request.
    ///
    /// # Errors
    /// See [`RequestError`]; two of its variants leave the outcome open.
    pub async fn request(
        &self,
        lane: Lane,
        message: Message,
        deadline: Instant,
    ) -> Result<Message, RequestError> {
        SendError::check_size(lane, &message)?;
        let pending = Pending::begin(&self.0)?;
        let Pending { number, .. } = pending;
        let exchange = async {
            let (waiter, reply) = oneshot::channel();
            pending.register(waiter);
            self.push(lane, Role::Request, number, message).await?;
            match reply.await {
                Ok(reply) => reply,
                Err(_) => Err(RequestError::OutcomeUnknown(self.peer().incarnation)),
            }
        };
        match tokio::time::timeout_at(deadline, exchange).await {
            Ok(reply) => reply,
            Err(_) => Err(RequestError::Deadline),
        }
    }

    async fn push(
        &self,
        lane: Lane,
        role: Role,
        request: u64,
        message: Message,
    ) -> Result<(), SendError> {
        let ended = || SendError::Ended(self.peer().incarnation);
        if self.has_ended() {
            return Err(ended());
        }
        let outgoing = self.0.prepare(lane, role, request, message).await;
        tokio::select! {
            // In this order, so that a message to a live session is queued.
            biased;
            () = self.0.ended() => Err(ended()),
            () = self.0.choose(lane).push(outgoing) => Ok(()),
        }
    }
}

/// A place in the table of requests that wait; given back when dropped.
struct Pending<'a> {
    session: &'a SessionState,
    number: u64,
}

impl<'a> Pending<'a> {
    fn begin(session: &'a SessionState) -> Result<Pending<'a>, RequestError> {
        if locked(&session.pending).len() >= REQUESTS_PENDING_MAX {
            return Err(RequestError::Busy);
        }
        let number = session.next_request.fetch_add(1, Ordering::Relaxed);
        Ok(Pending { session, number })
    }

    fn register(&self, waiter: oneshot::Sender<Reply>) {
        let mut pending = locked(&self.session.pending);
        // Checked under the lock that `end` takes to clear the table, so that no waiting caller is left behind.
        if !self.session.has_ended() {
            pending.insert(self.number, waiter);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        locked(&self.session.pending).remove(&self.number);
    }
}

/// The two ends of the session, for logs.
impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sender { slot, incarnation } = self.peer();
        write!(f, "replica {} ({incarnation})", slot.0)
    }
}
