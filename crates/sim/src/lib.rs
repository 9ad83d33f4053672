//! Simulation of a replication set: the very control cores of production under a virtual clock and
//! network, with a copy of the tree at every replica.
//!
//! One seed decides everything: delays, losses, duplicates, the tree and what the clients do. After every
//! step each invariant is checked (one a file, in [`invariants`]). What must never enter: real time, real
//! threads, and any decision that the cores should take themselves.
//!
//! A random run that fails is reduced to a [`Scenario`], which names it. `tests/` plays the known executions
//! that break a literal reading of the papers, by their numbers: `c` is `counterexamples.rs` (random
//! runs with a rule switched off), `s` is `scripted.rs`, `l` is `lagging.rs`, `v` is `views.rs` of the crate
//! `control`. Where two numbers share a row, one rule prevents both.
//!
//! | number | played in | or waits for |
//! |---|---|---|
//! | 2, 3, 31, 32, 34, 37 | c | |
//! | 4, 5 | c | |
//! | 6, 19, 23, 27, 29 | s | |
//! | 11 (an acceptor without ids), 30, 35, 36 | l | 11: witnesses |
//! | 12, 13 (and 17 in part) | `shipping/tests/counterexamples.rs` of `replica` | |
//! | 20 | | reading clients: tests of the crate `replica` |
//! | 21, 33 | c | |
//! | 22 (a repeated forward) | l | its write verifier: restarts |
//! | 24 (a close waits no longer than the view) | l | leaving the view by itself, relaying |
//! | 39 (old ends count, proposals are repeated) | v | numbers after a restart: `restart.rs` of `control` |
//! | 1, 7, 8, 9, 10, 14 to 18, 25, 26, 28, 38 | | crashes, views, leases, full disks |

#![forbid(unsafe_code)]

pub mod invariants;
mod network;
mod packet;
mod plan;
mod random;
mod replica;
mod scenario;
mod tree;
mod violation;
mod workload;
mod world;

pub use network::{Lane, Links};
pub use plan::Plan;
pub use random::Random;
pub use replica::Replica;
pub use scenario::Scenario;
pub use tree::{Copy, Edit, Intent, Outcome};
pub use violation::Violation;
pub use world::World;
