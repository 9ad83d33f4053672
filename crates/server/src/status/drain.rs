//! Moving clients to other servers: the question to the running server, and its answer.
//!
//! What must never enter: how clients are moved.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A request to move clients of the replicated tree to other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainQuestion {
    /// Names or addresses of the other servers, as clients reach them at the standard port of NFS.
    pub to: Vec<String>,
    /// Seconds after which the server stops although clients are still there.
    pub patience_seconds: u64,
}

/// The progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainAnswer {
    /// Clients that have not gone yet.
    pub clients: u64,
}

impl fmt::Display for DrainAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clients {
            0 => write!(f, "no client is left"),
            1 => write!(f, "one client has yet to go"),
            many => write!(f, "{many} clients have yet to go"),
        }
    }
}
