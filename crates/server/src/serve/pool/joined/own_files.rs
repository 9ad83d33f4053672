//! Contents of files that live at a joined metadata server. They are striped over the pool's data servers, as reported by the first server.
//! Messages to and from data servers go through the first server.
//!
//! What must never enter: what clients may do with the files.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use peer::{Lane, Sender};
use pool::{DataServerNumber, Holding, HomeNumber, Listing, ToDataServer};
use store::Store;
use striping::{PoolView, Settings, Striped};
use throttle::Throttle;
use tokio::sync::watch;
use tokio::time::timeout;
use vfs::{Error, ObjectId, Result};

use super::super::connection::{self, HeardPool, OfDataServer, Survey, Surveyed, ToldPool};
use super::super::metadata_server::{pool_view, sweep};
use super::super::moving::{self, Moves, Moving, Work};
use super::super::placed::Walk;
use super::own_book::OwnBook;
use super::{PATIENCE, ToHome};
use crate::pools::{Book, PoolPlace};
use crate::serve::ServeError;

/// Log entries about a book that is not accepted, the first one and then sums.
static DISBELIEVED: Throttle = Throttle::new();

/// The files, and what is known of their possible places.
pub(super) struct OwnFiles {
    place: PoolPlace,
    striped: Arc<Striped>,
    book: Arc<OwnBook>,
    known: Mutex<Known>,
    /// The store with their rows, once their contents are in use.
    store: OnceLock<Weak<Store>>,
    moves: Arc<Moves>,
    /// Held by the task that handles a report of the pool's state.
    hearing: tokio::sync::Mutex<Heard>,
    is_told: watch::Sender<bool>,
}

/// The pool, by the last report of the first metadata server.
#[derive(Default)]
struct Known {
    book: Book,
    servers: BTreeSet<DataServerNumber>,
    /// Servers that are no members any more.
    removed: BTreeSet<DataServerNumber>,
    addresses: BTreeMap<DataServerNumber, SocketAddr>,
    holdings: BTreeMap<DataServerNumber, Holding>,
    /// New files are striped.
    stripes: bool,
}

#[derive(Default)]
struct Heard {
    /// The run of the first metadata server, and the number of its last report.
    last: (u64, u64),
    /// Files may still be made under an earlier book.
    is_unsettled: bool,
    /// Data servers that get no more leases.
    dismissed: BTreeSet<DataServerNumber>,
}

/// The connection to the data servers.
struct ToDataServers {
    way: Weak<ToHome>,
    files: Weak<OwnFiles>,
}

impl Known {
    /// The pool as the home sees it. A data server that may have files is included until it is known to be gone: it may owe something.
    fn view(&self, place: &PoolPlace) -> PoolView {
        let groups = self.book.groups.values();
        let named = groups.flat_map(|group| group.members().iter().copied());
        let servers: BTreeSet<_> = named.chain(self.servers.iter().copied()).collect();
        let view = pool_view(
            place,
            HomeNumber(place.slot.0),
            &(&servers - &self.gone()),
            &self.book,
        );
        PoolView {
            new_files: view.new_files.filter(|_| self.stripes),
            ..view
        }
    }

    fn gone(&self) -> BTreeSet<DataServerNumber> {
        &self.removed | &self.book.forgotten
    }
}

impl OwnFiles {
    /// Starts with what an earlier run was told. Call it within a tokio runtime.
    ///
    /// # Errors
    /// [`ServeError::Book`].
    pub(super) fn new(
        place: PoolPlace,
        book: Arc<OwnBook>,
        key_life: Duration,
    ) -> std::result::Result<OwnFiles, ServeError> {
        let known = Known {
            book: book.read().map_err(ServeError::Book)?,
            ..Known::default()
        };
        let mut settings = Settings::default();
        settings.home.key_life = key_life;
        let striped = Arc::new(Striped::new(settings, known.view(&place)));
        Ok(OwnFiles {
            place,
            striped,
            book,
            known: Mutex::new(known),
            store: OnceLock::new(),
            moves: Arc::new(Moves::new()),
            hearing: tokio::sync::Mutex::default(),
            is_told: watch::Sender::new(false),
        })
    }

    /// The place of the files' bytes, for the store.
    pub(super) fn contents(&self) -> Arc<Striped> {
        self.striped.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what an earlier run has left in the store, and stripes new files from now on. If this server was never told of the pool,
    /// waits for that for a while. Files that are made before stay on the local disk.
    ///
    /// # Errors
    /// [`ServeError::Home`] when the stored state cannot be read.
    pub(super) async fn begin(
        self: &Arc<Self>,
        store: &Arc<Store>,
        way: &Arc<ToHome>,
    ) -> std::result::Result<(), ServeError> {
        if self.known().book == Book::default() {
            let mut is_told = self.is_told.subscribe();
            let _ = timeout(PATIENCE, is_told.wait_for(|told| *told)).await;
        }
        let control = ToDataServers {
            way: Arc::downgrade(way),
            files: Arc::downgrade(self),
        };
        // No other task handles a report meanwhile.
        let _alone = self.hearing.lock().await;
        let view = {
            let mut known = self.known();
            known.stripes = true;
            known.view(&self.place)
        };
        self.striped.update_view(view);
        let started = self.striped.start(store.placed_rows(), Arc::new(control));
        started.await.map_err(ServeError::Home)?;
        // It begins once.
        let _ = self.store.set(Arc::downgrade(store));
        tokio::spawn(moving::run(Arc::downgrade(self)));
        Ok(())
    }

    /// A data server has sent a message.
    pub(super) fn receive(&self, server: DataServerNumber, said: OfDataServer) {
        match said {
            OfDataServer::ToHome(message) => self.striped.receive(server, message),
            OfDataServer::Listing(Listing(mut listed)) => {
                listed.retain(|(contents, _)| contents.object.slot() == self.place.slot);
                sweep(self.striped.clone(), server, Listing(listed));
            }
        }
    }

    /// Handles a report of the pool's state. Returns when no file is being made under an earlier book.
    ///
    /// # Errors
    /// When the report cannot be stored.
    pub(super) async fn hear_pool(&self, from: Sender, told: ToldPool) -> Result<HeardPool> {
        let mut heard = self.hearing.lock().await;
        let this = (from.incarnation.0, told.number);
        if this > heard.last {
            let text = told.book.clone();
            let before = self.known().book.clone();
            if let Err(not_told) = before.with_told(&text) {
                if let Some(sum) = DISBELIEVED.failed(("the pool is told of", 0), Instant::now()) {
                    tracing::error!(error = %not_told, %sum, "this server goes on with what it knew of the pool");
                }
                return Err(Error::Io(not_told.to_string()));
            }
            // It becomes stable before any file is placed by it.
            let book = self
                .book
                .change(move |book| book.with_told(&text).unwrap_or(book));
            let book = book.await?;
            heard.is_unsettled |= book != before;
            let view = {
                let mut known = self.known();
                known.note(told);
                known.book = book;
                known.view(&self.place)
            };
            self.striped.update_view(view);
            if heard.is_unsettled {
                self.moves.wake();
            }
            heard.last = this;
            self.is_told.send_replace(true);
        }
        let stripes = self.store.get().is_some();
        if stripes {
            let gone = self.known().gone();
            for server in &gone - &heard.dismissed {
                self.striped.dismiss(server);
                heard.dismissed.insert(server);
            }
            if heard.is_unsettled {
                self.striped.creations_ended().await?;
                heard.is_unsettled = false;
            }
        }
        let moved = self.moves.are_done(&self.book());
        let servers = self.striped.servers().into_iter();
        let refused = servers.filter(|server| server.stranger.is_some());
        let refused = refused.map(|server| server.number.0).collect();
        Ok(HeardPool {
            stripes,
            moved,
            refused,
        })
    }

    /// Answers a question about the files. May take as long as listing everything that lives here.
    ///
    /// # Errors
    /// When the files cannot be read, or this server has only just started.
    pub(super) async fn survey(&self, survey: Survey) -> Result<Surveyed> {
        let store = self.rows().ok_or(Error::Delay)?;
        let (book, mut surveyed) = (self.book(), Surveyed::default());
        match survey {
            Survey::ToMove => {
                let work = Work::of(&book);
                surveyed.to_move = moving::count(&store, work.as_ref()).await?;
            }
            Survey::Server(server) => {
                let server = DataServerNumber(server);
                let (groups, mut walk) = (book.groups_with(server), Walk::new());
                while let Some(found) = walk.next(&store).await? {
                    surveyed.files += u64::from(found.lies_on(&groups));
                    surveyed.had_part += u64::from(found.had_part_at(server, &book.groups));
                }
                let views = self.striped.servers();
                if let Some(view) = views.iter().find(|view| view.number == server) {
                    surveyed.may_serve = view.may_serve;
                    surveyed.owes = view.owes as u64;
                }
            }
            Survey::File(file) => {
                let placement = store.placed_rows().placement(ObjectId::from_u64(file))?;
                surveyed.placement = placement.map(|placement| placement.to_vec());
            }
            Survey::Readmit(server) => {
                surveyed.readmitted = self.striped.readmit(DataServerNumber(server));
            }
        }
        Ok(surveyed)
    }
}

impl Known {
    fn note(&mut self, told: ToldPool) {
        let numbers = told.servers.iter();
        self.servers = numbers
            .map(|server| DataServerNumber(server.number))
            .collect();
        self.removed = told.removed.into_iter().map(DataServerNumber).collect();
        for server in told.servers {
            let number = DataServerNumber(server.number);
            if let Some(address) = server.address {
                self.addresses.insert(number, address);
            }
            if let Some(holding) = server.holding {
                self.holdings.insert(number, holding);
            }
        }
    }
}

#[async_trait]
impl Moving for OwnFiles {
    fn moves(&self) -> &Arc<Moves> {
        &self.moves
    }

    fn striped(&self) -> &Arc<Striped> {
        &self.striped
    }

    fn rows(&self) -> Option<Arc<Store>> {
        self.store.get()?.upgrade()
    }

    fn book(&self) -> Book {
        self.known().book.clone()
    }

    /// The first metadata server asks for the result.
    async fn moved_all(&self, _: Option<&Work>) -> bool {
        true
    }
}

impl striping::Control for ToDataServers {
    fn send(&self, to: DataServerNumber, message: ToDataServer) {
        let way = self.way.upgrade();
        if let Some(session) = way.and_then(|way| way.peer.get()?.session().ok()) {
            // A lost message is repeated when the data server next asks for its lease.
            let message = connection::encode_for_data_server(to, &message);
            let _ = session.try_send(Lane::Control, message);
        }
    }

    fn address(&self, server: DataServerNumber) -> Option<SocketAddr> {
        let files = self.files.upgrade()?;
        let known = files.known();
        known.addresses.get(&server).copied()
    }

    fn holding(&self, server: DataServerNumber) -> Option<Holding> {
        let files = self.files.upgrade()?;
        let known = files.known();
        known.holdings.get(&server).copied()
    }

    /// No other server changes what lives here.
    fn clients_left(&self) -> Duration {
        Duration::MAX
    }
}
