//! Simulation of what clients of joined metadata servers hold at their home: locks, opens that exclude other clients, and layouts with which they
//! write directly to data servers. Either side crashes, is cut off or stands still at any step. A question may be delayed before it is sent,
//! on its way, and at the home between any two of its steps.
//!
//! [`::homes::holdings`] decides which clients are served, which run tells what, and for which servers a restarted home waits.
//! The steps around that are copied by hand from the crates `metadata-server` and `striping`. After each write the simulation
//! checks that its client had the lock since before the write was requested: no other client may have had it meanwhile.
//!
//! What must never enter: how data servers learn of a run of the home; [`crate::pool`] has that. Here all data servers accept layouts of an earlier
//! run as long as their leases may last.

mod client;
mod home;
mod joined;
mod world;

pub use world::{Counts, Plan, Rules, World};
