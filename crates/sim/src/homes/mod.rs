//! Simulation of the homes of a pool: several metadata servers, their disks and links, and clients that change names and look.
//!
//! The metadata servers are those of the crate `homes`; one seed decides everything else. A disk loses what was not flushed, and
//! messages leave only after what was committed before them is stable. An operation happens, for the model, when its decider's batch
//! becomes stable. Every answer has to fit some state of the model between the call and the answer; what is only looked at may be
//! one lease old. At the end all is quiet, and the homes have together exactly what the model has.

mod client;
mod judging;
mod model;
mod store;
mod world;

pub use world::{Plan, World};
