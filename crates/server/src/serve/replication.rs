//! The server's part in its set: where it listens for the other replicas, and the tree that it keeps with them.
//!
//! What must never enter: replication control, and the messages between replicas.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use peer::set::SetDirectory;
use replica::{Durability, Readers, Replica};
use store::Store;

use super::{Build, ServeError};
use crate::configuration::{
    Configuration, ExportConfiguration, ListenAddress, PEER_PORT, PeerListenAddress,
};
use crate::data_directory::{DataDirectory, is_filled};
use crate::set::{self, MAJORITY_OF_TWO, Membership, MembershipError};
use crate::transport::Listener;

/// A server that belongs to a set, ready to connect to the others.
pub(super) struct Replication {
    pub(super) membership: Membership,
    pub(super) listener: Listener,
    /// The name of the tree that the set keeps.
    pub(super) tree: String,
}

impl Replication {
    /// Checks whether the server belongs to a set, and listens for the others if it does.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn prepare(
        data: &DataDirectory,
        configuration: &Configuration,
    ) -> Result<Option<Replication>, ServeError> {
        let directory = SetDirectory::new(data.set());
        if !directory.exists().map_err(MembershipError::from)? {
            let request = directory.unanswered_request();
            if let Some(path) = request.map_err(MembershipError::from)? {
                return Err(ServeError::JoinInterrupted { kind: "set", path });
            }
            return match data.member()? {
                None => Ok(None),
                Some(member) => Err(ServeError::SetMissing {
                    path: data.path().to_owned(),
                    slot: member.slot.0,
                }),
            };
        }
        let membership = Membership::read(directory)?;
        let tree = configuration.replication.tree.clone();
        let has_served = is_filled(&data.tree(&tree))?;
        warn_of_two(&membership, &configuration.replication.replica, has_served);
        let is_shown = |export: &ExportConfiguration| export.tree == tree;
        if !configuration.exports.iter().any(is_shown) {
            return Err(ServeError::ReplicatedTreeNotShown(tree));
        }
        let wanted = configuration.replication.listen;
        let wanted = wanted.unwrap_or_else(|| at_own_port(&membership));
        let bound = Listener::bind_plainly(wanted.0);
        let listener = bound.map_err(|source| ServeError::PeerListen(wanted.0.0, source))?;
        Ok(Some(Replication {
            membership,
            listener,
            tree,
        }))
    }

    /// Begins to replicate the tree. Clients then use the replica, except for those that read past it.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) async fn begin(
        self,
        (store, readers): (Arc<Store>, Option<Arc<dyn Readers>>),
        configuration: &Configuration,
        (incarnation, build): (u32, Build),
    ) -> Result<Arc<Replica>, ServeError> {
        let (set, socket) = (self.membership.directory, self.listener.into_socket());
        let mut settings = replica::Settings {
            client_lease: configuration.limits.lease,
            ..settings(&configuration.replication.replica)
        };
        settings.peer.program = build.to_string();
        let incarnation = incarnation.into();
        let replica = Replica::start(store, set, settings, socket, incarnation, readers);
        Ok(replica.await?)
    }
}

/// Logs the limits of a set of two. This does not prevent the start: the server that admits the third member must run.
fn warn_of_two(membership: &Membership, chosen: &replica::Settings, has_served: bool) {
    let members = membership.directory.members().unwrap_or_default();
    let Some(warning) = set::warning(&members) else {
        return;
    };
    // A server that has just joined was told, and the third member may be about to join.
    if has_served {
        tracing::warn!("{warning}");
    }
    if chosen.durability == Durability::Majority {
        tracing::error!("`durability` in [replication] is \"majority\", and {MAJORITY_OF_TWO}");
    }
}

/// All addresses of the machine, at the port that the others were given.
fn at_own_port(membership: &Membership) -> PeerListenAddress {
    let addresses = membership.own_addresses();
    let mut ports = addresses
        .iter()
        .filter_map(|address| address.rsplit_once(':')?.1.parse().ok());
    let port = ports.next().unwrap_or(PEER_PORT);
    let PeerListenAddress(ListenAddress(mut address)) = PeerListenAddress::EVERYWHERE;
    address.set_port(port);
    PeerListenAddress(ListenAddress(address))
}

/// The error text when the server cannot listen for replicas.
pub(super) fn refusal_to_listen(address: &SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    format!(
        "cannot listen for other replicas at {address}: {error}; `ss -ltnp 'sport = :{port}'` shows who else does. Choose another `listen` in [replication]"
    )
}

/// The settings of the replica: the configured values, with election times that fit them.
fn settings(chosen: &replica::Settings) -> replica::Settings {
    let mut settings = chosen.clone();
    // A lease shorter than an election would expire in each election.
    let (shortest, longest) = (Duration::from_millis(50), Duration::from_millis(500));
    let heartbeat = (chosen.site_lease / 10).clamp(shortest, longest);
    settings.views.heartbeat = heartbeat;
    settings.views.election_min = 3 * heartbeat;
    settings.views.election_max = 5 * heartbeat;
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_configures_is_as_the_replica_recommends() {
        let theirs = replica::Settings::default();
        assert_eq!(settings(&theirs), theirs);
    }

    #[test]
    fn elections_are_over_before_short_leases_are() {
        for (lease_ms, heartbeat_ms) in [(500, 50), (1000, 100), (5000, 500), (600_000, 500)] {
            let chosen = replica::Settings {
                site_lease: Duration::from_millis(lease_ms),
                ..replica::Settings::default()
            };
            let views = settings(&chosen).views;
            assert_eq!(views.heartbeat, Duration::from_millis(heartbeat_ms));
            assert!(views.election_min < views.election_max);
            assert!(views.election_max < chosen.site_lease);
        }
    }
}
