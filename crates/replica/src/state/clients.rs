//! The names of clients that servers use with each other, and what servers ask each other about them.
//!
//! What must never enter: what clients hold.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use vfs::AbsentClients;

use crate::state::locks::Table;

/// The name of a client in locks and denials.
pub(crate) type Client = Arc<[u8]>;

/// Asks which of these clients the receiver does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientsAsked {
    pub(crate) names: Vec<Bytes>,
    /// The clients that the answer names may not reclaim there from now on.
    pub(crate) for_good: bool,
}

/// The clients that it does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientsAbsent {
    pub(crate) names: Vec<Bytes>,
}

/// The servers in front of this replica, which know their clients.
#[derive(Default)]
pub(crate) struct Servers(Table<Option<AbsentClients>>);

impl Servers {
    pub(crate) fn set(&self, absent: AbsentClients) {
        *self.0.lock() = Some(absent);
    }

    /// Until a server has reported, each client may be one of its own.
    pub(crate) fn absent(&self, names: &[Client], for_good: bool) -> Vec<Client> {
        // The servers take locks of their own.
        let asked = self.0.lock().clone();
        asked.map_or_else(Vec::new, |absent| absent(names, for_good))
    }
}
