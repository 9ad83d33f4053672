//! Simulation of a pool: one home, data servers and clients with layouts, under a virtual clock and network.
//!
//! The home and the data servers are those of the crate `pool`; disks, links, clocks and clients are models. One seed decides
//! everything. Servers crash and lose what no disk had, stand still with requests queued, are cut off, and one may come back with
//! an older copy of its store. The invariants are those of `docs/design/striping.md` that concern one metadata server:
//! P1 (closed is seen), P2 (a previous right is worth nothing), P3 (nothing that was committed is lost, nothing removed stays), P5 (forged
//! handles), P6 (nobody waits for ever), P7 (change attributes tell changes), P9 (what was fenced does not happen).
//!
//! What no random run hits is played by hand ([`Stage`]).
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
