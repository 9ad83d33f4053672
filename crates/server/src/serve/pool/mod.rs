//! The server's side of its pool: its role, and its connections to the other servers.
//!
//! What must never enter: who gets handles, and what handles allow.

mod asking;
mod clock;
mod connection;
mod data_server;
mod direct;
mod homes;
mod joined;
mod layouts;
mod metadata_server;
mod moving;
mod placed;
mod sharing;

pub(crate) use connection::decode_as_anything;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::metadata_server::Holders;
use nfs4_server::Layouts;
use peer::set::SetDirectory;
use pool::LeaseSettings;
use store::{CommitMode, Store, StoreOptions};
use striping::{Settings, Striped};
use vfs::{FileSystem, ReplicaSlot};

use super::ServeError;
use super::trees::{self, Tree};
use crate::configuration::{
    Configuration, ListenAddress, PEER_PORT, PeerListenAddress, PoolConfiguration,
};
use crate::data_directory::{
    DataDirectory, is_filled, pool_path, set_path, shelf_path, trees_path,
};
use crate::pools::{Book, PoolPlace, PoolPlaceError, PoolRole};
use crate::status::PoolStatus;
use crate::transport::Listener;

use homes::JoinedHomes;
use layouts::{GivenBehindCopies, GivenByAll};
use sharing::{AtDataServers, GivenForReading, Sharing};

pub(super) use data_server::DataServer;
pub(super) use joined::JoinedServer;
pub(super) use metadata_server::MetadataServer;

/// The book of groups in the directory of the pool.
const BOOK: &str = "groups";

/// A server that belongs to a pool, ready to begin.
pub(super) struct Prepared {
    place: PoolPlace,
    /// What only the first metadata server needs.
    metadata: Option<Metadata>,
    /// The connection of a joined metadata server.
    joined: Option<Arc<JoinedServer>>,
    key_life: Duration,
}

struct Metadata {
    /// Set if the tree belongs to a set and this server keeps a copy of it.
    sharing: Option<Arc<Sharing>>,
    /// Where the other servers connect.
    listener: Listener,
    striped: Arc<Striped>,
    /// Metadata servers that have joined before this start.
    others: Vec<ReplicaSlot>,
    /// Which servers have copies. Set once the incarnation of this start is known.
    holders: Option<Arc<Holders>>,
    book: Book,
    homes: Arc<JoinedHomes>,
}

/// The tree that clients see, and the source of its layouts.
type Shown = (Arc<dyn FileSystem>, Arc<dyn Layouts>);

/// The tree whose files are striped over the pool.
pub(super) struct StripedTree {
    pub(super) name: String,
    pub(super) striped: Arc<Striped>,
    sharing: Option<Arc<Sharing>>,
    holders: Arc<Holders>,
    homes: Arc<JoinedHomes>,
}

impl StripedTree {
    /// The tree that all clients see, and the source of its layouts. For the tree of a set, a replica wraps the copy.
    pub(super) fn show(&self, store: &Arc<Store>) -> Shown {
        if let Some(sharing) = &self.sharing {
            let layouts = GivenForReading {
                striped: self.striped.clone(),
                sharing: sharing.clone(),
            };
            return (store.clone(), Arc::new(layouts));
        }
        store.on_changes(self.holders.clone());
        let below = self.striped.file_system(store.clone());
        let layouts = GivenByAll {
            own: GivenBehindCopies {
                striped: self.striped.clone(),
                holders: self.holders.clone(),
            },
            homes: self.homes.clone(),
        };
        let own = self.holders.file_system(below);
        let tree = self.homes.show(own, store, self.holders.clone());
        (tree, Arc::new(layouts))
    }
}

impl Metadata {
    /// Listens for the other servers, and reads the book.
    fn read(
        place: &PoolPlace,
        configuration: &PoolConfiguration,
        in_set: bool,
    ) -> Result<Metadata, ServeError> {
        let at = at_own_port(place);
        let bound = Listener::bind_plainly(at.0);
        let listener = bound.map_err(|source| ServeError::PoolListen(at.0.0, source))?;
        let book = Book::read(&place.directory.path().join(BOOK)).map_err(ServeError::Book)?;
        let members = place.directory.members().map_err(PoolPlaceError::from)?;
        let mut others = metadata_server::metadata_servers(place, &members);
        // A server that is being given up has no copies any more, and its names are removed.
        others.retain(|server| !book.forgetting.contains(server));
        let homes = book.homes.iter().copied();
        let homes = homes
            .filter(|server| others.contains(server) || book.forgetting.contains(server))
            .collect();
        let view = metadata_server::view(place, &members, &book);
        let mut settings = Settings::default();
        settings.home.key_life = configuration.key_life;
        settings.holds_writes = in_set;
        settings.home.shares_files = in_set;
        Ok(Metadata {
            sharing: in_set.then(Arc::default),
            listener,
            striped: Arc::new(Striped::new(settings, view)),
            others,
            holders: None,
            homes: JoinedHomes::new(homes, configuration.direct_size),
            book,
        })
    }
}

/// Clients that read files of a set's tree at the member's data servers.
pub(super) struct Readers {
    by: Arc<dyn replica::Readers>,
    sharing: Arc<Sharing>,
}

impl Readers {
    /// As passed to the replica when it begins.
    pub(super) fn as_known(&self) -> Arc<dyn replica::Readers> {
        self.by.clone()
    }

    /// The replica has begun. From now on it decides which files may be read.
    pub(super) fn are_let_by(&self, replica: &Arc<replica::Replica>) {
        self.sharing.is_by(replica);
    }
}

/// The role of a server in its pool.
#[derive(Clone)]
pub(super) enum Role {
    Metadata(Arc<MetadataServer>),
    Joined(Arc<JoinedServer>),
    Data(Arc<DataServer>),
}

impl Prepared {
    /// Checks whether the server belongs to a pool. The first metadata server starts to listen for the others.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn read(
        data: &DataDirectory,
        configuration: &Configuration,
    ) -> Result<Option<Prepared>, ServeError> {
        let path = data.path();
        let directory = SetDirectory::of_pool(pool_path(path));
        let has_contents = is_filled(&shelf_path(path))?;
        if !directory.exists().map_err(PoolPlaceError::from)? {
            let request = directory.unanswered_request();
            if let Some(path) = request.map_err(PoolPlaceError::from)? {
                return Err(ServeError::JoinInterrupted { kind: "pool", path });
            }
            return match has_contents {
                true => Err(ServeError::PoolMissing(path.to_owned())),
                false => Ok(None),
            };
        }
        let set = SetDirectory::new(set_path(path));
        let in_set = set.exists().map_err(PoolPlaceError::from)?;
        let place = PoolPlace::read(directory)?;
        if in_set {
            check_in_set(path, &place, configuration)?;
        }
        let metadata = match place.role {
            PoolRole::DataServer => {
                if is_filled(&trees_path(path))? {
                    return Err(ServeError::TreesAtDataServer(trees_path(path)));
                }
                check_contents(data, &place, has_contents)?;
                None
            }
            _ if has_contents => {
                return Err(ServeError::ContentsAtMetadataServer(shelf_path(path)));
            }
            PoolRole::First => {
                check_shown(&place, configuration)?;
                let metadata = Metadata::read(&place, &configuration.pool, in_set)?;
                if in_set && !metadata.others.is_empty() {
                    return Err(ServeError::SetAndPool(path.to_owned()));
                }
                Some(metadata)
            }
            PoolRole::MetadataServer => {
                check_shown(&place, configuration)?;
                check_store(data, &place)?;
                None
            }
        };
        Ok(Some(Prepared {
            place,
            metadata,
            joined: None,
            key_life: configuration.pool.key_life,
        }))
    }

    /// Whether the server may also be a member of a set: only if it has the names of its pool.
    pub(super) fn has_names(&self) -> bool {
        self.place.role == PoolRole::First
    }

    /// Whether the server shows no trees, because it is a data server.
    pub(super) fn is_data_server(&self) -> bool {
        self.place.role == PoolRole::DataServer
    }

    /// Has a joined metadata server connect to the first one, and gives the first one the run in which it grants leases.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn call(
        &mut self,
        incarnation: u32,
        client_lease: Duration,
    ) -> Result<(), ServeError> {
        if self.place.role == PoolRole::MetadataServer {
            let lives = (client_lease, self.key_life);
            let joined = JoinedServer::start(self.place.clone(), incarnation, lives)?;
            self.joined = Some(Arc::new(joined));
        }
        if let Some(metadata) = &mut self.metadata {
            let leases = (LeaseSettings::default(), client_lease);
            let others = metadata.others.iter().copied();
            let given_up = &metadata.book.given_up;
            let (run, now) = (incarnation.into(), clock::of_leases());
            let holders = Holders::new(run, leases, now, others, given_up);
            metadata.holders = Some(holders);
        }
        Ok(())
    }

    /// The connection to a tree that lives at another server of the pool.
    pub(super) fn joined(&self) -> Option<Arc<JoinedServer>> {
        self.joined.clone()
    }

    /// The tree whose files are striped over the pool, once the incarnation of this start is known.
    pub(super) fn striped(&self) -> Option<StripedTree> {
        let metadata = self.metadata.as_ref()?;
        Some(StripedTree {
            name: self.place.tree.clone(),
            striped: metadata.striped.clone(),
            sharing: metadata.sharing.clone(),
            holders: metadata.holders.clone()?,
            homes: metadata.homes.clone(),
        })
    }

    /// Readers of a set's tree that bypass the replica.
    pub(super) fn readers(&self) -> Option<Readers> {
        let metadata = self.metadata.as_ref()?;
        let sharing = metadata.sharing.clone()?;
        let by = Arc::new(AtDataServers(metadata.striped.clone()));
        Some(Readers { by, sharing })
    }

    /// Begins the role that the data directory states.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) async fn begin(
        self,
        (data, configuration): (&DataDirectory, &Configuration),
        trees: &[Tree],
        incarnation: u32,
    ) -> Result<Role, ServeError> {
        let Prepared {
            place,
            metadata,
            joined,
            key_life: _,
        } = self;
        if let Some(joined) = joined {
            return Ok(Role::Joined(joined));
        }
        let Some((metadata, holders)) = metadata.and_then(with_holders) else {
            let options = StoreOptions {
                // Others rely on a data server's statement that it has fenced.
                commit: CommitMode::Sync,
                ..trees::options(shelf_path(data.path()), configuration)
            };
            let begun = DataServer::start(place, (data, options), incarnation).await?;
            return Ok(Role::Data(Arc::new(begun)));
        };
        let tree = trees.iter().find(|tree| tree.name == place.tree);
        let Some(tree) = tree else {
            return Err(ServeError::PooledTreeNotShown(place.tree));
        };
        let beginning = metadata_server::Beginning {
            sharing: metadata.sharing,
            book_path: place.directory.path().join(BOOK),
            place,
            listener: metadata.listener,
            striped: metadata.striped,
            holders,
            book: metadata.book,
            homes: metadata.homes,
        };
        let tree = (tree.store.clone(), tree.file_system.clone());
        let begun = MetadataServer::start(beginning, tree, incarnation).await?;
        Ok(Role::Metadata(begun))
    }
}

fn with_holders(mut metadata: Metadata) -> Option<(Metadata, Arc<Holders>)> {
    let holders = metadata.holders.take()?;
    Some((metadata, holders))
}

impl Role {
    /// The status, for display.
    pub(super) async fn status(&self) -> PoolStatus {
        match self {
            Role::Metadata(server) => server.status(),
            Role::Joined(server) => server.status(),
            Role::Data(server) => server.status().await,
        }
    }

    /// Puts everything on stable storage, before the server ends.
    pub(super) async fn put_away(&self) {
        match self {
            Role::Metadata(server) => server.close(),
            Role::Joined(server) => server.close(),
            Role::Data(server) => server.put_away().await,
        }
    }
}

/// Refuses a member of a set whose pool does not stripe the set's tree.
fn check_in_set(
    path: &Path,
    place: &PoolPlace,
    configuration: &Configuration,
) -> Result<(), ServeError> {
    if place.role != PoolRole::First {
        return Err(ServeError::SetAndPool(path.to_owned()));
    }
    let kept = &configuration.replication.tree;
    match *kept == place.tree {
        true => Ok(()),
        false => Err(ServeError::PoolOfOtherTree {
            striped: place.tree.clone(),
            kept: kept.clone(),
        }),
    }
}

/// Refuses a configuration that does not show the pool's tree to clients.
fn check_shown(place: &PoolPlace, configuration: &Configuration) -> Result<(), ServeError> {
    let mut exports = configuration.exports.iter();
    match exports.any(|export| export.tree == place.tree) {
        true => Ok(()),
        false => Err(ServeError::PooledTreeNotShown(place.tree.clone())),
    }
}

/// Refuses a store of another server, or a missing one.
fn check_store(data: &DataDirectory, place: &PoolPlace) -> Result<(), ServeError> {
    let store = data.tree(&place.tree);
    match data.member()? {
        Some(member) if (member.set, member.slot) != (place.pool, place.slot) => {
            Err(ServeError::OtherPool {
                path: data.path().to_owned(),
                theirs: format!("server {} of pool {}", member.slot.0, member.set),
                own: format!("server {} of pool {}", place.slot.0, place.pool),
            })
        }
        Some(_) if !is_filled(&store)? => Err(ServeError::StoreMissing(store)),
        _ => Ok(()),
    }
}

/// Refuses contents of another data server, or missing ones.
fn check_contents(
    data: &DataDirectory,
    place: &PoolPlace,
    has_contents: bool,
) -> Result<(), ServeError> {
    match data.member()? {
        Some(member) if (member.set, member.slot) != (place.pool, place.slot) => {
            Err(ServeError::OtherPool {
                path: data.path().to_owned(),
                theirs: format!("data server {} of pool {}", member.slot.0, member.set),
                own: format!("data server {} of pool {}", place.slot.0, place.pool),
            })
        }
        Some(_) if !has_contents => Err(ServeError::ContentsMissing(shelf_path(data.path()))),
        None if has_contents => Err(ServeError::ContentsUnmarked(data.path().to_owned())),
        _ => Ok(()),
    }
}

/// All addresses of the machine, at the port that data servers know.
fn at_own_port(place: &PoolPlace) -> PeerListenAddress {
    let own = place.member(place.slot);
    let addresses = own.map_or_else(Vec::new, |own| own.addresses);
    let mut ports = addresses
        .iter()
        .filter_map(|address| address.rsplit_once(':')?.1.parse().ok());
    let PeerListenAddress(ListenAddress(mut address)) = PeerListenAddress::EVERYWHERE;
    address.set_port(ports.next().unwrap_or(PEER_PORT));
    PeerListenAddress(ListenAddress(address))
}
