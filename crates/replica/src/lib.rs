//! One replica of a tree: a local copy, kept equal to the others.
//!
//! [`Replica`] is a [`vfs::FileSystem`] around a [`store::Store`]. Every change is admitted by replication
//! control first (`overseer`, `admission`); what another replica controls is forwarded there (`door`,
//! `forward`); what was changed here is distributed to the others: rows as a stream of records (`streams`),
//! contents of files beside it (`shipping` decides, `contents` carries). `turn` is the one place where the
//! pure core of replication control meets the rest.
//!
//! What must never enter: NFS, how connections work, how rows are stored, and the rules of replication
//! control themselves.

#![forbid(unsafe_code)]

mod arrivals;
mod base;
mod contents;
mod door;
mod durability;
mod forward;
mod opens;
mod overseer;
mod owner;
mod persistence;
mod post;
mod replica;
mod sessions;
mod settings;
mod shared;
pub mod shipping;
mod status;
mod streams;
mod tree;
mod turn;
mod upkeep;
mod wire;

pub use replica::{Replica, StartError};
pub use settings::{Durability, NameSpace, Settings};
pub use status::{ControlView, PeerView, ReplicaStatus};
#[doc(hidden)]
pub use wire::decode_as_anything;
