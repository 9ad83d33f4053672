//! What each table holds: the rows, their keys, and the way they are written.
//!
//! Pure: bytes in, values out. A row is [`Malformed`](crate::codec::Malformed) rather than trusted.
//! `docs/disk-format.md` shows the same as a table; the two change together.

mod entry;
mod held;
pub(crate) mod key;
mod object;
mod request;
mod xattr;

pub(crate) use entry::{EntryRow, NameHash};
pub(crate) use held::{decode_denials, decode_locks, encode_denials, encode_locks};
pub(crate) use object::{Content, DirectoryContent, FileContent, ObjectRow};
pub(crate) use request::{Effect, RequestRow};
pub(crate) use xattr::XattrRow;
