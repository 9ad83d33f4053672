//! One data server of a pool. It stores contents of files whose names and attributes a metadata server has.
//!
//! A [`Shelf`] keeps contents under the file's identifier and its placement number, with the generation of fenced contents and a tombstone
//! for removed ones. It survives restarts. A [`DataServer`] carries out what `pool::data_server` decides: which handles are valid, under
//! which lease, and what homes ask for. It serves bytes through `nfs4_server`. Messages of homes come in through [`DataServer::receive`],
//! and messages to homes go out through [`Outward`]. The rules are in `docs/design/striping.md`.
//!
//! What must never enter: names, permissions and sizes of files, which client gets which handles, and sockets.

#![forbid(unsafe_code)]

mod counters;
mod served;
mod server;
mod shelf;

pub use server::{DataServer, Outward};
pub use shelf::{Shelf, ShelfError};

/// For fuzzing: decodes arbitrary bytes as every kind of row that a shelf keeps. What decodes must encode to the same bytes.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    shelf::decode_as_anything(bytes);
}
