//! Messages of the pool's other servers to the first metadata server, and its messages to them.
//!
//! What must never enter: the consequences for new files.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use metadata_server::{Asker, Home, LayoutEvent, News, ToHolders};
use peer::{
    Endpoint, Incoming, Lane, Message, MessageHandler, Refusal, Sender, Session, TurnedAway,
};
use pool::{DataServerNumber, Holding, Listing, ToDataServer};
use striping::Striped;
use tokio::sync::watch;
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::super::connection::{self, FromDataServer};
use super::super::homes::JoinedHomes;
use super::super::sharing::Sharing;
use crate::pools::{PoolPlace, PoolRole};

/// How long a metadata server may take to drop copies before it is told again.
const PATIENCE: Duration = Duration::from_secs(10);

/// What other servers have reported, and the parts that answer them.
pub(super) struct Known {
    pub(super) place: PoolPlace,
    pub(super) striped: Weak<Striped>,
    /// The contents of each data server, by its last report.
    pub(super) holdings: Mutex<BTreeMap<ReplicaSlot, Said>>,
    /// The NFS address of each data server.
    pub(super) addresses: Mutex<BTreeMap<DataServerNumber, SocketAddr>>,
    /// The servers that have connected, and their roles in the pool.
    pub(super) roles: Mutex<BTreeMap<ReplicaSlot, PoolRole>>,
    /// Answers other metadata servers.
    pub(super) home: Arc<Home>,
    /// Metadata servers that are homes, too.
    pub(super) homes: Arc<JoinedHomes>,
    /// Set if other servers change the files, too.
    pub(super) sharing: Option<Arc<Sharing>>,
    /// Whether this server can answer.
    pub(super) has_started: watch::Sender<bool>,
}

/// A data server's report of its contents.
#[derive(Clone, Copy)]
pub(super) struct Said {
    pub(super) holding: Holding,
    /// It was sent in the current session.
    pub(super) is_present: bool,
}

/// Carries the home's messages to data servers.
pub(super) struct Link {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) known: Arc<Known>,
}

impl Known {
    pub(super) fn holdings(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Said>> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roles(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, PoolRole>> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The role of a server that has connected. It never changes.
    fn role(&self, slot: ReplicaSlot) -> Option<PoolRole> {
        self.roles().get(&slot).copied()
    }

    /// Whether a server with this role has connected and was not removed.
    pub(super) fn is_present(&self, slot: ReplicaSlot, role: PoolRole) -> bool {
        let member = self.place.member(slot);
        self.role(slot) == Some(role) && member.is_some_and(|member| !member.revoked)
    }

    /// Metadata servers that have connected.
    fn metadata_servers(&self) -> Vec<ReplicaSlot> {
        let roles = self.roles();
        let all = roles.iter();
        all.filter(|(_, role)| **role == PoolRole::MetadataServer)
            .map(|(slot, _)| *slot)
            .collect()
    }

    /// Whether a member, removed or not, is a joined metadata server.
    pub(super) fn is_metadata_server(&self, slot: ReplicaSlot) -> bool {
        let member = self.place.member(slot);
        member.is_some_and(|member| {
            PoolRole::of(&member, self.place.keeper) == PoolRole::MetadataServer
        })
    }

    pub(super) fn addresses(&self) -> MutexGuard<'_, BTreeMap<DataServerNumber, SocketAddr>> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Passes events of layouts on to the metadata servers of the clients.
    pub(super) fn tells_of_layouts(&self) -> Arc<dyn Fn(nfs4_server::LayoutEvent) + Send + Sync> {
        let (endpoint, known) = (Arc::downgrade(&self.endpoint), Arc::downgrade(&self.known));
        Arc::new(move |event| {
            let (Some(endpoint), Some(known)) = (endpoint.upgrade(), known.upgrade()) else {
                return;
            };
            match event {
                nfs4_server::LayoutEvent::Recall(holder) => {
                    if let Some((at, there)) = known.home.holder_elsewhere(holder.0) {
                        let is_it = |session: &Session| asker(session.peer()) == at;
                        tell_of_layout(&endpoint, at.server, is_it, LayoutEvent::Recall(there));
                    }
                }
                nfs4_server::LayoutEvent::DeviceGone(device) => {
                    for server in known.metadata_servers() {
                        let gone = LayoutEvent::DeviceGone(device.0);
                        tell_of_layout(&endpoint, server, |_| true, gone);
                    }
                }
            }
        })
    }
}

/// Tells a connected metadata server. The message is repeated, or may be lost.
fn tell_of_layout(
    endpoint: &Endpoint,
    server: ReplicaSlot,
    is_meant: impl Fn(&Session) -> bool,
    event: LayoutEvent,
) {
    let peer = endpoint.peer(server);
    let session = peer.and_then(|peer| peer.session().ok());
    if let Some(session) = session.filter(is_meant) {
        let _ = session.try_send(Lane::Control, connection::encode_layout_event(&event));
    }
}

/// Removes contents of a home that belong to nothing.
pub(in crate::serve::pool) fn sweep(
    striped: Arc<Striped>,
    server: DataServerNumber,
    listing: Listing,
) {
    tokio::task::spawn_blocking(move || match striped.sweep(server, &listing) {
        Ok(0) => {}
        Ok(contents) => tracing::warn!(
            data_server = server.0,
            contents,
            "contents that belong to no file, for a day at least, are removed"
        ),
        // The data server lists them again.
        Err(error) => tracing::debug!(%error, "contents are not looked for now"),
    });
}

fn asker(from: Sender) -> Asker {
    Asker {
        server: from.slot,
        run: from.incarnation.0,
    }
}

impl striping::Control for Link {
    fn send(&self, to: DataServerNumber, message: ToDataServer) {
        let peer = self.endpoint.peer(ReplicaSlot(to.0));
        if let Some(session) = peer.and_then(|peer| peer.session().ok()) {
            // A lost message is repeated when the data server next asks for its lease.
            let _ = session.try_send(Lane::Control, connection::encode(&message));
        }
    }

    fn address(&self, server: DataServerNumber) -> Option<SocketAddr> {
        self.known.addresses().get(&server).copied()
    }

    fn holding(&self, server: DataServerNumber) -> Option<Holding> {
        let said = self.known.holdings().get(&ReplicaSlot(server.0)).copied();
        said.map(|said| said.holding)
    }

    fn clients_left(&self) -> Duration {
        let sharing = self.known.sharing.as_ref();
        sharing.map_or(Duration::MAX, |sharing| sharing.clients_left())
    }
}

#[async_trait]
impl ToHolders for Link {
    async fn tell(&self, to: Asker, news: News) -> bool {
        let peer = self.endpoint.peer(to.server);
        let session = peer.and_then(|peer| peer.session().ok());
        let Some(session) = session.filter(|session| asker(session.peer()) == to) else {
            return false;
        };
        let (message, patience) = (connection::encode_news(&news), Instant::now() + PATIENCE);
        let heard = session.request(Lane::Control, message, patience).await;
        heard.is_ok_and(|answer| connection::is_heard(&answer))
    }
}

#[async_trait]
impl MessageHandler for Known {
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        let role = connection::meet_at_metadata_server(&self.place, peer)?;
        self.roles().insert(peer.slot, role);
        Ok(())
    }

    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        connection::admit_at_metadata_server(self.role(from.slot), kind)
    }

    async fn receive(&self, incoming: Incoming) {
        let from = incoming.from.slot;
        let message = incoming.release();
        if self.pass_on(from, &message) {
            return;
        }
        if let Some(event) = connection::decode_layout_event(&message) {
            return self.homes.hear_of_layouts(from, event);
        }
        match FromDataServer::decode(&message) {
            Some(FromDataServer::Holding(holding)) => {
                let said = Said {
                    holding,
                    is_present: true,
                };
                self.holdings().insert(from, said);
            }
            Some(FromDataServer::Listing(listing)) => {
                let own = self.pass_listing(from, listing);
                if let (Some(listing), Some(striped)) = (own, self.striped.upgrade()) {
                    sweep(striped, DataServerNumber(from.0), listing);
                }
            }
            Some(FromDataServer::ToHome(message)) => {
                if let Some(striped) = self.striped.upgrade() {
                    striped.receive(DataServerNumber(from.0), message);
                }
            }
            None => {
                tracing::warn!(
                    number = from.0,
                    "a message is not understood, or not about what lives there, and dropped"
                );
            }
        }
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        let asker = asker(incoming.from);
        let Some(asked) = connection::decode_question(&incoming.message) else {
            let news = connection::decode_news(&incoming.release());
            let news = news.ok_or_else(connection::refusal)?;
            self.homes.hear(asker.server, &news);
            return Ok(connection::heard());
        };
        let mut has_started = self.has_started.subscribe();
        // The sender lives as long as `self`.
        let _ = has_started.wait_for(|started| *started).await;
        let reply = self.home.answer(asker, asked).await;
        // Until here, its bytes count against the asker's limit.
        drop(incoming);
        Ok(connection::encode_reply(&reply))
    }

    fn session_began(&self, peer: Sender) {
        match self.role(peer.slot) {
            Some(PoolRole::MetadataServer) => {
                tracing::info!(number = peer.slot.0, "a metadata server is there");
                self.home.meet(asker(peer));
                self.homes.session_began(peer);
            }
            _ => tracing::info!(data_server = peer.slot.0, "a data server is there"),
        }
    }

    fn session_ended(&self, peer: Sender) {
        if let Some(said) = self.holdings().get_mut(&peer.slot) {
            said.is_present = false;
        }
    }
}
