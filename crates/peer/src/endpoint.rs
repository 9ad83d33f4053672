//! The connections of a replica to its peers: one listener, and one connection per lane to each peer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;
use vfs::ReplicaSlot;

use crate::accept;
use crate::dial;
use crate::flow::locked;
use crate::handler::{MessageHandler, Sender};
use crate::identity::{Incarnation, SetId};
use crate::keepalive::Keepalive;
use crate::peers::{Peer, PeerState, Peers};
use crate::set::SetDirectory;
use crate::settings::Settings;
use crate::status::PeerStatus;
use crate::tls::{self, Identity, IdentityError};
use crate::wire::Hello;

/// At most this many addresses of one member are remembered.
const ADDRESSES_KNOWN: usize = 8;

/// What the tasks of an endpoint share.
pub(crate) struct EndpointState {
    pub set: SetId,
    pub slot: ReplicaSlot,
    pub incarnation: Incarnation,
    pub settings: Settings,
    pub keepalive: Keepalive,
    pub handler: Arc<dyn MessageHandler>,
    pub dial: Arc<ClientConfig>,
    pub accept: Arc<ServerConfig>,
    pub accept_join: Arc<ServerConfig>,
    /// Answers servers that want to join, when this replica keeps the key of the authority.
    pub admitting: Option<SetDirectory>,
    peers: Peers,
    /// The addresses from which members are known to call.
    addresses: Mutex<BTreeMap<ReplicaSlot, BTreeSet<IpAddr>>>,
    revoked: Mutex<BTreeSet<ReplicaSlot>>,
    closed: watch::Sender<bool>,
    is_closed: AtomicBool,
}

impl std::fmt::Debug for EndpointState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "replica {} ({}) of set {}",
            self.slot.0, self.incarnation, self.set
        )
    }
}

impl EndpointState {
    /// The state of this replica, created on first contact.
    pub(crate) fn peer(&self, slot: ReplicaSlot) -> Arc<PeerState> {
        let mut peers = locked(&self.peers);
        peers
            .entry(slot)
            .or_insert_with(|| Arc::new(PeerState::new(slot)))
            .clone()
    }

    pub(crate) fn is_revoked(&self, slot: ReplicaSlot) -> bool {
        locked(&self.revoked).contains(&slot)
    }

    /// Whether a member is known to call from an address.
    pub(crate) fn knows_address(&self, address: IpAddr) -> bool {
        let addresses = locked(&self.addresses);
        addresses.values().any(|known| known.contains(&address))
    }

    /// A member called from this address, or listens there.
    pub(crate) fn note_address(&self, slot: ReplicaSlot, address: IpAddr) {
        let mut addresses = locked(&self.addresses);
        let known = addresses.entry(slot).or_default();
        if known.len() >= ADDRESSES_KNOWN {
            known.clear();
        }
        known.insert(address);
    }

    /// Looks up the addresses from which a member may call that listens at these places.
    async fn look_up(self: Arc<Self>, slot: ReplicaSlot, listens_at: Vec<String>) {
        for place in listens_at {
            // If the lookup fails now, the address becomes known when the member calls.
            if let Ok(found) = tokio::net::lookup_host(&place).await {
                for address in found {
                    self.note_address(slot, address.ip().to_canonical());
                }
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Waits until the endpoint is closed.
    pub(crate) async fn closed(&self) {
        // The sender lives in `self`, so this returns only when the endpoint is closed.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// The parts that are the same in every hello of this replica to a peer.
    pub(crate) fn hello_to(&self, peer: ReplicaSlot, lane: u32) -> Hello {
        let (introduction, program) = match lane {
            0 => (self.handler.introduce(peer), self.settings.program.clone()),
            _ => Default::default(),
        };
        Hello {
            introduction,
            program,
            version_min: *self.settings.versions.start(),
            version_max: *self.settings.versions.end(),
            set: bytes::Bytes::copy_from_slice(&self.set.0),
            slot: self.slot.0.into(),
            incarnation: self.incarnation.0,
            data_lanes: self.settings.offered_data_lanes(),
            ..Hello::default()
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.send_replace(true);
        for peer in locked(&self.peers).values() {
            peer.end();
        }
    }
}

/// A replica's connections to its peers. Dropping it ends all of them.
///
/// Of two replicas the one with the larger slot dials, because it joined when the other one existed. If it does not
/// call, the smaller one asks whether it is refused. Every lane is a separate connection: 0 for control, 1 for
/// metadata, the others for data. Priorities within one connection cannot replace the separate control connection: a
/// message cannot overtake the bytes in a socket's buffers, and at 1 Gbit/s and 200 ms these are many megabytes.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<EndpointState>,
}

impl Endpoint {
    /// Starts to listen, within a tokio runtime with I/O and time. `incarnation` must be larger than at any earlier
    /// start, and not 0. `admitting` answers servers that want to join. Pass it on the replica that keeps the key of
    /// the set's authority.
    ///
    /// # Errors
    /// [`IdentityError`] when the certificate cannot be used.
    pub fn start(
        identity: &Identity,
        incarnation: Incarnation,
        settings: Settings,
        handler: Arc<dyn MessageHandler>,
        listener: TcpListener,
        admitting: Option<SetDirectory>,
    ) -> Result<Endpoint, IdentityError> {
        let endpoint = Endpoint::make(identity, incarnation, settings, handler, admitting)?;
        tokio::spawn(accept::listen(endpoint.shared.clone(), listener));
        Ok(endpoint)
    }

    /// Like [`Endpoint::start`], for a member that does not listen: it calls the members with smaller slots, which [`Endpoint::connect`] names.
    ///
    /// # Errors
    /// As [`Endpoint::start`].
    pub fn start_calling(
        identity: &Identity,
        incarnation: Incarnation,
        settings: Settings,
        handler: Arc<dyn MessageHandler>,
    ) -> Result<Endpoint, IdentityError> {
        Endpoint::make(identity, incarnation, settings, handler, None)
    }

    fn make(
        identity: &Identity,
        incarnation: Incarnation,
        settings: Settings,
        handler: Arc<dyn MessageHandler>,
        admitting: Option<SetDirectory>,
    ) -> Result<Endpoint, IdentityError> {
        let shared = Arc::new(EndpointState {
            set: identity.set,
            slot: identity.slot,
            incarnation,
            keepalive: Keepalive::new(settings.keepalive),
            settings,
            handler,
            dial: tls::dial_config(identity)?,
            accept: tls::accept_config(identity)?,
            accept_join: tls::accept_join_config(identity)?,
            admitting,
            peers: Peers::default(),
            addresses: Mutex::default(),
            revoked: Mutex::default(),
            closed: watch::Sender::new(false),
            is_closed: AtomicBool::new(false),
        });
        Ok(Endpoint { shared })
    }

    /// Names a peer and its addresses (`host:port`, tried in turn). Keeps connections to it if our slot is larger.
    /// Otherwise, while the peer does not call, asks it whether it refuses us. A second call replaces the addresses.
    pub fn connect(&self, slot: ReplicaSlot, addresses: Vec<String>) -> Peer {
        let peer = self.shared.peer(slot);
        tokio::spawn(self.shared.clone().look_up(slot, addresses.clone()));
        let first = std::mem::replace(&mut *locked(&peer.addresses), addresses).is_empty();
        let shared = self.shared.clone();
        match self.shared.slot > slot {
            _ if !first => {}
            true => drop(tokio::spawn(dial::keep_connected(shared, peer.clone()))),
            false => drop(tokio::spawn(dial::ask_why_silent(shared, peer.clone()))),
        }
        Peer(peer)
    }

    /// A peer that was named or has called.
    #[must_use]
    pub fn peer(&self, slot: ReplicaSlot) -> Option<Peer> {
        locked(&self.shared.peers).get(&slot).cloned().map(Peer)
    }

    /// Ends every connection to this replica and refuses it from now on, whatever certificate it shows. Slots are never
    /// used again, so this cannot be undone.
    pub fn revoke(&self, slot: ReplicaSlot) {
        locked(&self.shared.revoked).insert(slot);
        locked(&self.shared.addresses).remove(&slot);
        if let Some(Peer(peer)) = self.peer(slot) {
            peer.end();
        }
    }

    /// Ends the session with this incarnation of a peer, if it is the current one. That incarnation gets no other
    /// session. [`MessageHandler::admit_session`] decides about later incarnations.
    pub fn end_session(&self, with: Sender) -> bool {
        let peer = locked(&self.shared.peers).get(&with.slot).cloned();
        let session = peer.and_then(|peer| peer.current());
        let session = session.filter(|session| session.peer == with);
        if let Some(session) = &session {
            session.end();
        }
        session.is_some()
    }

    /// Ends every session. [`MessageHandler::meet`] decides whether another one begins.
    pub fn end_sessions(&self) {
        for peer in locked(&self.shared.peers).values() {
            peer.end();
        }
    }

    /// Ends all connections and makes no new ones, like dropping the endpoint.
    pub fn close(&self) {
        self.shared.close();
    }

    /// The status of every known peer, by slot.
    #[must_use]
    pub fn status(&self) -> Vec<PeerStatus> {
        let peers = locked(&self.shared.peers);
        peers.values().map(|peer| peer.status()).collect()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.close();
    }
}
