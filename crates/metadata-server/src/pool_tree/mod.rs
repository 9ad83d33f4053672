//! The tree of a pool at one of its metadata servers: each operation is done at the home of its object, here or at another server (rule 12
//! of `docs/design/striping.md`, decision 46).
//!
//! The slot in an object's identifier says who made it, and with that where it lives. At the first metadata server, all slots are its own
//! but those of joined ones that are known to be homes. A joined one has its own slot, and asks the first about everything else; so the
//! first passes on what is another's. Directories that have their name at one home and live at another are [`crate::directories`].
//!
//! What must never enter: how other servers are reached.

mod file_system;
mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use store::Store;
use tokio::sync::{RwLock, RwLockReadGuard};
use vfs::permission::{EXECUTE, allows};
use vfs::{
    Attributes, Created, Credentials, DirectoryChange, Error, FileSystem, Forget, Name, NewObject,
    ObjectId, ObjectKind, ReplicaSlot, RequestGroup, Result,
};

use crate::holders::Holders;
use crate::moves::{Came, Leaving};
use crate::remote_tree::RemoteTree;

/// Makes joined metadata servers known as homes, at the first one.
#[async_trait]
pub trait Homes: Send + Sync + 'static {
    /// Notes stably that directories live at this server, and says how it is asked.
    ///
    /// # Errors
    /// When that is not noted.
    async fn note(&self, home: ReplicaSlot) -> Result<Arc<RemoteTree>>;

    /// From now on it is asked.
    fn begin(&self, home: ReplicaSlot);
}

/// What a server does for the pool, and whom it asks.
pub(crate) enum Part {
    /// It has the root, and all that no other home has.
    First {
        homes: Mutex<BTreeMap<ReplicaSlot, Arc<RemoteTree>>>,
        notes: Arc<dyn Homes>,
        /// Servers that are about to leave the pool, and get no names any more. Held by each task that gives one a name.
        leaving: RwLock<BTreeSet<ReplicaSlot>>,
    },
    /// It has what it has made, and asks the first one of the rest.
    Joined {
        first: Arc<RemoteTree>,
        /// New directories whose parent lives at the first one live here.
        makes_directories: bool,
    },
}

/// Where an object lives, as far as this server has to know it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Home {
    Here,
    At(ReplicaSlot),
}

type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// The tree.
pub struct PoolTree {
    /// What lives here, as everybody is to see it.
    pub(crate) own: Arc<dyn FileSystem>,
    pub(crate) store: Arc<Store>,
    pub(crate) holders: Arc<Holders>,
    pub(crate) part: Part,
    /// Directories that live elsewhere and are about to be removed here.
    pub(crate) removing: Mutex<BTreeSet<ObjectId>>,
    /// Files of other homes, and others, with whose names here something is under way.
    pub(crate) busy: Mutex<BTreeSet<ObjectId>>,
    /// Names here that are on their way to another home.
    pub(crate) leaving: Mutex<BTreeMap<(ObjectId, Name), Leaving>>,
    /// Held by the task that prepares for one to go, or lets it.
    pub(crate) preparing: tokio::sync::Mutex<()>,
    /// Held by each task that changes names here, alone for a moment by one that prepares for a name to go, and alone by one that looks whether
    /// a file has any.
    pub(crate) places: RwLock<()>,
    /// Moves that are being decided about here.
    pub(crate) moves: Mutex<BTreeSet<u64>>,
    /// Moves that were done, and whose other home does not know it.
    pub(crate) came: Mutex<Vec<Came>>,
    /// Held by the task that counts for how many names elsewhere files are kept.
    pub(crate) holding: tokio::sync::Mutex<()>,
    /// Files here of which another home is being asked how many names it has, as long as it has said nothing else meanwhile.
    pub(crate) counting: Mutex<BTreeSet<(ReplicaSlot, ObjectId)>>,
    /// Files of other homes that have to be told how many names they have here.
    pub(crate) owed: Mutex<BTreeSet<ObjectId>>,
    /// Homes that have to be asked how many names they have of files here.
    pub(crate) unsure: Mutex<BTreeSet<ReplicaSlot>>,
    /// Where hidden names are, if this is the first server and it is known.
    pub(crate) hidden_directory: OnceLock<ObjectId>,
    /// Directories that are sealed here, by what this run has seen.
    pub(crate) sealed: Mutex<BTreeMap<ObjectId, u64>>,
    /// Directories that an earlier run has made, and that may have got their name or not.
    pub(crate) unsettled: Mutex<BTreeMap<Name, ObjectId>>,
    /// Held by the task that finds that out of one.
    pub(crate) settling: tokio::sync::Mutex<()>,
    /// The next seal; no other run of this server has used it.
    pub(crate) next_seal: AtomicU64,
    /// This server's clients have nothing to reclaim any more, nor those that come through it.
    have_reclaimed: AtomicBool,
    forget: Mutex<Vec<Forget>>,
    lock_listeners: Mutex<Vec<LockListener>>,
    this: Weak<PoolTree>,
}

/// Something is under way with names of a file as long as this is held.
pub(crate) struct Busy<'p>(pub(crate) &'p PoolTree, pub(crate) ObjectId);

impl Busy<'_> {
    /// It goes on when this is not held any more.
    pub(crate) fn stays(self) {
        std::mem::forget(self);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        locked(&self.0.busy).remove(&self.1);
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PoolTree {
    /// That of a run of the first metadata server, whose store this is, shown as `own`. These `homes` are known.
    #[must_use]
    pub fn at_first(
        (own, store): (Arc<dyn FileSystem>, Arc<Store>),
        holders: Arc<Holders>,
        homes: impl IntoIterator<Item = (ReplicaSlot, Arc<RemoteTree>)>,
        notes: Arc<dyn Homes>,
    ) -> Arc<PoolTree> {
        let part = Part::First {
            homes: Mutex::new(homes.into_iter().collect()),
            notes,
            leaving: RwLock::default(),
        };
        PoolTree::new((own, store), holders, part)
    }

    /// That of a run of a joined metadata server, which asks the `first`.
    #[must_use]
    pub fn at_joined(
        (own, store): (Arc<dyn FileSystem>, Arc<Store>),
        holders: Arc<Holders>,
        first: Arc<RemoteTree>,
        makes_directories: bool,
    ) -> Arc<PoolTree> {
        let part = Part::Joined {
            first,
            makes_directories,
        };
        PoolTree::new((own, store), holders, part)
    }

    fn new(
        (own, store): (Arc<dyn FileSystem>, Arc<Store>),
        holders: Arc<Holders>,
        part: Part,
    ) -> Arc<PoolTree> {
        let next_seal = AtomicU64::new(holders.run() << 32);
        Arc::new_cyclic(|this| PoolTree {
            own,
            store,
            holders,
            part,
            removing: Mutex::default(),
            busy: Mutex::default(),
            leaving: Mutex::default(),
            preparing: tokio::sync::Mutex::default(),
            places: RwLock::default(),
            moves: Mutex::default(),
            came: Mutex::default(),
            holding: tokio::sync::Mutex::default(),
            counting: Mutex::default(),
            owed: Mutex::default(),
            unsure: Mutex::default(),
            hidden_directory: OnceLock::new(),
            sealed: Mutex::default(),
            unsettled: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
            next_seal,
            have_reclaimed: AtomicBool::new(false),
            forget: Mutex::default(),
            lock_listeners: Mutex::default(),
            this: this.clone(),
        })
    }

    pub(crate) fn this(&self) -> Result<Arc<PoolTree>> {
        self.this.upgrade().ok_or(Error::Delay)
    }

    /// Whether an object lives at another server.
    #[must_use]
    pub fn is_elsewhere(&self, id: ObjectId) -> bool {
        self.home(id) != Home::Here
    }

    fn home(&self, id: ObjectId) -> Home {
        match &self.part {
            Part::First { homes, .. } if locked(homes).contains_key(&id.slot()) => {
                Home::At(id.slot())
            }
            Part::First { .. } => Home::Here,
            Part::Joined { .. } if id.slot() == self.store.slot() => Home::Here,
            // Also what lives at another joined server: the first one asks that.
            Part::Joined { .. } => Home::At(ReplicaSlot(0)),
        }
    }

    /// A home that is another server.
    pub(crate) fn other(&self, id: ObjectId) -> Option<Arc<RemoteTree>> {
        match &self.part {
            Part::First { homes, .. } => locked(homes).get(&id.slot()).cloned(),
            Part::Joined { .. } if id.slot() == self.store.slot() => None,
            Part::Joined { first, .. } => Some(first.clone()),
        }
    }

    /// The home that is this server, if this one asks it itself.
    pub(crate) fn at_server(&self, server: ReplicaSlot) -> Option<Arc<RemoteTree>> {
        match &self.part {
            Part::First { homes, .. } => locked(homes).get(&server).cloned(),
            Part::Joined { first, .. } => (first.server() == server).then(|| first.clone()),
        }
    }

    /// A name here is about to be changed, and is, as long as what is returned is held.
    pub(crate) async fn take_place(
        &self,
        (directory, name): (ObjectId, &Name),
    ) -> Result<RwLockReadGuard<'_, ()>> {
        let place = self.places.read().await;
        self.check_place(directory, name)?;
        Ok(place)
    }

    /// Finds out what became of what is under way over two homes. To be called about once a second.
    pub async fn settle_over_homes(&self) {
        self.settle_leaving().await;
        self.settle_came().await;
        self.settle_owed().await;
        self.settle_unsure().await;
    }

    fn others(&self) -> Vec<Arc<RemoteTree>> {
        match &self.part {
            Part::First { homes, .. } => locked(homes).values().cloned().collect(),
            Part::Joined { first, .. } => vec![first.clone()],
        }
    }

    /// Whether objects live at any other server.
    pub(crate) fn has_others(&self) -> bool {
        match &self.part {
            Part::First { homes, .. } => !locked(homes).is_empty(),
            Part::Joined { .. } => true,
        }
    }

    /// Who does operations on an object.
    pub(crate) fn at(&self, id: ObjectId) -> Arc<dyn FileSystem> {
        match self.other(id) {
            Some(other) => other,
            None => self.own.clone(),
        }
    }

    /// A joined server has made a directory, and is a home from now on. It gets a name as long as what is returned is held.
    pub(crate) async fn expect_home(
        &self,
        home: ReplicaSlot,
    ) -> Result<RwLockReadGuard<'_, BTreeSet<ReplicaSlot>>> {
        let Part::First {
            homes,
            notes,
            leaving,
        } = &self.part
        else {
            return Err(Error::NotSupported);
        };
        loop {
            let staying = leaving.read().await;
            if staying.contains(&home) {
                return Err(Error::NotSupported);
            }
            if locked(homes).contains_key(&home) {
                return Ok(staying);
            }
            drop(staying);
            let _alone = leaving.write().await;
            if !locked(homes).contains_key(&home) {
                let tree = notes.note(home).await?;
                self.is_joined_by(&tree);
                locked(homes).insert(home, tree);
                notes.begin(home);
            }
        }
    }

    fn is_joined_by(&self, tree: &RemoteTree) {
        for forget in locked(&self.forget).iter() {
            tree.on_loss(forget.clone());
        }
        for listener in locked(&self.lock_listeners).iter() {
            tree.on_lock_change(listener.clone());
        }
        if self.have_reclaimed.load(Ordering::Acquire) {
            tree.has_nothing_to_reclaim();
        }
    }

    /// A server is to leave the pool: it gets no names any more. Returns whether directories live there, as far as it can be asked.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn expect_leaving(&self, home: ReplicaSlot) -> Result<bool> {
        let Part::First { homes, leaving, .. } = &self.part else {
            return Err(Error::NotSupported);
        };
        leaving.write().await.insert(home);
        let tree = locked(homes).get(&home).cloned();
        match tree {
            Some(tree) => tree.has_directories_there().await,
            None => Ok(false),
        }
    }

    /// It stays after all.
    pub async fn stays(&self, home: ReplicaSlot) {
        if let Part::First { leaving, .. } = &self.part {
            leaving.write().await.remove(&home);
        }
    }

    /// It has left. Nothing lives there.
    pub fn has_left(&self, home: ReplicaSlot) {
        if let Part::First { homes, .. } = &self.part {
            locked(homes).remove(&home);
        }
        // What is held for it goes.
        self.has_met(home);
    }

    /// What another home has told of an object by its name, as its own home knows it. A server that asks knows itself what lives there.
    async fn resolved(
        &self,
        asker: Option<ReplicaSlot>,
        teller: ObjectId,
        found: Attributes,
    ) -> Result<Attributes> {
        match self.home(teller) == self.home(found.id) || asker == Some(found.id.slot()) {
            true => Ok(found),
            false => self.at(found.id).attributes(found.id).await,
        }
    }

    /// [`FileSystem::lookup`] for a client of this server, or of another one.
    pub(crate) async fn lookup_for(
        &self,
        asker: Option<ReplicaSlot>,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<Attributes> {
        if !self.is_elsewhere(directory) {
            if self.is_reserved(directory, name) {
                return Err(Error::NotFound);
            }
            self.check_place(directory, name)?;
        }
        let found = self.at(directory).lookup(who, directory, name).await?;
        match self.resolved(asker, directory, found).await {
            // The name went meanwhile, and may lead to something else.
            Err(Error::Stale) => {
                let found = self.at(directory).lookup(who, directory, name).await?;
                self.resolved(asker, directory, found).await
            }
            found => found,
        }
    }

    /// Renames within this home.
    async fn rename_here(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let mut replaced = None;
        if self.has_others() {
            self.refresh_name_of_elsewhere(who, from).await?;
            replaced = self.file_elsewhere(who, to).await?;
        }
        let _busy = replaced.map(|id| self.busy(id)).transpose()?;
        let renamed = {
            let _place = self.take_place(from).await?;
            self.check_place(to.0, to.1)?;
            self.own.rename(who, from, to).await
        };
        if let (Some(replaced), Ok(_)) = (replaced, &renamed) {
            self.tell_names(replaced).await;
        }
        renamed
    }

    /// The file that has this name and lives elsewhere, of which is then known here who owns it.
    async fn file_elsewhere(
        &self,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<Option<ObjectId>> {
        match self.own.lookup(who, directory, name).await {
            Ok(found) if self.is_elsewhere(found.id) && !found.is_directory() => {
                self.refresh(found.id).await?;
                Ok(Some(found.id))
            }
            // The operation itself says what is wrong.
            _ => Ok(None),
        }
    }

    /// A file was to be made, and there is one that lives elsewhere.
    async fn found_elsewhere(
        &self,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<Created> {
        let found = self.lookup_for(None, who, (directory, name)).await?;
        let version = self.own.attributes(directory).await?.change;
        match found.kind {
            ObjectKind::File => Ok(Created {
                attributes: found,
                directory: DirectoryChange {
                    before: version,
                    after: version,
                },
                made: false,
            }),
            ObjectKind::Directory => Err(Error::IsDirectory),
            ObjectKind::Symlink => Err(Error::IsSymlink),
            _ => Err(Error::WrongKind),
        }
    }

    /// The directory above one that has its name at another home than its rows.
    async fn parent_elsewhere(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        let found = self.at(directory).attributes(directory).await?;
        if !allows(who, &found, EXECUTE) {
            return Err(Error::AccessDenied);
        }
        self.own.parent(&Credentials::root(), directory).await
    }

    /// [`FileSystem::end_requests`] for a client of this server, or of another one. The first server passes it on to the homes through which
    /// it did not come; a joined one has nobody to pass it on to.
    pub(crate) async fn end_requests_for(
        &self,
        asker: Option<ReplicaSlot>,
        ended: Vec<RequestGroup>,
    ) -> Result<()> {
        let mut outcome = self.own.end_requests(ended.clone()).await;
        let others: Vec<_> = match &self.part {
            Part::First { homes, .. } => {
                let homes = locked(homes);
                let others = homes.iter().filter(|(home, _)| Some(**home) != asker);
                others.map(|(_, tree)| tree.clone()).collect()
            }
            Part::Joined { first, .. } if asker.is_none() => vec![first.clone()],
            Part::Joined { .. } => Vec::new(),
        };
        for other in others {
            outcome = outcome.and(other.end_requests(ended.clone()).await);
        }
        outcome
    }

    /// Where new directories in this one are made, if that is here although it is another's.
    fn makes_here(&self, directory: ObjectId, new: &NewObject) -> bool {
        let Part::Joined {
            first,
            makes_directories,
        } = &self.part
        else {
            return false;
        };
        let is_directory = *new == NewObject::Plain(ObjectKind::Directory);
        *makes_directories && is_directory && first.is_of_first(directory)
    }
}
