//! The calls of a client, by subject. Each is one request, unless it says otherwise.
//!
//! What must never enter: requests, slots, connections.

mod attributes;
mod directory;
mod file;
mod layout;
mod lock;
mod tree;
mod xattr;

pub use attributes::{Access, STAT};
pub use directory::{Entry, Page};
pub use file::{How, OpenFile};
pub use lock::{Held, LockAnswer};
