//! The home's side: it answers questions of other metadata servers, makes their changes, and knows which of them are alive.
//!
//! What must never enter: what only the asker's clients are told, such as stateids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use control::Moment;
use homes::holdings::{Held, JoinedServer};
use store::TreeIdentity;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use vfs::{Error, FileSystem, FsId, NewObject, ObjectId, ReplicaSlot, Result};

use crate::holders::Holders;
use crate::layouts::{Given, Layouts};
use crate::pool_tree::PoolTree;
use crate::question::{Answer, Change, Question};

/// Most file bytes, or bytes of extended attribute names, in one answer.
pub(crate) const BYTES_MAX: u32 = 512 << 10;
/// Most directory entries in one answer. With the longest names they take 400 KiB.
pub(crate) const ENTRIES_MAX: u32 = 1024;

/// The run of a metadata server that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Its number in the pool.
    pub server: ReplicaSlot,
    /// Its run. Later runs have larger numbers.
    pub run: u64,
}

/// The server, run and client generation for which a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) server: ReplicaSlot,
    pub(crate) run: u64,
    /// How often the server had forgotten all its clients in this run when it admitted the client.
    pub(crate) clients: u64,
}

impl Asking {
    pub(crate) fn as_run(self) -> homes::holdings::Asking {
        homes::holdings::Asking {
            run: self.run,
            clients: self.clients,
        }
    }

    pub(crate) fn asker(self) -> Asker {
        Asker {
            server: self.server,
            run: self.run,
        }
    }
}

/// Operations for a server. Tasks that carry some out for its current run and clients hold `current` shared.
#[derive(Default)]
struct Operations {
    current: Arc<RwLock<()>>,
    /// The same for earlier runs and clients. Some of their operations may still be under way.
    earlier: Vec<Arc<RwLock<()>>>,
}

impl Operations {
    /// Closes the current group: operations under way end, and new ones join another group.
    fn end(&mut self) {
        let ended = std::mem::take(&mut self.current);
        // Drops groups that have ended.
        self.earlier.retain(|group| group.try_write().is_err());
        self.earlier.push(ended);
    }
}

/// One metadata server, and what its clients hold.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) joined: JoinedServer,
    pub(crate) held: Held,
    pub(crate) layouts: Given,
    /// Changes, opens and locks for clients.
    changes: Operations,
    /// Questions of the server itself in operations over homes. A change may wait for them, and must not be waited for by them.
    between: Operations,
    /// Tasks that open or lock hold it shared. The task that releases leftover state holds it exclusively.
    pub(crate) holding: Arc<RwLock<()>>,
    /// When the server was last heard.
    pub(crate) heard: Moment,
}

impl Account {
    /// A run has begun or continues. Returns whether it is a later one.
    pub(crate) fn meet(&mut self, run: u64) -> bool {
        let is_later = self.joined.meet(run);
        if is_later {
            // The home asks a reclaiming client what it had.
            self.held.begin_again();
            self.end_changes();
        }
        is_later
    }

    /// The current run has forgotten all its clients this many times.
    fn has_forgotten(&mut self, clients: u64) {
        if self.joined.has_forgotten(clients) {
            self.end_changes();
        }
    }

    fn end_changes(&mut self) {
        self.changes.end();
        self.between.end();
    }

    /// Releases the clients' state after their running operations have ended.
    pub(crate) fn give_up(&mut self) {
        self.joined.give_up();
        self.end_changes();
    }
}

/// The home of a tree's objects, for other metadata servers.
pub struct Home {
    tree: TreeIdentity,
    /// As shown to the home's own clients.
    pub(crate) file_system: Arc<dyn FileSystem>,
    /// Which servers have copies of it.
    pub(crate) holders: Arc<Holders>,
    pub(crate) changes_elsewhere: ChangesElsewhere,
    accounts: Mutex<BTreeMap<ReplicaSlot, Account>>,
    /// Gives layouts, if layouts are in use.
    pub(crate) layouts: Option<Arc<dyn Layouts>>,
    /// The tree over all homes, where there may be several.
    pub(crate) pool_tree: Option<Arc<PoolTree>>,
    /// Number of layout holders at other servers so far.
    pub(crate) given: AtomicU64,
    /// When the home last searched for lost servers.
    pub(crate) looked: Mutex<Moment>,
    /// Stably noted: servers whose clients' state was given up and that do not know it yet.
    pub(crate) given_up: tokio::sync::Mutex<BTreeSet<ReplicaSlot>>,
    pub(crate) memory: Arc<dyn Memory>,
}

/// Keeps over restarts for which servers the home has given up the clients' state.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Makes stable that exactly these servers' clients have lost their state.
    ///
    /// # Errors
    /// When it is not stable.
    async fn keep(&self, given_up: BTreeSet<ReplicaSlot>) -> Result<()>;
}

/// Says whether attributes of an object may change without the store knowing it, because clients write at the data servers. A caller that
/// begins such writes first waits for [`Holders::take_back`].
pub type ChangesElsewhere = Arc<dyn Fn(ObjectId) -> bool + Send + Sync>;

impl Home {
    /// The home of the objects in this file system, which must come from [`Holders::file_system`]. `memory` has `given_up` stored.
    #[must_use]
    pub fn new(
        tree: TreeIdentity,
        file_system: Arc<dyn FileSystem>,
        holders: Arc<Holders>,
        changes_elsewhere: ChangesElsewhere,
        (memory, given_up): (Arc<dyn Memory>, BTreeSet<ReplicaSlot>),
    ) -> Home {
        Home {
            tree,
            file_system,
            holders,
            changes_elsewhere,
            accounts: Mutex::default(),
            layouts: None,
            pool_tree: None,
            given: AtomicU64::new(0),
            looked: Mutex::default(),
            given_up: tokio::sync::Mutex::new(given_up),
            memory,
        }
    }

    /// The same for a pool where objects live at several homes.
    #[must_use]
    pub fn with_pool_tree(mut self, tree: Arc<PoolTree>) -> Home {
        self.pool_tree = Some(tree);
        self
    }

    pub(crate) fn check_tree(&self, meant: Option<FsId>) -> Result<()> {
        match meant {
            Some(tree) if tree != self.tree.fs_id => {
                Err(Error::Io("another tree is meant".to_owned()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn accounts(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run of a metadata server has begun or continues. Opens and locks of clients of earlier runs stay until the clients have had time
    /// to reclaim them ([`Question::EndReclaim`]). Nothing new is done for earlier runs.
    pub fn meet(&self, asker: Asker) {
        let mut accounts = self.accounts();
        let account = accounts.entry(asker.server).or_default();
        let is_later = account.meet(asker.run);
        account.heard = self.holders.now();
        drop(accounts);
        self.has_met(asker.server, is_later);
        self.holders.meet(asker, false);
    }

    fn has_met(&self, server: ReplicaSlot, is_later_run: bool) {
        if let (true, Some(tree)) = (is_later_run, &self.pool_tree) {
            tree.has_met(server);
        }
    }

    /// Notes that a server asks something. Returns the answer if the state of its clients is given up, or if the asking client is
    /// forgotten.
    pub(crate) fn hear(&self, asker: Asking, question: &Question) -> Option<Result<Answer>> {
        let now = self.holders.now();
        let mut accounts = self.accounts();
        let account = accounts.entry(asker.server).or_default();
        let is_later = account.meet(asker.run);
        self.has_met(asker.server, is_later);
        if account.joined.run() != asker.run {
            return None;
        }
        account.has_forgotten(asker.clients);
        if !account.joined.is_of(asker.as_run()) {
            return Some(Err(Error::Delay));
        }
        account.heard = now;
        if self.holders.claims.take_late(asker.server) {
            account.joined.give_up();
        }
        let is_given_up = account.joined.is_given_up();
        match question {
            Question::Tree | Question::HasForgotten => None,
            _ => is_given_up.then_some(Ok(Answer::GivenUp)),
        }
    }

    /// Answers a question with the current state.
    pub(crate) async fn answer_one(&self, asker: Asking, question: Question) -> Result<Answer> {
        let below = &self.file_system;
        Ok(match question {
            Question::Tree => Answer::of_tree(self.tree),
            Question::Space => Answer::Space(below.space().await?),
            Question::Attributes(id) => Answer::Attributes(below.attributes(id).await?),
            Question::Lookup(who, directory, name) => Answer::Attributes(match &self.pool_tree {
                Some(tree) => {
                    let asker = Some(asker.server);
                    tree.lookup_for(asker, &who, (directory, &name)).await?
                }
                None => below.lookup(&who, directory, &name).await?,
            }),
            Question::Parent(who, directory) => {
                Answer::Attributes(below.parent(&who, directory).await?)
            }
            Question::ReadDirectory(who, directory, after, entries) => {
                let entries = entries.min(ENTRIES_MAX) as usize;
                Answer::of_page(match &self.pool_tree {
                    Some(tree) => {
                        let (asker, place) = (Some(asker.server), (after, entries));
                        let page = tree.read_directory_for(asker, &who, directory, place);
                        page.await?
                    }
                    None => {
                        let page = below.read_directory(&who, directory, after, entries);
                        page.await?
                    }
                })
            }
            Question::AttributesOf(ids) => {
                let mut each = Vec::with_capacity(ids.len().min(ENTRIES_MAX as usize));
                for id in ids.into_iter().take(ENTRIES_MAX as usize) {
                    each.push(below.attributes(id).await);
                }
                Answer::Each(each)
            }
            Question::Change(change) => self.change(asker, change).await?,
            Question::Lease => Answer::Done,
            Question::Sessions(some, is_last) => {
                self.holders.tell_sessions(asker.asker(), some, is_last);
                Answer::Done
            }
            Question::EndRequests(ended) => {
                match &self.pool_tree {
                    Some(tree) => tree.end_requests_for(Some(asker.server), ended).await?,
                    None => below.end_requests(ended).await?,
                }
                Answer::Done
            }
            Question::Read(..)
            | Question::ReadLink(..)
            | Question::Commit(..)
            | Question::Seek(..)
            | Question::Xattr(..)
            | Question::Xattrs(..) => self.answer_about_contents(question).await?,
            Question::Layout(..)
            | Question::EndLayout(..)
            | Question::FenceLayout(..)
            | Question::CommitLayout(..)
            | Question::Device(_)
            | Question::Devices => self.answer_about_layouts(asker, question).await?,
            Question::Elsewhere(_)
            | Question::Seal(..)
            | Question::BreakSeal(..)
            | Question::Discard(_)
            | Question::PrepareMove(..)
            | Question::FinishMove(..)
            | Question::MoveOutcome(_)
            | Question::HoldNames(..)
            | Question::NamesOf(_)
            | Question::HasDirectories => self.answer_about_directories(asker, question).await?,
            question => self.answer_about_holdings(asker, question).await?,
        })
    }

    /// Makes a change for the current run of a metadata server when no earlier run has one under way: the client may have asked an earlier
    /// run for the same change, and for others since.
    async fn change(&self, asker: Asking, change: Change) -> Result<Answer> {
        let _under_way = self.begin_change(asker).await?;
        let below = &self.file_system;
        Ok(match change {
            Change::SetAttributes(check, id, set) => {
                let set = below.set_attributes(check.access(), id, &set);
                Answer::Attributes(set.await?)
            }
            Change::Create(_, _, _, NewObject::DirectoryElsewhere(id), _) => {
                self.name_made(asker, id, change).await?
            }
            Change::Create(who, directory, name, new, set) => {
                Answer::Created(below.create(&who, directory, &name, new, &set).await?)
            }
            Change::Remove(who, directory, name) => {
                Answer::Changed(below.remove(&who, directory, &name).await?)
            }
            Change::Rename(who, (source, old), (target, new)) => {
                let (source, target) = below.rename(&who, (source, &old), (target, &new)).await?;
                Answer::Renamed(source, target)
            }
            Change::Link(who, id, directory, name) => {
                Answer::Changed(below.link(&who, id, directory, &name).await?)
            }
            Change::Write(check, id, offset, data, stability) => {
                let written = below.write(check.access(), id, offset, data, stability);
                Answer::Written(written.await?)
            }
            Change::Allocate(check, id, extent) => {
                below.allocate(check.access(), id, extent).await?;
                Answer::Done
            }
            Change::Deallocate(check, id, extent) => {
                below.deallocate(check.access(), id, extent).await?;
                Answer::Done
            }
            Change::SetXattr(who, id, name, value, mode) => {
                Answer::Changed(below.set_xattr(&who, id, &name, value, mode).await?)
            }
            Change::RemoveXattr(who, id, name) => {
                Answer::Changed(below.remove_xattr(&who, id, &name).await?)
            }
        })
    }

    /// Waits until changes of earlier runs and clients are over.
    pub(crate) async fn begin_change(&self, asker: Asking) -> Result<OwnedRwLockReadGuard<()>> {
        self.begin(asker, |account| &account.changes).await
    }

    /// Waits until questions of earlier runs in operations over homes are over, and not for changes: these may wait for such questions of
    /// this run.
    pub(crate) async fn begin_between(&self, asker: Asking) -> Result<OwnedRwLockReadGuard<()>> {
        self.begin(asker, |account| &account.between).await
    }

    async fn begin(
        &self,
        asker: Asking,
        of: fn(&Account) -> &Operations,
    ) -> Result<OwnedRwLockReadGuard<()>> {
        let (under_way, earlier) = self.account(asker, |account| {
            let operations = of(account);
            // No task waits for the write lock of the current group.
            let under_way = operations.current.clone().try_read_owned();
            (under_way, operations.earlier.clone())
        })?;
        let under_way = under_way.map_err(|_| Error::Delay)?;
        all_free(earlier).await;
        Ok(under_way)
    }

    /// Waits until changes of earlier runs and clients of a server are over.
    pub(crate) async fn have_ended(&self, server: ReplicaSlot) {
        let earlier = {
            let accounts = self.accounts();
            let account = accounts.get(&server);
            account.map_or_else(Vec::new, |account| account.changes.earlier.clone())
        };
        all_free(earlier).await;
    }

    async fn answer_about_contents(&self, question: Question) -> Result<Answer> {
        let below = &self.file_system;
        Ok(match question {
            Question::ReadLink(who, id) => Answer::Bytes(below.read_link(&who, id).await?),
            Question::Read(check, id, offset, count) => {
                let count = count.min(BYTES_MAX);
                Answer::Read(below.read(check.access(), id, offset, count).await?)
            }
            Question::Commit(id, offset, count) => {
                Answer::Committed(below.commit(id, offset, count).await?)
            }
            Question::Seek(check, id, offset, target) => {
                Answer::Found(below.seek(check.access(), id, offset, target).await?)
            }
            Question::Xattr(who, id, name) => Answer::Bytes(below.xattr(&who, id, &name).await?),
            Question::Xattrs(who, id, cookie, max_bytes) => {
                let max_bytes = max_bytes.min(BYTES_MAX) as usize;
                Answer::Xattrs(below.xattrs(&who, id, cookie, max_bytes).await?)
            }
            _ => return Err(Error::NotSupported),
        })
    }
}

/// Waits until no task holds any of these.
async fn all_free(locks: Vec<Arc<RwLock<()>>>) {
    for lock in locks {
        drop(lock.write().await);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control::Moment;
    use pool::{LeaseClock, LeaseSettings};
    use store::{NewStore, Store, StoreOptions};

    use super::*;

    /// For a home that is started once.
    struct Forgets;

    #[async_trait]
    impl Memory for Forgets {
        async fn keep(&self, _: BTreeSet<ReplicaSlot>) -> Result<()> {
            Ok(())
        }
    }

    fn run(run: u64) -> Asking {
        Asking {
            server: ReplicaSlot(2),
            run,
            clients: 0,
        }
    }

    /// A home with an empty store in the directory.
    fn home(directory: &tempfile::TempDir) -> Home {
        let options = StoreOptions::new(directory.path().join("store"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        let now: LeaseClock = Arc::new(|| Moment(0));
        let leases = (LeaseSettings::default(), Duration::ZERO);
        let holders = Holders::new(1, leases, now, [], &BTreeSet::new());
        let sure = Arc::new(|_| false);
        let memory = (Arc::new(Forgets) as Arc<dyn Memory>, BTreeSet::new());
        Home::new(store.tree(), Arc::new(store), holders, sure, memory)
    }

    #[tokio::test]
    async fn a_change_waits_for_those_of_earlier_runs_and_no_run_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let home = home(&directory);
        home.meet(run(1).asker());
        let first = home.begin_change(run(1)).await.unwrap();
        let beside = home.begin_change(run(1)).await.unwrap();
        home.meet(run(2).asker());
        home.meet(run(3).asker());
        assert_eq!(home.begin_change(run(1)).await.err(), Some(Error::Delay));
        let mut next = std::pin::pin!(home.begin_change(run(3)));
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, &mut next).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(soon, &mut next).await.is_err());
        drop(beside);
        next.await.unwrap();
        // Another server's changes do not wait.
        let other = Asking {
            server: ReplicaSlot(3),
            ..run(1)
        };
        home.meet(other.asker());
        home.begin_change(other).await.unwrap();
    }

    async fn says(home: &Home, asking: Asking, question: Question) -> Result<Answer> {
        let asked = crate::question::Asked {
            tree: None,
            keeps: None,
            clients: asking.clients,
            question,
        };
        home.answer(asking.asker(), asked).await.answer
    }

    #[tokio::test]
    async fn nothing_is_given_back_before_what_is_under_way_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let home = home(&directory);
        let soon = Duration::from_millis(10);
        let forgotten = Asking {
            clients: 1,
            ..run(1)
        };
        let mut present = run(1);
        home.meet(present.asker());
        for (next, question) in [
            (forgotten, Question::HasForgotten),
            (run(2), Question::EndReclaim),
        ] {
            let under_way = home.begin_change(present).await.unwrap();
            if question == Question::EndReclaim {
                home.meet(next.asker());
                let mut accounts = home.accounts();
                let account = accounts.get_mut(&next.server).unwrap();
                account.joined.begin_telling();
            }
            let mut told = std::pin::pin!(says(&home, next, question));
            assert!(tokio::time::timeout(soon, &mut told).await.is_err());
            drop(under_way);
            assert_eq!(told.await, Ok(Answer::Done));
            assert_eq!(home.begin_change(present).await.err(), Some(Error::Delay));
            present = next;
        }
        let under_way = home.begin_change(present).await.unwrap();
        let mut parts = std::pin::pin!(home.part(present.server));
        assert!(tokio::time::timeout(soon, &mut parts).await.is_err());
        drop(under_way);
        parts.await;
        // What it asked for before is not done afterwards, either.
        assert_eq!(
            says(&home, present, Question::Lease).await,
            Ok(Answer::Done)
        );
        assert_eq!(home.begin_change(present).await.err(), Some(Error::Delay));
    }
}
