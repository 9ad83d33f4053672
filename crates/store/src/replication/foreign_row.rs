//! Rows that come from another replica: what they mean, and whether they are possible at all.

use vfs::{Error, ObjectId, ReplicaSlot, RequestId, Result};

use super::mark::Mark;
use crate::data::MAX_FILE_BYTES;
use crate::locks::Held;
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::recording::RowChange;
use crate::rows::{
    Content, EntryRow, ObjectRow, RequestRow, XattrRow, decode_denials, decode_locks, key,
};
use crate::shares::Denial;

/// One row as another primary wrote it.
#[derive(Debug)]
pub(super) enum ForeignRow {
    Object {
        id: ObjectId,
        row: Option<ObjectRow>,
    },
    Link {
        child: ObjectId,
        parent: ObjectId,
        added: bool,
        change: RowChange,
    },
    Locks {
        id: ObjectId,
        held: Vec<Held>,
        change: RowChange,
    },
    Denials {
        id: ObjectId,
        denials: Vec<Denial>,
        change: RowChange,
    },
    /// A file lacks data of another replica. Only copies of a complete tree contain such rows.
    Incomplete {
        of: (ObjectId, ReplicaSlot),
        mark: Mark,
    },
    /// Names of a directory.
    Names { change: RowChange },
    /// The result of a client's request.
    Request { row: RequestRow, change: RowChange },
    /// An extended attribute of an object.
    Xattr { id: ObjectId, change: RowChange },
}

impl OpenStore {
    /// Decodes and checks every row before anything is changed.
    pub(super) fn understand(&self, changes: Vec<RowChange>) -> Result<Vec<ForeignRow>> {
        let rows = changes
            .into_iter()
            .map(|change| self.understand_one(change));
        rows.collect::<std::result::Result<_, Malformed>>()
            .map_err(|Malformed(what)| {
                tracing::error!("another replica sent a row that cannot be: {what}");
                Error::Invalid(what)
            })
    }

    fn understand_one(&self, change: RowChange) -> std::result::Result<ForeignRow, Malformed> {
        let value = change.value.as_deref();
        match Table::from_tag(change.table) {
            Some(Table::Objects) => {
                let id = key::parse_object(&change.key)?;
                let row = value.map(ObjectRow::decode).transpose()?;
                check_object(id, row.as_ref())?;
                Ok(ForeignRow::Object { id, row })
            }
            Some(Table::Entries) => {
                let (_, hash) = key::parse_entry(&change.key)?;
                let row = value.map(EntryRow::decode).transpose()?;
                let mut names = row.iter().flat_map(EntryRow::entries);
                if names.any(|entry| self.hash(entry.name.as_bytes()) != hash) {
                    return Err(Malformed("a name lies where another belongs"));
                }
                Ok(ForeignRow::Names { change })
            }
            Some(Table::Links) => {
                let (child, parent, _) = key::parse_link(&change.key)?;
                if value.is_some_and(|value| !value.is_empty()) {
                    return Err(Malformed("a link is not empty"));
                }
                Ok(ForeignRow::Link {
                    child,
                    parent,
                    added: value.is_some(),
                    change,
                })
            }
            Some(Table::Xattrs) => {
                let (id, ..) = key::parse_xattr(&change.key)?;
                value.map(XattrRow::decode).transpose()?;
                Ok(ForeignRow::Xattr { id, change })
            }
            Some(Table::Locks) => Ok(ForeignRow::Locks {
                id: key::parse_object(&change.key)?,
                held: value.map_or(Ok(Vec::new()), decode_locks)?,
                change,
            }),
            Some(Table::Denials) => Ok(ForeignRow::Denials {
                id: key::parse_object(&change.key)?,
                denials: value.map_or(Ok(Vec::new()), decode_denials)?,
                change,
            }),
            Some(Table::Requests) => {
                if change.key.len() != RequestId::SERIES_BYTES {
                    return Err(Malformed("the name of a series has another length"));
                }
                let row = value.ok_or(Malformed("a request is taken back"))?;
                Ok(ForeignRow::Request {
                    row: RequestRow::decode(row)?,
                    change,
                })
            }
            Some(Table::Incomplete) => Ok(ForeignRow::Incomplete {
                of: key::parse_incomplete(&change.key)?,
                mark: Mark::decode(value.ok_or(Malformed("a mark of missing data is empty"))?)?,
            }),
            _ => Err(Malformed("it belongs to a table that is not shared")),
        }
    }
}

impl Mutation<'_> {
    /// Enters a row into a tree that is not in use yet. Content comes later.
    pub(super) fn install(&mut self, row: ForeignRow) -> Result<()> {
        match row {
            ForeignRow::Object {
                id,
                row: Some(mut row),
            } => {
                if let Ok(file) = row.file_mut() {
                    file.stored = false;
                    file.placement = None;
                }
                self.replace_object(id, row)?;
            }
            ForeignRow::Object { row: None, .. } => {
                return Err(Error::Invalid("a copy of a tree removes nothing"));
            }
            ForeignRow::Locks { id, held, change } => {
                self.enter_row(Table::Locks, &change);
                self.then(move |store, _| {
                    store.locks().replace(id, held);
                });
            }
            ForeignRow::Denials {
                id,
                denials,
                change,
            } => {
                self.enter_row(Table::Denials, &change);
                self.then(move |store, _| {
                    store.shares().follow(id, denials);
                });
            }
            ForeignRow::Incomplete { of, mark } => {
                self.put_local(Table::Incomplete, &key::incomplete(of), &mark.encode());
                self.then(move |store, _| store.incomplete.set(of, Some(mark)));
            }
            ForeignRow::Request { row, change } => self.enter_request(&change.key, row)?,
            ForeignRow::Link { change, .. } => self.enter_row(Table::Links, &change),
            ForeignRow::Names { change } => self.enter_row(Table::Entries, &change),
            ForeignRow::Xattr { change, .. } => self.enter_row(Table::Xattrs, &change),
        }
        Ok(())
    }

    /// Enters a row unchanged.
    pub(super) fn enter_row(&mut self, table: Table, change: &RowChange) {
        match &change.value {
            Some(value) => self.put_local(table, &change.key, value),
            None => self.remove_local(table, &change.key),
        }
    }
}

/// Rejects rows of an object that no primary can have written.
fn check_object(id: ObjectId, row: Option<&ObjectRow>) -> std::result::Result<(), Malformed> {
    match row {
        None if id == ObjectId::ROOT => Err(Malformed("the root is gone")),
        None => Ok(()),
        Some(row) if id == ObjectId::ROOT && !row.is_directory() => {
            Err(Malformed("the root is no directory"))
        }
        Some(row) if row.links == 0 => Err(Malformed("an object has no name")),
        Some(row) if matches!(row.content, Content::Directory(_)) && row.links != 1 => {
            Err(Malformed("a directory has several names"))
        }
        Some(row) if row.size > MAX_FILE_BYTES => Err(Malformed("a file is too long")),
        Some(_) => Ok(()),
    }
}
