//! Times, chosen for links with round trips of up to 300 ms.

use std::time::Duration;

/// Timeouts and intervals.
///
/// A lost leader is replaced after `election_max` (the lease that its followers granted it), plus `election_min` to
/// `election_max`, plus two round trips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The leader sends a heartbeat at this interval, or up to 1.5 times it. It is also the timeout of one message of
    /// the log, so it must be longer than the longest round trip plus a write to disk.
    pub heartbeat: Duration,
    /// The shortest time without a leader before a replica stands for election.
    pub election_min: Duration,
    /// The longest such time, and the time for which a follower accepts no other leader.
    pub election_max: Duration,
    /// How long a decision may take before its outcome is reported as unknown.
    pub decision_limit: Duration,
    /// How long a new member may take to receive the log.
    pub newcomer_limit: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat: Duration::from_millis(500),
            election_min: Duration::from_millis(1500),
            election_max: Duration::from_millis(2500),
            decision_limit: Duration::from_secs(10),
            newcomer_limit: Duration::from_secs(30),
        }
    }
}
