//! Settings of a home for its data servers.
//!
//! What must never enter: the members of a pool.

use std::time::Duration;

use pool::home::HomeSettings;

/// How a home deals with its data servers.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Leases and related settings.
    pub home: HomeSettings,
    /// How long a read or write waits for a data server that does not serve. Then the client is told to retry.
    pub patience: Duration,
    /// Clients do not use [`crate::Striped::file_system`], so writes must be held back here while a file is being moved.
    pub holds_writes: bool,
    /// How long contents that a data server lists must belong to nothing before they are removed.
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
