//! One replica of a tree: a local copy, kept equal to the others.
//!
//! [`Replica`] is a [`vfs::FileSystem`] around a [`store::Store`]. Every change is admitted by replication
//! control first (`overseer`, `admission`); what another replica controls is forwarded there (`door`,
//! `forward`); what was changed here is distributed to the others: rows as a stream of records (`streams`),
//! contents of files beside it (`shipping` decides, `contents` carries). `turn` is the one place where the
//! pure core of replication control meets the rest. `scrub` compares copies in the background.
//!
//! What must never enter: NFS, how connections work, how rows are stored, and the rules of replication
//! control themselves.

#![forbid(unsafe_code)]

// So that tests in here can use what the tests beside the crate use.
#[cfg(test)]
extern crate self as replica;

mod accounts;
mod administration;
mod arrivals;
mod authorisation;
mod authority;
mod base;
mod births;
mod contents;
mod copies;
mod door;
mod durability;
mod forward;
mod garbage;
mod handle;
mod leavings;
mod lineage;
mod losses;
mod majority;
mod members;
mod membership;
mod opens;
mod outcomes;
mod overseer;
mod owner;
mod pace;
mod persistence;
mod post;
mod progress;
pub mod recovering_set;
mod removed;
mod repeats;
mod room;
mod scrub;
mod sessions;
mod settings;
mod shared;
mod shipments;
pub mod shipping;
mod status;
mod streams;
mod tree;
mod turn;
mod upkeep;
mod views;
mod wire;

pub use administration::{AuditView, FrozenView, LossView, MemberView, ViewStatus};
#[doc(hidden)]
pub use garbage::decode_as_anything;
pub use handle::{Replica, StartError};
pub use lineage::is_members_copy;
pub use progress::{ReturnView, Stage};
pub use scrub::{FindingView, ScrubView};
pub use settings::{Durability, Frozen, NameSpace, Settings, WithoutMajority};
pub use status::{ControlView, LinkView, PeerView, ReplicaStatus, ShortView};
