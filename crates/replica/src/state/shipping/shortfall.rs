//! What one peer lacks of one file: the ranges still to be sent, the pieces in flight, and which of both are owed.
//!
//! This module keeps two pieces of one file from overlapping. `backlog` decides what is sent, when, and to which peer.

use super::piece::PieceId;
use super::ranges::Ranges;
use control::{Moment, Position};
use std::ops::Range;
use std::time::Duration;

/// The place of a file in the queue: when it is due, and a count that breaks ties.
pub(super) type QueuePlace = (Moment, u64);

/// Head start in the queue for a file that an operation waits for. It goes before all files that have not waited for as much longer, so it cannot
/// delay the others for ever.
const HEAD_START: Duration = Duration::from_secs(10);

/// Everything that was lacking when an operation began to wait has gone after this many rounds: the round under way does not contain what was changed
/// since it began, but the next one does.
const ROUNDS_EXPEDITED: u8 = 2;

/// A piece that the peer has not acknowledged.
#[derive(Clone, Debug)]
struct Flying {
    id: PieceId,
    range: Range<u64>,
    /// It contains something that is owed, or was in flight when the peer was last asked what is owed.
    owed: bool,
    /// The same for the round under way.
    in_round: bool,
    /// Upper end of all changes of the file since the piece was taken.
    changed_to: u64,
}

/// What one peer lacks of one file.
#[derive(Clone, Debug)]
pub(super) struct Shortfall {
    /// To be sent. A part that overlaps a piece in flight was changed after that piece was taken, and waits for its acknowledgement.
    pub(super) lacking: Ranges,
    /// The part of `lacking` that was lacking at the last call of `owe` and has not been taken since.
    owed: Ranges,
    /// The part of `lacking` that was lacking when the round under way began and has not been taken since. The next round begins when the peer has
    /// all of it, so everything it lacks then was changed after this round began.
    round: Ranges,
    round_began: Moment,
    /// In flight, lowest first; no two overlap.
    flying: Vec<Flying>,
    /// The newest position of any change.
    pub(super) follows: Position,
    /// Everything that the peer lacks was changed at or after this moment.
    pub(super) since: Moment,
    /// When what is lacking may be sent.
    pub(super) due: Moment,
    /// Its place in the queue; none while everything lacking waits for acknowledgements.
    pub(super) queued: Option<QueuePlace>,
    /// How many more rounds an operation waits for the file, including the one under way.
    rounds_expedited: u8,
    /// The peer may already have what is noted as lacking: it is asked before that is sent.
    pub(super) offers: bool,
    /// Where to look first for the next piece, so that a part that is written again and again does not delay the rest for ever.
    cursor: u64,
}

impl Shortfall {
    pub(super) fn new(now: Moment, follows: Position) -> Shortfall {
        Shortfall {
            lacking: Ranges::default(),
            owed: Ranges::default(),
            round: Ranges::default(),
            round_began: now,
            flying: Vec::new(),
            follows,
            since: now,
            due: now,
            queued: None,
            rounds_expedited: 0,
            offers: false,
            cursor: 0,
        }
    }

    /// Whether the peer has everything.
    pub(super) fn is_complete(&self) -> bool {
        self.lacking.is_empty() && self.flying.is_empty()
    }

    /// Whether the peer lacks any part of a range.
    pub(super) fn lacks(&self, range: Range<u64>) -> bool {
        let mut flying = self.flying.iter().map(|piece| &piece.range);
        flying.any(|piece| piece.start < range.end && range.start < piece.end)
            || self.lacking.overlap(range).next().is_some()
    }

    /// The range that a piece in flight covers.
    pub(super) fn in_flight_range(&self, id: PieceId) -> Option<Range<u64>> {
        let piece = self.flying.iter().find(|piece| piece.id == id)?;
        Some(piece.range.clone())
    }

    /// An operation waits for everything that is lacking now. Returns whether none waited before.
    pub(super) fn expedite(&mut self) -> bool {
        std::mem::replace(&mut self.rounds_expedited, ROUNDS_EXPEDITED) == 0
    }

    /// Whether an operation waits for the file.
    pub(super) fn is_expedited(&self) -> bool {
        self.rounds_expedited > 0
    }

    /// The moment from which the file counts as waiting, if it begins to wait now.
    pub(super) fn due_from(&self, now: Moment) -> Moment {
        match self.is_expedited() {
            true => now.before(HEAD_START),
            false => now,
        }
    }

    /// From now on everything that is missing is owed; later changes are not.
    pub(super) fn owe(&mut self) {
        self.owed = self.lacking.clone();
        for piece in &mut self.flying {
            piece.owed = true;
        }
    }

    /// Whether the peer lacks something that is owed.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty() || self.flying.iter().any(|piece| piece.owed)
    }

    /// Begins the next round if the current one is over. Returns whether it was over: then what is lacking is newer than was known before.
    pub(super) fn go_round(&mut self, now: Moment) -> bool {
        let is_over = self.round.is_empty() && !self.flying.iter().any(|piece| piece.in_round);
        if is_over {
            self.since = self.round_began;
            self.round_began = now;
            self.rounds_expedited = self.rounds_expedited.saturating_sub(1);
            self.round = self.lacking.clone();
            for piece in &mut self.flying {
                piece.in_round = true;
            }
        }
        is_over
    }

    /// How many bytes still have to be sent or acknowledged.
    pub(super) fn bytes(&self) -> u128 {
        let flying = self.flying.iter();
        let flying = flying.map(|f| u128::from(f.range.end - f.range.start));
        self.lacking.bytes() + flying.sum::<u128>()
    }

    /// `range` was changed.
    pub(super) fn change(&mut self, range: Range<u64>, most: usize) {
        for piece in &mut self.flying {
            piece.changed_to = piece.changed_to.max(range.end);
        }
        self.lacking.add(range);
        self.lacking.limit(most);
    }

    /// The file was truncated. A piece in flight may arrive after the truncation and after a later growth, so its part behind `size` must be sent
    /// again, with its contents at that time.
    pub(super) fn cut(&mut self, size: u64) {
        self.lacking.remove(size..u64::MAX);
        self.owed.remove(size..u64::MAX);
        self.round.remove(size..u64::MAX);
        for piece in &mut self.flying {
            self.lacking
                .add(piece.range.start.max(size)..piece.range.end);
            piece.changed_to = u64::MAX;
        }
    }

    /// Takes the next piece, at most `piece_bytes` long, if one may be sent and fewer than `most` are in flight.
    pub(super) fn take(
        &mut self,
        id: PieceId,
        piece_bytes: u64,
        most: usize,
    ) -> Option<Range<u64>> {
        let free = self.free(most)?;
        let range = free.start..free.end.min(free.start.saturating_add(piece_bytes.max(1)));
        self.lacking.remove(range.clone());
        self.cursor = range.end;
        let at = self
            .flying
            .partition_point(|f| f.range.start <= range.start);
        let piece = Flying {
            id,
            range: range.clone(),
            owed: self.owed.overlap(range.clone()).next().is_some(),
            in_round: self.round.overlap(range.clone()).next().is_some(),
            changed_to: 0,
        };
        self.owed.remove(range.clone());
        self.round.remove(range.clone());
        self.flying.insert(at, piece);
        Some(range)
    }

    /// Makes piece `id`, which is not sent yet, cover everything up to `end` that is lacking and not in flight. What it no longer covers is lacking
    /// again. Returns its range; `None` if it is not in flight.
    pub(super) fn reach(&mut self, id: PieceId, end: u64) -> Option<Range<u64>> {
        let at = self.flying.iter().position(|f| f.id == id)?;
        let next = self.flying.get(at + 1).map_or(u64::MAX, |f| f.range.start);
        let before = self.flying[at].range.end;
        let more = self.lacking.overlap(before..end.min(next)).next();
        let piece = &mut self.flying[at];
        if end < before {
            let rest = end.max(piece.range.start)..before;
            piece.range.end = rest.start;
            if piece.owed {
                self.owed.add(rest.clone());
            }
            if piece.in_round {
                self.round.add(rest.clone());
            }
            self.lacking.add(rest);
        } else if let Some(more) = more.filter(|more| more.start == before) {
            piece.owed |= self.owed.overlap(more.clone()).next().is_some();
            piece.in_round |= self.round.overlap(more.clone()).next().is_some();
            piece.range.end = more.end;
            self.lacking.remove(more.clone());
            self.owed.remove(more.clone());
            self.round.remove(more.clone());
            self.cursor = self.cursor.max(more.end);
        }
        Some(self.flying[at].range.clone())
    }

    /// A lacking range that overlaps nothing in flight.
    pub(super) fn free(&self, most: usize) -> Option<Range<u64>> {
        if self.flying.len() >= most.max(1) {
            return None;
        }
        self.free_from(self.cursor).or_else(|| self.free_from(0))
    }

    fn free_from(&self, offset: u64) -> Option<Range<u64>> {
        self.lacking
            .overlap(offset..u64::MAX)
            .find_map(|range| self.first_gap(range))
    }

    /// The first part of `range` that overlaps nothing in flight.
    fn first_gap(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut gap = range;
        let first = self.flying.partition_point(|f| f.range.end <= gap.start);
        for piece in &self.flying[first..] {
            if piece.range.start > gap.start {
                gap.end = gap.end.min(piece.range.start);
                break;
            }
            gap.start = gap.start.max(piece.range.end);
        }
        Some(gap).filter(|gap| !gap.is_empty())
    }

    /// The reader of piece `id` found that the file ends at `size`: behind that only what was changed since is lacking.
    pub(super) fn found_end(&mut self, id: PieceId, size: u64) {
        let Some(piece) = self.flying.iter_mut().find(|f| f.id == id) else {
            return;
        };
        piece.range.end = piece.range.end.min(size.max(piece.range.start));
        let behind = self.lacking.split_off(size.max(piece.changed_to));
        self.owed.remove(size..u64::MAX);
        self.round.remove(size..u64::MAX);
        for piece in &self.flying {
            for again in behind.overlap(piece.range.clone()) {
                self.lacking.add(again);
            }
        }
    }

    /// The peer has piece `id`. False if it was not in flight.
    pub(super) fn land(&mut self, id: PieceId) -> bool {
        let before = self.flying.len();
        self.flying.retain(|f| f.id != id);
        self.flying.len() < before
    }

    /// Piece `id` did not arrive, and its range was noted as changed again: its owed part is still owed.
    pub(super) fn fail(&mut self, id: PieceId) {
        if let Some(at) = self.flying.iter().position(|f| f.id == id) {
            let piece = self.flying.remove(at);
            if piece.owed {
                self.owed.add(piece.range.clone());
            }
            if piece.in_round {
                self.round.add(piece.range);
            }
        }
    }

    /// How many pieces are in flight.
    pub(super) fn in_flight_count(&self) -> usize {
        self.flying.len()
    }

    /// The fate of the pieces in flight is unknown: they are due again.
    pub(super) fn lose(&mut self, now: Moment, most: usize) {
        if self.flying.is_empty() {
            return;
        }
        for piece in std::mem::take(&mut self.flying) {
            if piece.owed {
                self.owed.add(piece.range.clone());
            }
            if piece.in_round {
                self.round.add(piece.range.clone());
            }
            self.lacking.add(piece.range);
        }
        self.lacking.limit(most);
        self.offers = true;
        self.due = self.due.min(now);
        self.cursor = 0;
    }
}
