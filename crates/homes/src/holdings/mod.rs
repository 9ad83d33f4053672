//! Opens and locks of the clients of joined metadata servers, as their home decides about them: which server they belong to, what happens to them when
//! a server is restarted or lost, and which clients are refused (decisions 37 and 45).
//!
//! What must never enter: the tree, and which client has locked which file.

mod claims;
mod held;
mod joined_server;
mod ranges;

pub use claims::Claims;
pub use held::{Held, Left};
pub use joined_server::{Asking, JoinedServer};
pub use ranges::Ranges;
