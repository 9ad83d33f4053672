//! The first metadata server of a pool: it admits other servers, answers joined metadata servers, tracks the state of data servers, and
//! chooses over which of them new files are striped.
//!
//! What must never enter: who gets handles, which the home decides, and where bytes go.

mod forgetting;
mod hearing;
mod leaving;
mod lost_home;
mod memory;
mod moving;
mod passing;
mod shown;
mod telling;
mod whereabouts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use metadata_server::{ChangesElsewhere, Holders, Home, PoolTree};
use nfs4_server::Layouts;
use peer::set::Member;
use peer::{Endpoint, Incarnation, Lane};
use pool::{DataServerNumber, Holding, HomeNumber, PoolId};
use store::Store;
use striping::{NewFiles, PoolView, Striped};
use throttle::Throttle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use vfs::{FileSystem, ReplicaSlot};

pub(super) use self::hearing::sweep;

use self::forgetting::Forgetting;
use self::hearing::{Known, Link};
use self::memory::InBook;
use self::telling::Telling;
use super::connection;
use super::homes::JoinedHomes;
use super::layouts::{GivenBehindCopies, GivenByAll};
use super::moving::{self as moves, Moves};
use super::sharing::Sharing;
use crate::data_directory::SealedFileError;
use crate::pools::{self, Book, PoolPlace, PoolRole};
use crate::serve::ServeError;
use crate::transport::Listener;

/// How often the pool is checked.
const LOOK: Duration = Duration::from_secs(1);
/// How long a name lookup may take, and how long its result is used.
const LOOK_UP: Duration = Duration::from_secs(2);
const BELIEVED: Duration = Duration::from_secs(30);
/// New files are still striped over a data server that has been away for at most this long.
const AWAY: Duration = Duration::from_secs(60);
/// New files avoid a data server whose available space is below this, and below this part (one in `FULL_PART`) of its disk.
const FULL_BYTES: u64 = 1 << 30;
const FULL_PART: u64 = 50;

/// Log entries about a full book, the first one and then sums.
static FULL: Throttle = Throttle::new();

/// A running metadata server.
pub(in crate::serve) struct MetadataServer {
    place: PoolPlace,
    /// The tree belongs to a set: other members may have what is lost here.
    in_set: bool,
    endpoint: Arc<Endpoint>,
    known: Arc<Known>,
    striped: Arc<Striped>,
    /// The store of the tree whose files are striped.
    store: Arc<Store>,
    keeping: Mutex<Keeping>,
    moves: Arc<Moves>,
    forgetting: Forgetting,
    telling: Telling,
    /// Held by the task that removes a server, or that decides to give up a metadata server.
    departing: tokio::sync::Mutex<()>,
    /// Held by the task that changes the book.
    changes: tokio::sync::Mutex<()>,
    book_path: PathBuf,
}

/// The data servers over which new files are striped, and the facts that decide this.
struct Keeping {
    book: Book,
    servers: BTreeSet<DataServerNumber>,
    /// When each data server was last seen. The start counts.
    seen: BTreeMap<DataServerNumber, Instant>,
    /// Data servers that are about to be removed.
    leaving: BTreeSet<DataServerNumber>,
    /// Data servers that are almost full.
    full: BTreeSet<DataServerNumber>,
    /// When each address was looked up.
    looked_up: BTreeMap<DataServerNumber, (String, Instant)>,
}

/// The pool, as the first home sees it.
pub(super) fn view(place: &PoolPlace, members: &[Member], book: &Book) -> PoolView {
    let servers: BTreeSet<_> = data_servers(place, members).map(number).collect();
    let servers = &servers - &book.forgotten;
    pool_view(place, HomeNumber::FIRST, &servers, book)
}

/// The pool, as a home with these data servers sees it.
pub(super) fn pool_view(
    place: &PoolPlace,
    home: HomeNumber,
    servers: &BTreeSet<DataServerNumber>,
    book: &Book,
) -> PoolView {
    let [a, b, c, d, e, f, g, h, ..] = place.pool.0;
    PoolView {
        pool: PoolId(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        home,
        servers: servers.clone(),
        forgotten: book.forgotten.clone(),
        groups: book.groups.clone(),
        new_files: book.new_files.map(|group| NewFiles {
            group,
            unit: place.stripe_unit,
        }),
    }
}

/// Members with this role that were not removed.
fn present<'m>(
    place: &PoolPlace,
    members: &'m [Member],
    role: PoolRole,
) -> impl Iterator<Item = &'m Member> + use<'m> {
    let keeper = place.keeper;
    let members = members.iter();
    members.filter(move |member| !member.revoked && PoolRole::of(member, keeper) == role)
}

/// Joined metadata servers that were not removed.
pub(super) fn metadata_servers(place: &PoolPlace, members: &[Member]) -> Vec<ReplicaSlot> {
    let present = present(place, members, PoolRole::MetadataServer);
    present.map(|member| ReplicaSlot(member.slot)).collect()
}

fn data_servers<'m>(
    place: &PoolPlace,
    members: &'m [Member],
) -> impl Iterator<Item = &'m Member> + use<'m> {
    present(place, members, PoolRole::DataServer)
}

fn number(member: &Member) -> DataServerNumber {
    DataServerNumber(member.slot)
}

/// What a metadata server starts with.
pub(super) struct Beginning {
    /// Set if the tree belongs to a set.
    pub(super) sharing: Option<Arc<Sharing>>,
    pub(super) place: PoolPlace,
    pub(super) listener: Listener,
    pub(super) striped: Arc<Striped>,
    pub(super) holders: Arc<Holders>,
    pub(super) book: Book,
    pub(super) book_path: PathBuf,
    pub(super) homes: Arc<JoinedHomes>,
}

/// Says whether the local state of an object may be outdated: clients write it at data servers, or it lives at another server.
fn changes_elsewhere(striped: &Arc<Striped>, tree: Option<Arc<PoolTree>>) -> ChangesElsewhere {
    let striped = striped.clone();
    Arc::new(move |id| {
        let is_elsewhere = tree.as_ref().is_some_and(|tree| tree.is_elsewhere(id));
        is_elsewhere || striped.is_written_past_home(id)
    })
}

impl MetadataServer {
    /// Listens for data servers, and takes up the home's state from the store.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) async fn start(
        beginning: Beginning,
        (store, file_system): (Arc<Store>, Arc<dyn FileSystem>),
        incarnation: u32,
    ) -> Result<Arc<MetadataServer>, ServeError> {
        let Beginning {
            place,
            striped,
            holders,
            sharing,
            ..
        } = beginning;
        let in_set = sharing.is_some();
        let identity = place.directory.identity();
        let identity = identity.map_err(pools::PoolPlaceError::from)?;
        // No other server signs the list.
        place.directory.note_current();
        let memory = Arc::new(InBook::default());
        let homes = beginning.homes;
        homes.take_up().await.map_err(ServeError::Home)?;
        let home = Home::new(
            store.tree(),
            file_system,
            holders.clone(),
            changes_elsewhere(&striped, homes.shown()),
            (memory.clone(), beginning.book.given_up.clone()),
        );
        let home = match homes.shown() {
            Some(tree) => home.with_pool_tree(tree),
            None => home,
        };
        let home = home.with_layouts(Arc::new(GivenByAll {
            own: GivenBehindCopies {
                striped: striped.clone(),
                holders: holders.clone(),
            },
            homes: homes.clone(),
        }));
        let known = Arc::new(Known {
            place: place.clone(),
            striped: Arc::downgrade(&striped),
            holdings: Mutex::default(),
            addresses: Mutex::default(),
            roles: Mutex::default(),
            home: Arc::new(home),
            homes: homes.clone(),
            sharing,
            has_started: watch::Sender::new(false),
        });
        let endpoint = Endpoint::start(
            &identity,
            Incarnation(incarnation.into()),
            connection::settings(),
            known.clone(),
            beginning.listener.into_socket(),
            Some(place.directory.clone()),
        )?;
        let endpoint = Arc::new(endpoint);
        for lost in &beginning.book.forgetting {
            endpoint.revoke(*lost);
        }
        homes.can_call(&endpoint, &known.home);
        let link = Arc::new(Link {
            endpoint: endpoint.clone(),
            known: known.clone(),
        });
        holders.tell_by(link.clone());
        striped.on_event(link.tells_of_layouts());
        homes.on_layout_event(link.tells_of_layouts());
        let started = striped.start(store.placed_rows(), link).await;
        started.map_err(ServeError::Home)?;
        known.has_started.send_replace(true);
        let now = Instant::now();
        let in_use = beginning.book.in_use();
        let server = Arc::new(MetadataServer {
            place,
            in_set,
            endpoint,
            known,
            striped,
            store,
            keeping: Mutex::new(Keeping {
                seen: in_use.into_iter().map(|server| (server, now)).collect(),
                book: beginning.book,
                servers: BTreeSet::new(),
                leaving: BTreeSet::new(),
                full: BTreeSet::new(),
                looked_up: BTreeMap::new(),
            }),
            moves: Arc::new(Moves::new()),
            forgetting: Forgetting::new(),
            telling: Telling::default(),
            departing: tokio::sync::Mutex::default(),
            changes: tokio::sync::Mutex::default(),
            book_path: beginning.book_path,
        });
        memory.is_of(&server);
        homes.are_noted_by(&server);
        tokio::spawn(keep(Arc::downgrade(&server)));
        tokio::spawn(give_up_lost(Arc::downgrade(&server)));
        tokio::spawn(moves::run(Arc::downgrade(&server)));
        tokio::spawn(forgetting::run(Arc::downgrade(&server)));
        tokio::spawn(telling::run(Arc::downgrade(&server)));
        Ok(server)
    }

    /// Closes the connections and makes no new ones.
    pub(super) fn close(&self) {
        self.endpoint.close();
    }

    fn keeping(&self) -> MutexGuard<'_, Keeping> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_connected(&self, slot: ReplicaSlot) -> bool {
        let peer = self.endpoint.peer(slot);
        let session = peer.and_then(|peer| peer.session().ok());
        session.is_some_and(|session| session.is_connected(Lane::Control))
    }

    /// The report of a connected data server about its contents.
    fn holding(&self, slot: ReplicaSlot) -> Option<Holding> {
        let said = self.known.holdings().get(&slot).copied();
        let said = said.filter(|said| said.is_present && self.is_connected(slot));
        said.map(|said| said.holding)
    }

    /// Checks the members of the pool, their addresses, and which of them are there.
    async fn look(&self) {
        // The next check reads it again.
        let Ok(members) = self.place.directory.members() else {
            return;
        };
        let present: Vec<&Member> = data_servers(&self.place, &members).collect();
        for member in &present {
            self.look_up(member).await;
        }
        let views = self.striped.servers().into_iter();
        let serving: BTreeSet<DataServerNumber> = views
            .filter(|server| server.serves)
            .map(|server| server.number)
            .collect();
        let now = Instant::now();
        for member in present {
            let Some(holding) = self.holding(ReplicaSlot(member.slot)) else {
                continue;
            };
            let mut keeping = self.keeping();
            if serving.contains(&number(member)) {
                keeping.seen.insert(number(member), now);
            }
            keeping.note_space(number(member), holding);
        }
        self.settle(&members).await;
    }

    /// Looks up the NFS address of a data server, unless it is known.
    async fn look_up(&self, member: &Member) {
        let (server, Some(address)) = (number(member), member.addresses.first()) else {
            return;
        };
        let known = self.keeping().looked_up.get(&server).cloned();
        if known.is_some_and(|(of, at)| of == *address && at.elapsed() < BELIEVED) {
            return;
        }
        let found = timeout(LOOK_UP, tokio::net::lookup_host(address)).await;
        // A failed lookup is repeated at the next check. Until then, the previous address is used.
        if let Ok(Ok(mut found)) = found
            && let Some(at) = found.next()
        {
            self.known.addresses().insert(server, at);
            let looked_up = (address.clone(), Instant::now());
            self.keeping().looked_up.insert(server, looked_up);
        }
    }

    /// Updates the home and the book. The book becomes stable before any file is placed by it.
    async fn settle(&self, members: &[Member]) {
        let _alone = self.changes.lock().await;
        let servers: BTreeSet<_> = data_servers(&self.place, members).map(number).collect();
        let book = {
            let keeping = self.keeping();
            let wanted = keeping.wanted(&servers, Instant::now());
            let is_same = wanted == keeping.book.in_use();
            if is_same && servers == keeping.servers {
                return;
            }
            match is_same {
                true => Some(keeping.book.clone()),
                false => keeping.book.with_new_files_over(&wanted),
            }
        };
        let Some(book) = book else {
            if let Some(sum) = FULL.failed(("the book of groups is full", 0), Instant::now()) {
                tracing::warn!(%sum, "new files stay on the data servers that they are striped over: there have been too many groups of data servers");
            }
            return;
        };
        if let Err(error) = self.keep_book(members, book.clone()).await {
            return tracing::warn!(%error, "the book of groups of data servers cannot be kept; it is tried again");
        }
        let over: Vec<String> = book
            .in_use()
            .iter()
            .map(|server| server.0.to_string())
            .collect();
        let over = over.join(", ");
        tracing::info!(over, "the data servers over which new files are striped");
        self.keeping().servers = servers;
    }

    /// Makes the book stable, and has the home use it. The caller holds `changes`.
    async fn keep_book(&self, members: &[Member], book: Book) -> Result<(), SealedFileError> {
        self.write_book(&book).await?;
        self.striped.update_view(view(&self.place, members, &book));
        self.keeping().book = book;
        Ok(())
    }

    async fn write_book(&self, book: &Book) -> Result<(), SealedFileError> {
        let (path, written) = (self.book_path.clone(), book.clone());
        let written = tokio::task::spawn_blocking(move || written.write(&path)).await;
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

/// Checks the pool while the server runs.
async fn keep(server: Weak<MetadataServer>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(server) = server.upgrade() else {
            return;
        };
        server.look().await;
    }
}

/// Looks for lost metadata servers.
async fn give_up_lost(server: Weak<MetadataServer>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(server) = server.upgrade() else {
            return;
        };
        server.known.home.give_up_lost().await;
    }
}

impl Keeping {
    /// New files avoid a data server that is almost full, until it has clearly more space.
    fn note_space(&mut self, server: DataServerNumber, holding: Holding) {
        let little_bytes = FULL_BYTES.min(holding.total_bytes / FULL_PART);
        let wanted_bytes = match self.full.contains(&server) {
            true => little_bytes * 2,
            false => little_bytes,
        };
        match holding.available_bytes < wanted_bytes {
            true => self.full.insert(server),
            false => self.full.remove(&server),
        };
    }

    /// The data servers over which new files must be striped: those that serve, or did so recently. Full ones are included only if all are
    /// full.
    fn wanted(
        &self,
        servers: &BTreeSet<DataServerNumber>,
        now: Instant,
    ) -> BTreeSet<DataServerNumber> {
        let is_there = |server: &&DataServerNumber| {
            let seen = self.seen.get(server);
            seen.is_some_and(|seen| now.saturating_duration_since(*seen) < AWAY)
        };
        let going = [&self.leaving, &self.book.draining, &self.book.forgotten];
        let goes = |server: &DataServerNumber| going.iter().any(|set| set.contains(server));
        let stays = servers.iter().filter(|server| !goes(server));
        let there: BTreeSet<_> = stays.filter(is_there).copied().collect();
        match there.is_subset(&self.full) {
            true => there,
            false => &there - &self.full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_avoid_data_servers_that_are_away_or_about_to_go() {
        let now = Instant::now();
        let numbers = |numbers: &[u16]| -> BTreeSet<DataServerNumber> {
            numbers.iter().copied().map(DataServerNumber).collect()
        };
        let mut keeping = Keeping {
            book: Book::default(),
            servers: BTreeSet::new(),
            seen: [2, 3, 4]
                .map(|server| (DataServerNumber(server), now))
                .into(),
            leaving: BTreeSet::new(),
            full: BTreeSet::new(),
            looked_up: BTreeMap::new(),
        };
        let all = numbers(&[2, 3, 4, 5]);
        assert_eq!(keeping.wanted(&all, now), numbers(&[2, 3, 4]));
        let later = now + AWAY;
        assert_eq!(keeping.wanted(&all, later), numbers(&[]));
        keeping.seen.insert(DataServerNumber(5), later);
        keeping.seen.insert(DataServerNumber(4), later);
        assert_eq!(keeping.wanted(&all, later), numbers(&[4, 5]));
        keeping.leaving.insert(DataServerNumber(5));
        assert_eq!(keeping.wanted(&all, later), numbers(&[4]));
        assert_eq!(keeping.wanted(&numbers(&[2, 3, 5]), later), numbers(&[]));
    }

    #[test]
    fn new_files_avoid_full_data_servers_as_long_as_others_have_space() {
        let now = Instant::now();
        let all: BTreeSet<_> = [2, 3].map(DataServerNumber).into();
        let mut keeping = Keeping {
            book: Book::default(),
            servers: BTreeSet::new(),
            seen: all.iter().map(|server| (*server, now)).collect(),
            leaving: BTreeSet::new(),
            full: BTreeSet::new(),
            looked_up: BTreeMap::new(),
        };
        let mut told = |server, available_bytes| {
            let holding = Holding {
                total_bytes: 100 * FULL_PART,
                available_bytes,
                ..Holding::default()
            };
            keeping.note_space(DataServerNumber(server), holding);
            keeping.wanted(&all, now)
        };
        let only = |server| BTreeSet::from([DataServerNumber(server)]);
        assert_eq!(told(2, 100), all);
        assert_eq!(told(2, 99), only(3));
        assert_eq!(told(3, 0), all, "one that is full is as good as the other");
        assert_eq!(told(3, 199), all, "hardly more than before");
        assert_eq!(told(3, 200), only(3));
        assert_eq!(told(2, 200), all);
    }
}
