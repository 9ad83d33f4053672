//! What clients of joined metadata servers have opened and locked, as their home decides about it: whose it is, what becomes of it when a
//! server is started anew or lost, and for which clients nothing is done any more (decisions 37 and 45).
//!
//! What must never enter: the tree, and who has locked what of it.

mod claims;
mod held;
mod joined_server;
mod ranges;

pub use claims::Claims;
pub use held::{Held, Left};
pub use joined_server::{Asking, JoinedServer};
pub use ranges::Ranges;
