//! A data server: it stores contents, serves clients that have a handle, and talks to its metadata server.
//!
//! What must never enter: what a handle allows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use data_server::{Outward, Shelf};
use nfs4_server::{Connected, ContentsExtent, NotServed, Shown};
use peer::{
    Endpoint, Incarnation, Incoming, Lane, Message, MessageHandler, Peer, Refusal, Sender,
    TurnedAway,
};
use pool::{DataServerNumber, Holding, HomeNumber, Listing, ToHome};
use store::StoreOptions;
use throttle::Throttle;
use tokio::time::MissedTickBehavior;
use vfs::{Commitment, Cookie, Stability, Written};
use xdr::Bytes;

use super::clock;
use super::connection::{self, FromDataServer};
use super::joined::status_of_keeper;
use crate::data_directory::{DataDirectory, MemberOf};
use crate::pools::{self, PoolPlace};
use crate::serve::ServeError;
use crate::status::PoolStatus;
use crate::transport::Transport;

/// Log entries about a counter that cannot be stored, the first one and then sums.
static UNASKED: Throttle = Throttle::new();

/// How often a data server asks for leases, and reports how much it stores.
const TELL: Duration = Duration::from_secs(1);
/// Between two pages of a list of contents, and between two complete lists.
const BETWEEN_PAGES: Duration = Duration::from_secs(10);
const BETWEEN_LISTS: Duration = Duration::from_hours(1);

/// A running data server.
pub(in crate::serve) struct DataServer {
    place: PoolPlace,
    endpoint: Endpoint,
    kept: Arc<Kept>,
    link: Arc<Link>,
}

/// The connections of a data server to others.
#[derive(Default)]
struct Link {
    metadata_server: OnceLock<Peer>,
    /// Homes besides that of the first metadata server, as reported by that server.
    homes: Mutex<BTreeSet<HomeNumber>>,
    /// The connections of clients.
    clients: OnceLock<Weak<Transport>>,
}

impl Outward for Link {
    fn send(&self, home: HomeNumber, message: ToHome) {
        match home {
            HomeNumber::FIRST => self.say(FromDataServer::ToHome(message).encode()),
            home => self.say(connection::encode_for_home(home, message)),
        }
    }

    fn drop_connections(&self) {
        if let Some(clients) = self.clients.get().and_then(Weak::upgrade) {
            tracing::info!(
                "connections of clients are closed, since this server may have stood still"
            );
            clients.cut_all();
        }
    }
}

impl Link {
    fn homes(&self) -> MutexGuard<'_, BTreeSet<HomeNumber>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, message: Message) {
        let session = self.metadata_server.get().map(Peer::session);
        if let Some(Ok(session)) = session
            && session.is_connected(Lane::Control)
        {
            // Lost messages are repeated.
            let _ = session.try_send(Lane::Control, message);
        }
    }
}

/// The stored contents, and how many bytes clients have read and written.
struct Kept {
    shelf: Arc<Shelf>,
    server: data_server::DataServer,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl DataServer {
    /// Opens the stored contents, or creates an empty store, and connects to the metadata server.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) async fn start(
        place: PoolPlace,
        (data, options): (&DataDirectory, StoreOptions),
        incarnation: u32,
    ) -> Result<DataServer, ServeError> {
        let identity = place.directory.identity();
        let identity = identity.map_err(pools::PoolPlaceError::from)?;
        let shelf = Arc::new(Shelf::open(&options).await?);
        data.note_member(MemberOf {
            set: place.pool,
            slot: place.slot,
        })?;
        let (number, link) = (DataServerNumber(place.slot.0), Arc::new(Link::default()));
        let lease = clock::of_given_leases();
        let server = data_server::DataServer::new(number, lease, shelf.clone(), link.clone());
        let kept = Arc::new(Kept {
            server: server.clone(),
            shelf,
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        });
        let hears = Arc::new(Hears {
            place: place.clone(),
            server,
            link: link.clone(),
        });
        let endpoint = Endpoint::start_calling(
            &identity,
            Incarnation(incarnation.into()),
            connection::settings(),
            hears,
        )?;
        let keeper = place.member(place.keeper);
        let addresses = keeper.map_or_else(Vec::new, |keeper| keeper.addresses);
        // It is set once.
        let _ = (link.metadata_server).set(endpoint.connect(place.keeper, addresses));
        tokio::spawn(ask(Arc::downgrade(&kept), link.clone()));
        tokio::spawn(list(Arc::downgrade(&kept), link.clone()));
        Ok(DataServer {
            place,
            endpoint,
            kept,
            link,
        })
    }

    /// The service behind its NFS server.
    pub(in crate::serve) fn as_served(&self) -> Arc<dyn nfs4_server::DataServer> {
        self.kept.clone()
    }

    /// Sets the connections of clients.
    pub(in crate::serve) fn serve_by(&self, transport: &Arc<Transport>) {
        // There is only one.
        let _ = self.link.clients.set(Arc::downgrade(transport));
    }

    /// The name of the pool, for clients.
    pub(in crate::serve) fn pool(&self) -> String {
        self.place.pool.to_string()
    }

    /// Whether stable storage has failed, so that nothing more can be promised.
    pub(in crate::serve) fn has_failed(&self) -> bool {
        self.kept.shelf.has_failed()
    }

    /// Puts everything on stable storage and ends the connection.
    pub(super) async fn put_away(&self) {
        self.endpoint.close();
        if let Err(error) = self.kept.shelf.sync().await {
            tracing::error!(%error, "cannot put contents on stable storage");
        }
    }

    /// The status, for display.
    pub(super) async fn status(&self) -> PoolStatus {
        PoolStatus {
            pool: self.place.pool.to_string(),
            role: "data server".to_owned(),
            joined: false,
            number: self.place.slot.0,
            stripe_unit_bytes: self.place.stripe_unit.bytes(),
            servers: vec![status_of_keeper(&self.place, &self.endpoint)],
            holding: self.kept.holding().await,
            moving: None,
            giving_up: Vec::new(),
            copies: None,
        }
    }
}

/// Asks every home for a lease, and reports to the first metadata server how much is stored, while this runs.
async fn ask(kept: Weak<Kept>, link: Arc<Link>) {
    let mut ticks = tokio::time::interval(TELL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(kept) = kept.upgrade() else { return };
        let others = link.homes().clone();
        for home in [HomeNumber::FIRST].into_iter().chain(others) {
            if let Err(error) = kept.server.ask(home).await
                && let Some(sum) = UNASKED.failed(("no lease is asked for", 0), Instant::now())
            {
                tracing::warn!(%error, %sum, "the counter by which a metadata server recognises these contents cannot be kept; check the disk");
            }
        }
        if let Some(holding) = kept.holding().await {
            link.say(FromDataServer::Holding(holding).encode());
        }
    }
}

/// Lists the contents for the metadata server repeatedly, one page at a time, while this runs.
async fn list(kept: Weak<Kept>, link: Arc<Link>) {
    let mut after = Cookie::START;
    loop {
        let pause = match after == Cookie::START {
            true => BETWEEN_LISTS,
            false => BETWEEN_PAGES,
        };
        tokio::time::sleep(pause).await;
        let Some(kept) = kept.upgrade() else { return };
        match kept.shelf.list(after, Listing::MOST).await {
            Ok((listing, next)) => {
                after = next.unwrap_or(Cookie::START);
                link.say(FromDataServer::Listing(listing).encode());
            }
            // The error is reported where contents are read or written.
            Err(error) => tracing::debug!(%error, "contents are not listed now"),
        }
    }
}

impl Kept {
    /// How much is stored. `None` while this is unknown.
    async fn holding(&self) -> Option<Holding> {
        let space = self.shelf.space().await.ok()?;
        Some(Holding {
            total_bytes: space.total_bytes,
            available_bytes: space.available_bytes,
            contents: self.shelf.contents_kept(),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
        })
    }
}

/// Counts bytes read and written.
#[async_trait]
impl nfs4_server::DataServer for Kept {
    fn connected(&self) -> Connected {
        self.server.connected()
    }

    async fn check(&self, shown: Shown<'_>) -> Result<(), NotServed> {
        self.server.check(shown).await
    }

    async fn read(&self, shown: Shown<'_>, offset: u64, count: u32) -> Result<Bytes, NotServed> {
        let read = self.server.read(shown, offset, count).await?;
        let bytes = read.len() as u64;
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(read)
    }

    async fn write(
        &self,
        shown: Shown<'_>,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written, NotServed> {
        let bytes = data.len() as u64;
        let written = self.server.write(shown, offset, data, stability).await?;
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(written)
    }

    async fn commit(&self, shown: Shown<'_>) -> Result<Commitment, NotServed> {
        self.server.commit(shown).await
    }

    async fn extent(&self, shown: Shown<'_>) -> Result<ContentsExtent, NotServed> {
        self.server.extent(shown).await
    }
}

/// Receives messages of the metadata server.
struct Hears {
    place: PoolPlace,
    server: data_server::DataServer,
    link: Arc<Link>,
}

#[async_trait]
impl MessageHandler for Hears {
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        connection::meet_at_joined(&self.place, peer)
    }

    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        connection::admit_at_data_server(&self.place, from.slot, kind)
    }

    async fn receive(&self, incoming: Incoming) {
        let message = incoming.release();
        if let Some(homes) = connection::decode_homes(&message) {
            *self.link.homes() = homes;
            return;
        }
        let homes = self.link.homes().clone();
        let said = connection::decode(&homes, &message);
        match said.or_else(|| connection::decode_of_home(&homes, &message)) {
            Some((home, said)) => self.server.receive(home, said).await,
            None => tracing::warn!(
                "a message of a metadata server is not understood, or not about what lives there, and dropped"
            ),
        }
    }

    async fn answer(&self, _incoming: Incoming) -> Result<Message, Refusal> {
        Err(Refusal(
            "servers of a pool ask no such questions".to_owned(),
        ))
    }

    fn session_began(&self, _peer: Sender) {
        tracing::info!("the metadata server is there");
    }

    fn session_ended(&self, _peer: Sender) {
        tracing::info!("the metadata server is gone, or was started anew");
    }
}
