//! Simulation of a replication set: the very control cores and leases of production under a virtual clock and
//! network, with a copy of the tree at every replica.
//!
//! One seed decides everything: delays, losses, duplicates, the tree and what the clients do. After every
//! step each invariant is checked (one a file, in [`invariants`]). What must never enter: real time, real
//! threads, and any decision that the cores should take themselves.
//!
//! In half of the runs replicas fail ([`Fault`]): crashes that lose what no disk had, links cut in one direction
//! or both, full disks, clocks that drift, an administrator who gives a lost replica up. Every replica then has a disk,
//! a clock, a lease and a view; decisions about views stand in for the log that a majority keeps. In the end
//! everything is mended, and everything has to come to rest.
//!
//! A random run that fails is reduced to a [`Scenario`], which names it. `tests/` plays the known executions
//! that break a literal reading of the papers, by their numbers: `c` is `counterexamples.rs` (random
//! runs with a rule switched off), `f` is `failing.rs` (the same with failures), `s` is `scripted.rs`, `l` is
//! `lagging.rs`, `m` is `membership.rs`, `v` is `views.rs` of the crate `control`. Each that is played here is shown to break
//! an invariant with its rule switched off ([`control::Rules`], [`Model`]); of those in other crates only 9 and 38 are. Where two numbers share a row, one rule prevents both.
//!
//! | number | played in | or waits for |
//! |---|---|---|
//! | 1, 7, 8, 18 | f; 1 also v | |
//! | 9 | v, with the rule off as well: the acknowledgement that came too early is seen there itself. 400 random runs without the rule broke no invariant, because what was acknowledged too early is taken back when the reports are there | |
//! | 2, 3, 31, 32, 34, 37 | c | |
//! | 4, 5 | c | |
//! | 6, 19, 23, 27, 29 | s | |
//! | 10 | m; two members at once in v | |
//! | 38 | v, with the rule off as well: three cores and a lost connection are all it takes; and with an admission before everybody has heard the reports. Random runs hardly show it, because here a proposal made again tells the same as a report | |
//! | 11 (an acceptor without ids), 30, 35, 36 | l | 11: witnesses |
//! | 12, 13 (and 17 in part) | `shipping/tests/counterexamples.rs` of `replica` | |
//! | 14 | `losses/verdict.rs` of `replica`: who is complete furthest is best, against who has heard of the newest | all of it in one run: durability by majority, and contents in pieces, which the model does not have |
//! | 15, 16, 17, 26 | f | |
//! | 20 | | reading clients: tests of the crate `replica` |
//! | 21, 33 | c | |
//! | 22 (a repeated forward) | l | its write verifier: tests of the crate `replica` |
//! | 24 | l | |
//! | 25 | | locks, which the model does not have |
//! | 28 (a full disk leaves, others stay) | f | the reserve: tests of the crate `store` |
//! | 39 (old ends count, proposals are repeated) | v | numbers after a restart: `restart.rs` of `control` |

#![forbid(unsafe_code)]

mod history;
pub mod invariants;
mod locks;
mod network;
mod packet;
mod plan;
mod random;
mod reading;
mod replica;
mod scenario;
mod site;
mod tree;
mod violation;
mod workload;
mod world;

pub use network::{Lane, Links};
pub use plan::Plan;
pub use random::Random;
pub use reading::{Entry, Kept, Reader};
pub use replica::Replica;
pub use scenario::Scenario;
pub use tree::{Copy, Edit, Intent, Outcome};
pub use violation::Violation;
pub use world::{Fault, Model, World};
