//! Data that has arrived from one peer and is on its way into the local copy.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use control::Position;
use peer::Incoming;
use store::Ticket;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::state::locks::{BeforeCore, Inner, InnerGuard, Table, TableGuard};
use crate::state::relays::{Kept, Relay, Signed};
use crate::state::shipping::Arrivals;
use crate::state::wire::PieceHead;

/// At most this many pieces are put in place at once.
pub(crate) const PUTTING_AT_ONCE: u32 = 64;

/// A piece, which keeps its credit until it is in place.
pub(crate) struct Piece {
    pub(crate) head: PieceHead,
    pub(crate) incoming: Incoming,
}

/// A message that waits in line: from the peer itself, or kept by another replica and verified to be the peer's.
pub(crate) enum StreamMessage {
    Own(Incoming),
    Relayed(Signed),
    /// Nothing more of the stream counts.
    End,
}

/// At most this many bytes of messages are kept of one stream.
const KEPT_BYTES: usize = 32 << 20;
/// At most this many bytes of a relayed stream wait. Each relaying replica has less under way, but there may be many.
const RELAYED_BYTES_MAX: usize = 32 << 20;

/// Messages of the stream that some replica may lack, oldest first.
#[derive(Default)]
struct Keeping {
    messages: VecDeque<Kept>,
    bytes: usize,
    /// The relays under way, by receiver.
    relays: BTreeMap<ReplicaSlot, Relay>,
}

struct Waiting {
    pieces: Arrivals<Piece>,
    applied: Position,
    acknowledged: u64,
    /// Counts sessions. What came in an earlier session comes again, and must not be applied in addition.
    session: u64,
}

impl Keeping {
    fn drop_first(&mut self) {
        if let Some(first) = self.messages.pop_front() {
            self.bytes -= first.signed.len();
        }
    }
}

/// What an update that cannot be applied yet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Only its turn.
    Nothing,
    /// Controls that it was made under.
    Controls,
    /// Another replica's updates up to a place.
    Updates(ReplicaSlot, u64),
    /// The decision of the others about a lost replica.
    Settlement,
}

impl fmt::Display for Awaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaits::Nothing => f.write_str("its turn"),
            Awaits::Controls => f.write_str("controls that it was made under"),
            Awaits::Updates(of, through) => {
                write!(f, "updates of replica {} up to {through}", of.0)
            }
            Awaits::Settlement => f.write_str("what was decided about a lost replica"),
        }
    }
}

/// An update that cannot be applied yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stuck {
    /// Its place in its maker's stream.
    pub(crate) position: u64,
    since: Instant,
    pub(crate) awaits: Awaits,
}

/// What has arrived from one peer. Memory is bounded: each item of the peer's own holds the transport's credit, and relayed items have a bound here.
pub(crate) struct Inbox {
    pub(crate) from: ReplicaSlot,
    records: mpsc::UnboundedSender<(u64, StreamMessage)>,
    /// Bytes of relayed messages in line.
    relayed: AtomicUsize,
    /// The peer's certificate in DER, once known; from then on what the peer signed can be relayed.
    certificate: Inner<Bytes>,
    kept: Inner<Keeping>,
    waiting: Inner<Waiting>,
    /// The next update, if it cannot be applied.
    stuck: Inner<Option<Stuck>>,
    /// The last rows applied. What follows them counts as stable only when they are stable.
    last_rows: Inner<Option<Ticket>>,
    /// Held while a record is applied, so that a new session begins between two records.
    pub(crate) applying: tokio::sync::Mutex<()>,
    /// Permits to put pieces in place.
    pub(crate) putting: Arc<Semaphore>,
    /// How many pieces of a copy were put in place.
    pub(crate) of_copy: AtomicU64,
    /// Held while a message about what is here is made and queued for the peer.
    telling: BeforeCore<()>,
}

impl Inbox {
    /// An inbox, and the queue of messages to apply in order, each with its session.
    pub(crate) fn new(
        from: ReplicaSlot,
        applied: u64,
    ) -> (Inbox, mpsc::UnboundedReceiver<(u64, StreamMessage)>) {
        let (records, queue) = mpsc::unbounded_channel();
        let inbox = Inbox {
            from,
            records,
            relayed: AtomicUsize::new(0),
            certificate: Inner::default(),
            kept: Inner::default(),
            waiting: Inner::new(Waiting {
                pieces: Arrivals::default(),
                applied: Position(applied),
                acknowledged: applied,
                session: 0,
            }),
            stuck: Inner::new(None),
            last_rows: Inner::new(None),
            applying: tokio::sync::Mutex::new(()),
            putting: Arc::new(Semaphore::new(PUTTING_AT_ONCE as usize)),
            of_copy: AtomicU64::new(0),
            telling: BeforeCore::default(),
        };
        (inbox, queue)
    }

    fn waiting(&self) -> InnerGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Makes a message about what is here and queues it for the peer, which takes the last one for the newest: they are queued in the order in which
    /// they were made (counterexample 86).
    pub(crate) fn tell<T>(&self, made: impl FnOnce() -> T, queue: impl FnOnce(T)) {
        self.between_tellings(|| queue(made()));
    }

    /// Changes several things that such a message tells of; it tells of all of them, or of none.
    pub(crate) fn between_tellings(&self, change: impl FnOnce()) {
        let _one_at_a_time = self.telling.lock();
        change();
    }

    /// Queues a message of the ordered stream.
    pub(crate) fn take_in(&self, incoming: Incoming) {
        // The queue ends only with the replica.
        let _ = self
            .records
            .send((self.session(), StreamMessage::Own(incoming)));
    }

    /// Queues a message of the stream that another replica had kept. `false`: too much waits already; the message comes again.
    pub(crate) fn take_in_relayed(&self, signed: Signed) -> bool {
        let bytes = signed.len();
        let waiting = self.relayed.fetch_add(bytes, Ordering::Relaxed);
        let fits = waiting.saturating_add(bytes) <= RELAYED_BYTES_MAX;
        match fits {
            true => drop(
                self.records
                    .send((self.session(), StreamMessage::Relayed(signed))),
            ),
            false => drop(self.relayed.fetch_sub(bytes, Ordering::Relaxed)),
        }
        fits
    }

    /// The task that applies the stream has finished with this message.
    pub(crate) fn note_taken(&self, received: &StreamMessage) {
        if let StreamMessage::Relayed(signed) = received {
            self.relayed.fetch_sub(signed.len(), Ordering::Relaxed);
        }
    }

    /// The peer's certificate, which has been checked.
    pub(crate) fn note_certificate(&self, certificate: Bytes) {
        *self.known_certificate() = certificate;
    }

    /// The peer's certificate; empty if unknown.
    pub(crate) fn certificate(&self) -> Bytes {
        self.known_certificate().clone()
    }

    fn known_certificate(&self) -> InnerGuard<'_, Bytes> {
        self.certificate.lock()
    }

    /// Nothing more of the stream counts: the task that applies it stops.
    pub(crate) fn end(&self) {
        let _ = self.records.send((self.session(), StreamMessage::End));
    }

    fn kept(&self) -> InnerGuard<'_, Keeping> {
        self.kept.lock()
    }

    /// Keeps a message that is applied here, for replicas that may lack it. The stream was applied up to `behind` before it.
    pub(crate) fn keep(&self, behind: u64, through: u64, signed: Signed) {
        let mut kept = self.kept();
        if kept
            .messages
            .back()
            .is_some_and(|last| last.through >= through)
        {
            return;
        }
        kept.bytes += signed.len();
        kept.messages.push_back(Kept {
            behind,
            through,
            signed,
        });
        while kept.bytes > KEPT_BYTES {
            kept.drop_first();
        }
    }

    /// All replicas have the stream up to here.
    pub(crate) fn forget_kept(&self, everywhere: u64) {
        let mut kept = self.kept();
        while kept
            .messages
            .front()
            .is_some_and(|first| first.through <= everywhere)
        {
            kept.drop_first();
        }
    }

    /// What to relay now to a peer whose latest report says that it has applied the stream up to `applied`. `true`: these are the first messages.
    pub(crate) fn relay(&self, to: ReplicaSlot, applied: u64, now: Instant) -> (Vec<Signed>, bool) {
        let kept = &mut *self.kept();
        let begins = !kept.relays.contains_key(&to);
        let relay = kept.relays.entry(to);
        let relay = relay.or_insert_with(|| Relay::new(applied, now));
        let messages = relay.next(applied, now, &kept.messages);
        let begins = begins && !messages.is_empty();
        if relay.is_idle() {
            // No following message is kept; a later session of the maker may bring one.
            kept.relays.remove(&to);
        }
        (messages, begins)
    }

    /// A peer has everything that is kept here, or is not connected.
    pub(crate) fn end_relay(&self, to: ReplicaSlot) {
        let relay = self.kept().relays.remove(&to);
        if let Some((messages, bytes)) = relay.map(|relay| relay.sum()) {
            let of = self.from.0;
            tracing::info!(of, to = to.0, messages, bytes, "updates were relayed");
        }
    }

    /// Returns a piece that can be put in place now, or keeps it until what it follows is applied.
    pub(crate) fn sort(&self, piece: Piece) -> Option<Piece> {
        let follows = Position(piece.head.follows);
        let mut waiting = self.waiting();
        if follows <= waiting.applied {
            return Some(piece);
        }
        waiting.pieces.push(follows, piece);
        None
    }

    /// The peer's stream is applied up to here; returns the pieces that waited for it.
    pub(crate) fn reached(&self, applied: u64) -> Vec<Piece> {
        let mut waiting = self.waiting();
        waiting.applied = Position(applied).max(waiting.applied);
        let applied = waiting.applied;
        waiting.pieces.ready(applied).collect()
    }

    /// The next update waits until controls are granted here, or for updates of others, until the returned value is dropped.
    pub(crate) fn note_stuck(&self, position: u64) -> WhileStuck<'_> {
        *self.stuck() = Some(Stuck {
            position,
            since: Instant::now(),
            awaits: Awaits::Nothing,
        });
        WhileStuck(self)
    }

    /// What the next update waits for.
    pub(crate) fn note_awaits(&self, awaits: Awaits) {
        if let Some(stuck) = &mut *self.stuck() {
            stuck.awaits = awaits;
        }
    }

    /// How long the next update has been waiting; `None`: there is none, or it can be applied.
    pub(crate) fn stuck_for(&self) -> Option<Duration> {
        self.stuck().map(|stuck| stuck.since.elapsed())
    }

    /// That update, if it has waited this long.
    pub(crate) fn stuck_since(&self, time: Duration) -> Option<Stuck> {
        let stuck = *self.stuck();
        stuck.filter(|stuck| stuck.since.elapsed() >= time)
    }

    fn stuck(&self) -> InnerGuard<'_, Option<Stuck>> {
        self.stuck.lock()
    }

    /// Rows were applied with this ticket.
    pub(crate) fn note_rows(&self, ticket: Ticket) {
        *self.last_rows() = Some(ticket);
    }

    fn last_rows(&self) -> InnerGuard<'_, Option<Ticket>> {
        self.last_rows.lock()
    }

    /// The ticket of the last rows that were applied since the start.
    pub(crate) fn rows(&self) -> Option<Ticket> {
        *self.last_rows()
    }

    /// How far the peer was last told that its stream is applied here, stably.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.waiting().acknowledged
    }

    /// The peer is told now.
    pub(crate) fn note_acknowledged(&self, position: u64) {
        let mut waiting = self.waiting();
        waiting.acknowledged = waiting.acknowledged.max(position);
    }

    /// How far the peer's stream is applied.
    pub(crate) fn applied(&self) -> u64 {
        self.waiting().applied.0
    }

    /// The session is over: waiting pieces will come again.
    pub(crate) fn drop_pieces(&self) {
        let mut waiting = self.waiting();
        waiting.pieces = Arrivals::default();
        waiting.session += 1;
    }

    /// Which session this is.
    pub(crate) fn session(&self) -> u64 {
        self.waiting().session
    }
}

/// The streams of the other replicas, as far as they have arrived.
#[derive(Default)]
pub(crate) struct Inboxes(Table<BTreeMap<ReplicaSlot, Arc<Inbox>>>);

impl Inboxes {
    pub(crate) fn lock(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Arc<Inbox>>> {
        self.0.lock()
    }

    /// The inbox of one replica, if its stream is followed.
    pub(crate) fn get(&self, from: ReplicaSlot) -> Option<Arc<Inbox>> {
        self.lock().get(&from).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Inbox>> {
        self.lock().values().cloned().collect()
    }

    /// The replicas whose streams count here: other members, and lost replicas.
    pub(crate) fn followed(&self) -> Vec<ReplicaSlot> {
        self.lock().keys().copied().collect()
    }

    /// How far a replica's stream is applied here, stably.
    pub(crate) fn acknowledged(&self, of: ReplicaSlot) -> u64 {
        self.get(of).map_or(0, |inbox| inbox.acknowledged())
    }
}

/// The time for which an update waits.
pub(crate) struct WhileStuck<'i>(&'i Inbox);

impl Drop for WhileStuck<'_> {
    fn drop(&mut self) {
        *self.0.stuck() = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// A peer's first message came while this replica made its greeting. The answer, which said how much was asked for, was queued before the
    /// greeting, which did not know that yet: the peer waited for the number for ever.
    #[test]
    fn counterexample_86_a_later_greeting_is_not_queued_before_an_earlier_one() {
        let (inbox, _queue) = Inbox::new(ReplicaSlot(3), 0);
        let (made, is_made) = std::sync::mpsc::channel();
        let (queue, queued) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let first = queue.clone();
            let inbox = &inbox;
            scope.spawn(move || {
                let slowly = || {
                    made.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    1
                };
                inbox.tell(slowly, |greeting| first.send(greeting).unwrap());
            });
            is_made.recv().unwrap();
            inbox.tell(|| 2, |greeting| queue.send(greeting).unwrap());
        });
        assert_eq!(queued.try_iter().collect::<Vec<_>>(), [1, 2]);
    }

    /// A greeting that was made while a replica counted what it asks for said that it asks for nothing.
    #[test]
    fn counterexample_88_what_is_told_is_from_before_the_counting_or_from_after_it() {
        let (inbox, _queue) = Inbox::new(ReplicaSlot(3), 0);
        let lists = crate::state::lists::Lists::default();
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (inbox, lists) = (&inbox, &lists);
            let telling = scope.spawn(move || {
                has_begun.recv().unwrap();
                let mut told = None;
                inbox.tell(|| lists.named(), |wished| told = Some(wished));
                told
            });
            inbox.between_tellings(|| {
                lists.count();
                begun.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                lists.want(&[vfs::ObjectId::from_u64(7)], (0, 0));
            });
            assert_eq!(telling.join().unwrap(), Some(1));
        });
    }

    #[test]
    fn nothing_is_relayed_behind_a_gap() {
        let (inbox, _queue) = Inbox::new(ReplicaSlot(3), 0);
        let message = |text: &'static str| Signed {
            records: Bytes::from_static(text.as_bytes()),
            signature: Bytes::new(),
        };
        inbox.keep(5, 8, message("to 8"));
        inbox.keep(8, 9, message("to 9"));
        inbox.keep(12, 14, message("to 14"));
        let behind = |position| {
            let relayed = inbox.relay(ReplicaSlot(2), position, Instant::now());
            inbox.end_relay(ReplicaSlot(2));
            relayed.0
        };
        assert!(behind(4).is_empty(), "what follows 4 is not kept");
        assert_eq!(behind(6), [message("to 8"), message("to 9")]);
        assert_eq!(behind(8), [message("to 9")]);
        assert_eq!(behind(13), [message("to 14")]);
    }

    #[test]
    fn what_others_relay_waits_in_bounded_memory() {
        let (inbox, mut queue) = Inbox::new(ReplicaSlot(3), 0);
        let relayed = Signed {
            records: vec![7; 1 << 20].into(),
            signature: Bytes::new(),
        };
        let taken = (0..100).filter(|_| inbox.take_in_relayed(relayed.clone()));
        assert_eq!(taken.count(), RELAYED_BYTES_MAX >> 20);
        let (_, received) = queue.try_recv().unwrap();
        inbox.note_taken(&received);
        assert!(inbox.take_in_relayed(relayed.clone()));
        assert!(!inbox.take_in_relayed(relayed));
    }
}
