//! A tree that moves to other servers: clients are told to go there (RFC 8881, sections 11.10 and 11.11).
//!
//! After [`Service::begin_drain`], every operation on the tree answers MOVED, except operations that lead to the tree
//! and those that ask for its location. If no other tree is exported, the same holds for operations on a directory of
//! the pseudo file system that a client already had. The state of clients is not handed over: the tables behind the
//! file system boundary keep it under their names, and clients reclaim it at the new server. So this server forgets
//! their state without releasing it.
//!
//! What must never enter: whether the other servers are ready, and when this server stops.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nfs4::{ArgOp4, NfsStat4, Stateid4};
use vfs::FsId;

use crate::attributes::OF_ABSENT_TREE;
use crate::compound::Compound;
use crate::handle::Handle;
use crate::namespace::{Export, Namespace};
use crate::places::Location;
use crate::service::Service;
use crate::state::{ClientId, Release};

/// The tree that moves, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Moving(OnceLock<Drain>);

#[derive(Debug)]
struct Drain {
    tree: FsId,
    locations: Vec<Location>,
    until: Instant,
    /// Clients that were told about the move, with the time of the last message.
    informed: Mutex<HashMap<ClientId, Instant>>,
}

impl Drain {
    fn informed(&self) -> MutexGuard<'_, HashMap<ClientId, Instant>> {
        // It stays consistent even if a holder panicked.
        self.informed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a client is not told again. During this time SEQUENCE must not report that its lease has moved: Linux would
/// take that for another move, and abandon the one in progress.
const PEACE: Duration = Duration::from_secs(10);

impl Moving {
    /// The drain of the tree of an export.
    fn drain_of(&self, export: &Export) -> Option<&Drain> {
        (self.0.get()).filter(|drain| drain.tree == export.file_system.properties().fs_id)
    }

    /// The drain that includes the directories that lead to the exports, because no export stays. A client that has
    /// mounted one of them, such as `/nfs/DOMAIN`, looks for everything below it there.
    fn drain_of_all(&self, namespace: &Namespace) -> Option<&Drain> {
        let drain = self.0.get()?;
        let mut exports = namespace.exports().iter();
        exports
            .all(|export| export.file_system.properties().fs_id == drain.tree)
            .then_some(drain)
    }

    /// The new location of the directories that lead to the exports, if they move.
    pub(crate) fn locations_of_all(&self, namespace: &Namespace) -> Option<&[Location]> {
        Some(&self.drain_of_all(namespace)?.locations)
    }

    /// The new location of an export, if it moves.
    pub(crate) fn locations_of(&self, export: &Export) -> Option<&[Location]> {
        Some(&self.drain_of(export)?.locations)
    }
}

/// Prepares an operation on a tree that moves, or that is not here: fails with `MOVED`, or reduces the operation to what can be answered.
pub(crate) fn admit(compound: &Compound<'_>, operation: &mut ArgOp4) -> Result<(), NfsStat4> {
    let drain = match &compound.current {
        Some(Handle::Object(object)) => match compound.service.moving.drain_of(&object.export) {
            Some(drain) => Some(drain),
            None => return Ok(()),
        },
        Some(Handle::Absent(_)) => None,
        // A client that has just arrived can find the path to a tree, and is told there.
        Some(Handle::Pseudo(_)) if compound.is_from_root => return Ok(()),
        Some(Handle::Pseudo(_)) => {
            let service = compound.service;
            match service.moving.drain_of_all(&service.namespace) {
                Some(drain) => Some(drain),
                None => return Ok(()),
            }
        }
        None => return Ok(()),
    };
    let inform = || {
        if let (Some(drain), Some(session)) = (drain, &compound.session) {
            let now = compound.service.now();
            drain.informed().insert(session.client, now);
        }
    };
    match operation {
        ArgOp4::Getattr(args) if args.attr_request.intersects(&OF_ABSENT_TREE) => {
            args.attr_request = args.attr_request & OF_ABSENT_TREE;
            inform();
            Ok(())
        }
        ArgOp4::Putfh(_)
        | ArgOp4::Putrootfh
        | ArgOp4::Putpubfh
        | ArgOp4::Savefh
        | ArgOp4::Restorefh
        | ArgOp4::ReclaimComplete(_)
        | ArgOp4::ExchangeId(_)
        | ArgOp4::CreateSession(_)
        | ArgOp4::DestroySession(_)
        | ArgOp4::DestroyClientid(_)
        | ArgOp4::BackchannelCtl(_)
        | ArgOp4::TestStateid(_)
        | ArgOp4::Illegal(_) => Ok(()),
        _ => {
            inform();
            Err(NfsStat4::Moved)
        }
    }
}

/// The stateid of the open or lock that an operation uses.
pub(crate) fn stateid_of(operation: &ArgOp4) -> Option<Stateid4> {
    use nfs4::Locker4;
    Some(match operation {
        ArgOp4::Allocate(args) => args.stateid,
        ArgOp4::Close(args) => args.open_stateid,
        ArgOp4::Deallocate(args) => args.stateid,
        ArgOp4::Lock(args) => match &args.locker {
            Locker4::OpenOwner(new) => new.open_stateid,
            Locker4::LockOwner(known) => known.lock_stateid,
        },
        ArgOp4::Locku(args) => args.lock_stateid,
        ArgOp4::OpenDowngrade(args) => args.open_stateid,
        ArgOp4::Read(args) => args.stateid,
        ArgOp4::Seek(args) => args.stateid,
        ArgOp4::Setattr(args) => args.stateid,
        ArgOp4::Write(args) => args.stateid,
        _ => return None,
    })
}

/// The first port that is not privileged. Linux uses such ports to connect to the server to which a mount moves.
const ORDINARY_PORT: u16 = 1024;

impl Service {
    /// A client that may use a tree but could not follow it to a server with the same rules: it would use an
    /// unprivileged port, which these rules refuse.
    #[must_use]
    pub fn cannot_follow(&self, tree: FsId) -> Option<IpAddr> {
        let exports = self.namespace.exports().iter();
        let exports = exports.filter(|export| export.file_system.properties().fs_id == tree);
        let exports: Vec<_> = exports.collect();
        let is_open_to = |peer| exports.iter().any(|export| export.is_open_to(peer));
        let peers = self.peers().into_iter();
        let stuck = peers.filter(|peer| {
            is_open_to(*peer) && !is_open_to(SocketAddr::new(peer.ip(), ORDINARY_PORT))
        });
        stuck.map(|peer| peer.ip()).next()
    }

    /// Sends clients of a tree to other servers from now on, permanently: only the first call has an effect.
    /// [`Service::drained`] tells when they have gone, or `patience` is over.
    pub fn begin_drain(&self, tree: FsId, locations: Vec<Location>, patience: Duration) {
        let until = self.now() + patience;
        self.moving.0.get_or_init(|| Drain {
            tree,
            locations,
            until,
            informed: Mutex::default(),
        });
    }

    /// The number of clients that have not left the moving tree: a client that has left ends its sessions. `None` if no
    /// tree moves.
    #[must_use]
    pub fn to_be_drained(&self) -> Option<usize> {
        let moves = self.moving.0.get().is_some();
        moves.then(|| self.state().present().count())
    }

    /// Whether all clients have left the moving tree, or the patience is over. False if no tree moves.
    #[must_use]
    pub fn drained(&self) -> bool {
        let is_over = |drain: &Drain| self.now() >= drain.until;
        self.moving.0.get().is_some_and(is_over) || self.to_be_drained() == Some(0)
    }

    /// Whether the client of a session must be told that its lease has moved. This includes clients without state:
    /// otherwise they would look for the tree here after this server is gone.
    pub(crate) fn lease_moved(&self, client: ClientId) -> bool {
        self.moving.0.get().is_some_and(|drain| {
            let told = drain.informed().get(&client).copied();
            told.is_none_or(|told| self.now().saturating_duration_since(told) > PEACE)
        })
    }

    /// Whether state of vanished clients is to be released. Their locks in a moving tree are not, because the clients
    /// may have reclaimed them at the new server.
    pub(crate) fn lets_go(&self, release: &Release) -> bool {
        match release {
            Release::Locks(file, _) => {
                let export = &self.namespace.exports()[file.tree];
                self.moving.drain_of(export).is_none()
            }
            Release::Open(..) | Release::Leave(..) | Release::Record(_) | Release::Layout(..) => {
                true
            }
        }
    }

    /// The trees in which a client that has gone may have reclaimed what it held, at another server. It can reclaim nothing more in the others.
    pub(crate) async fn trees_elsewhere(&self, client: &[u8]) -> BTreeSet<usize> {
        let mut trees = BTreeSet::new();
        for (tree, export) in self.namespace.exports().iter().enumerate() {
            let moves = self.moving.drain_of(export).is_some();
            if moves || export.file_system.may_be_elsewhere(client).await {
                trees.insert(tree);
            }
        }
        trees
    }

    /// Whether a client may leave although it has state, because it now has that state elsewhere.
    pub(crate) fn has_moved(&self, client: ClientId) -> bool {
        (self.moving.0.get()).is_some_and(|drain| drain.informed().contains_key(&client))
    }
}
