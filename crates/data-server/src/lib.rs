//! One data server of a pool: contents of files whose names and attributes are a metadata server's.
//!
//! A [`Shelf`] keeps contents under the file's identifier and the number of its placement, with the generation of what was fenced and
//! a tombstone for what was removed; it is what survives a restart. A [`DataServer`] carries out what `pool::data_server` decides: whose
//! handles count, under which lease, and what homes ask; it serves bytes through `nfs4_server`. Messages of homes come in through
//! [`DataServer::receive`], and what is said to them goes out through [`Outward`]. The rules are in `docs/design/striping.md`.
//!
//! What must never enter: names, permissions and sizes of files, which handles are given to whom, and sockets.

#![forbid(unsafe_code)]

mod counters;
mod served;
mod server;
mod shelf;

pub use server::{DataServer, Outward};
pub use shelf::{Shelf, ShelfError};

/// Takes arbitrary bytes apart as every kind of row that a shelf keeps, for fuzzing. What decodes must encode to the same bytes.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    shelf::decode_as_anything(bytes);
}
