//! The status of a running server.
//!
//! What must never enter: metrics of the files of single clients, and anything that waits for clients.

mod alarms;
mod asking;
mod called;
mod clients;
mod clocks;
mod departures;
mod drain;
#[cfg(test)]
pub(crate) mod examples;
mod frozen;
mod junctions;
mod pool;
mod question;
mod rejoining;
mod replication;
mod rows;
mod scrub;
mod socket;
mod text;
mod views;
mod whereabouts;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use store::StoreStatistics;

pub use ::pool::Holding;
pub use alarms::Alarm;
pub(crate) use alarms::{alarms, of_pool};
pub use asking::{
    StatusError, ask, ask_clients, ask_drain, ask_drain_data, ask_durability, ask_evict,
    ask_forget_data_server, ask_frozen, ask_junction, ask_junctions, ask_move_authority,
    ask_readmit_data_server, ask_rebalance, ask_reload, ask_remove_data_server, ask_scrub,
    ask_thaw, ask_view, ask_where,
};
pub(crate) use called::replica as called;
pub use clients::{ClientStatus, EvictQuestion};
pub(crate) use clocks::ClockText;
pub use departures::{
    DrainDataAnswer, DrainDataQuestion, ForgetAnswer, ForgetQuestion, RebalanceAnswer,
    RebalanceQuestion,
};
pub use drain::{DrainAnswer, DrainQuestion};
pub use frozen::{FrozenText, ThawAnswer, ThawQuestion};
pub use junctions::{JunctionAnswer, JunctionsStatus};
pub(crate) use pool::is_nearly_full;
pub use pool::{
    CopiesStatus, GivingUpStatus, HoldingText, MovingStatus, PoolServerStatus, PoolStatus,
};
pub(crate) use question::{Answer, Question};
pub use question::{DurabilityAnswer, DurabilityQuestion, DurabilitySetting};
pub(crate) use rejoining::RejoinText;
pub use replica::{
    AuditEntry, ClockDifference, ControlView, FindingView, FrozenView, JunctionView, LinkView,
    LossView, MemberNames, MemberView, PeerView, Referral, RejoinView, ReplicaStatus, ScrubView,
    ShortView, ViewStatus,
};
pub(crate) use replication::short_time;
pub use rows::Rows;
pub use scrub::{ScrubQuestion, ScrubText};
pub(crate) use socket::{Answering, StatusSocket};
pub(crate) use text::duration;
pub use text::{moment, size};
pub use views::ViewText;
pub use whereabouts::{PartStatus, Whereabouts};

/// [`crate::decode_as_anything`] for questions over the control socket and their answers.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Question>(bytes);
    let _ = serde_json::from_slice::<Answer>(bytes);
}

/// The state of a server at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// The commit that it was built from, or `unknown`; empty in the status of older servers.
    #[serde(default)]
    pub build: String,
    /// The process.
    pub process: u32,
    /// Seconds since it started to serve.
    pub uptime_seconds: u64,
    /// The data directory.
    pub data: PathBuf,
    /// The server's identity among replicas.
    pub replica: String,
    /// The set of replicas it belongs to.
    pub set: String,
    /// The number of this start.
    pub incarnation: u32,
    /// Where NFS connections are accepted.
    pub listen: Vec<SocketAddr>,
    /// The address for Prometheus.
    pub metrics: Option<SocketAddr>,
    /// The address of the status page; absent in the status of older servers.
    #[serde(default)]
    pub page: Option<SocketAddr>,
    /// `sync` or `async`.
    pub commit: String,
    /// Whether only reclaims are accepted.
    pub in_grace: bool,
    /// Connections open now.
    pub connections: u64,
    /// Confirmed clients.
    pub clients: u64,
    /// Sessions.
    pub sessions: u64,
    /// Open files, counted by owner.
    pub opens: u64,
    /// Byte-range lock states, counted by owner and file.
    pub locks: u64,
    /// Memory reserved for cached replies, in bytes; absent in the status of older servers, like the next three.
    #[serde(default)]
    pub reply_bytes: u64,
    /// Memory that opens and locks take, in bytes.
    #[serde(default)]
    pub state_bytes: u64,
    /// Memory for requests and replies in transit, in bytes.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// The maximum of the sum of these, in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// NFS operations executed.
    pub operations: u64,
    /// Counts of all connections.
    pub traffic: TrafficStatus,
    /// The exports.
    pub exports: Vec<ExportStatus>,
    /// The pool that the server belongs to, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolStatus>,
    /// The active alarms.
    #[serde(default)]
    pub alarms: Vec<Alarm>,
}

/// The traffic of all connections since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficStatus {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once because there were too many.
    pub refused: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// One export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// Its path for clients.
    pub path: String,
    /// The tree's name in the data directory.
    pub tree: String,
    /// The tree's identity.
    pub fs_id: String,
    /// Space.
    pub space: SpaceStatus,
    /// The counters of its store.
    pub store: StoreStatistics,
    /// The state of its replication, if the set keeps this tree.
    #[serde(default)]
    pub replication: Option<ReplicaStatus>,
}

/// A disk is nearly full when less than this is free, and less than a twentieth.
const LITTLE_BYTES: u64 = 10 << 30;

/// Space in a tree, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceStatus {
    /// The capacity of the file system below.
    pub total_bytes: u64,
    /// The unused space.
    pub free_bytes: u64,
    /// The space that clients may still use.
    pub available_bytes: u64,
    /// The size of the tree; measured only while the disk is nearly full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_bytes: Option<u64>,
}

/// Whether the free space of a disk is low enough that a person should act.
fn is_little(available_bytes: u64, total_bytes: u64) -> bool {
    available_bytes < LITTLE_BYTES.min(total_bytes / 20)
}

impl SpaceStatus {
    /// Whether a person should free space.
    pub(crate) fn is_nearly_full(&self) -> bool {
        is_little(self.available_bytes, self.total_bytes)
    }
}

#[cfg(test)]
impl Status {
    /// A server with one client.
    pub(crate) fn example() -> Status {
        let export = ExportStatus {
            path: "/export".to_owned(),
            tree: "default".to_owned(),
            fs_id: "0000000000000001:0000000000000002".to_owned(),
            space: SpaceStatus {
                total_bytes: 10 << 30,
                free_bytes: 4 << 30,
                available_bytes: (4 << 30) - (256 << 20),
                tree_bytes: None,
            },
            store: StoreStatistics {
                objects: 12,
                ..StoreStatistics::default()
            },
            replication: None,
        };
        Status {
            version: "0.1.0".to_owned(),
            build: "0123456789ab".to_owned(),
            process: 4242,
            uptime_seconds: 93_784,
            data: PathBuf::from("/var/lib/meridian"),
            replica: "00000000000000000000000000000001".to_owned(),
            set: "00000000000000000000000000000002".to_owned(),
            incarnation: 1_700_000_000,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 2049))],
            metrics: None,
            page: None,
            commit: "sync".to_owned(),
            in_grace: true,
            connections: 2,
            clients: 1,
            sessions: 1,
            opens: 3,
            locks: 0,
            reply_bytes: 0,
            state_bytes: 0,
            buffer_bytes: 0,
            memory_bytes: 0,
            operations: 1000,
            traffic: TrafficStatus::default(),
            exports: vec![export],
            pool: None,
            alarms: Vec::new(),
        }
    }
}
