//! Pieces of files' contents on their way to one peer: which one goes next, and its result.
//!
//! What must never enter: which ranges a peer lacks and when they are due (`shipping` of `state`), and how pieces are read and sent.

use std::collections::BTreeSet;
use std::ops::Range;

use control::{Moment, Position};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::{Engine, Guard};
use crate::state::free_space::is_fair_part;
use crate::state::shipping::{Piece, PieceId};

impl Engine {
    /// The piece that goes to a peer now, and when the next one is due. If clients keep this server busy (`is_busy`), contents for which nothing
    /// waits rest longer; not those under a control that another replica wants, nor those for a peer outside the view. `left` is the space left on
    /// the peer's disk; nothing rests without it, nor while the peer lacks more than this member's share of it.
    pub(crate) fn next_piece(
        &self,
        to: ReplicaSlot,
        is_busy: bool,
        left: Option<u64>,
    ) -> (Option<Piece>, Option<Moment>) {
        self.with_core(|guard| {
            let now = guard.now;
            if guard.ledger.active.contains(&to)
                && let Some(left) = left
            {
                guard.let_rest(to, is_busy, left);
            }
            let Some(backlog) = guard.ledger.unshipped.peer(to) else {
                return (None, None);
            };
            (backlog.next(now), backlog.next_due())
        })
    }

    /// Another site changes a file: it is shipped to all without a longer rest.
    pub(crate) fn expedite_much(&self, file: ObjectId) {
        let unshipped = |guard: &mut Guard<'_>| {
            let now = guard.now;
            guard.ledger.unshipped.expedite_much(now, file)
        };
        if self.with_core(unshipped) {
            self.notify_urgent();
        }
    }

    /// Extends a piece to `end`, as far as possible. Returns its range and the place of this replica's stream that it follows; `None` if its session
    /// is over.
    pub(crate) fn extend_piece(
        &self,
        to: ReplicaSlot,
        id: PieceId,
        end: u64,
    ) -> Option<(Range<u64>, Position)> {
        self.with_core(|guard| guard.ledger.unshipped.peer(to)?.reaches(id, end))
    }

    /// The file of a piece was found to end at `end`.
    pub(crate) fn piece_found_end(&self, to: ReplicaSlot, id: PieceId, end: u64) {
        self.with_core(|guard| {
            if let Some(backlog) = guard.ledger.unshipped.peer(to) {
                backlog.found_end(id, end);
            }
        });
    }

    /// For a piece that has been read: the place of this replica's stream up to which the peer has the whole file with this piece, and the turn in
    /// which the peer asked for the file, if it did. `None` if more is to come, or on its way.
    pub(crate) fn piece_completes(
        &self,
        to: ReplicaSlot,
        piece: &Piece,
    ) -> Option<(u64, Option<u64>)> {
        self.with_core(|guard| {
            let file = piece.file;
            let pinned = guard.ledger.pins.contains_key(&file);
            let backlog = guard.ledger.unshipped.peer(to)?;
            let is_last = !pinned && backlog.is_last(piece.id);
            let resized = guard.ledger.resized.get(&file);
            // The peer may put the piece in place before it hears of a later cut, and is told of that by itself.
            let completes = is_last && resized.is_none_or(|place| *place <= piece.follows.0);
            match completes {
                true => drop(guard.ledger.unconfirmed.remove(&(to, file))),
                false => guard.ledger.note_unconfirmed(to, file),
            }
            let asked = guard.ledger.asked.get(&(to, file)).copied();
            let forgotten = guard.ledger.forgotten_place((to, file));
            completes.then_some((guard.ledger.last_position.max(forgotten), asked))
        })
    }

    /// A peer was sent the sums of a piece and lacks the blocks with these bits. Returns whether they are due now; `None` if the session of the piece
    /// is over.
    pub(crate) fn piece_lacks_blocks(
        &self,
        by: ReplicaSlot,
        id: PieceId,
        blocks: u64,
    ) -> Option<bool> {
        self.with_core(|guard| guard.ledger.unshipped.peer(by)?.lacks_blocks(id, blocks))
    }

    /// The range of a piece on its way.
    pub(crate) fn piece_range(&self, to: ReplicaSlot, id: PieceId) -> Option<Range<u64>> {
        self.with_core(|guard| guard.ledger.unshipped.peer(to)?.range_of(id))
    }

    /// A piece could not be sent, or not be stored: its range is due again.
    pub(crate) fn piece_failed(
        &self,
        to: ReplicaSlot,
        id: PieceId,
        file: ObjectId,
        range: Range<u64>,
    ) {
        self.with_core(|guard| {
            let (now, follows) = (guard.now, Position(guard.ledger.last_position));
            if let Some(backlog) = guard.ledger.unshipped.peer(to) {
                backlog.failed(now, id, file, range, follows);
            }
        });
        self.notify_of_contents();
    }

    /// A peer has stored a piece. Returns the file if the peer has all its content now.
    pub(crate) fn piece_acknowledged(&self, by: ReplicaSlot, id: PieceId) -> Option<ObjectId> {
        self.with_core(|guard| {
            let file = guard.ledger.unshipped.peer(by)?.acknowledged(id)?;
            guard.settle_content(file);
            guard.notifies = true;
            Some(file)
        })
    }

    /// There was nothing to send of a file that a peer lacks; the peer does not know that it has all of it.
    pub(crate) fn note_unconfirmed(&self, to: ReplicaSlot, file: ObjectId) {
        self.with_core(|guard| guard.ledger.note_unconfirmed(to, file));
    }

    /// Notes whether a peer that has a file, as far as this replica sends it, lacks data of the file that others made.
    pub(crate) fn note_apart(&self, by: ReplicaSlot, file: ObjectId, apart: bool) {
        self.with_core(|guard| guard.ledger.note_apart(by, file, apart));
    }

    /// A peer has noted durably that it has all of these files up to these places of this replica's stream, and that some of them answer its requests
    /// of these turns. It may have written this before its last request came: it is told of the answer to that one again (counterexample 81).
    pub(crate) fn noted_complete(
        &self,
        by: ReplicaSlot,
        files: impl IntoIterator<Item = (ObjectId, u64)>,
        answers: &BTreeSet<(ObjectId, u64)>,
    ) {
        self.with_core(|guard| {
            for file in files {
                guard.ledger.noted_complete(by, file, answers);
            }
            guard.notifies = true;
        });
    }

    /// Nothing of a file is to be sent any more.
    pub(crate) fn nobody_needs(&self, file: ObjectId) {
        self.with_core(|guard| {
            guard.ledger.unshipped.removed(file);
            guard.settle_content(file);
            guard.notifies = true;
        });
    }

    /// Whether a peer outside the view has space for what is on its way to it, if this many bytes are available. A member of the view had reported
    /// its space before clients were answered.
    pub(crate) fn has_space_for_pieces(&self, to: ReplicaSlot, available: u64) -> bool {
        self.with_core(|guard| {
            let backlog = guard.ledger.unshipped.backlog(to);
            let in_flight = backlog.map_or(0, |backlog| backlog.in_flight_bytes());
            guard.ledger.active.contains(&to) || in_flight <= available
        })
    }

    /// How many bytes of a file a peer lacks.
    pub(crate) fn bytes_lacking(&self, peer: ReplicaSlot, file: ObjectId) -> u128 {
        self.with_core(|guard| {
            let backlog = guard.ledger.unshipped.backlog(peer);
            backlog.map_or(0, |backlog| backlog.bytes_of(file))
        })
    }

    /// Whether a peer has a range of a file as it is here, and all updates up to a position.
    pub(crate) fn has_range(
        &self,
        peer: ReplicaSlot,
        file: ObjectId,
        range: &Range<u64>,
        position: u64,
    ) -> bool {
        self.with_core(|guard| guard.has_range(peer, file, range, position))
    }

    /// Returns when it has.
    pub(crate) async fn until_has_range(
        &self,
        peer: ReplicaSlot,
        file: ObjectId,
        range: &Range<u64>,
        position: u64,
    ) {
        self.until_core(|guard| guard.has_range(peer, file, range, position).then_some(()))
            .await;
    }
}

impl Guard<'_> {
    fn let_rest(&mut self, to: ReplicaSlot, is_busy: bool, left: u64) {
        let (now, members) = (self.now, self.ledger.active.len());
        while let Some(backlog) = self.ledger.unshipped.peer(to)
            && is_fair_part(backlog.bytes(), left, members)
            && let Some(file) = backlog.would_rest(now, is_busy)
            && !self.is_awaited(file)
        {
            if let Some(backlog) = self.ledger.unshipped.peer(to) {
                backlog.put_off(file);
            }
        }
    }

    fn has_range(
        &self,
        peer: ReplicaSlot,
        file: ObjectId,
        range: &Range<u64>,
        position: u64,
    ) -> bool {
        let backlog = self.ledger.unshipped.backlog(peer);
        self.ledger.applied_by(peer) >= position
            && backlog
                .is_some_and(|peer| peer.keeps_contents() && !peer.lacks_of(file, range.clone()))
    }
}
