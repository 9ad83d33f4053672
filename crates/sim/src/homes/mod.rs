//! Simulation of the homes of a pool: several metadata servers, their disks and links, and clients that change names and look.
//!
//! The metadata servers are those of the crate `homes`; one seed decides everything else. A disk loses what was not flushed. Messages
//! leave only after earlier commits are stable. For the model, an operation happens when its decider's batch
//! becomes stable. Every answer has to fit a state of the model between the call and the answer; a mere look may be
//! one lease old. At the end nothing is active, and all homes together have exactly the rows and names of the model.

mod client;
mod judging;
mod model;
mod store;
mod world;

pub use world::{Plan, World};
