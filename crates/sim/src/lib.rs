//! Simulation of a replication set: the very control cores of production under a virtual clock and
//! network, with a copy of the tree at every replica.
//!
//! One seed decides everything: delays, losses, duplicates, the tree and what the clients do. After every
//! step each invariant is checked (one a file, in [`invariants`]). What must never enter: real time, real
//! threads, and any decision that the cores should take themselves.

#![forbid(unsafe_code)]

pub mod invariants;
mod network;
mod packet;
mod plan;
mod random;
mod replica;
mod tree;
mod violation;
mod workload;
mod world;

pub use network::{Lane, Links};
pub use plan::Plan;
pub use random::Random;
pub use replica::Replica;
pub use tree::{Copy, Edit, Intent, Outcome};
pub use violation::Violation;
pub use world::World;
