//! The tree of a pool at one of its metadata servers: each operation runs at the home of its object, here or at another server (rule 12 of
//! `docs/design/striping.md`, decision 46).
//!
//! The slot in an object's identifier says which server made it, and so where it lives. The first metadata server owns all slots except
//! those of joined servers that are known homes. A joined server owns its own slot and asks the first server about everything else; the
//! first passes on questions about objects of other homes. [`crate::directories`] handles directories whose name is at one home and which
//! live at another.
//!
//! What must never enter: how other servers are reached.

mod file_system;
mod listing;
mod settling;

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

use crate::held::Unsure;
use crate::holders::Holders;
use crate::moves::{Came, Leaving};
use crate::passed_on::Passed;
use crate::remote_tree::RemoteTree;

/// Makes joined metadata servers known as homes at the first server.
#[async_trait]
pub trait Homes: Send + Sync + 'static {
    /// Notes stably that directories live at this server. Returns the connection to it.
    ///
    /// # Errors
    /// When it is not noted.
    async fn note(&self, home: ReplicaSlot) -> Result<Arc<RemoteTree>>;

    /// From now on this server asks it.
    fn begin(&self, home: ReplicaSlot);
}

/// The server's role in the pool, and the servers that it asks.
pub(crate) enum Part {
    /// It has the root, and everything that no other home has.
    First {
        homes: Mutex<BTreeMap<ReplicaSlot, Arc<RemoteTree>>>,
        notes: Arc<dyn Homes>,
        /// Servers that are about to leave the pool and get no more names. Tasks that give a server a name hold it shared.
        leaving: RwLock<BTreeSet<ReplicaSlot>>,
    },
    /// It has what it has made, and asks the first server for the rest.
    Joined {
        first: Arc<RemoteTree>,
        /// New directories live here if their parent lives at the first server.
        makes_directories: bool,
    },
}

/// Where an object lives, as far as this server must know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Home {
    Here,
    At(ReplicaSlot),
}

type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// The tree.
pub struct PoolTree {
    /// The local part, as all callers must see it.
    pub(crate) own: Arc<dyn FileSystem>,
    pub(crate) store: Arc<Store>,
    pub(crate) holders: Arc<Holders>,
    pub(crate) part: Part,
    /// Directories that live elsewhere and are about to be removed here.
    pub(crate) removing: Mutex<BTreeSet<ObjectId>>,
    /// Files, of other homes and of this one, whose local names a task works on.
    pub(crate) busy: Mutex<BTreeSet<ObjectId>>,
    /// Local names that are on their way to another home.
    pub(crate) leaving: Mutex<BTreeMap<(ObjectId, Name), Leaving>>,
    /// Held by the task that prepares or finishes such a move.
    pub(crate) preparing: tokio::sync::Mutex<()>,
    /// Tasks that change local names hold it shared. A task that prepares a name to leave takes it exclusively for a moment. A task that
    /// checks whether a file has any name holds it exclusively.
    pub(crate) places: RwLock<()>,
    /// Moves that are being decided here.
    pub(crate) moves: Mutex<BTreeSet<u64>>,
    /// Moves that were made, but which the other home may not know.
    pub(crate) came: Mutex<Vec<Came>>,
    /// Moves between two joined servers, by the decider and its number. Only the first server has some.
    pub(crate) passed: Mutex<BTreeMap<(ReplicaSlot, u64), Passed>>,
    /// Homes that are given up. They cannot be asked any more.
    pub(crate) lost: Mutex<BTreeSet<ReplicaSlot>>,
    /// Held by the task that adjusts for how many names elsewhere files are kept.
    pub(crate) holding: tokio::sync::Mutex<()>,
    /// Files kept here for which another home is being asked for its number of names, and the number of the question. An entry is removed
    /// when that home reports meanwhile.
    pub(crate) counting: Mutex<BTreeMap<(ReplicaSlot, ObjectId), u64>>,
    /// Files of other homes whose number of local names must be reported.
    pub(crate) owed: Mutex<BTreeSet<ObjectId>>,
    /// Homes that must be asked for their number of names of local files.
    pub(crate) unsure: Mutex<BTreeMap<ReplicaSlot, Unsure>>,
    /// The directory of hidden names, at the first server and once known.
    pub(crate) hidden_directory: OnceLock<ObjectId>,
    /// Directories that are sealed here, as far as this run knows.
    pub(crate) sealed: Mutex<BTreeMap<ObjectId, u64>>,
    /// Directories that an earlier run made. It is unknown whether they got their names.
    pub(crate) unsettled: Mutex<BTreeMap<Name, ObjectId>>,
    /// Held by the task that settles one of them.
    pub(crate) settling: tokio::sync::Mutex<()>,
    /// The next seal. No other run of this server has used it.
    pub(crate) next_seal: AtomicU64,
    /// Clients of this server, and those that come through it, have nothing to reclaim any more.
    have_reclaimed: AtomicBool,
    /// What is being settled.
    settling_now: Mutex<BTreeSet<settling::Part>>,
    forget: Mutex<Vec<Forget>>,
    lock_listeners: Mutex<Vec<LockListener>>,
    this: Weak<PoolTree>,
}

/// Marks a file's names as in use while held.
pub(crate) struct Busy<'p>(pub(crate) &'p PoolTree, pub(crate) ObjectId);

impl Busy<'_> {
    /// Keeps the mark after this value is gone.
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
    /// The tree at a run of the first metadata server. `store` is its store, shown as `own`. These `homes` are known.
    #[must_use]
    pub fn at_first(
        (own, store): (Arc<dyn FileSystem>, Arc<Store>),
        holders: Arc<Holders>,
        homes: impl IntoIterator<Item = (ReplicaSlot, Arc<RemoteTree>)>,
        notes: Arc<dyn Homes>,
    ) -> Arc<PoolTree> {
        let homes: BTreeMap<_, _> = homes.into_iter().collect();
        if !homes.is_empty() {
            store.answer_when_stable();
        }
        let part = Part::First {
            homes: Mutex::new(homes),
            notes,
            leaving: RwLock::default(),
        };
        PoolTree::new((own, store), holders, part)
    }

    /// The tree at a run of a joined metadata server, which asks `first`.
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
            passed: Mutex::default(),
            lost: Mutex::default(),
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
            settling_now: Mutex::default(),
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
            // Including objects at another joined server: the first server asks that one.
            Part::Joined { .. } => Home::At(ReplicaSlot(0)),
        }
    }

    /// The connection to the object's home, if that is another server.
    pub(crate) fn other(&self, id: ObjectId) -> Option<Arc<RemoteTree>> {
        match &self.part {
            Part::First { homes, .. } => locked(homes).get(&id.slot()).cloned(),
            Part::Joined { .. } if id.slot() == self.store.slot() => None,
            Part::Joined { first, .. } => Some(first.clone()),
        }
    }

    /// The connection to this home, if this server asks it directly.
    pub(crate) fn at_server(&self, server: ReplicaSlot) -> Option<Arc<RemoteTree>> {
        match &self.part {
            Part::First { homes, .. } => locked(homes).get(&server).cloned(),
            Part::Joined { first, .. } => (first.server() == server).then(|| first.clone()),
        }
    }

    /// Checks a local name before a change. The name may be changed while the result is held.
    pub(crate) async fn take_place(
        &self,
        (directory, name): (ObjectId, &Name),
    ) -> Result<RwLockReadGuard<'_, ()>> {
        let place = self.places.read().await;
        self.check_place(directory, name)?;
        Ok(place)
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

    /// The file system that does operations on an object.
    pub(crate) fn at(&self, id: ObjectId) -> Arc<dyn FileSystem> {
        match self.other(id) {
            Some(other) => other,
            None => self.own.clone(),
        }
    }

    /// A joined server has made a directory and is a home from now on. It may get a name while the result is held.
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
        // A name that is made stable there must not outlive what it stands for here.
        self.store.answer_when_stable();
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

    /// A server is to leave the pool and gets no more names. Returns whether directories live there. A server that is no home is not asked.
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

    /// It has left. Nothing lives there any more.
    pub fn has_left(&self, home: ReplicaSlot) {
        if let Part::First { homes, .. } = &self.part {
            locked(homes).remove(&home);
        }
        // Hidden names that are held for it are removed.
        self.has_met(home);
    }

    /// Replaces attributes that `teller`'s home returned for a name by those of the object's own home. Not needed if the asker is that
    /// home.
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
            // The name was removed meanwhile, and may lead to something else.
            Err(Error::Stale) => {
                let found = self.at(directory).lookup(who, directory, name).await?;
                let resolved = self.resolved(asker, directory, found.clone()).await;
                if resolved == Err(Error::Stale) && !self.is_elsewhere(directory) {
                    self.drop_lost(directory, name, &found).await?;
                    return Err(Error::NotFound);
                }
                resolved
            }
            found => found,
        }
    }

    /// Removes a local name of a file that is lost with its home: that home keeps a file as long as it has names elsewhere.
    async fn drop_lost(&self, directory: ObjectId, name: &Name, file: &Attributes) -> Result<()> {
        if file.is_directory() {
            return Err(Error::Stale);
        }
        let _busy = self.busy(file.id)?;
        let dropped = self.drop_elsewhere((directory, name), file.id).await;
        match dropped {
            Ok(_) => {
                tracing::warn!(%directory, %name, file = %file.id, "a name of a file is removed: the file is lost with its metadata server");
                Ok(())
            }
            Err(Error::NotFound) => Ok(()),
            // The name leads to another object by now.
            Err(error) => Err(error),
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
        // In case nobody waits for the end of this.
        locked(&self.owed).extend(replaced);
        let renamed = {
            let _place = self.take_place(from).await?;
            self.check_place(to.0, to.1)?;
            self.own.rename(who, from, to).await
        };
        if let Some(replaced) = replaced {
            self.tell_names(replaced).await;
        }
        renamed
    }

    /// The file with this name, if it lives elsewhere. Updates its owner and mode here; a file that is lost with its home has none.
    async fn file_elsewhere(
        &self,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<Option<ObjectId>> {
        match self.own.lookup(who, directory, name).await {
            Ok(found) if self.is_elsewhere(found.id) && !found.is_directory() => {
                self.refresh_unless_lost(found.id).await?;
                Ok(Some(found.id))
            }
            // The operation itself reports what is wrong.
            _ => Ok(None),
        }
    }

    /// A file was to be made, but the name exists and its object lives elsewhere.
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

    /// The parent of a directory that lives at another home than its name.
    async fn parent_elsewhere(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        let found = self.at(directory).attributes(directory).await?;
        if !allows(who, &found, EXECUTE) {
            return Err(Error::AccessDenied);
        }
        self.own.parent(&Credentials::root(), directory).await
    }

    /// [`FileSystem::end_requests`] for a client of this server, or of another one. The first server passes it on to all homes except the
    /// asker. A joined server passes on only what its own clients end, to the first server.
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

    /// Whether a new object in this directory is made here, although the directory belongs to the first server.
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
