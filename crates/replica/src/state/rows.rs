//! What the rows of an update are about, as far as a replica has to know.
//!
//! What must never enter: what rows say, which the store knows.

use store::RowChange;
use vfs::ObjectId;

/// The tags of the tables of objects, of their names, of extended attributes, and of the files that lack data of others
/// (docs/disk-format.md).
pub(crate) const OBJECTS: u8 = 1;
pub(crate) const LINKS: u8 = 3;
pub(crate) const XATTRS: u8 = 4;
pub(crate) const INCOMPLETE: u8 = 18;

/// The object that a row of one of these tables belongs to; `None` for a row of another table.
pub(crate) fn object_in(table: u8, change: &RowChange) -> Option<ObjectId> {
    let key = change.key.first_chunk::<8>()?;
    (change.table == table).then(|| ObjectId::from_u64(u64::from_be_bytes(*key)))
}
