//! The NFSv4.1 and 4.2 service: from an RPC call to an RPC reply, over any [`vfs::FileSystem`].
//!
//! A call arrives at [`Service::call`]. `compound` splits it into operations, and each operation has its own file in
//! `ops`. The server's memory of its clients is in [`state`], which is pure. The service exports a [`Namespace`]. In
//! the role of a data server of a pool it instead serves bytes to holders of handles ([`DataServer`]), and has no
//! operations on names. The home of the files ([`Layouts`]) decides which clients get such handles.
//!
//! What must never enter: sockets (a [`Connection`] is the only interface to them), disks, replicas. The service does
//! not know whether a file system is local or replicated.

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
mod uses;

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
/// The arguments of an [`Observer`]: operations and their outcomes.
pub use nfs4::{NfsStat4, Opnum};
pub use observer::{NoObserver, Observer};
pub use places::{Junction, JunctionTarget, Location};
pub use records::{ClientRecord, ClientRecords, KnownBy, RecordError};
pub use reply::largest_reply;
pub use service::{Identity, Service, ServiceOptions};
pub use state::{ClientId, ClientView, ConnectionId, Limits};
