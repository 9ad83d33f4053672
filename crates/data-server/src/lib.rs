//! One data server of a pool: contents of files whose names and attributes are a metadata server's.
//!
//! A [`Shelf`] keeps contents under the file's identifier and the number of its placement, with the generation of what was fenced and
//! a tombstone for what was removed; it is what survives a restart. A [`DataServer`] judges handles and serves what they are good for
//! through `nfs4_server`, in one step with the judgement. The rules are in `docs/design/striping.md`.
//!
//! What must never enter: names, permissions and sizes of files, which handles are given to whom, and sockets.

#![forbid(unsafe_code)]

mod fences;
mod guards;
mod server;
mod shelf;

pub use server::{DataServer, HomeSide};
pub use shelf::{Raised, Shelf, ShelfError, Standing};
