//! How the home of the simulation moves files: it copies cell by cell, and sends the core's requests before, between and after. If anything
//! goes wrong, the move is given up and started again.

use super::disk::{CELL, CELLS, number, server_of};
use super::event::{Io, IoReply, IoRequest, Node, Value};
use super::truth::cuts;
use super::world::World;
use crate::pool::event::Cargo;
use pool::home::{FileRow, Request};
use pool::{Act, ContentsId};
use pool::{Generation, PlacementNumber};
use std::collections::{BTreeMap, BTreeSet};
use vfs::ObjectId;

/// The time limit for a data server.
const SILENCE_US: u64 = 8_000_000;
/// The pause between two attempts, and before the end of an attempt.
const PAUSE_US: u64 = 500_000;
/// The pause between two cells.
const PACE_US: u64 = 100_000;

/// A move to carry out.
#[derive(Clone, Debug)]
pub(super) struct Mover {
    file: ObjectId,
    count: usize,
    first: usize,
    step: Step,
    /// When the step began.
    since: u64,
    /// The active request to a data server or to the core.
    waiting: Option<u64>,
    to: Option<FileRow>,
    /// For each data server, the run in which something was written.
    runs: BTreeMap<usize, u64>,
    /// Cells that were changed after they may have been copied.
    changed: BTreeSet<u64>,
    /// Those of them that are being copied again.
    round: BTreeSet<u64>,
    /// No client uses the old contents any more, and this is the last round.
    is_sealed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing was done yet, or the last attempt was given up.
    Rest,
    Noting,
    EndingWriters,
    Settling,
    Reading(u64),
    Writing(u64),
    /// Reads a changed cell again.
    ReadingAgain(u64),
    WritingAgain(u64),
    /// Waits for its pace: before this cell, or before the end.
    Pausing(u64),
    Sealing,
    /// Makes the contents stable at the data server with this place among those of the file.
    MakingStable(usize),
    Switching,
    GivingUp,
}

impl Mover {
    pub(super) fn begin_anew(&mut self) {
        self.step = Step::Rest;
        self.waiting = None;
        self.to = None;
        self.runs.clear();
        self.changed.clear();
        self.round.clear();
        self.is_sealed = false;
    }

    /// Whether no client may change the file until the move has ended.
    fn holds(&self, file: ObjectId) -> bool {
        let lies_elsewhere_soon = match self.step {
            Step::Rest | Step::Noting | Step::EndingWriters | Step::Settling => false,
            Step::Reading(_) | Step::Writing(_) | Step::Pausing(_) | Step::GivingUp => false,
            Step::ReadingAgain(_) | Step::WritingAgain(_) => self.is_sealed,
            Step::Sealing | Step::MakingStable(_) | Step::Switching => true,
        };
        self.file == file && lies_elsewhere_soon
    }
}

impl World {
    pub(super) fn will_move(&mut self, file: ObjectId, count: usize, first: usize) {
        self.home.movers.push_back(Mover {
            file,
            count,
            first,
            step: Step::Rest,
            since: 0,
            waiting: None,
            to: None,
            runs: BTreeMap::new(),
            changed: BTreeSet::new(),
            round: BTreeSet::new(),
            is_sealed: false,
        });
    }

    pub(super) fn move_tick(&mut self) {
        let now = self.now.0;
        let Some(mover) = self.home.movers.front() else {
            return;
        };
        let passed = now.saturating_sub(mover.since);
        match mover.step {
            Step::Rest if passed >= PAUSE_US => self.begin_move(),
            Step::Pausing(cell) if cell < CELLS && passed >= PACE_US => self.copy_cell(cell),
            Step::Pausing(_) if passed >= PAUSE_US => {
                let file = mover.file;
                self.ask_core(file, Step::Sealing, Request::Seal);
            }
            Step::Reading(_)
            | Step::Writing(_)
            | Step::ReadingAgain(_)
            | Step::WritingAgain(_)
            | Step::MakingStable(_)
            | Step::Settling
                if passed >= SILENCE_US =>
            {
                self.give_move_up();
            }
            _ => {}
        }
    }

    fn move_step(&mut self, step: Step) {
        let now = self.now.0;
        if let Some(mover) = self.home.movers.front_mut() {
            mover.step = step;
            mover.since = now;
            mover.waiting = None;
        }
    }

    /// Begins a step of the core. Returns the number that comes back with the result.
    fn step_of_core(&mut self, step: Step) -> u64 {
        self.move_step(step);
        let number = self.fresh();
        if let Some(mover) = self.home.movers.front_mut() {
            mover.waiting = Some(number);
        }
        number
    }

    fn ask_core(&mut self, file: ObjectId, step: Step, request: Request) {
        let number = self.step_of_core(step);
        self.operate_move(file, number, request);
    }

    fn begin_move(&mut self) {
        let Some(mover) = self.home.movers.front() else {
            return;
        };
        let (file, count, first) = (mover.file, mover.count, mover.first);
        let Some(row) = self.home.rows.rows.get(&file).map(|row| row.row.clone()) else {
            self.home.movers.pop_front();
            return;
        };
        let servers = self.servers.len();
        let members = (first..first + count).map(|place| number(place % servers));
        let placement = PlacementNumber(self.home.rows.next_placement);
        let to = FileRow {
            contents: ContentsId {
                object: file,
                placement,
            },
            generation: Generation::FIRST,
            members: members.collect(),
            size: 0,
            unsettled: false,
        };
        let noting = self.step_of_core(Step::Noting);
        if let Some(mover) = self.home.movers.front_mut() {
            mover.to = Some(to.clone());
            mover.runs.clear();
        }
        // Without the record no later run knows of the number.
        self.home.rows.next_placement += 1;
        self.move_file(&row, to, noting);
    }

    /// The core has done its part of a step.
    pub(super) fn move_goes_on(&mut self, step: u64, done: bool) {
        let mover = self.home.movers.front();
        let Some(mover) = mover.filter(|mover| mover.waiting == Some(step)) else {
            return;
        };
        let file = mover.file;
        if !self.home.rows.rows.contains_key(&file) {
            self.home.movers.pop_front();
            return;
        }
        match mover.step {
            Step::GivingUp => {
                if let Some(mover) = self.home.movers.front_mut() {
                    mover.begin_anew();
                }
                self.move_step(Step::Rest);
            }
            _ if !done => self.give_move_up(),
            Step::Noting => {
                self.ask_core(file, Step::EndingWriters, Request::Alone);
            }
            Step::EndingWriters => {
                self.ask_core(file, Step::Settling, Request::Look);
            }
            Step::Settling => self.copy_next(0),
            Step::Sealing => {
                if let Some(mover) = self.home.movers.front_mut() {
                    mover.is_sealed = true;
                }
                self.copy_changes();
            }
            Step::Switching => {
                self.home.movers.pop_front();
            }
            // These steps wait for data servers.
            _ => {}
        }
    }

    fn give_move_up(&mut self) {
        if let Some(file) = self.home.movers.front().map(|mover| mover.file) {
            if !self.home.rows.rows.contains_key(&file) {
                self.home.movers.pop_front();
                return;
            }
            self.ask_core(file, Step::GivingUp, Request::GiveUp);
        }
    }

    fn copy_next(&mut self, cell: u64) {
        match cell < CELLS {
            true if self.copies_slowly => self.move_step(Step::Pausing(cell)),
            true => self.copy_cell(cell),
            false => self.copy_changes(),
        }
    }

    fn copy_cell(&mut self, cell: u64) {
        let Some(mover) = self.home.movers.front() else {
            return;
        };
        let file = mover.file;
        let Some(row) = self.home.rows.rows.get(&file).map(|row| row.row.clone()) else {
            self.home.movers.pop_front();
            return;
        };
        self.move_step(Step::Reading(cell));
        self.ask_for_copy(&row, server_of(&row, cell), Io::Read(cell));
    }

    fn make_copy_stable(&mut self, place: usize) {
        let Some(mover) = self.home.movers.front() else {
            return;
        };
        let (file, Some(to)) = (mover.file, mover.to.clone()) else {
            return;
        };
        match to.members.get(place) {
            Some(member) => {
                self.move_step(Step::MakingStable(place));
                self.ask_for_copy(&to, usize::from(member.0), Io::Commit);
            }
            None => {
                let row = self.home.rows.rows.get(&file);
                let size = row.map_or(0, |row| row.row.size);
                self.ask_core(file, Step::Switching, Request::Switch(size));
            }
        }
    }

    fn ask_for_copy(&mut self, row: &FileRow, server: usize, io: Io) {
        let (id, sent) = (self.fresh(), self.tick());
        let Some(core) = &self.home.core else {
            return;
        };
        let handle = core.own_handle(row, number(server));
        if let Some(mover) = self.home.movers.front_mut() {
            mover.waiting = Some(id);
        }
        let request = IoRequest {
            id,
            client: None,
            session: 0,
            file: row.contents.object,
            handle: *handle.as_bytes(),
            io,
            sent,
            connection: self.servers[server].connection,
            forged: false,
        };
        self.send(Node::Home, Node::Server(server), Cargo::Io(request));
    }

    /// A data server has answered the home.
    pub(super) fn copied(&mut self, id: u64, reply: IoReply) {
        let Some(mover) = self.home.movers.front_mut() else {
            return;
        };
        if mover.waiting != Some(id) {
            return;
        }
        mover.waiting = None;
        match (mover.step, reply) {
            (Step::Reading(cell), IoReply::Read(None)) => self.copy_next(cell + 1),
            (Step::Reading(cell), IoReply::Read(value)) => {
                self.write_copy(Step::Writing(cell), cell, value);
            }
            (Step::ReadingAgain(cell), IoReply::Read(value)) => {
                self.write_copy(Step::WritingAgain(cell), cell, value);
            }
            (Step::Writing(cell) | Step::WritingAgain(cell), IoReply::Written { run, .. }) => {
                let Some(to) = mover.to.as_ref() else {
                    return;
                };
                let server = server_of(to, cell);
                let before = mover.runs.insert(server, run);
                let is_first = matches!(mover.step, Step::Writing(_));
                match before.is_none_or(|before| before == run) {
                    true if is_first => self.copy_next(cell + 1),
                    true => self.copy_next_change(),
                    false => self.give_move_up(),
                }
            }
            (Step::MakingStable(place), IoReply::Committed { run }) => {
                let member = mover.to.as_ref().map(|to| usize::from(to.members[place].0));
                let written = member.and_then(|member| mover.runs.get(&member));
                match written.is_none_or(|written| *written == run) {
                    true => self.make_copy_stable(place + 1),
                    false => self.give_move_up(),
                }
            }
            _ => self.give_move_up(),
        }
    }

    /// Begins to copy the changed cells within the file again. The file may later grow over cells beyond its end, which were changed as well.
    fn copy_changes(&mut self) {
        let keeps_beyond = self.keeps_changes_beyond;
        let Some(mover) = self.home.movers.front_mut() else {
            return;
        };
        let row = self.home.rows.rows.get(&mover.file);
        let size = row.map_or(0, |row| row.row.size);
        let beyond = mover.changed.split_off(&size.div_ceil(CELL));
        mover.round = std::mem::take(&mut mover.changed);
        if keeps_beyond {
            mover.changed = beyond;
        }
        self.copy_next_change();
    }

    /// Copies a changed cell again, or continues after the last.
    fn copy_next_change(&mut self) {
        let Some(mover) = self.home.movers.front_mut() else {
            return;
        };
        let is_sealed = mover.is_sealed;
        let (file, cell) = (mover.file, mover.round.pop_first());
        let row = self.home.rows.rows.get(&file).map(|row| row.row.clone());
        match (row, cell) {
            (None, _) => {
                self.home.movers.pop_front();
            }
            (Some(_), None) if is_sealed => self.make_copy_stable(0),
            (Some(_), None) if self.copies_slowly => self.move_step(Step::Pausing(CELLS)),
            (Some(_), None) => self.ask_core(file, Step::Sealing, Request::Seal),
            (Some(row), Some(cell)) => {
                self.move_step(Step::ReadingAgain(cell));
                self.ask_for_copy(&row, server_of(&row, cell), Io::Read(cell));
            }
        }
    }

    /// The home has changed contents.
    pub(super) fn note_changed(&mut self, file: ObjectId, act: Act) {
        let mover = self.home.movers.front_mut();
        let mover = mover.filter(|mover| mover.file == file && self.copies_changes);
        if let Some(mover) = mover {
            mover
                .changed
                .extend((0..CELLS).filter(|cell| cuts(act, *cell)));
        }
    }

    /// Whether no client may change a file now, since its row is about to name other contents.
    pub(super) fn is_held(&self, file: ObjectId) -> bool {
        let mover = self.home.movers.front();
        mover.is_some_and(|mover| mover.holds(file))
    }

    fn write_copy(&mut self, step: Step, cell: u64, value: Option<Value>) {
        let Some(to) = self.home.movers.front().and_then(|mover| mover.to.clone()) else {
            return;
        };
        self.move_step(step);
        self.ask_for_copy(&to, server_of(&to, cell), Io::Copy(cell, value));
    }
}
