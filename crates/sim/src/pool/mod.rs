//! Simulation of a pool: one home, data servers and clients with layouts, under a virtual clock and network.
//!
//! The home and the data servers are those of the crate `pool`; disks, links, clocks and clients are models. One seed decides
//! everything. Servers crash and lose unwritten data, stand still with queued requests, or are cut off. One server may come back with
//! an older copy of its store. The invariants are those of `docs/design/striping.md` that concern one metadata server:
//! P1 (closed is seen), P2 (an ended right is not accepted), P3 (nothing committed is lost, nothing removed stays), P5 (forged
//! handles), P6 (no client waits for ever), P7 (change attributes identify contents), P9 (fenced requests do not happen).
//!
//! Cases that no random run reaches are scripted ([`Stage`]).
//!
//! A file consists of *cells* here: each is a stripe unit, written as a whole.

mod client;
mod disk;
mod event;
mod faults;
mod home;
mod mover;
mod server;
mod stage;
mod truth;
mod world;

pub use event::Node;
pub use faults::{Fault, Plan};
pub use stage::{Admitted, CellIo, KEY_LIFE, Stage, Told};
pub use world::World;
