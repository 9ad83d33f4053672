//! Update records: the rows that one operation changed, for replicas that apply the same changes.
//!
//! A record is in the same batch as the rows it describes, so after a crash both exist or neither. Its
//! position is never used again, not even if an unstable tail of records was lost. Rows that
//! concern only this copy (marks, reservations, leftovers) are not recorded. This module sends
//! nothing.

use bytes::{BufMut, Bytes};
use fields::Fields;
use vfs::ObjectId;

use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::rows::{ObjectRow, key};

const VERSION: u8 = 2;

/// One row after an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The table's tag, as in `docs/disk-format.md`.
    pub table: u8,
    /// The row's key within the table.
    pub key: Bytes,
    /// The row, or `None` when it was removed.
    pub value: Option<Bytes>,
}

/// The subject of a row of an update, as far as code that transfers updates needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSubject {
    /// The attributes of an object.
    Object(ObjectId),
    /// One of the names of an object.
    Link(ObjectId),
    /// An extended attribute of an object.
    Xattr(ObjectId),
    /// The mark that data of a file is missing.
    Incomplete(ObjectId),
}

impl RowChange {
    /// The subject of the row; `None` for a row of another kind, or an invalid row.
    #[must_use]
    pub fn subject(&self) -> Option<RowSubject> {
        let about = match Table::from_tag(self.table)? {
            Table::Objects => RowSubject::Object,
            Table::Links => RowSubject::Link,
            Table::Xattrs => RowSubject::Xattr,
            Table::Incomplete => RowSubject::Incomplete,
            _ => return None,
        };
        let object = self.key.first_chunk::<8>()?;
        Some(about(ObjectId::from_u64(u64::from_be_bytes(*object))))
    }
}

/// All rows that one operation changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRecord {
    /// Its position among all updates of this store; positions grow and have gaps.
    pub position: u64,
    /// The note of the commit hook.
    pub note: Bytes,
    /// The rows, each at most once.
    pub changes: Vec<RowChange>,
}

/// A record under construction.
#[derive(Default)]
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        // Invariant: keys are numbers and hashes, values are bounded by the limits of attributes.
        let key_bytes = u8::try_from(key.len()).expect("keys have a few dozen bytes");
        self.0.put_u8(table as u8);
        self.0.put_u8(key_bytes);
        self.0.put_slice(key);
        self.0.put_u8(u8::from(value.is_some()));
        if let Some(value) = value {
            let value_bytes = u32::try_from(value.len()).expect("rows are far below 4 GiB");
            self.0.put_u32(value_bytes);
            self.0.put_slice(value);
        }
    }

    /// The row of the record with the hook's note.
    pub(crate) fn to_row(&self, note: &[u8]) -> Vec<u8> {
        // Invariant: notes hold a few names of controls.
        let note_bytes = u32::try_from(note.len()).expect("notes are far below 4 GiB");
        let mut row = Vec::with_capacity(5 + note.len() + self.0.len());
        row.put_u8(VERSION);
        row.put_u32(note_bytes);
        row.put_slice(note);
        row.put_slice(&self.0);
        row
    }
}

impl RowChange {
    /// The file and its size, if this is the row of a file; `None` for all other and for removed rows.
    pub(crate) fn file_size(&self) -> Option<(ObjectId, u64)> {
        let (id, row) = self.object()?;
        row.file().is_ok().then_some((id, row.size))
    }

    fn object(&self) -> Option<(ObjectId, ObjectRow)> {
        if self.table != Table::Objects as u8 {
            return None;
        }
        let id = key::parse_object(&self.key).ok()?;
        let row = ObjectRow::decode(self.value.as_deref()?).ok()?;
        Some((id, row))
    }

    /// The object that gains or loses a name, and whether it gains one.
    fn link(&self) -> Option<(ObjectId, bool)> {
        if self.table != Table::Links as u8 {
            return None;
        }
        let (child, _, _) = key::parse_link(&self.key).ok()?;
        Some((child, self.value.is_some()))
    }
}

impl UpdateRecord {
    /// The object that this update created: it has one name now, and had none before.
    pub(crate) fn made(&self) -> Option<ObjectId> {
        let links = || self.changes.iter().filter_map(RowChange::link);
        let mut named = links().filter(|(_, added)| *added);
        let (child, _) = named.next()?;
        if named.next().is_some() || links().any(|link| link == (child, false)) {
            return None;
        }
        let mut objects = self.changes.iter().filter_map(RowChange::object);
        let row = objects.find(|(id, _)| *id == child);
        row.is_some_and(|(_, row)| row.links == 1 || row.is_directory())
            .then_some(child)
    }

    pub(crate) fn decode(position: u64, row: &[u8]) -> Result<UpdateRecord, Malformed> {
        let mut fields = Fields::new(row);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of an update record is unknown"));
        }
        let note_bytes = fields.u32()? as usize;
        let note = Bytes::copy_from_slice(fields.bytes(note_bytes)?);
        let mut changes = Vec::new();
        while !fields.is_empty() {
            let table = fields.u8()?;
            if Table::from_tag(table).is_none() {
                return Err(Malformed("an update record names an unknown table"));
            }
            let key_bytes = usize::from(fields.u8()?);
            let key = Bytes::copy_from_slice(fields.bytes(key_bytes)?);
            let value = match fields.u8()? {
                0 => None,
                1 => {
                    let value_bytes = fields.u32()? as usize;
                    Some(Bytes::copy_from_slice(fields.bytes(value_bytes)?))
                }
                _ => return Err(Malformed("an update record has an unknown mark")),
            };
            changes.push(RowChange { table, key, value });
        }
        Ok(UpdateRecord {
            position,
            note,
            changes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damaged_ones_are_refused() {
        let mut draft = Draft::default();
        assert!(draft.is_empty());
        draft.add(Table::Objects, b"key", Some(b"value"));
        draft.add(Table::Links, b"gone", None);
        let row = draft.to_row(b"note");
        let record = UpdateRecord::decode(9, &row).unwrap();
        assert_eq!(record.note, &b"note"[..]);
        assert_eq!(record.changes.len(), 2);
        assert_eq!(record.changes[1].value, None);
        assert!(UpdateRecord::decode(9, &row[..row.len() - 1]).is_err());
        let mut unknown = row.clone();
        unknown[9] = 99;
        assert!(UpdateRecord::decode(9, &unknown).is_err());
    }
}
