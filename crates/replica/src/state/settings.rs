//! How one replica behaves: what an administrator may choose.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When an update is answered (rule 24 of the replication design).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Once it is stable here; the others follow.
    #[default]
    Relaxed,
    /// Once a majority of the set holds it stably.
    Majority,
}

impl Durability {
    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Durability::Relaxed => "relaxed",
            Durability::Majority => "majority",
        }
    }
}

/// How names are looked up in a directory that another replica controls (rule 21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameSpace {
    /// Always at the primary.
    #[default]
    Strict,
    /// In the own copy when the name is there, at the primary when it is missing. Directories are listed from the own copy.
    Relaxed,
}

/// What clients are told while this replica may not answer, because no majority is in contact with it
/// (rule 35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutMajority {
    /// To come again, until it may.
    #[default]
    Wait,
    /// That the operation failed.
    Error,
    /// What the own copy says, which may be old, when they only read; else to come again.
    StaleReads,
}

/// What clients are told of an object whose primary was lost (rule 32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frozen {
    /// To come again, until it is decided.
    #[default]
    Wait,
    /// That the operation failed.
    Error,
    /// What the own copy says, which may be old, when they only read; else to come again.
    LastSynchronised,
}

/// How one replica behaves. Replicas of a set may differ in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Replication control: timers, strategies, contention, limits.
    pub control: control::Settings,
    /// Connections between replicas.
    pub peer: peer::Settings,
    /// How names are looked up in directories that another replica controls.
    pub name_space: NameSpace,
    /// For directories that have no setting of their own, nor any above them.
    pub durability: Durability,
    /// How long a change of a file rests before its content is shipped, so that what is overwritten or
    /// removed at once never crosses the wide area.
    pub data_delay: Duration,
    /// How long it rests at most while clients keep the server busy, where much of the file is lacking, no other replica has asked for it and
    /// `durability` is relaxed. Not longer than `data_delay`: no longer than otherwise.
    pub busy_data_delay: Duration,
    /// Whether consecutive updates are made one before they are sent, so that of each row only the last state travels.
    pub merging: bool,
    /// How long a client's operation waits for control before the client is told to come again.
    /// Less than the minute after which a Linux client asks on its own; more than elections take,
    /// because a client that comes again finds control gone that was won for it.
    pub patience: Duration,
    /// How long a majority promises to do nothing without this replica. The same at all replicas.
    pub site_lease: Duration,
    /// How much faster or slower than true time clocks may run, in millionths, while their daemons slew them (decision 0012).
    /// The same at all replicas.
    pub clock_drift_ppm: u32,
    /// After so much silence it is proposed that a replica leaves the view. Less than the lease.
    pub suspicion: Duration,
    /// For how long clients that no server has keep what they hold, to reclaim it at another server: at least the
    /// lease that servers give their clients.
    pub client_lease: Duration,
    /// How views are agreed: heartbeats and elections.
    pub views: view::Settings,
    /// What clients are told while no majority is in contact.
    pub without_majority: WithoutMajority,
    /// What clients are told of objects whose primary was lost.
    pub frozen: Frozen,
    /// This many updates are kept for a replica that has left the view; when it lacks older ones it
    /// takes a whole copy as it returns. Ten times as many are kept while it is in contact, lest
    /// those made during the copy are missed too.
    pub kept_updates: u64,
    /// Bytes of memory for what is kept of files that the others lack contents of, for all others together.
    pub kept_memory: u64,
    /// At most this many bytes a second are sent to replicas that are on their way back into the
    /// view; `None` is no limit.
    pub return_bytes_per_second: Option<u64>,
    /// Bytes of the space at each other replica that this one leaves free, since others send there too; `None`:
    /// 64 MiB, or less where disks are small.
    pub space_reserve: Option<u64>,
    /// How long after one comparison of the copies the next begins; zero: only when somebody asks for it.
    pub scrub_interval: Duration,
    /// Bytes a second that it reads at most, here and for others.
    pub scrub_rate: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            control: control::Settings::default(),
            peer: peer::Settings::default(),
            name_space: NameSpace::default(),
            durability: Durability::default(),
            data_delay: Duration::from_millis(200),
            busy_data_delay: Duration::from_secs(10),
            merging: true,
            patience: Duration::from_secs(50),
            site_lease: Duration::from_secs(5),
            clock_drift_ppm: 110_000,
            suspicion: Duration::from_secs(3),
            client_lease: Duration::from_secs(90),
            views: view::Settings::default(),
            without_majority: WithoutMajority::default(),
            frozen: Frozen::default(),
            kept_updates: 1_000_000,
            kept_memory: 1 << 30,
            return_bytes_per_second: None,
            space_reserve: None,
            scrub_interval: Duration::from_secs(7 * 24 * 3600),
            scrub_rate: 16 << 20,
        }
    }
}
