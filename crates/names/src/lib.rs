//! One name for every tree: from the name of a domain to the servers that have its root (RFC 6641).
//!
//! - [`Domain`]: checks the name of a domain, and gives its names in DNS and at servers.
//! - [`Lookup`]: the servers that DNS names for it (RFC 2782), with their addresses.
//! - [`probe`]: whether a server answers, how fast, and whether it has the root of that domain.
//! - [`choose`] and [`MapEntry`]: the servers that a client mounts, and the line that autofs reads. Pure.
//! - [`map`]: all of this, for a key that a user has typed, within five seconds.
//! - [`zone_lines`]: what an administrator adds to the zone of the domain. Pure.
//!
//! What must never enter: sets and their members, configuration, the command line.

#![forbid(unsafe_code)]

mod aliases;
mod choice;
mod domain;
mod lookup;
mod map;
pub mod probe;
mod resolv_conf;
mod zone;

pub use aliases::Astray;
pub use choice::{Answering, MapEntry, SERVERS_MAX, choose};
pub use domain::{Domain, DomainError};
pub use lookup::{Asked, Lookup, LookupError, NamedServer, Trouble};
pub use map::{MapError, map};
pub use zone::{Published, zone_lines};

/// The port of NFS (RFC 8881, section 2.9.3).
pub const NFS_PORT: u16 = 2049;
