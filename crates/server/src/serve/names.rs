//! The names of the server for NFS clients and for people.
//!
//! What must never enter: where the names are stored.

use nfs4_server::Identity;
use nfs4_server::state::KEY_BYTES;

use super::pool::Role;
use crate::data_directory::ReplicaIdentity;
use crate::set::Membership;

/// The server's identity.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// This server only. Clients spread one session over servers with the same owner, so replicas at different sites
    /// must not share it.
    pub(super) replica: String,
    /// Its set, the same at all its replicas: clients reclaim their state at another server if that has the same scope.
    /// A server without a set is its own set.
    pub(super) set: String,
    /// Its number in the set.
    pub(super) place: Option<u16>,
    /// The addresses at which the other replicas called it when it started.
    pub(super) addresses: Vec<String>,
}

impl Names {
    pub(super) fn new(identity: &ReplicaIdentity, membership: Option<&Membership>) -> Names {
        Names {
            replica: identity.replica.to_string(),
            set: match membership {
                Some(membership) => membership.set.to_string(),
                None => identity.set.to_string(),
            },
            place: membership.map(|membership| membership.slot.0),
            addresses: membership.map_or_else(Vec::new, Membership::own_addresses),
        }
    }

    /// In the form for clients: server owner and server scope (RFC 8881, sections 2.5 and 2.4).
    ///
    /// # Errors
    /// When the operating system has no random bytes.
    pub(super) fn as_identity(
        &self,
        incarnation: u32,
        pool: Option<&Role>,
    ) -> Result<Identity, getrandom::Error> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key)?;
        if let Some(Role::Data(server)) = pool {
            // No other server may have this owner: clients would mistake a data server for the metadata server (rule 6 of striping).
            return Ok(Identity {
                server: format!("meridian-data-server-{}", self.replica).into_bytes(),
                scope: format!("meridian-pool-{}", server.pool()).into_bytes(),
                incarnation,
                key,
                place: None,
            });
        }
        Ok(Identity {
            server: format!("meridian-replica-{}", self.replica).into_bytes(),
            scope: format!("meridian-set-{}", self.set).into_bytes(),
            incarnation,
            key,
            place: self.place,
        })
    }
}
