//! The server's side of its pool: the role in which it runs, and its connections to the others.
//!
//! What must never enter: who gets handles, and what handles are worth.

mod connection;
mod data_server;
mod metadata_server;
mod placed;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use peer::set::SetDirectory;
use store::{CommitMode, StoreOptions};
use striping::{Settings, Striped};

use super::ServeError;
use super::trees::{self, Tree};
use crate::configuration::Configuration;
use crate::configuration::{ListenAddress, PEER_PORT, PeerListenAddress};
use crate::data_directory::{DataDirectory, pool_path, set_path, shelf_path, trees_path};
use crate::pools::{Book, PoolPlace, PoolPlaceError};
use crate::status::PoolStatus;
use crate::transport::Listener;

pub(super) use data_server::DataServer;
pub(super) use metadata_server::MetadataServer;

/// The book of groups in the directory of the pool.
const BOOK: &str = "groups";

/// A server that belongs to a pool, ready to begin.
pub(super) struct Prepared {
    place: PoolPlace,
    /// What a metadata server needs besides.
    metadata: Option<Metadata>,
}

struct Metadata {
    /// Where the data servers call.
    listener: Listener,
    striped: Arc<Striped>,
    book: Book,
}

/// What a server is in its pool.
#[derive(Clone)]
pub(super) enum Role {
    Metadata(Arc<MetadataServer>),
    Data(Arc<DataServer>),
}

impl Prepared {
    /// Looks whether the server belongs to a pool, and listens for the data servers if it is the metadata server.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn read(
        data: &DataDirectory,
        configuration: &Configuration,
    ) -> Result<Option<Prepared>, ServeError> {
        let path = data.path();
        let directory = SetDirectory::of_pool(pool_path(path));
        let has_contents = is_filled(&shelf_path(path));
        if !directory.exists() {
            return match has_contents {
                true => Err(ServeError::PoolMissing(path.to_owned())),
                false => Ok(None),
            };
        }
        if SetDirectory::new(set_path(path)).exists() {
            return Err(ServeError::SetAndPool(path.to_owned()));
        }
        let place = PoolPlace::read(directory)?;
        if place.is_metadata_server() && has_contents {
            return Err(ServeError::ContentsAtMetadataServer(shelf_path(path)));
        }
        if !place.is_metadata_server() {
            if is_filled(&trees_path(path)) {
                return Err(ServeError::TreesAtDataServer(trees_path(path)));
            }
            check_contents(data, &place, has_contents)?;
            return Ok(Some(Prepared {
                place,
                metadata: None,
            }));
        }
        let mut exports = configuration.exports.iter();
        if !exports.any(|export| export.tree == place.tree) {
            return Err(ServeError::PooledTreeNotShown(place.tree));
        }
        let at = at_own_port(&place);
        let bound = Listener::bind_plainly(at.0);
        let listener = bound.map_err(|source| ServeError::PoolListen(at.0.0, source))?;
        let book = Book::read(&place.directory.path().join(BOOK)).map_err(ServeError::Book)?;
        let members = place.directory.members().map_err(PoolPlaceError::from)?;
        let view = metadata_server::view(&place, &members, &book);
        let striped = Arc::new(Striped::new(Settings::default(), view));
        Ok(Some(Prepared {
            place,
            metadata: Some(Metadata {
                listener,
                striped,
                book,
            }),
        }))
    }

    /// Whether the server shows no trees, because it is a data server.
    pub(super) fn is_data_server(&self) -> bool {
        self.metadata.is_none()
    }

    /// The tree whose files are striped over the pool, what its store keeps them in, and clients get layouts from.
    pub(super) fn striped(&self) -> Option<(&str, Arc<Striped>)> {
        let metadata = self.metadata.as_ref()?;
        Some((&self.place.tree, metadata.striped.clone()))
    }

    /// Begins to be what the data directory says.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) async fn begin(
        self,
        (data, configuration): (&DataDirectory, &Configuration),
        trees: &[Tree],
        incarnation: u32,
    ) -> Result<Role, ServeError> {
        let Prepared { place, metadata } = self;
        let Some(metadata) = metadata else {
            let options = StoreOptions {
                // What a data server says that it has fenced is relied upon.
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
            book_path: place.directory.path().join(BOOK),
            place,
            listener: metadata.listener,
            striped: metadata.striped,
            book: metadata.book,
        };
        let begun = MetadataServer::start(beginning, tree.store.clone(), incarnation).await?;
        Ok(Role::Metadata(begun))
    }
}

impl Role {
    /// For people.
    pub(super) async fn status(&self) -> PoolStatus {
        match self {
            Role::Metadata(server) => server.status(),
            Role::Data(server) => server.status().await,
        }
    }

    /// Puts everything on stable storage, before the end.
    pub(super) async fn put_away(&self) {
        match self {
            Role::Metadata(server) => server.close(),
            Role::Data(server) => server.put_away().await,
        }
    }
}

/// Refuses contents that are another data server's, or that are gone.
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

/// What cannot be read is told when it is opened.
fn is_filled(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// All addresses of the machine, at the port that the data servers were told of.
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
