//! Simulation of what clients of joined metadata servers hold at their home: locks, opens that keep others out, and layouts by which they
//! write past every metadata server. Either side crashes, is cut off or stands still at any step; a question may stand still before it is sent,
//! on its way, and at the home between any two of its steps.
//!
//! Who may have something done, what is told in which round, and who is waited for after a start of the home, is decided by
//! [`::homes::holdings`]. The steps around that are those of the crates `metadata-server` and `striping`, by hand. After each write it
//! is looked whether its client had the lock since before that was asked for: nobody else may have had it meanwhile.
//!
//! What must never enter: how data servers hear of a run of the home, which [`crate::pool`] has. Here all take layouts of an earlier one as long
//! as their leases may last.

mod client;
mod home;
mod joined;
mod world;

pub use world::{Counts, Plan, Rules, World};
