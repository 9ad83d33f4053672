//! What one peer lacks of file contents, and in which order it is sent.
//!
//! The front page of `shipping` has the duties of callers. `shortfall` has the state of one file.

mod resting;

use super::piece::{BLOCKS_MAX, Manner, Piece, PieceId, blocks_of};
use super::shortfall::{QueuePlace, Shortfall};
use control::{Moment, Position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;
use vfs::ObjectId;

/// What a piece costs of [`Settings::in_flight_bytes`] besides its bytes; as much as a message costs of the transport's credit, so that the number of
/// small pieces is bounded, too.
const PIECE_COST: u64 = 256;

/// How a [`Backlog`] behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a fresh change rests, so that data that is overwritten or removed meanwhile costs nothing. Later changes of the file do not prolong
    /// it.
    pub delay: Duration,
    /// How long a change rests at most while clients keep the server busy; see [`Backlog::would_rest`].
    pub busy_delay: Duration,
    /// Only files of which the peer lacks at least this many bytes rest then: small files are sent quickly, and there may be very many of them.
    pub resting_bytes: u64,
    /// The longest piece, in bytes.
    pub piece_bytes: u64,
    /// How many separate ranges, and how many pieces in flight, one file may have. Beyond it the ranges closest to each other are joined.
    pub max_ranges: usize,
    /// How many files have detailed ranges. Each further file has a single range, which covers all of its changes.
    pub detailed_files: usize,
    /// How much may be in flight, in bytes; the last piece may exceed it.
    pub in_flight_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            delay: Duration::from_millis(200),
            busy_delay: Duration::from_secs(10),
            resting_bytes: 1 << 20,
            piece_bytes: 1 << 20,
            max_ranges: 64,
            detailed_files: 10_000,
            in_flight_bytes: 64 << 20,
        }
    }
}

/// A piece that the peer has not acknowledged.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    file: ObjectId,
    cost: u64,
    manner: Manner,
}

/// What one peer lacks of file contents.
///
/// Time never goes backwards in here: a moment before the latest one counts as the latest one.
#[derive(Debug)]
pub struct Backlog {
    settings: Settings,
    files: BTreeMap<ObjectId, Shortfall>,
    queue: BTreeMap<QueuePlace, ObjectId>,
    ages: BTreeSet<(Moment, ObjectId)>,
    in_flight: BTreeMap<PieceId, InFlight>,
    in_flight_cost: u64,
    /// Pieces in flight of which the peer lacks some blocks; these go next.
    refused: VecDeque<PieceId>,
    bytes: u128,
    /// Counts pieces and turns.
    count: u64,
    /// The latest moment that a caller passed.
    now: Moment,
    /// When an operation last waited for everything.
    expedited: Option<Moment>,
    /// The number of files for which an operation waits.
    awaited: usize,
    /// Files that are due and rest longer.
    resting: BTreeSet<ObjectId>,
    /// The peer is a witness: it keeps no contents, and so lacks none.
    witness: bool,
    account: Account,
    /// Lets a test show what happens when pieces in flight are forgotten.
    #[cfg(test)]
    pub(super) forget_in_flight: bool,
}

/// How much is known of what a peer lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Account {
    /// Everything that it lacks.
    Exact,
    /// What it lacks of the shipped changes; it may also lack parts of a copy.
    Open,
    /// Nothing is known or noted: the peer was away for too long and takes a whole copy.
    GivenUp,
}

/// No peer lacks this many bytes of files of known length.
const LONGEST: u64 = u64::MAX / 2;

impl Backlog {
    /// The backlog of a peer that lacks nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Backlog {
        Backlog {
            settings,
            files: BTreeMap::new(),
            queue: BTreeMap::new(),
            ages: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            in_flight_cost: 0,
            refused: VecDeque::new(),
            bytes: 0,
            count: 0,
            now: Moment::default(),
            expedited: None,
            awaited: 0,
            resting: BTreeSet::new(),
            witness: false,
            account: Account::Exact,
            #[cfg(test)]
            forget_in_flight: false,
        }
    }

    /// The backlog of a peer that keeps no contents: it never lacks any.
    #[must_use]
    pub fn of_witness(settings: Settings) -> Backlog {
        Backlog {
            witness: true,
            ..Backlog::new(settings)
        }
    }

    /// Notes nothing more: the peer takes a whole copy when it is back. Returns the files that it lacked.
    pub fn give_up(&mut self) -> Vec<ObjectId> {
        let files = std::mem::take(&mut self.files).into_keys().collect();
        *self = Backlog {
            account: Account::GivenUp,
            witness: self.witness,
            count: self.count,
            now: self.now,
            ..Backlog::new(self.settings.clone())
        };
        files
    }

    /// Changes are noted from now on; the peer may lack more.
    pub fn reopen(&mut self) {
        self.account = Account::Open;
    }

    /// Every change behind the place that the peer has reached is noted; `whole`: the peer has everything else.
    pub fn balance(&mut self, whole: bool) {
        self.account = match whole {
            true => Account::Exact,
            false => Account::Open,
        };
    }

    /// The peer has given up its copy, or begins with one.
    pub fn is_empty_handed(&mut self) {
        if self.account == Account::Exact {
            self.account = Account::Open;
        }
    }

    /// Whether nothing is noted, because the peer takes a whole copy when it is back.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.account == Account::GivenUp
    }

    /// Whether the peer lacks only what is noted.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.account == Account::Exact
    }

    /// Whether the peer keeps contents at all.
    #[must_use]
    pub fn keeps_contents(&self) -> bool {
        !self.witness
    }

    /// The update at `follows` wrote, punched or allocated `range` of `file`; `0..u64::MAX` is the whole file, of any length. Call this when the
    /// change is visible to readers.
    pub fn changed(&mut self, now: Moment, file: ObjectId, range: Range<u64>, follows: Position) {
        if range.is_empty() || self.witness || self.is_given_up() {
            return;
        }
        let now = self.tell(now);
        let most = self.ranges_of(file);
        let rested = now.after(self.settings.delay);
        let everything_expedited = self.expedited;
        self.files.entry(file).or_insert_with(|| {
            self.ages.insert((now, file));
            Shortfall::new(now, follows)
        });
        self.update(file, |state| {
            state.follows = state.follows.max(follows);
            if state.lacking.is_empty() {
                let rests = !state.is_expedited() && everything_expedited < Some(state.since);
                state.due = if rests { rested } else { state.due_from(now) };
            }
            state.change(range, most);
        });
    }

    /// The peer may lack any part of `file`, or nothing: this replica does not know. The peer is offered the whole file, and sent what it lacks.
    pub fn suspected(&mut self, now: Moment, file: ObjectId, follows: Position) {
        self.changed(now, file, 0..u64::MAX, follows);
        self.update(file, |state| state.offers = true);
    }

    /// The update at `follows` truncated `file` to `size`. Nothing behind that needs to be sent, but ranges in flight behind it become lacking again,
    /// because they may arrive after the file has grown again. Call this when the truncation is visible to readers and before its record can have
    /// been sent: afterwards the pieces in flight may already have arrived and be forgotten here.
    pub fn cut(&mut self, file: ObjectId, size: u64, follows: Position) {
        let now = self.now;
        self.update(file, |state| {
            state.follows = state.follows.max(follows);
            if state.lacking.is_empty() {
                state.due = state.due_from(now);
            }
            state.cut(size);
        });
    }

    /// `file` is gone, and nothing of it needs to be sent. Its pieces in flight may arrive; the peer drops them.
    pub fn removed(&mut self, file: ObjectId) {
        if let Some(state) = self.files.remove(&file) {
            self.bytes -= state.bytes();
            self.ages.remove(&(state.since, file));
            state.queued.map(|place| self.queue.remove(&place));
            self.awaited -= usize::from(state.is_expedited());
            self.resting.remove(&file);
        }
        // The peer does not acknowledge what is not sent: frees the space at once.
        let mut gone = Vec::new();
        self.refused.retain(|id| {
            let is_gone = self
                .in_flight
                .get(id)
                .is_some_and(|piece| piece.file == file);
            gone.extend(is_gone.then_some(*id));
            !is_gone
        });
        for id in gone {
            self.land(id);
        }
    }

    /// A piece to read and send now, if there is one. From here on it is in flight, and it overlaps no other piece in flight of that file. Read it
    /// after this call, so that it has every change up to `follows`.
    ///
    /// Files take turns with one piece each. The file that has been due longest goes first; a file that an operation waits for has a head start.
    pub fn next(&mut self, now: Moment) -> Option<Piece> {
        let now = self.tell(now);
        if let Some(refused) = self.next_refused() {
            return Some(refused);
        }
        let (&(due, _), &file) = self.queue.first_key_value()?;
        if self.is_full() || due > now && !self.was_expedited(due) {
            return None;
        }
        let id = PieceId(self.counted());
        let (piece_bytes, most) = (self.settings.piece_bytes, self.settings.max_ranges);
        self.queue.pop_first();
        self.resting.remove(&file);
        let (range, follows, offers) = self.update(file, |state| {
            state.due = state.due_from(now);
            state.queued = None;
            let range = state.take(id, piece_bytes, most);
            (range, state.follows, state.offers)
        })?;
        let range = range.expect("a file is in the queue only while something of it may be sent");
        #[cfg(test)]
        if self.forget_in_flight {
            self.update(file, |state| state.land(id));
        }
        let manner = match offers && blocks_of(&range) <= BLOCKS_MAX {
            true => Manner::Sums,
            false => Manner::Bytes,
        };
        let cost = range.end - range.start + PIECE_COST;
        self.in_flight.insert(id, InFlight { file, cost, manner });
        self.in_flight_cost += cost;
        Some(Piece {
            id,
            file,
            range,
            follows,
            manner,
        })
    }

    /// The peer was sent the sums of a piece and lacks these blocks. False if the peer was sent bytes, because then it cannot name blocks; `None` if
    /// the piece is not in flight.
    pub fn lacks_blocks(&mut self, id: PieceId, blocks: u64) -> Option<bool> {
        let Some(range) = self.range_of(id) else {
            // The file is gone, and the peer does not acknowledge what is not sent (counterexample 89).
            self.land(id);
            return None;
        };
        let piece = self.in_flight.get_mut(&id)?;
        if piece.manner != Manner::Sums {
            return Some(false);
        }
        piece.manner = Manner::Blocks(blocks);
        let file = piece.file;
        if u64::from(blocks.count_ones()) >= blocks_of(&range) {
            // The peer lacks every block of it, so sums of the rest would be useless.
            self.update(file, |state| state.offers = false);
        }
        self.refused.push_back(id);
        Some(true)
    }

    fn next_refused(&mut self) -> Option<Piece> {
        while let Some(id) = self.refused.pop_front() {
            let Some(InFlight { file, manner, .. }) = self.in_flight.get(&id).copied() else {
                continue;
            };
            if let Some(state) = self.files.get(&file)
                && let Some(range) = state.in_flight_range(id)
            {
                return Some(Piece {
                    id,
                    file,
                    range,
                    follows: state.follows,
                    manner,
                });
            }
            // The file is gone, and the peer does not acknowledge what is not sent.
            self.land(id);
        }
        None
    }

    fn land(&mut self, id: PieceId) -> Option<ObjectId> {
        let InFlight { file, cost, .. } = self.in_flight.remove(&id)?;
        self.in_flight_cost -= cost;
        Some(file)
    }

    /// When [`Backlog::next`] will have a piece, if nothing happens before; a past moment means now. `None` if there is nothing to send, or only
    /// acknowledgements can change that.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        if (self.refused.iter()).any(|id| self.range_of(*id).is_some()) {
            return Some(self.now);
        }
        let (&(due, _), _) = self.queue.first_key_value()?;
        let due = match self.was_expedited(due) {
            true => self.now,
            false => due,
        };
        (!self.is_full()).then_some(due)
    }

    /// The reader of piece `id` found that the file ends at `size` or earlier, before the end of the piece. Then the piece is shorter, and behind
    /// `size` only what was changed after the piece was taken is lacking. A piece without content need not be sent: the caller acknowledges it at
    /// once.
    pub fn found_end(&mut self, id: PieceId, size: u64) {
        let Some(InFlight { file, .. }) = self.in_flight.get(&id).copied() else {
            return;
        };
        self.update(file, |state| state.found_end(id, size));
        self.weigh(id);
    }

    /// The reader of piece `id` found that it is part of a hole that goes on to `end`, or that the hole ends before the piece does. The piece now
    /// ends there, or earlier, where the peer lacks nothing or another piece in flight begins. The caller must read it again after this call. Returns
    /// its range and what it follows: its new part may have been changed after the piece was taken. `None` if it is no longer in flight.
    pub fn reaches(&mut self, id: PieceId, end: u64) -> Option<(Range<u64>, Position)> {
        let file = self.in_flight.get(&id)?.file;
        let reached = self.update(file, |state| {
            let range = state.reach(id, end)?;
            Some((range, state.follows))
        })?;
        self.weigh(id);
        reached
    }

    /// Makes a piece in flight count by its current range. A piece longer than the longest normal piece has no bytes.
    fn weigh(&mut self, id: PieceId) {
        if let Some(range) = self.range_of(id)
            && let Some(piece) = self.in_flight.get_mut(&id)
        {
            let cost = (range.end - range.start).min(self.settings.piece_bytes) + PIECE_COST;
            self.in_flight_cost = self.in_flight_cost - piece.cost + cost;
            piece.cost = cost;
        }
    }

    /// The peer has the piece on stable storage. Returns the file if the peer has all of it now. A piece of an ended session or of a removed file
    /// changes nothing.
    pub fn acknowledged(&mut self, id: PieceId) -> Option<ObjectId> {
        let file = self.land(id)?;
        let landed = self.update(file, |state| state.land(id))?;
        (landed && !self.lacks(file)).then_some(file)
    }

    /// A piece of `file` could not be read, sent or placed: `range`, which covers it, counts as changed by the update at `follows`, and its owed part
    /// is still owed.
    pub fn failed(
        &mut self,
        now: Moment,
        id: PieceId,
        file: ObjectId,
        range: Range<u64>,
        follows: Position,
    ) {
        self.changed(now, file, range, follows);
        if let Some(file) = self.land(id) {
            self.update(file, |state| state.fail(id));
        }
    }

    /// Everything that the peer lacks now is *owed*, until the peer has acknowledged it with its present contents or newer ones. Later changes are
    /// not owed, so that a file that is always being written does not stay owed. A repeated call starts again from that moment.
    pub fn owe(&mut self) {
        for state in self.files.values_mut() {
            state.owe();
        }
    }

    /// The same for one file.
    pub fn owe_file(&mut self, file: ObjectId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.owe();
        }
    }

    /// Whether something of `file` is owed.
    #[must_use]
    pub fn owes(&self, file: ObjectId) -> bool {
        self.files.get(&file).is_some_and(Shortfall::owes)
    }

    /// Whether this piece in flight is the only part of its file that is lacking or in flight.
    #[must_use]
    pub fn is_last(&self, id: PieceId) -> bool {
        let piece = self.in_flight.get(&id);
        let state = piece.and_then(|piece| self.files.get(&piece.file));
        state.is_some_and(|state| state.lacking.is_empty() && state.in_flight_count() == 1)
    }

    /// The session ended: everything in flight is lacking again, and due.
    pub fn lost(&mut self, now: Moment) {
        let now = self.tell(now);
        let most = self.settings.max_ranges;
        let in_flight = std::mem::take(&mut self.in_flight).into_values();
        self.in_flight_cost = 0;
        self.refused.clear();
        for file in in_flight.map(|piece| piece.file).collect::<BTreeSet<_>>() {
            self.update(file, |state| state.lose(now, most));
        }
    }

    /// Whether the peer lacks anything of `file`, or has not acknowledged it.
    #[must_use]
    pub fn lacks(&self, file: ObjectId) -> bool {
        self.files.contains_key(&file)
    }

    /// Whether the peer lacks anything of a range of `file`, or has not acknowledged it.
    #[must_use]
    pub fn lacks_of(&self, file: ObjectId, range: Range<u64>) -> bool {
        let state = self.files.get(&file);
        state.is_some_and(|state| state.lacks(range))
    }

    /// At most this many bytes of `file` still have to be sent or acknowledged.
    #[must_use]
    pub fn bytes_of(&self, file: ObjectId) -> u128 {
        self.files.get(&file).map_or(0, Shortfall::bytes)
    }

    /// The number of files of which the peer lacks something.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The files of which the peer lacks something.
    pub fn lacking(&self) -> impl Iterator<Item = ObjectId> {
        self.files.keys().copied()
    }

    /// At most this many bytes still have to be sent or acknowledged; `u64::MAX` if the length of a file is not known here.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let known = u64::try_from(self.bytes).ok();
        // The peer may have acknowledged the first part of a file of unknown length.
        known.filter(|bytes| *bytes <= LONGEST).unwrap_or(u64::MAX)
    }

    /// Everything that the peer lacks was changed at or after this moment.
    #[must_use]
    pub fn oldest(&self) -> Option<Moment> {
        self.ages.first().map(|&(since, _)| since)
    }

    /// The number of files of which the peer may lack changes made before a moment. The cost grows with the number of the other files. A file that is
    /// always being written, and sent as fast, does not count.
    #[must_use]
    pub fn files_since_before(&self, moment: Moment) -> usize {
        let later = self.ages.iter().rev();
        let later = later.take_while(|(since, _)| *since >= moment);
        self.ages.len() - later.count()
    }

    /// How many bytes are in flight, at most.
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_cost
    }

    /// The range that a piece in flight covers; `None` for a piece of an ended session or of a removed file.
    #[must_use]
    pub fn range_of(&self, id: PieceId) -> Option<Range<u64>> {
        let piece = self.in_flight.get(&id)?;
        self.files.get(&piece.file)?.in_flight_range(id)
    }

    fn is_full(&self) -> bool {
        self.in_flight_cost >= self.settings.in_flight_bytes
    }

    fn ranges_of(&self, file: ObjectId) -> usize {
        let known = self.files.len() + usize::from(!self.lacks(file));
        if known > self.settings.detailed_files {
            return 1;
        }
        self.settings.max_ranges
    }

    fn tell(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    fn counted(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Changes the state of `file`, and updates its place in the queue and the totals. `None` if nothing of it is lacking.
    fn update<R>(&mut self, file: ObjectId, change: impl FnOnce(&mut Shortfall) -> R) -> Option<R> {
        let count = self.counted();
        let state = self.files.get_mut(&file)?;
        self.bytes -= state.bytes();
        let result = change(state);
        self.bytes += state.bytes();
        let free = state.free(self.settings.max_ranges).is_some();
        let stays = free && state.queued.is_some_and(|(due, _)| due == state.due);
        if !stays {
            state.queued.map(|place| self.queue.remove(&place));
            state.queued = free.then_some((state.due, count));
            state.queued.map(|place| self.queue.insert(place, file));
        }
        let (since, was_expedited) = (state.since, state.is_expedited());
        if state.is_complete() {
            self.ages.remove(&(since, file));
            self.awaited -= usize::from(was_expedited);
            self.resting.remove(&file);
            self.files.remove(&file);
        } else if state.go_round(self.now) {
            self.awaited -= usize::from(was_expedited && !state.is_expedited());
            self.ages.remove(&(since, file));
            self.ages.insert((state.since, file));
        }
        Some(result)
    }
}
