//! Several metadata servers of one pool share one tree: this crate serves the parts of it that a server does not keep itself.
//!
//! Every object lives at a home (rule 12 of `docs/design/striping.md`). So far all objects live at the first metadata server, except those
//! that joined servers make (decision 46). A joined metadata server asks the home ([`RemoteTree`], a [`vfs::FileSystem`] around the
//! server's own store) and has it make changes (decisions 34 and 35). The home answers ([`Home`]) from the file system that it shows its
//! own clients. It also records what clients of other servers have open. Askers keep attributes and names as copies under a lease. The home
//! invalidates copies before a change becomes visible ([`Holders`], decision 38). The home also gives layouts, so it knows which holders to
//! fence ([`Layouts`], decision 40). A joined server reads and writes large files at the data servers itself, under such
//! a layout (`direct`).
//!
//! What must never enter: NFS, sockets, and how questions travel.

#![forbid(unsafe_code)]

mod at_data_servers;
mod claims;
mod clients;
mod direct;
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
mod passed_on;
mod pool_tree;
mod question;
mod remote_layouts;
mod remote_tree;
mod sessions;
mod shown;

pub use direct::DataServers;
pub use directories::has_directories;
pub use holders::{Holders, ToHolders};
pub use home::{Asker, ChangesElsewhere, Home, Memory};
pub use kept::Metrics;
pub use layouts::{Layout, LayoutEvent, Layouts, NoLayout};
pub use pool_tree::{Homes, PoolTree};
pub use question::{Answer, Asked, Change, Granted, News, Question, Reply};
pub use remote_tree::{Connection, RemoteTree};
