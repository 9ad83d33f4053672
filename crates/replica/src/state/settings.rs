//! How one replica behaves: what an administrator may choose.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When an update is answered (rule 24 of the replication design).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When it is stable here; the others follow.
    #[default]
    Relaxed,
    /// When a majority of the set holds it stably.
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
    /// In the local copy if it has the name, otherwise at the primary. Directories are listed from the local copy.
    Relaxed,
}

/// What clients are told while this replica may not answer, because no majority is in contact with it (rule 35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutMajority {
    /// To try again, until it may answer.
    #[default]
    Wait,
    /// That the operation failed.
    Error,
    /// What the local copy says, which may be old, if they only read; otherwise to try again.
    StaleReads,
}

/// What clients are told of an object whose primary was lost (rule 32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frozen {
    /// To try again, until it is decided.
    #[default]
    Wait,
    /// That the operation failed.
    Error,
    /// What the local copy says, which may be old, if they only read; otherwise to try again.
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
    /// For directories without a setting, in themselves or above them.
    pub durability: Durability,
    /// How long a change of a file rests before its content is shipped, so that data that is overwritten or removed at once never crosses the wide
    /// area.
    pub data_delay: Duration,
    /// How long it rests at most while clients keep the server busy, much of the file is lacking, no other replica has asked for it and `durability`
    /// is relaxed. A value up to `data_delay` changes nothing.
    pub busy_data_delay: Duration,
    /// Whether consecutive updates are merged before they are sent, so that only the last state of each row travels.
    pub merging: bool,
    /// How long a client's operation waits for control before the client is told to try again. Less than the minute after which a Linux client asks
    /// on its own; more than elections take, because a client that comes again finds that control won for it has gone.
    pub patience: Duration,
    /// How long a majority promises to do nothing without this replica. The same at all replicas.
    pub site_lease: Duration,
    /// How much faster or slower than true time clocks may run, in millionths, while their daemons slew them (decision 0012).
    /// The same at all replicas.
    pub clock_drift_ppm: u32,
    /// After this silence another replica proposes that a replica leaves the view. Less than the lease.
    pub suspicion: Duration,
    /// How long clients that no server has keep what they hold, to reclaim it at another server: at least the lease that servers give their clients.
    pub client_lease: Duration,
    /// How views are agreed: heartbeats and elections.
    pub views: view::Settings,
    /// What clients are told while no majority is in contact.
    pub without_majority: WithoutMajority,
    /// What clients are told of objects whose primary was lost.
    pub frozen: Frozen,
    /// This many updates are kept for a replica that has left the view. If it lacks older ones, it takes a whole copy when it returns. Ten times as
    /// many are kept while it is in contact, so that it does not also miss those made during the copy.
    pub kept_updates: u64,
    /// Bytes of memory for noting the files of which others lack contents, for all others together.
    pub kept_memory: u64,
    /// At most this many bytes per second are sent to replicas on their way back into the view; `None` is no limit.
    pub return_bytes_per_second: Option<u64>,
    /// Bytes of the space at each other replica that this one leaves free, because others also send there; `None`: 64 MiB, or less for small disks.
    pub space_reserve: Option<u64>,
    /// The pause between two comparisons of the copies; zero: they run only on request.
    pub scrub_interval: Duration,
    /// At most this many bytes per second are read for it, here and for others.
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
