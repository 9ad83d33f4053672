//! Several metadata servers of one pool: which of them decides what about names and rows, as a pure core.
//!
//! Every object lives at the **home** that made it, for ever ([`Book`]): its row, and if it is a
//! directory, the names in it. A server that is asked something ([`MetadataServer::call`]) asks the
//! home, or answers from a **copy** that it has under a lease. What concerns several homes is an
//! **operation**: the home of the name that is made or removed decides, the others prepare what
//! they have to do, stably, and carry it out or drop it when they hear how it was decided.
//!
//! The tree, time and messages come in as arguments; commands go out. The rules are numbered in `docs/design/striping.md`, and
//! decision 27 says why they are what they are here. What clients of joined servers have opened and locked at one home is decided about apart
//! from all that ([`holdings`]). What must never enter: NFS, sockets, disks, clocks, contents of files.

#![forbid(unsafe_code)]

mod book;
mod copies;
mod holder;
pub mod holdings;
mod message;
mod part;
mod rules;
mod server;
mod tree;
mod wish;

pub use book::Book;
pub use copies::Copies;
pub use holder::{Grant, Holder, Terms};
pub use message::{Body, Message, OperationName};
pub use part::Part;
pub use rules::Rules;
pub use server::{Command, MetadataServer, Settings};
pub use tree::{Entry, Kind, Record, Recovered, Row, Tree};
pub use wish::{Answer, Call, Look, Origin, Refusal, Wish};
