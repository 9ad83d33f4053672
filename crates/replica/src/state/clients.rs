//! Clients, as servers name them to each other, and what servers ask each other of them.
//!
//! What must never enter: what clients hold.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use vfs::AbsentClients;

use crate::state::locks::Table;

/// The name of a client, as locks and denials carry it.
pub(crate) type Client = Arc<[u8]>;

/// Which of these clients does the receiver not have?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientsAsked {
    pub(crate) names: Vec<Bytes>,
    /// Those that it names may not reclaim there from now on.
    pub(crate) for_good: bool,
}

/// These.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientsAbsent {
    pub(crate) names: Vec<Bytes>,
}

/// The servers in front of this replica that know which clients they have.
#[derive(Default)]
pub(crate) struct Servers(Table<Option<AbsentClients>>);

impl Servers {
    pub(crate) fn set(&self, absent: AbsentClients) {
        *self.0.lock() = Some(absent);
    }

    /// As long as no server has said so, any client may be one of its own.
    pub(crate) fn absent(&self, names: &[Client], for_good: bool) -> Vec<Client> {
        // The servers take locks of their own.
        let asked = self.0.lock().clone();
        asked.map_or_else(Vec::new, |absent| absent(names, for_good))
    }
}
