//! The information about other servers for clients: the locations of a replicated tree (RFC 8881, section 11.5), and junctions. Junctions are names in the
//! root of a domain that lead to trees of other servers, as referrals (section 11.4.2).
//!
//! What must never enter: which other servers exist and their distance, which the owner of the [`Service`] supplies.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use nfs4::attributes::{
    FsLocation4, FsLocations4, FsLocationsInfo4, FsLocationsItem4, FsLocationsServer4, Pathname4,
    fsli,
};
use nfs4::{Component4, Utf8str};
use vfs::{FsId, Name};
use xdr::{Bytes, opaque_size};

use crate::namespace::{Export, PseudoPath, path_hash};
use crate::pseudo;
use crate::service::Service;

/// The maximum number of servers for one place: Linux reads no more.
const SERVERS_MAX: usize = 10;

/// The maximum size of one of the attributes: Linux reads a page of 4096 bytes, with other requested attributes.
const BYTES_MAX: usize = 3840;

/// How many seconds clients may cache `fs_locations_info`.
const VALID_SECONDS: i32 = 60;

/// No tree has an identity with this beginning.
const JUNCTIONS: u64 = u64::from_be_bytes(*b"junction");

/// One server where a tree is served under the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Names or addresses for clients, at the standard port of NFS.
    pub addresses: Vec<String>,
}

/// A name in the root of the domain that leads to a tree of other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Junction {
    /// The name.
    pub name: Name,
    /// The targets, in the order of preference.
    pub to: Vec<JunctionTarget>,
}

/// A target of a junction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JunctionTarget {
    /// Name or address of a server for clients, at the standard port of NFS.
    pub server: String,
    /// The tree at that server.
    pub path: PseudoPath,
}

/// A junction, as clients see it: a tree that is not here.
#[derive(Debug)]
pub(crate) struct Absent {
    /// The number of the directory that it covers.
    pub(crate) id: u64,
    path: Vec<Name>,
    to: Vec<JunctionTarget>,
}

impl Absent {
    /// Differs from that of every tree, and of every other junction.
    pub(crate) fn fs_id(&self) -> FsId {
        FsId {
            major: JUNCTIONS,
            minor: self.id,
        }
    }
}

/// The last values from the owner of the service.
#[derive(Debug, Default)]
pub(crate) struct Places {
    locations: RwLock<HashMap<FsId, Vec<Location>>>,
    junctions: RwLock<Arc<BTreeMap<Name, Arc<Absent>>>>,
}

impl Places {
    pub(crate) fn junctions(&self) -> Arc<BTreeMap<Name, Arc<Absent>>> {
        // The value is replaced as a whole.
        let junctions = self.junctions.read();
        junctions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn locations(&self, tree: FsId) -> Vec<Location> {
        let locations = self.locations.read();
        let locations = locations.unwrap_or_else(PoisonError::into_inner);
        locations.get(&tree).cloned().unwrap_or_default()
    }

    /// Changes with the names of the junctions; 0 without any.
    pub(crate) fn change(&self) -> u64 {
        let junctions = self.junctions();
        if junctions.is_empty() {
            return 0;
        }
        let mut hasher = std::hash::DefaultHasher::new();
        for name in junctions.keys() {
            name.as_bytes().hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl Service {
    /// Sets the servers that clients get when they ask for the location of a tree, in the order of preference. The path
    /// is that of the tree here.
    pub fn set_locations(&self, tree: FsId, locations: Vec<Location>) {
        let known = self.places.locations.write();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        known.insert(tree, locations);
    }

    /// Replaces all junctions in the root of the domain. A junction with the name of an export is hidden. Without a
    /// domain no junction is visible.
    pub fn set_junctions(&self, junctions: Vec<Junction>) {
        let Some(domain) = self.namespace.domain() else {
            return;
        };
        let junctions = junctions.into_iter().map(|junction| {
            let path = [domain, std::slice::from_ref(&junction.name)].concat();
            let absent = Absent {
                id: path_hash(&path),
                path,
                to: junction.to,
            };
            (junction.name, Arc::new(absent))
        });
        let junctions = Arc::new(junctions.collect());
        let known = self.places.junctions.write();
        *known.unwrap_or_else(PoisonError::into_inner) = junctions;
    }

    /// The junction of a name in a directory of the pseudo file system.
    pub(crate) fn junction(&self, node: usize, name: &Name) -> Option<Arc<Absent>> {
        let shows = self.namespace.is_domain(node)
            && !self.namespace.node(node).children.contains_key(name);
        shows.then(|| self.places.junctions().get(name).cloned())?
    }
}

/// The location of a tree, for clients.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// The path here.
    root: Pathname4,
    places: Vec<FsLocation4>,
    /// Whether the places are copies of one tree that this server keeps with others.
    are_replicas: bool,
}

impl Whereabouts {
    /// For an exported tree: all servers that have it, or those to which its clients are sent.
    pub(crate) fn of_export(service: &Service, export: &Export) -> Whereabouts {
        let root = pathname(service.namespace.shown_path(export));
        let fs_id = export.file_system.properties().fs_id;
        let locations = match service.moving.locations_of(export) {
            Some(elsewhere) => elsewhere.to_vec(),
            None => service.places.locations(fs_id),
        };
        Whereabouts::replicas(root, &locations)
    }

    /// For a directory of the pseudo file system: no server, until clients are sent elsewhere.
    pub(crate) fn of_pseudo(service: &Service, node: usize) -> Whereabouts {
        let root = pathname(&pseudo::path(&service.namespace, node));
        let namespace = &service.namespace;
        let elsewhere = service.moving.locations_of_all(namespace);
        Whereabouts::replicas(root, elsewhere.unwrap_or_default())
    }

    /// Servers with the same content at the same path.
    fn replicas(root: Pathname4, locations: &[Location]) -> Whereabouts {
        let places = locations.iter().map(|location| FsLocation4 {
            server: servers(&location.addresses),
            rootpath: root.clone(),
        });
        Whereabouts {
            places: fitting(&root, places),
            root,
            are_replicas: true,
        }
    }

    /// For the tree behind a junction.
    pub(crate) fn of_junction(junction: &Absent) -> Whereabouts {
        let root = pathname(&junction.path);
        let places = junction.to.iter().map(|target| FsLocation4 {
            server: servers(std::slice::from_ref(&target.server)),
            rootpath: pathname(target.path.components()),
        });
        Whereabouts {
            places: fitting(&root, places),
            root,
            are_replicas: false,
        }
    }

    /// In the form of the attribute `fs_locations` (RFC 8881, section 11.16).
    pub(crate) fn fs_locations(&self) -> Box<FsLocations4> {
        Box::new(FsLocations4 {
            fs_root: self.root.clone(),
            locations: self.places.clone(),
        })
    }

    /// In the form of the attribute `fs_locations_info` (RFC 8881, section 11.17). Replicas have the same filehandles
    /// and fileids, and all of them are writable. Nothing is known about the tree behind a junction.
    pub(crate) fn fs_locations_info(&self) -> Box<FsLocationsInfo4> {
        let items = self.places.iter().zip(0..=u8::MAX).map(|(place, rank)| {
            let mut info = [0; fsli::BYTES];
            info[fsli::READ_RANK] = rank;
            info[fsli::WRITE_RANK] = rank;
            if self.are_replicas {
                info[fsli::GENERAL_FLAGS] = fsli::WRITABLE;
                info[fsli::CLASS_HANDLE] = 1;
                info[fsli::CLASS_FILEID] = 1;
            }
            let entries = place.server.iter().map(|server| FsLocationsServer4 {
                currency: -1,
                info: Bytes::copy_from_slice(&info),
                server: server.clone(),
            });
            FsLocationsItem4 {
                entries: entries.collect(),
                rootpath: place.rootpath.clone(),
            }
        });
        Box::new(FsLocationsInfo4 {
            flags: 0,
            valid_for: VALID_SECONDS,
            fs_root: self.root.clone(),
            items: items.collect(),
        })
    }
}

fn pathname(components: &[Name]) -> Pathname4 {
    let name = |name: &Name| Component4(Bytes::copy_from_slice(name.as_bytes()));
    Pathname4(components.iter().map(name).collect())
}

fn servers(addresses: &[String]) -> Vec<Utf8str> {
    let servers = addresses.iter().take(SERVERS_MAX);
    servers
        .map(|address| Utf8str::from(address.as_str()))
        .collect()
}

/// The first places, as many as clients read.
fn fitting(root: &Pathname4, places: impl Iterator<Item = FsLocation4>) -> Vec<FsLocation4> {
    // The size of a server in `fs_locations_info` without its name.
    const SERVER_BYTES: usize = 4 + 4 + fsli::BYTES;
    let path_bytes = |path: &Pathname4| {
        let names = path.0.iter().map(|name| opaque_size(name.0.len()));
        4 + names.sum::<usize>()
    };
    let mut space = BYTES_MAX.saturating_sub(16 + path_bytes(root));
    let fits = |place: &FsLocation4| {
        let servers = place.server.iter();
        let servers = servers.map(|server| SERVER_BYTES + opaque_size(server.0.len()));
        let bytes = 4 + servers.sum::<usize>() + path_bytes(&place.rootpath);
        match space.checked_sub(bytes) {
            Some(left) => {
                space = left;
                true
            }
            None => false,
        }
    };
    places
        .filter(|place| !place.server.is_empty())
        .filter(fits)
        .collect()
}
