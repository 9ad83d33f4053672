//! A primary, a network and a receiver, as small as possible while everything can still go wrong.

use super::receiver::{Receiver, Row, SentPiece};
use crate::state::shipping::{Arrivals, Backlog, Manner, Piece, PieceId, Settings};
use control::{Moment, Position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;
use vfs::ObjectId;

pub const DELAY: u64 = 5;
pub const BUSY_DELAY: u64 = 10 * DELAY;
pub const LANES: usize = 3;

/// So small that every bound is always reached.
pub fn settings() -> Settings {
    Settings {
        delay: Duration::from_micros(DELAY),
        busy_delay: Duration::from_micros(BUSY_DELAY),
        resting_bytes: 16,
        piece_bytes: 8,
        max_ranges: 3,
        detailed_files: 2,
        in_flight_bytes: 1000,
    }
}

/// Everything, and the conditions that hold at every step.
pub struct World {
    pub now: Moment,
    pub backlog: Backlog,
    pub files: BTreeMap<ObjectId, Vec<u8>>,
    pub log: Vec<Row>,
    pub receiver: Receiver,
    /// Whether pieces wait for the position they follow.
    pub pieces_wait: bool,
    /// Whether files with changes that may not have been sent are sent as a whole after a crash of the primary.
    pub marked_before_written: bool,
    /// Changes that the backlog does not know yet.
    late: VecDeque<(ObjectId, Range<u64>, Position)>,
    /// Pieces that are not read yet.
    pub taken: Vec<Piece>,
    lanes: [VecDeque<(Position, SentPiece)>; LANES],
    arrivals: Arrivals<SentPiece>,
    acknowledgements: Vec<PieceId>,
    refusals: Vec<PieceId>,
    /// Bytes that were sent as bytes.
    pub sent: usize,
    in_flight: BTreeMap<PieceId, (ObjectId, Range<u64>)>,
    due: BTreeMap<ObjectId, Moment>,
    expedited: Option<Moment>,
    gone: BTreeSet<ObjectId>,
    /// For each file, all values of every byte since everything was owed. Bytes that were added or cut off since are not in it.
    since_owed: BTreeMap<ObjectId, Vec<BTreeSet<u8>>>,
    next_file: u64,
    next_byte: u8,
}

/// Whatever is lacking has arrived after this many rounds, even if it rests.
const ROUNDS_MAX: usize = 10_000;

impl World {
    pub fn new() -> World {
        World {
            now: Moment(0),
            backlog: Backlog::new(settings()),
            files: BTreeMap::new(),
            log: Vec::new(),
            receiver: Receiver::default(),
            pieces_wait: true,
            marked_before_written: true,
            late: VecDeque::new(),
            taken: Vec::new(),
            lanes: Default::default(),
            arrivals: Arrivals::default(),
            acknowledgements: Vec::new(),
            refusals: Vec::new(),
            sent: 0,
            in_flight: BTreeMap::new(),
            due: BTreeMap::new(),
            expedited: None,
            gone: BTreeSet::new(),
            since_owed: BTreeMap::new(),
            next_file: 1,
            next_byte: 1,
        }
    }

    fn record(&mut self, file: ObjectId) -> Position {
        let size = self.files.get(&file).map(|bytes| bytes.len() as u64);
        self.log.push((file, size));
        Position(self.log.len() as u64)
    }

    pub fn create(&mut self) -> ObjectId {
        let file = ObjectId::from_u64(self.next_file);
        self.next_file += 1;
        self.files.insert(file, Vec::new());
        self.record(file);
        file
    }

    /// Writes a byte value that no recent write used.
    pub fn write(&mut self, file: ObjectId, range: Range<u64>, late: bool) {
        self.next_byte = self.next_byte.wrapping_add(1).max(1);
        let byte = self.next_byte;
        let end = range.end as usize;
        let bytes = self.files.get_mut(&file).expect("the file exists");
        bytes.resize(bytes.len().max(end), 0);
        bytes[range.start as usize..end].fill(byte);
        self.remember(file, &range, byte);
        self.changed(file, range, late);
    }

    pub fn punch(&mut self, file: ObjectId, range: Range<u64>, late: bool) {
        let bytes = self.files.get_mut(&file).expect("the file exists");
        let within = bytes.iter_mut().skip(range.start as usize);
        within
            .take(range.clone().count())
            .for_each(|byte| *byte = 0);
        self.remember(file, &range, 0);
        self.changed(file, range, late);
    }

    fn remember(&mut self, file: ObjectId, range: &Range<u64>, byte: u8) {
        if let Some(since) = self.since_owed.get_mut(&file) {
            let within = since.iter_mut().skip(range.start as usize);
            for seen in within.take(range.clone().count()) {
                seen.insert(byte);
            }
        }
    }

    /// Everything that the receiver lacks is owed from now on.
    pub fn owe(&mut self) {
        self.backlog.owe();
        let told = |file: &ObjectId| self.late.iter().all(|(late, ..)| late != file);
        let files = self.files.iter().filter(|(file, _)| told(file));
        self.since_owed = files
            .map(|(file, bytes)| (*file, bytes.iter().map(|byte| [*byte].into()).collect()))
            .collect();
    }

    pub fn resize(&mut self, file: ObjectId, size: u64) {
        let bytes = self.files.get_mut(&file).expect("the file exists");
        let shorter = size < bytes.len() as u64;
        bytes.resize(size as usize, 0);
        if let Some(since) = self.since_owed.get_mut(&file) {
            since.truncate(size as usize);
        }
        let position = self.record(file);
        if shorter {
            self.backlog.cut(file, size, position);
        }
    }

    pub fn remove(&mut self, file: ObjectId) {
        self.files.remove(&file);
        self.since_owed.remove(&file);
        self.record(file);
        self.backlog.removed(file);
        self.gone.insert(file);
    }

    fn changed(&mut self, file: ObjectId, range: Range<u64>, late: bool) {
        let position = self.record(file);
        self.late.push_back((file, range, position));
        while !late && self.tell_late() {}
    }

    /// Tells the backlog the oldest change that it does not know. False if there is none.
    pub fn tell_late(&mut self) -> bool {
        let Some((file, range, follows)) = self.late.pop_front() else {
            return false;
        };
        if !self.backlog.lacks(file) {
            let expedited = self.expedited == Some(self.now);
            let rest = if expedited { 0 } else { DELAY };
            self.due.insert(file, Moment(self.now.0 + rest));
        }
        self.gone.remove(&file);
        match range.end {
            u64::MAX => self.backlog.suspected(self.now, file, follows),
            _ => self.backlog.changed(self.now, file, range, follows),
        }
        true
    }

    pub fn expedite(&mut self, file: ObjectId) {
        self.due.insert(file, self.now);
        self.backlog.expedite(self.now, file);
    }

    pub fn expedite_all(&mut self) {
        self.expedited = Some(self.now);
        for due in self.due.values_mut() {
            *due = self.now.min(*due);
        }
        self.backlog.expedite_all(self.now);
    }

    /// Lets contents rest that may.
    pub fn rest_on(&mut self, is_busy: bool) {
        while let Some(file) = self.backlog.would_rest(self.now, is_busy) {
            assert!(self.due[&file] <= self.now, "{file:?} rests already");
            self.backlog.put_off(file);
        }
    }

    /// Takes a piece, and checks that it may be sent.
    pub fn take(&mut self) -> bool {
        let due = self.backlog.next_due();
        let Some(piece) = self.backlog.next(self.now) else {
            assert!(due.is_none_or(|due| due > self.now), "something was due");
            return false;
        };
        assert!(due.is_some_and(|due| due <= self.now), "nothing was due");
        assert!(self.due[&piece.file] <= self.now, "{piece:?} rests");
        assert!(!self.gone.contains(&piece.file), "{piece:?} was removed");
        let in_flight = self.in_flight.iter();
        let others = in_flight.filter(|(id, _)| **id != piece.id);
        let mut same =
            others.filter_map(|(_, (file, range))| (*file == piece.file).then_some(range));
        let apart =
            |other: &Range<u64>| other.end <= piece.range.start || piece.range.end <= other.start;
        let removed = !self.files.contains_key(&piece.file);
        assert!(
            removed || self.backlog.forget_in_flight || same.all(apart),
            "{piece:?} overlaps one in flight"
        );
        self.in_flight
            .insert(piece.id, (piece.file, piece.range.clone()));
        self.taken.push(piece);
        true
    }

    /// Makes a piece that was taken, and not read, longer or shorter.
    pub fn reach(&mut self, index: usize, end: u64) {
        let piece = &mut self.taken[index];
        if matches!(piece.manner, Manner::Blocks(_)) {
            return;
        }
        let Some((range, follows)) = self.backlog.reaches(piece.id, end) else {
            return;
        };
        assert_eq!(range.start, piece.range.start);
        assert!(range.end <= piece.range.end.max(end), "{range:?}");
        piece.range = range.clone();
        piece.follows = follows;
        let (id, file) = (piece.id, piece.file);
        let mut others = self.in_flight.iter().filter(|(other, _)| **other != id);
        let apart = others.all(|(_, (of, other))| {
            *of != file || other.end <= range.start || range.end <= other.start
        });
        let removed = !self.files.contains_key(&file);
        assert!(removed || apart, "{range:?} overlaps one in flight");
        self.in_flight.insert(id, (file, range));
    }

    /// Reads a piece that was taken and sends it over `lane`.
    pub fn read(&mut self, index: usize, lane: usize) {
        let piece = self.taken.swap_remove(index);
        let Some(bytes) = self.files.get(&piece.file) else {
            self.backlog.removed(piece.file);
            self.in_flight.retain(|_, (file, _)| *file != piece.file);
            return self.acknowledged(piece.id);
        };
        let size = bytes.len() as u64;
        if size < piece.range.end {
            self.backlog.found_end(piece.id, size);
            let end = size.max(piece.range.start);
            self.in_flight
                .insert(piece.id, (piece.file, piece.range.start..end));
        }
        let end = size.min(piece.range.end) as usize;
        let Some(bytes) = bytes
            .get(piece.range.start as usize..end)
            .filter(|b| !b.is_empty())
        else {
            return self.acknowledged(piece.id);
        };
        let sent_piece = SentPiece {
            id: piece.id,
            file: piece.file,
            offset: piece.range.start,
            bytes: bytes.to_vec(),
            sums: piece.manner == Manner::Sums,
        };
        if !sent_piece.sums {
            self.sent += sent_piece.bytes.len();
        }
        self.lanes[lane].push_back((piece.follows, sent_piece));
    }

    pub fn deliver_row(&mut self) -> bool {
        let Some(row) = self.log.get(self.receiver.applied) else {
            return false;
        };
        self.receiver.apply_row(row);
        self.apply_ready();
        true
    }

    pub fn deliver_piece(&mut self, lane: usize) -> bool {
        let Some((follows, sent_piece)) = self.lanes[lane].pop_front() else {
            return false;
        };
        let follows = if self.pieces_wait {
            follows
        } else {
            Position(0)
        };
        self.arrivals.push(follows, sent_piece);
        self.apply_ready();
        true
    }

    fn apply_ready(&mut self) {
        let applied = Position(self.receiver.applied as u64);
        for sent_piece in self.arrivals.ready(applied) {
            self.receiver.apply_piece(&sent_piece);
        }
    }

    pub fn make_stable(&mut self) {
        let mut stable = self.receiver.make_stable();
        self.acknowledgements.append(&mut stable);
        self.refusals.append(&mut self.receiver.take_refused());
    }

    pub fn deliver_acknowledgement(&mut self, choice: usize) -> bool {
        if let Some(id) = self.refusals.pop() {
            // Each piece is shorter than a block.
            assert_ne!(self.backlog.lacks_blocks(id, 1), Some(false));
            return true;
        }
        let count = self.acknowledgements.len();
        if count > 0 {
            let id = self.acknowledgements.swap_remove(choice % count);
            self.acknowledged(id);
        }
        count > 0
    }

    fn acknowledged(&mut self, id: PieceId) {
        self.in_flight.remove(&id);
        if let Some(file) = self.backlog.acknowledged(id) {
            assert!(!self.backlog.lacks(file));
        }
    }

    /// Loses everything on the way in both directions.
    pub fn end_session(&mut self) {
        self.forget_session();
        self.backlog.lost(self.now);
    }

    fn forget_session(&mut self) {
        self.lanes = Default::default();
        self.arrivals = Arrivals::default();
        self.acknowledgements.clear();
        self.refusals.clear();
        self.receiver.forget_pieces();
        self.taken.clear();
        self.in_flight.clear();
    }

    pub fn crash_receiver(&mut self) {
        self.receiver.crash();
        self.end_session();
    }

    /// The primary loses what was written in `range` of every file, and all its backlogs; all files are marked as unshipped, unless it forgets that,
    /// too.
    pub fn crash_primary(&mut self, range: &Range<u64>) {
        self.forget_session();
        self.late.clear();
        self.since_owed.clear();
        self.backlog = Backlog::new(settings());
        let follows = Position(self.log.len() as u64);
        for (&file, bytes) in &mut self.files {
            let lost = bytes.iter_mut().skip(range.start as usize);
            lost.take(range.clone().count()).for_each(|byte| *byte = 0);
            if self.marked_before_written {
                self.late.push_back((file, 0..u64::MAX, follows));
            }
        }
        while self.tell_late() {}
    }

    /// A file that the peer does not lack, by the backlog, is the same there once the rows have been applied, even if the peer crashes now. A file of
    /// which nothing is owed is there as it was when it was owed, or newer.
    pub fn check(&self) {
        let mut crashed = self.receiver.clone();
        crashed.crash();
        for mut receiver in [self.receiver.clone(), crashed] {
            for row in &self.log[receiver.applied..] {
                receiver.apply_row(row);
            }
            for (&file, bytes) in &self.files {
                let told = self.late.iter().all(|(late, ..)| *late != file);
                if told && !self.backlog.lacks(file) {
                    assert_eq!(receiver.content(file).as_ref(), Some(bytes), "{file}");
                }
            }
            self.check_owed(&receiver);
        }
    }

    /// For files no longer owed, each byte at the receiver has a value that it had since the contents became owed.
    fn check_owed(&self, receiver: &Receiver) {
        for (&file, since) in &self.since_owed {
            if self.backlog.owes(file) {
                continue;
            }
            let content = receiver.content(file).unwrap_or_default();
            assert!(content.len() >= since.len(), "{file} is shorter there");
            for (at, (byte, seen)) in content.iter().zip(since).enumerate() {
                assert!(seen.contains(byte), "byte {at} of {file} is older there");
            }
        }
    }

    /// Lets everything arrive. Returns whether the receiver then equals the primary.
    pub fn settle(&mut self) -> bool {
        let mut rounds = 0;
        while self.backlog.files() > 0
            || self.receiver.applied < self.log.len()
            || !self.late.is_empty()
        {
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "{:?} is never sent", self.backlog);
            self.now = Moment(self.now.0 + DELAY);
            while self.tell_late() {}
            while self.take() {}
            while !self.taken.is_empty() {
                self.read(0, 0);
            }
            while self.deliver_row() || (0..LANES).any(|lane| self.deliver_piece(lane)) {}
            self.make_stable();
            while self.deliver_acknowledgement(0) {}
        }
        assert_eq!((self.backlog.bytes(), self.backlog.oldest()), (0, None));
        assert_eq!(self.backlog.next_due(), None);
        let same = |(&file, bytes)| self.receiver.content(file).as_ref() == Some(bytes);
        self.receiver.count() == self.files.len() && self.files.iter().all(same)
    }
}
