//! Where the pure core of replication control meets the store, the disk and the clock.
//!
//! `engine` is the lock around the core, `control` the only place that calls it, `commit_hook` is asked by the store before it commits a change, `persistence` carries the
//! core's commands out, `tree` is what lies above an object as the core sees it, `lease_state` says whether this replica may
//! answer. `replica_state` is what all layers above are given: the core, the copy, the connections, and the state.
//!
//! What must never enter: operations of clients, and what becomes of messages of other replicas. Modules in here import from
//! this folder and `state`.

pub(crate) mod accounts;
pub(crate) mod arrival;
pub(crate) mod changes;
pub(crate) mod commit_hook;
pub(crate) mod control;
pub(crate) mod durability;
pub(crate) mod engine;
pub(crate) mod foreign;
pub(crate) mod frozen;
pub(crate) mod lease_state;
pub(crate) mod metrics;
pub(crate) mod operations;
pub(crate) mod persistence;
pub(crate) mod positions;
pub(crate) mod previous;
pub(crate) mod removed;
pub(crate) mod replica_state;
mod settling;
pub(crate) mod shipping;
pub(crate) mod tree;
pub(crate) mod view;
pub(crate) mod waiting;
