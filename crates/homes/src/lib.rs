//! Several metadata servers of one pool: which of them decides about which names and rows, as a pure core.
//!
//! Every object lives for ever at the **home** that made it ([`Book`]): its row, and if it is a directory, the names in it.
//! A server that gets a question ([`MetadataServer::call`]) asks the home, or answers from a **copy** that it has under a lease.
//! A change at several homes is an **operation**. The home of the name that is made or removed decides. The other homes stably prepare
//! their parts, and carry them out or drop them when they learn the outcome.
//!
//! The tree, time and messages are arguments; commands are results. The rules are numbered in `docs/design/striping.md`, and decision 27 gives
//! their reasons. Opens and locks of the clients of joined servers are decided separately ([`holdings`]). What must never enter: NFS, sockets,
//! disks, clocks, contents of files.

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
