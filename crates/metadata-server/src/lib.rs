//! Several metadata servers of one pool, and one tree: what a server shows its clients that it does not keep itself.
//!
//! Every object lives at a home (rule 12 of `docs/design/striping.md`), and all of them live at the first metadata server so far. A metadata
//! server that has joined asks it ([`RemoteTree`], a [`vfs::FileSystem`] around the server's own store) and has it make changes (decisions 34
//! and 35). The home answers ([`Home`]) out of whatever file system it shows its own clients, and keeps account of what clients of others have open.
//! Attributes and names that were asked for are kept as copies under a lease, and taken back before anybody sees what has changed
//! ([`Holders`], decision 38). Layouts are given by the home, too, which so knows whom to fence ([`Layouts`], decision 40).
//!
//! What must never enter: NFS, sockets, and how questions travel.

#![forbid(unsafe_code)]

mod claims;
mod clients;
mod directories;
mod given_up;
mod granting;
mod held;
mod hidden;
mod holders;
mod holding;
mod home;
mod kept;
mod layouts;
mod lost;
mod moves;
mod pool_tree;
mod question;
mod remote_layouts;
mod remote_tree;
mod sessions;
mod shown;

pub use directories::has_directories;
pub use holders::{Holders, ToHolders};
pub use home::{Asker, ChangesElsewhere, Home, Memory};
pub use kept::Metrics;
pub use layouts::{Layout, LayoutEvent, Layouts, NoLayout};
pub use pool_tree::{Homes, PoolTree};
pub use question::{Answer, Asked, Change, Granted, News, Question, Reply};
pub use remote_tree::{Connection, RemoteTree};
