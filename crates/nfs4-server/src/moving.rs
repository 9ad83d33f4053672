//! A tree that is on its way to other servers: clients are told to go there (RFC 8881, sections 11.10 and 11.11).
//!
//! From [`Service::begin_drain`] on, every operation on the tree answers MOVED, except those that lead to it and
//! those that ask where it is; so does every one on a directory of the pseudo file system that a client had already, if no other
//! tree is exported. What clients hold is not handed over by anybody: the tables behind the file
//! system boundary keep it under their names, and they reclaim it where they arrive. So what they had here is
//! forgotten, and never given back.
//!
//! What must never enter: whether the other servers are ready, and when this one stops.

use std::collections::HashMap;
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

/// The tree that moves, once there is one.
#[derive(Debug, Default)]
pub(crate) struct Moving(OnceLock<Drain>);

#[derive(Debug)]
struct Drain {
    tree: FsId,
    locations: Vec<Location>,
    until: Instant,
    /// Clients that were told that the tree moves, and when for the last time.
    informed: Mutex<HashMap<ClientId, Instant>>,
}

impl Drain {
    fn informed(&self) -> MutexGuard<'_, HashMap<ClientId, Instant>> {
        // It stays whole even if a holder panicked.
        self.informed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a client that was told is left in peace. Meanwhile SEQUENCE must not say that its lease has moved: Linux
/// takes that for another move, and gives up the one it is at.
const PEACE: Duration = Duration::from_secs(10);

impl Moving {
    /// The drain of the tree that an export shows.
    fn drain_of(&self, export: &Export) -> Option<&Drain> {
        (self.0.get()).filter(|drain| drain.tree == export.file_system.properties().fs_id)
    }

    /// The drain that takes along the directories which lead to the exports, since no export stays. Who has mounted one of them,
    /// as `/nfs/DOMAIN` is, looks for everything below it there.
    fn drain_of_all(&self, namespace: &Namespace) -> Option<&Drain> {
        let drain = self.0.get()?;
        let mut exports = namespace.exports().iter();
        exports
            .all(|export| export.file_system.properties().fs_id == drain.tree)
            .then_some(drain)
    }

    /// Where the directories that lead to the exports move, if they do.
    pub(crate) fn locations_of_all(&self, namespace: &Namespace) -> Option<&[Location]> {
        Some(&self.drain_of_all(namespace)?.locations)
    }

    /// Where an export moves, if it does.
    pub(crate) fn locations_of(&self, export: &Export) -> Option<&[Location]> {
        Some(&self.drain_of(export)?.locations)
    }
}

/// Prepares an operation on a tree that moves, or is not here: fails with `MOVED`, or leaves of it what can be answered.
pub(crate) fn admit(compound: &Compound<'_>, operation: &mut ArgOp4) -> Result<(), NfsStat4> {
    let drain = match &compound.current {
        Some(Handle::Object(object)) => match compound.service.moving.drain_of(&object.export) {
            Some(drain) => Some(drain),
            None => return Ok(()),
        },
        Some(Handle::Absent(_)) => None,
        // A client that comes only now finds the way to a tree, and is told there.
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

/// The stateid that an operation uses an open or a lock by.
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

/// A port that is not privileged, from which Linux connects to the server to which a mount moves.
const ORDINARY_PORT: u16 = 1024;

impl Service {
    /// A client that may use a tree and could not follow it to a server with the same rules: it would come from an ordinary port,
    /// which is not believed.
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

    /// Sends clients of a tree to other servers from now on, for good: of further calls only the first counts.
    /// [`Service::drained`] says when they have gone, or `patience` is over.
    pub fn begin_drain(&self, tree: FsId, locations: Vec<Location>, patience: Duration) {
        let until = self.now() + patience;
        self.moving.0.get_or_init(|| Drain {
            tree,
            locations,
            until,
            informed: Mutex::default(),
        });
    }

    /// How many clients are still to go from the tree that moves: a client that has gone ends its sessions. `None`
    /// where no tree moves.
    #[must_use]
    pub fn to_be_drained(&self) -> Option<usize> {
        let moves = self.moving.0.get().is_some();
        moves.then(|| self.state().present().count())
    }

    /// Whether all clients have gone from the tree that moves, or the patience is over. False where no tree moves.
    #[must_use]
    pub fn drained(&self) -> bool {
        let is_over = |drain: &Drain| self.now() >= drain.until;
        self.moving.0.get().is_some_and(is_over) || self.to_be_drained() == Some(0)
    }

    /// Whether the client of a session has to be told that something of it has moved. Clients that hold nothing too:
    /// they would look for the tree here when this server is gone.
    pub(crate) fn lease_moved(&self, client: ClientId) -> bool {
        self.moving.0.get().is_some_and(|drain| {
            let told = drain.informed().get(&client).copied();
            told.is_none_or(|told| self.now().saturating_duration_since(told) > PEACE)
        })
    }

    /// Whether state of vanished clients is to be let go: not their locks in a tree that moves, which may have
    /// been reclaimed where the clients are now.
    pub(crate) fn lets_go(&self, release: &Release) -> bool {
        match release {
            Release::Locks(file, _) => {
                let export = &self.namespace.exports()[file.tree];
                self.moving.drain_of(export).is_none()
            }
            Release::Open(..) | Release::Record(_) | Release::Layout(..) => true,
        }
    }

    /// Whether a client may take its leave although it holds something, because it holds it elsewhere now.
    pub(crate) fn has_moved(&self, client: ClientId) -> bool {
        (self.moving.0.get()).is_some_and(|drain| drain.informed().contains_key(&client))
    }
}
