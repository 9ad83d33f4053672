//! The parts of operations, each for one object, and the plan for a wish.

use crate::tree::{Entry, Kind, Record, Row, Tree};
use crate::wish::{Refusal, Wish};
use std::collections::BTreeMap;
use vfs::{Name, ObjectId};

/// What an operation does to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// No other operation may move a directory meanwhile. Belongs to the root.
    Moves,
    /// Adds a name.
    NameIn {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
        /// The new entry.
        entry: Entry,
        /// The earlier entry.
        replaced: Option<Entry>,
    },
    /// Removes a name.
    NameOut {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
        /// Its entry.
        entry: Entry,
    },
    /// A name must not change until the operation is over.
    NameKept {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Name,
        /// Its entry.
        entry: Option<Entry>,
    },
    /// A new object.
    Born {
        /// The object.
        object: ObjectId,
        /// Its row.
        row: Row,
    },
    /// Adds a name of a file.
    LinkUp {
        /// The file.
        object: ObjectId,
    },
    /// Removes a name of a file, and the file with the last name.
    LinkDown {
        /// The file.
        object: ObjectId,
    },
    /// Removes an empty directory.
    Empty {
        /// The directory.
        object: ObjectId,
    },
    /// Changes the parent of a directory.
    Reparent {
        /// The directory.
        object: ObjectId,
        /// The earlier parent.
        from: ObjectId,
        /// The new parent.
        to: ObjectId,
    },
    /// Rights change.
    SetMode {
        /// The object.
        object: ObjectId,
        /// The new rights.
        mode: u32,
    },
    /// Contents have changed.
    Touch {
        /// The object.
        object: ObjectId,
    },
}

/// What a part locks of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// The right to move directories.
    Moves,
    /// The row, and all names in the object.
    Row,
    /// As [`Claim::Row`]: the parent of the directory changes.
    Place,
    /// As [`Claim::Row`]: the directory is about to be removed.
    Seal,
    /// One name.
    Name(Name),
}

impl Part {
    /// The object whose home has to prepare the part.
    pub(crate) fn object(&self) -> ObjectId {
        match self {
            Part::Moves => ObjectId::ROOT,
            Part::NameIn { directory, .. }
            | Part::NameOut { directory, .. }
            | Part::NameKept { directory, .. } => *directory,
            Part::Born { object, .. }
            | Part::LinkUp { object }
            | Part::LinkDown { object }
            | Part::Empty { object }
            | Part::Reparent { object, .. }
            | Part::SetMode { object, .. }
            | Part::Touch { object } => *object,
        }
    }

    pub(crate) fn claim(&self) -> Claim {
        match self {
            Part::Moves => Claim::Moves,
            Part::NameIn { name, .. }
            | Part::NameOut { name, .. }
            | Part::NameKept { name, .. } => Claim::Name(name.clone()),
            Part::Empty { .. } => Claim::Seal,
            Part::Reparent { .. } => Claim::Place,
            _ => Claim::Row,
        }
    }

    /// Whether copies have to be revoked before it happens (rule 14). Otherwise their holders are told afterwards.
    pub(crate) fn revokes(&self) -> bool {
        match self {
            Part::NameOut { .. }
            | Part::LinkDown { .. }
            | Part::Empty { .. }
            | Part::Reparent { .. }
            | Part::SetMode { .. } => true,
            Part::NameIn { replaced, .. } => replaced.is_some(),
            _ => false,
        }
    }

    /// Whether it can be carried out.
    pub(crate) fn verify(&self, tree: &dyn Tree) -> Result<(), Refusal> {
        let row = tree.row(self.object());
        let expect = |is_so: bool, refusal| if is_so { Ok(()) } else { Err(refusal) };
        match self {
            Part::Moves => Ok(()),
            Part::NameIn {
                directory,
                name,
                replaced,
                ..
            } => {
                is_directory(row)?;
                expect(tree.entry(*directory, name) == *replaced, Refusal::Changed)
            }
            Part::NameOut {
                directory,
                name,
                entry,
            } => expect(
                tree.entry(*directory, name) == Some(*entry),
                Refusal::Changed,
            ),
            Part::NameKept {
                directory,
                name,
                entry,
            } => expect(tree.entry(*directory, name) == *entry, Refusal::Changed),
            Part::Born { .. } => expect(row.is_none(), Refusal::Changed),
            Part::LinkUp { .. } => {
                let row = row.ok_or(Refusal::Stale)?;
                expect(row.kind == Kind::File, Refusal::IsDirectory)
            }
            Part::Empty { object } => {
                is_directory(row)?;
                expect(!tree.has_entries(*object), Refusal::NotEmpty)
            }
            Part::Reparent { from, .. } => {
                let row = row.ok_or(Refusal::Changed)?;
                expect(row.parent == Some(*from), Refusal::Changed)
            }
            Part::LinkDown { .. } | Part::SetMode { .. } | Part::Touch { .. } => {
                expect(row.is_some(), Refusal::Stale)
            }
        }
    }
}

fn is_directory(row: Option<Row>) -> Result<(), Refusal> {
    match row.map(|row| row.kind) {
        None => Err(Refusal::Stale),
        Some(Kind::File) => Err(Refusal::NotDirectory),
        Some(Kind::Directory) => Ok(()),
    }
}

/// The records that parts of one operation produce at their home.
pub(crate) fn effects<'a>(parts: impl Iterator<Item = &'a Part>, tree: &dyn Tree) -> Vec<Record> {
    let mut rows: BTreeMap<ObjectId, Option<Row>> = BTreeMap::new();
    let mut records = Vec::new();
    for part in parts {
        let object = part.object();
        let before = rows
            .get(&object)
            .copied()
            .unwrap_or_else(|| tree.row(object));
        let changed = before.map(|row| Row {
            change: row.change + 1,
            ..row
        });
        let after = match part {
            Part::Moves | Part::NameKept { .. } => continue,
            Part::NameIn {
                directory,
                name,
                entry,
                ..
            } => {
                records.push(Record::Entry(*directory, name.clone(), Some(*entry)));
                changed
            }
            Part::NameOut {
                directory, name, ..
            } => {
                records.push(Record::Entry(*directory, name.clone(), None));
                changed
            }
            Part::Born { row, .. } => Some(*row),
            Part::LinkUp { .. } => changed.map(|row| Row {
                links: row.links.saturating_add(1),
                ..row
            }),
            Part::LinkDown { .. } => changed.filter(|row| row.links > 1).map(|row| Row {
                links: row.links - 1,
                ..row
            }),
            Part::Empty { .. } => None,
            Part::Reparent { to, .. } => changed.map(|row| Row {
                parent: Some(*to),
                ..row
            }),
            Part::SetMode { mode, .. } => changed.map(|row| Row { mode: *mode, ..row }),
            Part::Touch { .. } => changed.map(|row| Row {
                stamp: row.stamp + 1,
                ..row
            }),
        };
        rows.insert(object, after);
    }
    let rows = rows
        .into_iter()
        .map(|(object, row)| Record::Row(object, row));
    records.extend(rows);
    records
}

/// The operation for a wish.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// In the order in which they are prepared.
    pub(crate) parts: Vec<Part>,
    /// The new object.
    pub(crate) made: Option<ObjectId>,
    /// The directory that moves, if its new parent might lie in it.
    pub(crate) moved: Option<ObjectId>,
    /// Why it will be refused once all parts are prepared. The refusal is decided then, so that everything was seen at one moment.
    pub(crate) refusal: Option<Refusal>,
}

/// Turns a wish into parts, at the home that decides.
///
/// # Errors
/// A refusal that this home can decide alone.
pub(crate) fn plan(
    wish: &Wish,
    source: Option<Entry>,
    tree: &mut dyn Tree,
) -> Result<Plan, Refusal> {
    let there = wish.name().map(|(directory, name)| {
        is_directory(tree.row(directory))?;
        Ok(tree.entry(directory, name))
    });
    let there = there.transpose()?.flatten();
    let name_in = |directory: &ObjectId, name: &Name, entry, replaced| Part::NameIn {
        directory: *directory,
        name: name.clone(),
        entry,
        replaced,
    };
    let name_out = |directory: &ObjectId, name: &Name, entry| Part::NameOut {
        directory: *directory,
        name: name.clone(),
        entry,
    };
    let is_free = || there.map_or(Ok(()), |_| Err(Refusal::Exists));
    let mut plan = Plan::default();
    match wish {
        Wish::Create { directory, name } => {
            is_free()?;
            let (object, kind) = (tree.allocate(), Kind::File);
            let row = Row::new(kind, None);
            plan.made = Some(object);
            plan.parts = vec![
                name_in(directory, name, Entry { object, kind }, None),
                Part::Born { object, row },
            ];
        }
        Wish::Mkdir {
            directory,
            name,
            child,
        } => {
            is_free()?;
            let (object, kind) = (*child, Kind::Directory);
            let row = Row::new(kind, Some(*directory));
            plan.made = Some(object);
            plan.parts = vec![
                name_in(directory, name, Entry { object, kind }, None),
                Part::Born { object, row },
            ];
        }
        Wish::Link {
            object,
            directory,
            name,
        } => {
            is_free()?;
            let (object, kind) = (*object, Kind::File);
            plan.parts = vec![
                name_in(directory, name, Entry { object, kind }, None),
                Part::LinkUp { object },
            ];
        }
        Wish::Remove { directory, name } => {
            let entry = there.ok_or(Refusal::NotFound)?;
            if entry.kind == Kind::Directory {
                return Err(Refusal::IsDirectory);
            }
            plan.parts = vec![name_out(directory, name, entry), gone(entry)];
        }
        Wish::Rmdir { directory, name } => {
            let entry = there.ok_or(Refusal::NotFound)?;
            if entry.kind == Kind::File {
                return Err(Refusal::NotDirectory);
            }
            plan.parts = vec![name_out(directory, name, entry), gone(entry)];
        }
        Wish::Rename { from, to } => {
            let entry = source.ok_or(Refusal::NotFound)?;
            plan = rename(from, to, entry, there);
        }
        Wish::SetMode { object, mode } => {
            let (object, mode) = (*object, *mode);
            plan.parts = vec![Part::SetMode { object, mode }];
        }
        Wish::Touch { object } => plan.parts = vec![Part::Touch { object: *object }],
    }
    Ok(plan)
}

/// The part for an object that loses a name.
fn gone(entry: Entry) -> Part {
    let object = entry.object;
    match entry.kind {
        Kind::File => Part::LinkDown { object },
        Kind::Directory => Part::Empty { object },
    }
}

fn rename(
    from: &(ObjectId, Name),
    to: &(ObjectId, Name),
    entry: Entry,
    replaced: Option<Entry>,
) -> Plan {
    let refusal = replaced.and_then(|replaced| match (entry.kind, replaced.kind) {
        (Kind::Directory, Kind::File) => Some(Refusal::NotDirectory),
        (Kind::File, Kind::Directory) => Some(Refusal::IsDirectory),
        _ => None,
    });
    let mut plan = Plan {
        refusal,
        ..Plan::default()
    };
    let is_same = replaced.is_some_and(|replaced| replaced.object == entry.object);
    if is_same || plan.refusal.is_some() {
        let kept = |(directory, name): &(ObjectId, Name), entry| Part::NameKept {
            directory: *directory,
            name: name.clone(),
            entry,
        };
        plan.parts = vec![kept(from, Some(entry)), kept(to, replaced)];
        return plan;
    }
    plan.parts = vec![
        Part::NameIn {
            directory: to.0,
            name: to.1.clone(),
            entry,
            replaced,
        },
        Part::NameOut {
            directory: from.0,
            name: from.1.clone(),
            entry,
        },
    ];
    plan.parts.extend(replaced.map(gone));
    if entry.kind == Kind::Directory && from.0 != to.0 {
        plan.parts.push(Part::Moves);
        plan.parts.push(Part::Reparent {
            object: entry.object,
            from: from.0,
            to: to.0,
        });
        plan.moved = Some(entry.object);
    }
    plan
}
