//! Contents of files striped over the data servers of a pool, as the home of these files sees them.
//!
//! [`Control`] is what a home says to its data servers besides reading and writing. The rules are numbered in `docs/design/striping.md`.
//!
//! What must never enter: names and attributes of files, and sockets between servers.

#![forbid(unsafe_code)]

mod control;

pub use control::Control;
