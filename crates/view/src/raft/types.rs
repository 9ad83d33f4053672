//! The types that the Raft library is used with.

use std::io::Cursor;

use openraft::{Config, SnapshotPolicy};
use vfs::ReplicaSlot;

use crate::decision::{Command, Outcome};
use crate::error::ViewError;
use crate::settings::Settings;

openraft::declare_raft_types!(
    /// Entries are [`Command`]s, members are slots. The transport knows the addresses.
    pub(crate) Types:
        D = Command,
        R = Outcome,
        NodeId = u64,
        Node = openraft::EmptyNode,
);

pub(crate) type Raft = openraft::Raft<Types>;
pub(crate) type Entry = openraft::Entry<Types>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type Stored = openraft::StoredMembership<u64, openraft::EmptyNode>;
pub(crate) type Membership = openraft::Membership<u64, openraft::EmptyNode>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, openraft::EmptyNode>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, openraft::EmptyNode>;

/// A snapshot is taken after this number of entries. The same number of entries before the snapshot are kept.
pub(crate) const SNAPSHOT_EVERY: u64 = 200;
/// A snapshot is sent in parts of this size, in bytes.
pub(crate) const SNAPSHOT_PART_BYTES: u64 = 32 * 1024;

/// The number of a replica in the Raft library.
pub(crate) fn id(slot: ReplicaSlot) -> u64 {
    u64::from(slot.0)
}

/// The replica with this number in the Raft library.
pub(crate) fn slot(id: u64) -> Option<ReplicaSlot> {
    u16::try_from(id).ok().map(ReplicaSlot)
}

/// The library's settings.
pub(crate) fn config(settings: &Settings) -> Result<Config, ViewError> {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: "views".to_owned(),
        heartbeat_interval: millis(settings.heartbeat),
        election_timeout_min: millis(settings.election_min),
        election_timeout_max: millis(settings.election_max),
        install_snapshot_timeout: millis(settings.decision_limit),
        max_payload_entries: 64,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_EVERY),
        max_in_snapshot_log_to_keep: SNAPSHOT_EVERY,
        replication_lag_threshold: 2 * SNAPSHOT_EVERY,
        snapshot_max_chunk_size: SNAPSHOT_PART_BYTES,
        ..Config::default()
    };
    config
        .validate()
        .map_err(|error| ViewError::Settings(error.to_string()))
}
