//! Sending clients to other servers: what is asked of the running server, and what it answers.
//!
//! What must never enter: how clients are sent away.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A wish that clients of the replicated tree go to other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainQuestion {
    /// Names or addresses of the other servers, as clients reach them at the standard port of NFS.
    pub to: Vec<String>,
    /// Seconds after which the server stops although clients are still there.
    pub patience_seconds: u64,
}

/// How far it is.
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
