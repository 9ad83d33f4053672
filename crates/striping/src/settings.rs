//! What a home can be told of how to deal with its data servers.
//!
//! What must never enter: what a pool consists of.

use std::time::Duration;

use pool::home::HomeSettings;

/// How a home deals with its data servers.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Leases and what goes with them.
    pub home: HomeSettings,
    /// How long a read or write waits for a data server that does not serve. Then the client that
    /// asked is told to come again.
    pub patience: Duration,
    /// Clients are not served by [`crate::Striped::file_system`], so that writes are to be held here while a file is being moved.
    pub holds_writes: bool,
    /// How long contents that a data server lists have to belong to nothing before they are removed.
    pub sweep_after: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            home: HomeSettings::default(),
            patience: Duration::from_secs(5),
            holds_writes: false,
            sweep_after: Duration::from_hours(24),
        }
    }
}
