//! What has arrived from one peer and is on its way into the local copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::Position;
use peer::Incoming;
use store::Ticket;
use tokio::sync::{Semaphore, mpsc};
use vfs::ReplicaSlot;

use crate::shipping::Arrivals;
use crate::wire::PieceHead;

/// So many pieces are put in place at once.
pub(crate) const PUTTING_AT_ONCE: u32 = 64;

/// A piece, which keeps its credit until it is in place.
pub(crate) struct Piece {
    pub(crate) head: PieceHead,
    pub(crate) incoming: Incoming,
}

struct Waiting {
    pieces: Arrivals<Piece>,
    applied: Position,
    /// Counts sessions; what came in an earlier one comes again, and must not be taken in beside that.
    session: u64,
}

/// What has arrived from one peer. Memory is bounded by the transport's credit, which each item keeps.
pub(crate) struct Inbox {
    pub(crate) from: ReplicaSlot,
    records: mpsc::UnboundedSender<(u64, Incoming)>,
    waiting: Mutex<Waiting>,
    /// The last rows applied; what follows them counts as stable only when they are.
    last_rows: Mutex<Option<Ticket>>,
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
    ) -> (Inbox, mpsc::UnboundedReceiver<(u64, Incoming)>) {
        let (records, queue) = mpsc::unbounded_channel();
        let inbox = Inbox {
            from,
            records,
            waiting: Mutex::new(Waiting {
                pieces: Arrivals::default(),
                applied: Position(applied),
                session: 0,
            }),
            last_rows: Mutex::new(None),
            applying: tokio::sync::Mutex::new(()),
            putting: Arc::new(Semaphore::new(PUTTING_AT_ONCE as usize)),
        };
        (inbox, queue)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines a message of the ordered stream up.
    pub(crate) fn take_in(&self, incoming: Incoming) {
        // The queue ends only with the replica.
        let _ = self.records.send((self.session(), incoming));
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

    /// Rows were applied with this ticket.
    pub(crate) fn note_rows(&self, ticket: Ticket) {
        *self.last_rows() = Some(ticket);
    }

    fn last_rows(&self) -> MutexGuard<'_, Option<Ticket>> {
        self.last_rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The ticket of the last rows that were applied since the start.
    pub(crate) fn rows(&self) -> Option<Ticket> {
        *self.last_rows()
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
