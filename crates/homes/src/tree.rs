//! What a home keeps on stable storage, as the core sees it.

use crate::message::OperationName;
use crate::part::Part;
use crate::wish::{Answer, Origin};
use pool::HomeNumber;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{Name, ObjectId};

/// The kind of an object, as far as names are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object without names in it.
    File,
    /// An object with names in it, and with one name of its own.
    Directory,
}

/// What a home knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// The number of names of a file.
    pub links: u32,
    /// The parent of a directory. `None` for files and the root.
    pub parent: Option<ObjectId>,
    /// The rights.
    pub mode: u32,
    /// Stands for the attributes that change with the contents.
    pub stamp: u64,
    /// Grows with every change of the row and of the names in it.
    pub change: u64,
}

impl Row {
    /// The row of a new object.
    #[must_use]
    pub fn new(kind: Kind, parent: Option<ObjectId>) -> Row {
        Row {
            kind,
            links: 1,
            parent,
            mode: 0o700,
            stamp: 0,
            change: 1,
        }
    }
}

/// The target of a name. The kind is included, so that no server has to ask another home for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object.
    pub object: ObjectId,
    /// Its kind.
    pub kind: Kind,
}

/// Something to store or to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A row. `None`: remove it.
    Row(ObjectId, Option<Row>),
    /// An entry of a name. `None`: remove it.
    Entry(ObjectId, Name, Option<Entry>),
    /// A part of an operation is prepared.
    Prepared(OperationName, u8, Part),
    /// Nothing of this operation is prepared any more.
    Settled(OperationName),
    /// An operation was carried out, and these homes may not know it. Without such homes the record is removed.
    Decided(OperationName, BTreeSet<HomeNumber>),
    /// The answer to a client. Replaces the earlier answer.
    Answered(Origin, Answer),
}

/// The rows and names of one home.
///
/// Each caller sees a commit at once. Commits become stable in their order. The results of a call ([`crate::Command`]) leave only
/// when everything that was committed before is stable.
pub trait Tree {
    /// The row of an object.
    fn row(&self, object: ObjectId) -> Option<Row>;
    /// The entry of a name.
    fn entry(&self, directory: ObjectId, name: &Name) -> Option<Entry>;
    /// Whether a directory has names.
    fn has_entries(&self, directory: ObjectId) -> bool;
    /// A new object identifier of this home. It was never used, and will not be used again after a restart.
    fn allocate(&mut self) -> ObjectId;
    /// One batch: after a crash, all of it or none of it is there.
    fn commit(&mut self, batch: Vec<Record>);
}

/// What a home finds when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// From [`Record::Prepared`].
    pub prepared: BTreeMap<OperationName, BTreeMap<u8, Part>>,
    /// From [`Record::Decided`].
    pub decided: BTreeMap<OperationName, BTreeSet<HomeNumber>>,
    /// From [`Record::Answered`], by client.
    pub answers: BTreeMap<u64, (u64, Answer)>,
}

impl Recovered {
    /// Applies a record about operations and answers.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Prepared(operation, index, part) => {
                let parts = self.prepared.entry(*operation).or_default();
                parts.insert(*index, part.clone());
            }
            Record::Settled(operation) => {
                self.prepared.remove(operation);
            }
            Record::Decided(operation, owing) if owing.is_empty() => {
                self.decided.remove(operation);
            }
            Record::Decided(operation, owing) => {
                self.decided.insert(*operation, owing.clone());
            }
            Record::Answered(origin, answer) => {
                let answer = (origin.number, *answer);
                self.answers.insert(origin.client, answer);
            }
            Record::Row(..) | Record::Entry(..) => {}
        }
    }
}
