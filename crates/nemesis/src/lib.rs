//! Real servers at sites far apart, faults drawn from a seed, clients that write down what they did and were
//! answered, and checkers that judge it.
//!
//! - [`schedule`] draws the faults of a run: pure.
//! - [`world`] is the sites, the servers and their disks, and carries faults out.
//! - [`clients`] work at every site and record.
//! - [`history`] is what they record.
//! - [`check`] judges a history against `docs/semantics.md`: pure. Of the invariants of a pool, [`check::invariants`] says who judges each.
//! - [`survey`] reads the whole tree through every server at the end, [`sampling`] asks them how they are meanwhile.
//! - [`stage`] lets faults come and go during a run.
//! - [`report`] is a page about a run, [`run`] puts all of it together.
//!
//! What must never enter: knowledge of how the servers work inside. They are started by their command lines and
//! judged by what clients are answered.

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
