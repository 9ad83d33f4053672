//! Times, chosen for links with round trips of up to 300 ms.

use std::time::Duration;

/// How long things may take.
///
/// A leader that is lost is replaced after `election_max` (the lease its followers gave it) plus
/// `election_min` to `election_max`, and two round trips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A leader is heard of this often, or 1.5 times as seldom; also the longest that one message of the log
    /// may take, so it must be longer than the longest round trip and a write to disk.
    pub heartbeat: Duration,
    /// The shortest time without a leader before a replica stands for election.
    pub election_min: Duration,
    /// The longest such time, and how long a follower knows no other leader.
    pub election_max: Duration,
    /// How long a decision may take before its outcome is called unknown.
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
