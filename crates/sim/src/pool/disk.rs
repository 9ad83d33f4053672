//! The contents of disks, and what they lose.

use super::event::Value;
use pool::data_server::{Fenced, Shelf};
use pool::home::{FileRow, Owed, Record, Recovered};
use pool::{
    Act, ContentsId, DataServerNumber, Generation, Intent, IntentNumber, KeyNumber, Report,
    StoreIdentity, StripeUnit,
};
use std::collections::BTreeMap;
use vfs::ObjectId;

/// Bytes of a cell.
pub(super) const CELL: u64 = StripeUnit::MIN.bytes();

/// The maximum number of cells that are written.
pub(super) const CELLS: u64 = 8;

/// Some contents at a data server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) cells: BTreeMap<u64, Value>,
    pub(super) end: u64,
    pub(super) fenced: Option<Fenced>,
    /// A tombstone stays until all keys up to this one have stopped counting.
    pub(super) sealed_until: Option<KeyNumber>,
}

impl Contents {
    pub(super) fn write(&mut self, cell: u64, value: Value) {
        self.cells.insert(cell, value);
        self.end = self.end.max((cell + 1) * CELL);
    }

    /// Carries an intent out; `key` is the last key that may seal handles of the removed contents.
    pub(super) fn carry_out(&mut self, intent: &Intent, key: KeyNumber) {
        if intent.act == Act::Remove {
            self.sealed_until = Some(key);
        }
        match intent.act {
            Act::Fence => {}
            Act::Truncate(size) => {
                self.cells.retain(|cell, _| cell * CELL < size);
                self.end = size;
            }
            Act::Punch(extent) => {
                let hole = extent.offset..extent.offset + extent.length;
                self.cells.retain(|cell, _| !hole.contains(&(cell * CELL)));
            }
            Act::Remove => {
                self.cells.clear();
                self.end = 0;
            }
        }
        let removed = intent.act == Act::Remove || self.fenced.is_some_and(|fenced| fenced.removed);
        self.fenced = Some(Fenced {
            generation: intent.generation,
            through: intent.number,
            removed,
        });
    }
}

/// No older key counts any more. Removes the tombstones for such keys.
pub(super) fn forget(all: &mut BTreeMap<ContentsId, Contents>, oldest: KeyNumber) {
    all.retain(|_, contents| contents.sealed_until.is_none_or(|key| key >= oldest));
}

/// The disk of a data server.
#[derive(Clone, Debug)]
pub(super) struct ServerDisk {
    pub(super) identity: StoreIdentity,
    pub(super) contents: BTreeMap<ContentsId, Contents>,
}

/// The contents of a data server, stable or not, as its core sees them.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) run: u64,
    pub(super) contents: BTreeMap<ContentsId, Contents>,
    pub(super) writes: BTreeMap<ContentsId, u64>,
}

impl Shelf for Present {
    fn fenced(&self, contents: ContentsId) -> Option<Fenced> {
        self.contents.get(&contents)?.fenced
    }

    fn report(&self, contents: ContentsId) -> Report {
        Report {
            end: self
                .contents
                .get(&contents)
                .map_or(0, |contents| contents.end),
            run: self.run,
            writes: self.writes.get(&contents).copied().unwrap_or(0),
        }
    }
}

/// What a home stores of a file.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) row: FileRow,
    pub(super) change: u64,
}

/// What a home stores.
#[derive(Clone, Debug)]
pub(super) struct HomeDisk {
    pub(super) issue: u64,
    /// The number of the newest key.
    pub(super) key: KeyNumber,
    pub(super) identities: BTreeMap<DataServerNumber, Option<StoreIdentity>>,
    pub(super) intents: BTreeMap<IntentNumber, Owed>,
    pub(super) next_intent: u64,
    pub(super) rows: BTreeMap<ObjectId, Row>,
    /// The targets of moves.
    pub(super) moves: BTreeMap<ObjectId, FileRow>,
    /// Larger than every used placement number.
    pub(super) next_placement: u32,
}

impl HomeDisk {
    pub(super) fn new(servers: usize, files: &[ObjectId]) -> HomeDisk {
        let members: Vec<DataServerNumber> = (0..servers).map(number).collect();
        let row = |object: &ObjectId| {
            let row = FileRow {
                contents: ContentsId {
                    object: *object,
                    placement: pool::PlacementNumber(1),
                },
                generation: Generation::FIRST,
                members: members.clone(),
                size: 0,
                unsettled: false,
            };
            (*object, Row { row, change: 1 })
        };
        HomeDisk {
            issue: 0,
            key: KeyNumber(1),
            identities: members.iter().map(|member| (*member, None)).collect(),
            intents: BTreeMap::new(),
            next_intent: 1,
            rows: files.iter().map(row).collect(),
            moves: BTreeMap::new(),
            next_placement: 2,
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        match record {
            Record::StoreIdentity(server, identity) => {
                self.identities.insert(*server, Some(*identity));
            }
            Record::Key(number) => self.key = *number,
            Record::Intend(owed) => self.intend(owed),
            Record::Taken(number, server) => {
                if let Some(owed) = self.intents.get_mut(number) {
                    owed.owed.remove(server);
                }
                self.forget(*number);
            }
            Record::Row {
                row,
                changed,
                intent,
            } => {
                if let Some(kept) = self.rows.get_mut(&row.contents.object) {
                    kept.row = row.clone();
                    kept.change += u64::from(*changed);
                }
                intent.iter().for_each(|number| self.in_row(*number));
            }
            Record::Gone(object, number) => {
                self.rows.remove(object);
                self.in_row(*number);
            }
            Record::Moving(to) => {
                self.next_placement = to.contents.placement.0 + 1;
                self.moves.insert(to.contents.object, to.clone());
            }
            Record::Moved { row, old } => {
                self.moves.remove(&row.contents.object);
                if let Some(kept) = self.rows.get_mut(&row.contents.object) {
                    kept.row = row.clone();
                }
                self.intend(old);
            }
            Record::MoveGivenUp(owed) => {
                self.moves.remove(&owed.intent.contents.object);
                self.intend(owed);
            }
        }
    }

    fn intend(&mut self, owed: &Owed) {
        let number = owed.intent.number;
        self.next_intent = number.0 + 1;
        self.intents.insert(number, owed.clone());
        self.forget(number);
    }

    fn in_row(&mut self, number: IntentNumber) {
        if let Some(owed) = self.intents.get_mut(&number) {
            owed.in_row = true;
        }
        self.forget(number);
    }

    fn forget(&mut self, number: IntentNumber) {
        self.intents
            .retain(|other, owed| *other != number || !owed.owed.is_empty() || !owed.in_row);
    }

    fn recovered(&self) -> Recovered {
        let open = self.intents.values().filter(|owed| !owed.in_row);
        let row = |owed: &Owed| self.rows.get(&owed.intent.contents.object);
        Recovered {
            servers: self.identities.clone(),
            intents: self.intents.values().cloned().collect(),
            files: open.filter_map(row).map(|row| row.row.clone()).collect(),
            next_intent: self.next_intent,
            moves: self.moves.values().cloned().collect(),
        }
    }

    /// The state with which a home starts. Active moves are given up first.
    pub(super) fn start(&mut self) -> Recovered {
        let mut recovered = self.recovered();
        for record in recovered.give_moves_up() {
            self.apply(&record);
        }
        recovered
    }
}

/// The place of the data server with a cell of a file.
pub(super) fn server_of(row: &FileRow, cell: u64) -> usize {
    let members = &row.members;
    usize::from(members[(cell % members.len() as u64) as usize].0)
}

/// The number of the data server at a place.
pub(super) fn number(place: usize) -> DataServerNumber {
    DataServerNumber(u16::try_from(place).unwrap_or(u16::MAX))
}
