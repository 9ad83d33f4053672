//! The content of each table: rows, keys, and their encoding.
//!
//! Pure: bytes in, values out. Invalid rows are [`Malformed`](crate::malformed::Malformed), never trusted.
//! `docs/disk-format.md` has the same as a table; change both together.

mod entry;
mod held;
pub(crate) mod key;
mod object;
mod request;
mod xattr;

/// The part of [`crate::decode_as_anything`] for rows and their keys.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = ObjectRow::decode(bytes);
    let _ = EntryRow::decode(bytes);
    let _ = XattrRow::decode(bytes);
    let _ = RequestRow::decode(bytes);
    let _ = decode_locks(bytes);
    let _ = decode_denials(bytes);
    let _ = key::parse_object(bytes);
    let _ = key::parse_entry(bytes);
    let _ = key::parse_link(bytes);
    let _ = key::parse_incomplete(bytes);
    let _ = key::parse_xattr(bytes);
}

pub(crate) use entry::{EntriesOf, EntryRow, NameHash, name_of};
pub(crate) use held::{decode_denials, decode_locks, encode_denials, encode_locks};
pub(crate) use object::{
    Content, DirectoryContent, FileContent, Lies, MAX_PLACEMENT_BYTES, ObjectRow, decode_placement,
    decode_time, encode_placement, encode_time,
};
pub(crate) use request::{Effect, RequestRow};
pub(crate) use xattr::XattrRow;
