//! Where the pure core of replication control meets the store, the disk and the clock.
//!
//! `local_replica` is what all layers above see: the state, the core, the copy, the connections. `engine` is the lock around the core, `control` the
//! only place that calls it, `tree` what lies above an object as the core sees it; both are visible in this folder only. The other modules ask and
//! tell the core, and what its lock protects, by name:
//!
//! - Of changes made here: `operations` of clients, `changes` of data, `commit_hook` for the store's question before it commits, `removed` files,
//!   `durability` settings of directories, `previous` for what earlier starts left.
//! - Of other replicas: `positions` of streams, `accounts` of what each lacks, `shipping` of pieces on their way, `settling` and `completed` for
//!   files that are complete everywhere, `kept` for a lack of too much, `foreign` for their messages and updates, `frozen` for controls of lost
//!   replicas.
//! - Of taking part: `view` in force, `arrival` of a newly admitted replica, `lease_state` whether this replica may answer, and the `clock` of that;
//!   `readers` that do not ask it each time, and until when they may read (`reading`); which members are silent (`silence`).
//!
//! `persistence` carries out the core's commands, `remembered` is what it left on the disk for the next start, `metrics` is the data for display.
//! `peers`, `conversations`, `decisions`, `stopping` and `waiting` are what all layers do with the other members and with time.
//!
//! What must never enter: operations of clients, and the handling of messages of other replicas. Modules in here import from this folder and `state`.

pub(crate) mod accounts;
pub(crate) mod arrival;
pub(crate) mod changes;
pub(crate) mod clock;
pub(crate) mod commit_hook;
pub(crate) mod complete;
mod completed;
pub(crate) mod control;
mod conversations;
mod decisions;
pub(crate) mod durability;
pub(crate) mod engine;
pub(crate) mod foreign;
pub(crate) mod frozen;
mod kept;
pub(crate) mod lease_state;
pub(crate) mod local_replica;
pub(crate) mod metrics;
pub(crate) mod operations;
mod peers;
pub(crate) mod persistence;
pub(crate) mod positions;
pub(crate) mod previous;
pub(crate) mod readers;
mod reading;
pub(crate) mod remembered;
pub(crate) mod removed;
mod settling;
pub(crate) mod shipping;
pub(crate) mod silence;
mod stopping;
pub(crate) mod tree;
pub(crate) mod view;
pub(crate) mod waiting;
