//! The server's side of its set: where it listens for the other replicas, and the tree it keeps with them.
//!
//! What must never enter: replication control, and what replicas say to each other.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use peer::set::SetDirectory;
use peer::{Endpoint, Epoch, Incarnation, Incoming, Message, Owner, Refusal, Sender};

use super::ServeError;
use crate::configuration::{
    Configuration, ExportConfiguration, ListenAddress, PEER_PORT, PeerListenAddress,
};
use crate::data_directory::DataDirectory;
use crate::set::{Membership, MembershipError};
use crate::transport::Listener;

/// A server that belongs to a set, ready to meet the others.
pub(super) struct Replication {
    pub(super) membership: Membership,
    pub(super) listener: Listener,
    /// The name of the tree that the set keeps.
    pub(super) tree: String,
}

impl Replication {
    /// Looks whether the server belongs to a set, and listens for the others if so.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn prepare(
        data: &DataDirectory,
        configuration: &Configuration,
    ) -> Result<Option<Replication>, ServeError> {
        let directory = SetDirectory::new(data.set());
        if !directory.exists() {
            return Ok(None);
        }
        let membership = Membership::read(directory)?;
        let tree = configuration.replication.tree.clone();
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
}

/// All addresses of the machine, at the port that the others were told of.
fn at_own_port(membership: &Membership) -> PeerListenAddress {
    let members = membership.directory.members().unwrap_or_default();
    let own = members
        .iter()
        .find(|member| member.slot == membership.slot.0);
    let addresses = own.iter().flat_map(|own| &own.addresses);
    let mut ports = addresses.filter_map(|address| address.rsplit_once(':')?.1.parse().ok());
    let port = ports.next().unwrap_or(PEER_PORT);
    let PeerListenAddress(ListenAddress(mut address)) = PeerListenAddress::EVERYWHERE;
    address.set_port(port);
    PeerListenAddress(ListenAddress(address))
}

/// What a person reads who cannot listen for replicas.
pub(super) fn refusal_to_listen(address: &SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    format!(
        "cannot listen for other replicas at {address}: {error}; `ss -ltnp 'sport = :{port}'` shows who else does. Choose another `listen` in [replication]"
    )
}

/// Answers servers that want to join, and nobody else.
struct Reception;

#[async_trait]
impl Owner for Reception {
    fn admit_session(&self, _: Sender, epoch: Epoch) -> Result<(), Refusal> {
        let reason = "this server only admits members so far".to_owned();
        Err(Refusal { epoch, reason })
    }

    async fn receive(&self, incoming: Incoming) {
        drop(incoming);
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        let reason = "this server only admits members so far".to_owned();
        let epoch = incoming.epoch;
        Err(Refusal { epoch, reason })
    }
}

impl Replication {
    /// Begins to answer.
    pub(super) fn begin(self, incarnation: u32) -> Result<Endpoint, ServeError> {
        let directory = self.membership.directory;
        let identity = directory.identity().map_err(MembershipError::Set)?;
        let desk = directory.keeps_authority().then_some(directory);
        let incarnation = Incarnation(incarnation.into());
        let settings = peer::Settings::default();
        let socket = self.listener.into_socket();
        Endpoint::start(
            &identity,
            incarnation,
            settings,
            Arc::new(Reception),
            socket,
            desk,
        )
        .map_err(|error| {
            ServeError::PeerListen(SocketAddr::from(([0, 0, 0, 0], 0)), io::Error::other(error))
        })
    }
}
