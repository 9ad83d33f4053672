//! Operations of clients, and those that other replicas forward.
//!
//! `file_system` is the replicated tree as a file system, `durability` makes answers wait for a majority where that is asked for,
//! `free_space` refuses what does not fit everywhere, `forwarding` carries operations to their primary, `outcomes` finds out what became of a forward that was not answered, `expired_clients`
//! gives up what clients hold that never came back, and `reclaim` remembers whether that may have happened to clients here.
//!
//! What must never enter: how updates and contents travel, and who takes part. Modules in here import from this folder,
//! `driver` and `state`.

pub(crate) mod durability;
pub(crate) mod expired_clients;
pub(crate) mod file_system;
mod forwarding;
pub(crate) mod free_space;
mod outcomes;
pub(crate) mod reclaim;
