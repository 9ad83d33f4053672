//! The contents of a home's disk.

use ::homes::{Entry, Record, Recovered, Row, Tree};
use std::collections::{BTreeMap, VecDeque};
use vfs::{Name, ObjectId, ReplicaSlot};

/// Rows, names, and records about operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    pub(super) rows: BTreeMap<ObjectId, Row>,
    pub(super) entries: BTreeMap<(ObjectId, Name), Entry>,
    pub(super) recovered: Recovered,
}

impl Shelf {
    fn apply(&mut self, record: &Record) {
        self.recovered.apply(record);
        match record {
            Record::Row(object, Some(row)) => {
                self.rows.insert(*object, *row);
            }
            Record::Row(object, None) => {
                self.rows.remove(object);
            }
            Record::Entry(directory, name, Some(entry)) => {
                self.entries.insert((*directory, name.clone()), *entry);
            }
            Record::Entry(directory, name, None) => {
                self.entries.remove(&(*directory, name.clone()));
            }
            _ => {}
        }
    }
}

/// Something that waits for the disk, in order.
#[derive(Clone, Debug)]
pub(super) enum Queued {
    Batch(Vec<Record>),
    Command(homes::Command),
}

/// The disk, and the queue of what is not stable yet.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    slot: ReplicaSlot,
    counter: u64,
    pub(super) stable: Shelf,
    pub(super) present: Shelf,
    pub(super) queue: VecDeque<Queued>,
}

impl Disk {
    pub(super) fn new(slot: ReplicaSlot) -> Disk {
        Disk {
            slot,
            counter: 0,
            stable: Shelf::default(),
            present: Shelf::default(),
            queue: VecDeque::new(),
        }
    }

    /// Stores a row at the beginning of the run.
    pub(super) fn plant(&mut self, object: ObjectId, row: Row) {
        self.stable.rows.insert(object, row);
        self.present.rows.insert(object, row);
    }

    /// Loses what was not stable.
    pub(super) fn crash(&mut self) {
        self.queue.clear();
        self.present = self.stable.clone();
    }

    /// Makes the next entry of the queue stable.
    pub(super) fn flush_one(&mut self) -> Option<Queued> {
        let next = self.queue.pop_front()?;
        if let Queued::Batch(batch) = &next {
            batch.iter().for_each(|record| self.stable.apply(record));
        }
        Some(next)
    }
}

impl Tree for Disk {
    fn row(&self, object: ObjectId) -> Option<Row> {
        self.present.rows.get(&object).copied()
    }

    fn entry(&self, directory: ObjectId, name: &Name) -> Option<Entry> {
        let key = (directory, name.clone());
        self.present.entries.get(&key).copied()
    }

    fn has_entries(&self, directory: ObjectId) -> bool {
        self.present.entries.keys().any(|(of, _)| *of == directory)
    }

    fn allocate(&mut self) -> ObjectId {
        self.counter += 1;
        ObjectId::new(self.slot, self.counter).unwrap_or(ObjectId::ROOT)
    }

    fn commit(&mut self, batch: Vec<Record>) {
        batch.iter().for_each(|record| self.present.apply(record));
        self.queue.push_back(Queued::Batch(batch));
    }
}
