//! The true state, as an observer who sees everything knows it, and what must hold for it.

use super::disk::{CELL, CELLS, Contents, number};
use super::event::{Io, IoReply, IoRequest, Value};
use super::world::World;
use pool::home::Owed;
use pool::{Act, ContentsId, IntentNumber};
use std::collections::{BTreeMap, BTreeSet};
use vfs::ObjectId;

/// A file, a change attribute and a cell, with the value that was read under that attribute.
pub(super) type Kept = (ObjectId, u64, u64, Option<u64>);

/// The promises made so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// The place of the last write to a cell that a client was told is stable, and when it was told.
    pub(super) committed: BTreeMap<(ObjectId, u64), (u64, u64)>,
    /// Attempts of clients that have later succeeded with another attempt.
    pub(super) superseded: BTreeSet<u64>,
    /// Sessions that have lost their lock, and when they were fenced.
    pub(super) fenced: BTreeMap<u64, u64>,
    /// Files whose removal was answered, and when.
    pub(super) removed: BTreeMap<ObjectId, u64>,
    /// Changes that were answered: file, first and last cell concerned, time.
    pub(super) cuts: Vec<(ObjectId, u64, u64, u64)>,
    /// Intents that were carried out once.
    pub(super) carried_out: BTreeSet<(usize, IntentNumber)>,
    /// When each cell was last cut.
    pub(super) cut_at: BTreeMap<(ObjectId, u64), u64>,
    /// The cached values of readers.
    pub(super) kept: Vec<Kept>,
    /// The values of a settled file under each change attribute.
    pub(super) versions: BTreeMap<(ObjectId, u64), BTreeMap<u64, u64>>,
    /// Counts events.
    pub(super) time: u64,
}

impl Truth {
    pub(super) fn commit(&mut self, file: ObjectId, cell: u64, order: u64) {
        let now = self.time;
        if self.cut_at.get(&(file, cell)).is_some_and(|at| *at > order) {
            return;
        }
        let last = self.committed.entry((file, cell)).or_insert((order, now));
        if last.0 < order {
            *last = (order, now);
        }
    }

    /// A data server carries an intent out; only the first time may it cut.
    pub(super) fn carry_out(
        &mut self,
        server: usize,
        owed: &pool::Intent,
        is_here: impl Fn(u64) -> bool,
    ) {
        if !self.carried_out.insert((server, owed.number)) {
            return;
        }
        let file = owed.contents.object;
        self.time += 1;
        for cell in (0..CELLS).filter(|cell| is_here(*cell) && cuts(owed.act, *cell)) {
            self.committed.remove(&(file, cell));
            self.cut_at.insert((file, cell), self.time);
        }
    }
}

/// Whether an act makes a hole of a cell.
pub(super) fn cuts(act: Act, cell: u64) -> bool {
    match act {
        Act::Fence => false,
        Act::Truncate(size) => cell * CELL >= size,
        Act::Punch(hole) => (hole.offset..hole.offset + hole.length).contains(&(cell * CELL)),
        Act::Remove => true,
    }
}

impl World {
    pub(super) fn broken(&mut self, invariant: &'static str, sight: String) {
        if self.violation.is_none() {
            self.violation = Some((invariant, sight));
        }
    }

    /// A request was admitted.
    pub(super) fn check_admitted(&mut self, server: usize, request: &IoRequest) {
        if request.forged {
            self.broken("P5", format!("data server {server} admits a forged handle"));
        }
        if self.servers[server].restored {
            self.broken(
                "P9",
                format!("data server {server} serves with an older copy of its store"),
            );
        }
        let removed = self.truth.removed.get(&request.file);
        let removed = removed.is_some_and(|at| *at < request.sent);
        // The home itself may make a copy stable although it is told later that the copy is not needed any more.
        if removed && request.client.is_some() {
            self.broken(
                "P2",
                format!(
                    "data server {server} serves {} that was removed",
                    request.file
                ),
            );
        }
    }

    /// A write happens.
    pub(super) fn check_write(&mut self, server: usize, request: &IoRequest, admitted: u64) {
        let what = format!("session {} writes at data server {server}", request.session);
        if self.truth.superseded.contains(&request.id) {
            self.broken("P9", format!("{what} what it has written otherwise since"));
        }
        if self
            .truth
            .fenced
            .get(&request.session)
            .is_some_and(|at| *at < admitted)
        {
            self.broken("P9", format!("{what} after it was fenced"));
        }
    }

    /// A client gets the value that it has read.
    pub(super) fn check_reply(&mut self, server: usize, request: &IoRequest, reply: IoReply) {
        let (Io::Read(cell), IoReply::Read(value)) = (request.io, reply) else {
            return;
        };
        let order = value.map_or(0, |value: Value| value.order);
        let promised = self.truth.committed.get(&(request.file, cell));
        if promised.is_some_and(|(promised, at)| *at < request.sent && order < *promised) {
            self.broken(
                "P3",
                format!(
                    "cell {cell} of {} at data server {server} lacks what was committed",
                    request.file
                ),
            );
        }
        let cut = |(file, first, last, at): &(ObjectId, u64, u64, u64)| {
            *file == request.file
                && (*first..=*last).contains(&cell)
                && *at < request.sent
                && order != 0
                && order < *at
        };
        if self.truth.cuts.iter().any(cut) {
            self.broken(
                "P9",
                format!(
                    "cell {cell} of {} at data server {server} is as it was before it was cut",
                    request.file
                ),
            );
        }
    }

    /// The contents of a data server after everything that it owes. `None`: unknown.
    fn effective(&self, server: usize, contents: ContentsId) -> Option<Contents> {
        let node = &self.servers[server];
        if node.restored {
            return None;
        }
        let present = node.present.as_ref().map(|present| &present.contents);
        let stored = present.unwrap_or(&node.disk.contents).get(&contents);
        let mut effective = stored.cloned().unwrap_or_default();
        let through = effective
            .fenced
            .map_or(IntentNumber(0), |fenced| fenced.through);
        let open = self.home.rows.intents.values().filter(|owed: &&Owed| {
            owed.owed.contains(&number(server))
                && owed.intent.contents == contents
                && owed.intent.number > through
        });
        let intents: Vec<_> = open.map(|owed| owed.intent).collect();
        intents
            .iter()
            .for_each(|intent| effective.carry_out(intent, self.home.disk.key));
        Some(effective)
    }

    /// The home reports the size of a file, and its row is settled.
    pub(super) fn check_settled(&mut self, object: ObjectId, size: u64) {
        let Some(row) = self.home.rows.rows.get(&object) else {
            return;
        };
        let (contents, change) = (row.row.contents, row.change);
        let parts: Option<Vec<Contents>> = (0..self.servers.len())
            .map(|server| self.effective(server, contents))
            .collect();
        let Some(parts) = parts else {
            return;
        };
        let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
        if end != size {
            self.broken(
                "P1",
                format!(
                    "{object} ends at {} and the home says {}",
                    end / CELL,
                    size / CELL
                ),
            );
        }
        let cells: BTreeMap<u64, Value> = parts.into_iter().flat_map(|part| part.cells).collect();
        for ((file, cell), (order, _)) in &self.truth.committed.clone() {
            let is_there = cells.get(cell).is_some_and(|value| value.order >= *order);
            let is_cut =
                self.home.rows.intents.values().any(|owed| {
                    owed.intent.contents.object == *file && cuts(owed.intent.act, *cell)
                });
            if *file == object && !is_there && !is_cut {
                self.broken(
                    "P3",
                    format!("cell {cell} of {object} lacks what was committed"),
                );
            }
        }
        let values: BTreeMap<u64, u64> = cells
            .iter()
            .map(|(cell, value)| (*cell, value.value))
            .collect();
        for (file, under, cell, value) in self.truth.kept.clone() {
            if (file, under) == (object, change) && values.get(&cell).copied() != value {
                self.broken(
                    "P7",
                    format!("a reader keeps another cell {cell} of {object} under change {change}"),
                );
            }
        }
        let owed = self.home.rows.intents.values();
        if owed
            .into_iter()
            .any(|owed| owed.intent.contents == contents)
        {
            // An absent data server may still lose what it had not made stable; no client has read it since.
            return;
        }
        let known = self
            .truth
            .versions
            .entry((object, change))
            .or_insert_with(|| values.clone())
            .clone();
        if known != values {
            self.broken(
                "P7",
                format!("{object} has other bytes than before under change {change}"),
            );
        }
    }

    /// Nothing is active any more.
    pub(super) fn check_rest(&mut self) {
        for place in 0..self.clients.len() {
            if let Some(run) = &self.clients[place].run {
                let sight = format!("client {place} waits: {run:?}");
                self.broken("P6", sight);
            }
        }
        if let Some(mover) = self.home.movers.front() {
            let sight = format!("a move waits: {mover:?}");
            self.broken("P6", sight);
        }
        for (place, node) in self.servers.clone().iter().enumerate() {
            for (contents, stored) in &node.disk.contents {
                let row = self.home.rows.rows.get(&contents.object);
                let is_its = row.is_some_and(|row| row.row.contents == *contents);
                if !is_its && !stored.cells.is_empty() {
                    self.broken(
                        "P3",
                        format!("data server {place} keeps {contents:?} that belongs to nothing"),
                    );
                }
            }
        }
    }
}
