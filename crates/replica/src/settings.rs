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

/// How names are looked up in a directory that another replica controls (rule 21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameSpace {
    /// Always at the primary.
    #[default]
    Strict,
    /// In the own copy when the name is there, at the primary when it is missing.
    Relaxed,
}

/// How one replica behaves. Replicas of a set may differ in it.
#[derive(Clone, Debug)]
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
    /// How long a client's operation waits for control before the client is told to come again. Less than the
    /// minute after which a Linux client asks on its own; more than elections take, because whoever comes
    /// again finds control gone that was won for it.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            control: control::Settings::default(),
            peer: peer::Settings::default(),
            name_space: NameSpace::default(),
            durability: Durability::default(),
            data_delay: Duration::from_millis(200),
            patience: Duration::from_secs(50),
        }
    }
}
