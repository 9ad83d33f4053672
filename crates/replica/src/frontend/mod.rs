//! Operations of clients, and those that other replicas forward.
//!
//! `file_system` is the replicated tree as a file system. `durability` makes answers wait for a majority if a directory asks for it.
//! `free_space` refuses what does not fit everywhere. `forwarding` carries operations to their primary, `outcomes` finds out what became of a
//! forward without an answer. `absent_clients` asks which clients no server has, `expired_clients` gives up what they hold, and `reclaim` remembers whether that may have happened to
//! clients here.
//!
//! What must never enter: how updates and contents travel, and which replicas take part. Modules in here import from this folder, `driver` and
//! `state`.

pub(crate) mod absent_clients;
pub(crate) mod durability;
pub(crate) mod expired_clients;
pub(crate) mod file_system;
mod forwarding;
pub(crate) mod free_space;
mod outcomes;
pub(crate) mod reclaim;
