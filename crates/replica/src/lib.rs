//! One replica of a tree: a local copy, kept equal to the others.
//!
//! [`Replica`] is a [`vfs::FileSystem`] around a [`store::Store`]. The folders are layers; each imports only from those before it,
//! which a test of the whole repository holds them to:
//!
//! 1. `state`: what a replica knows, and the words that replicas use;
//! 2. `driver`: where the pure core of replication control meets the rest; every change is admitted there first;
//! 3. `frontend`: operations of clients and of other replicas; what another replica controls is forwarded there;
//! 4. `replication`: what was changed here is distributed to the others, rows as a stream of records, contents beside it;
//! 5. `membership`: sessions, views, and what becomes of the lost.
//!
//! Above them, in files beside this one, `handle` puts a replica together, `dispatch` hands each message to its layer, `maintenance` looks
//! after what is due now and then, `administration`, `junctions` and `status` speak with people (`shown`: by which names).
//!
//! What must never enter: NFS, how connections work, how rows are stored, and the rules of replication
//! control themselves.

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
