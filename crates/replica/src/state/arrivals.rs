//! What has arrived from one peer and is on its way into the local copy.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use control::Position;
use peer::Incoming;
use store::Ticket;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::state::locks::{Inner, InnerGuard, Table, TableGuard};
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

/// What waits in line: a message of the peer itself, or one that another replica had kept, and that was found to be the
/// peer's.
pub(crate) enum StreamMessage {
    Own(Incoming),
    Relayed(Signed),
    /// Nothing more of the stream counts.
    End,
}

/// Bytes of messages kept of one stream, at most.
const KEPT_BYTES: usize = 32 << 20;
/// Of a stream that others relay, at most this many bytes wait. Each relaying replica has less
/// under way; there may be many.
const RELAYED_BYTES_MAX: usize = 32 << 20;

/// Messages of the stream that not everybody may have, oldest first.
#[derive(Default)]
struct Keeping {
    messages: VecDeque<Kept>,
    bytes: usize,
    /// What is being relayed to whom.
    relays: BTreeMap<ReplicaSlot, Relay>,
}

struct Waiting {
    pieces: Arrivals<Piece>,
    applied: Position,
    acknowledged: u64,
    /// Counts sessions; what came in an earlier one comes again, and must not be taken in beside that.
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
    /// Nothing but its turn.
    Nothing,
    /// Controls that it was made under.
    Controls,
    /// Another replica's updates up to a place.
    Updates(ReplicaSlot, u64),
    /// What the others have decided about a lost replica.
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

/// What has arrived from one peer. Memory is bounded by the transport's credit, which each item of the peer's own keeps;
/// what others relay has a bound here.
pub(crate) struct Inbox {
    pub(crate) from: ReplicaSlot,
    records: mpsc::UnboundedSender<(u64, StreamMessage)>,
    /// Bytes in line that others relayed.
    relayed: AtomicUsize,
    /// The peer's certificate in DER, once it is known; then what it signed can be relayed.
    certificate: Inner<Bytes>,
    kept: Inner<Keeping>,
    waiting: Inner<Waiting>,
    /// Since when the update that is next cannot be applied.
    stuck: Inner<Option<(Instant, Awaits)>>,
    /// The last rows applied; what follows them counts as stable only when they are.
    last_rows: Inner<Option<Ticket>>,
    /// Held while a record is applied, so that a new session begins between two of them.
    pub(crate) applying: tokio::sync::Mutex<()>,
    /// Permits to put pieces in place.
    pub(crate) putting: Arc<Semaphore>,
}

impl Inbox {
    /// An inbox, and the queue of messages that have to be taken in order, each with its session.
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
        };
        (inbox, queue)
    }

    fn waiting(&self) -> InnerGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Lines a message of the ordered stream up.
    pub(crate) fn take_in(&self, incoming: Incoming) {
        // The queue ends only with the replica.
        let _ = self
            .records
            .send((self.session(), StreamMessage::Own(incoming)));
    }

    /// Lines up what another replica had kept of the stream. `false`: too much waits already; it comes again.
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

    /// The task that applies the stream is done with this.
    pub(crate) fn note_taken(&self, received: &StreamMessage) {
        if let StreamMessage::Relayed(signed) = received {
            self.relayed.fetch_sub(signed.len(), Ordering::Relaxed);
        }
    }

    /// The peer's certificate, which was looked at.
    pub(crate) fn note_certificate(&self, certificate: Bytes) {
        *self.known_certificate() = certificate;
    }

    /// The peer's certificate; empty when it is not known.
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

    /// Keeps a message that is applied here, for those who may lack it. Before it the stream was applied up to
    /// `behind`.
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

    /// Everybody has the stream up to here.
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

    /// What to relay now to a peer that has applied the stream so far, by its latest word. `true`: it is the first of it.
    pub(crate) fn relay(&self, to: ReplicaSlot, applied: u64, now: Instant) -> (Vec<Signed>, bool) {
        let kept = &mut *self.kept();
        let begins = !kept.relays.contains_key(&to);
        let relay = kept.relays.entry(to);
        let relay = relay.or_insert_with(|| Relay::new(applied, now));
        let messages = relay.next(applied, now, &kept.messages);
        let begins = begins && !messages.is_empty();
        if relay.is_idle() {
            // Nothing that follows is kept; it may be later, by another session of the maker's.
            kept.relays.remove(&to);
        }
        (messages, begins)
    }

    /// A peer lacks nothing any more that is here, or is not there to take it.
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

    /// The update that is next waits until controls are granted here, or for updates of others. It does until what is returned
    /// is dropped.
    pub(crate) fn note_stuck(&self) -> Stuck<'_> {
        *self.stuck() = Some((Instant::now(), Awaits::Nothing));
        Stuck(self)
    }

    /// What the update that is next waits for.
    pub(crate) fn note_awaits(&self, awaits: Awaits) {
        if let Some((_, known)) = &mut *self.stuck() {
            *known = awaits;
        }
    }

    /// For how long the update that is next has been waiting; `None`: none is, or it can be applied.
    pub(crate) fn stuck_for(&self) -> Option<Duration> {
        self.stuck().map(|(since, _)| since.elapsed())
    }

    /// What that update waits for, after this time.
    pub(crate) fn awaits_after(&self, time: Duration) -> Option<Awaits> {
        let stuck = *self.stuck();
        let (_, awaits) = stuck.filter(|(since, _)| since.elapsed() >= time)?;
        Some(awaits)
    }

    fn stuck(&self) -> InnerGuard<'_, Option<(Instant, Awaits)>> {
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

    /// The session is over: what waits will come again.
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

/// The streams of the other replicas, as far as they are here.
#[derive(Default)]
pub(crate) struct Inboxes(Table<BTreeMap<ReplicaSlot, Arc<Inbox>>>);

impl Inboxes {
    pub(crate) fn lock(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Arc<Inbox>>> {
        self.0.lock()
    }

    /// That of one replica, if it is followed.
    pub(crate) fn get(&self, from: ReplicaSlot) -> Option<Arc<Inbox>> {
        self.lock().get(&from).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Inbox>> {
        self.lock().values().cloned().collect()
    }

    /// The replicas whose streams count here: other members, and those that are lost.
    pub(crate) fn followed(&self) -> Vec<ReplicaSlot> {
        self.lock().keys().copied().collect()
    }

    /// How far a replica's stream is applied here, stably.
    pub(crate) fn acknowledged(&self, of: ReplicaSlot) -> u64 {
        self.get(of).map_or(0, |inbox| inbox.acknowledged())
    }
}

/// An update that waits.
pub(crate) struct Stuck<'i>(&'i Inbox);

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        *self.0.stuck() = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

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
