//! Real servers at sites far apart, faults drawn from a seed, clients that record their operations and the answers, and checkers that judge
//! the records.
//!
//! - [`schedule`] draws the faults of a run: pure.
//! - [`world`] is the sites, the servers and their disks, and carries faults out.
//! - [`clients`] work at every site and record their operations.
//! - [`history`] is the form of the records.
//! - [`check`] judges a history against `docs/semantics.md`: pure. [`check::invariants`] lists the judge of each invariant of a pool.
//! - [`survey`] reads the whole tree through every server at the end, [`sampling`] asks the servers for their status meanwhile.
//! - [`stage`] lets faults come and go during a run.
//! - [`report`] is a page about a run, [`run`] puts all of it together.
//!
//! What must never enter: knowledge of how the servers work inside. Their command lines start them, and the answers to clients are
//! judged.

#![forbid(unsafe_code)]

pub mod check;
pub mod clients;
pub mod history;
pub mod random;
pub mod report;
pub mod run;
pub mod sampling;
pub mod schedule;
pub mod stage;
pub mod survey;
pub mod world;
