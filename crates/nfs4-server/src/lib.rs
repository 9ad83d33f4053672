//! The NFSv4.1 and 4.2 service: from an RPC call to an RPC reply, over any [`vfs::FileSystem`].
//!
//! A call comes in through [`Service::call`], is taken apart operation by operation in `compound`, and
//! each operation stands in a file of its own under `ops`. What the server remembers of its clients is in
//! [`state`], which is pure. What it serves is a [`Namespace`] of exports; or, in the role of a data server of a pool, bytes to
//! holders of handles ([`DataServer`]), and then no operation on names exists. Who may have such handles is asked of the home of the
//! files ([`Layouts`]).
//!
//! What must never enter: sockets (a [`Connection`] is all that is known of one), disks, replicas. The
//! service does not know whether a file system is local or kept at several sites.

#![forbid(unsafe_code)]

mod address_range;
mod administration;
mod attributes;
mod callback;
mod compound;
mod connection;
mod data_server;
mod forgetting;
mod gates;
mod handle;
mod layouts;
mod moving;
mod namespace;
mod observer;
mod ops;
mod panics;
mod places;
mod pseudo;
mod reclaiming;
mod records;
mod repeats;
mod reply;
mod service;
pub mod state;
mod status;

pub use address_range::{AddressRange, AddressRangeError};
pub use connection::{CallbackError, Connection};
pub use data_server::{Connected, ContentsExtent, DataServer, NotServed, Shown};
pub use handle::FileHandle;
pub use layouts::{
    DeviceId, FileLayout, LayoutAccess, LayoutEvent, LayoutHolder, LayoutProperties, Layouts,
    NoLayout,
};
pub use namespace::{
    AccessMode, AccessRule, Export, Namespace, NamespaceError, PseudoPath, Squash,
};
/// What an [`Observer`] is told of: operations and their outcomes.
pub use nfs4::{NfsStat4, Opnum};
pub use observer::{NoObserver, Observer};
pub use places::{Junction, JunctionTarget, Location};
pub use records::{ClientRecord, ClientRecords, KnownBy, RecordError};
pub use reply::largest_reply;
pub use service::{Identity, Service, ServiceOptions};
pub use state::{ClientId, ClientView, ConnectionId, Limits};
