//! What a home keeps, stably, as the core sees it.

use crate::message::OperationName;
use crate::part::Part;
use crate::wish::{Answer, Origin};
use pool::HomeNumber;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{Name, ObjectId};

/// What an object is, as far as names are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something without names in it.
    File,
    /// Something with names in it, which has one name itself.
    Directory,
}

/// What a home knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// How many names a file has.
    pub links: u32,
    /// Where a directory lies. `None` for files, and for the root.
    pub parent: Option<ObjectId>,
    /// Who may do what.
    pub mode: u32,
    /// Stands for what changes with the contents.
    pub stamp: u64,
    /// Grows with every change of the row, and of the names in it.
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

/// Where a name leads. The kind is there, so that nobody has to ask another home for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// To which object.
    pub object: ObjectId,
    /// What that is.
    pub kind: Kind,
}

/// Something that is to become stable, or to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What a row says now. `None`: it goes.
    Row(ObjectId, Option<Row>),
    /// Where a name leads now.
    Entry(ObjectId, Name, Option<Entry>),
    /// A part of an operation is prepared.
    Prepared(OperationName, u8, Part),
    /// Nothing of this operation is prepared any more.
    Settled(OperationName),
    /// An operation was carried out, and these homes may not know. With nobody left it is forgotten.
    Decided(OperationName, BTreeSet<HomeNumber>),
    /// What a client is answered. Replaces what it was answered before.
    Answered(Origin, Answer),
}

/// The rows and names of one home.
///
/// What is committed is seen at once by each caller that asks here. It is stable in the order in
/// which it was committed, and what a call hands out ([`crate::Command`]) leaves only when
/// everything that was committed before is stable.
pub trait Tree {
    /// The row of an object.
    fn row(&self, object: ObjectId) -> Option<Row>;
    /// Where a name leads.
    fn entry(&self, directory: ObjectId, name: &Name) -> Option<Entry>;
    /// Whether a directory has names.
    fn has_entries(&self, directory: ObjectId) -> bool;
    /// An object identifier of this home that nobody had before, and nobody gets after a restart.
    fn allocate(&mut self) -> ObjectId;
    /// One batch: all or nothing of it survives.
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
    /// Takes over what a record says of operations and answers.
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
