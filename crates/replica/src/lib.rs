//! One replica of a tree: a local copy, kept equal to the others.
//!
//! [`Replica`] is a [`vfs::FileSystem`] around a [`store::Store`]. The folders are layers; each imports only from those before it, which a test
//! of the whole repository checks:
//!
//! 1. `state`: what a replica knows, and the messages that replicas exchange;
//! 2. `driver`: connects the pure core of replication control with the rest; every change is admitted there first;
//! 3. `frontend`: operations of clients and of other replicas; it forwards those on what another replica controls;
//! 4. `replication`: distributes local changes to the others, rows as a stream of records, contents beside it;
//! 5. `membership`: sessions, views, and what becomes of lost replicas.
//!
//! Files beside this one stand above them: `handle` puts a replica together, `dispatch` hands each message to its layer, `maintenance` does
//! periodic work. `administration`, `junctions` and `status` report to people (`shown`: under which names).
//!
//! What must never enter: NFS, how connections work, how rows are stored, and the rules of replication control themselves.

#![forbid(unsafe_code)]

// So that tests in here can use what the tests beside the crate use.
#[cfg(test)]
extern crate self as replica;

mod administration;
mod dispatch;
mod driver;
mod frontend;
mod garbage;
mod handle;
mod junctions;
mod maintenance;
mod membership;
pub mod recovering_set;
mod replication;
mod shown;
mod state;
mod status;

pub use administration::{FrozenView, LossView, MemberView, ViewStatus};
pub use control::ClockDifference;
pub use driver::clock::{lease_time, read_clocks};
pub use driver::readers::Readers;
#[doc(hidden)]
pub use garbage::decode_as_anything;
pub use handle::{Replica, StartError};
pub use junctions::JunctionView;
pub use shown::MemberNames;
pub use state::lineage::is_members_copy;
pub use state::rejoins::{RejoinView, Stage};
pub use state::scrub::{FindingView, ScrubView};
pub use state::settings::{Durability, Frozen, NameSpace, Settings, WithoutMajority};
pub use state::wire::LinkView;
pub use status::{ControlView, PeerView, ReplicaStatus, ShortView};
pub use view::{AuditEntry, REASON_BYTES_MAX, Referral};
