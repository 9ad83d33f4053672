//! The home's side: it answers what other metadata servers ask, makes their changes, and knows what their clients have open.
//!
//! What must never enter: what only the asker's clients are told, such as stateids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::TreeIdentity;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use vfs::{AccessCheck, Error, FileSystem, FsId, ObjectId, OpenOwner, ReplicaSlot, Result, Share};

use crate::holders::Holders;
use crate::question::{Answer, Change, Question};

/// The most bytes of a file, or of names of extended attributes, in one answer.
pub(crate) const BYTES_MAX: u32 = 512 << 10;
/// The most entries of a directory in one answer; with the longest names they have 400 KiB.
pub(crate) const ENTRIES_MAX: u32 = 1024;
/// Files that clients of one metadata server may have open, counted by owner.
const OPENS_MAX: usize = 1 << 18;

/// Which run of which metadata server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Its number in the pool.
    pub server: ReplicaSlot,
    /// Which of its runs; later ones have larger numbers.
    pub run: u64,
}

/// What a client has open: since which run of its server, which file, and under which owner here.
type Open = (u64, ObjectId, OpenOwner);

/// What clients of one metadata server have open.
#[derive(Default)]
struct Account {
    run: u64,
    opens: BTreeSet<Open>,
    /// Held by each task that makes a change that this run has asked for.
    changes: Arc<RwLock<()>>,
    /// The same of runs before, some of whose changes may still be under way.
    earlier: Vec<Arc<RwLock<()>>>,
}

impl Account {
    /// A run has begun, or goes on.
    fn meet(&mut self, run: u64) {
        if run > self.run {
            self.run = run;
            let ended = std::mem::take(&mut self.changes);
            // Nobody holds the others any more.
            self.earlier.retain(|changes| changes.try_write().is_err());
            self.earlier.push(ended);
        }
    }
}

/// The home of all objects of a tree, for other metadata servers.
pub struct Home {
    tree: TreeIdentity,
    /// As its own clients are served.
    pub(crate) file_system: Arc<dyn FileSystem>,
    /// Who has copies of it.
    pub(crate) holders: Arc<Holders>,
    pub(crate) changes_elsewhere: ChangesElsewhere,
    accounts: Mutex<BTreeMap<ReplicaSlot, Account>>,
}

/// Says whether attributes of an object may change without the store knowing it, because clients
/// write past it. A caller that begins that has [`Holders::take_back`] return first.
pub type ChangesElsewhere = Arc<dyn Fn(ObjectId) -> bool + Send + Sync>;

impl Home {
    /// The home of what this file system keeps, which shows what it does by [`Holders::file_system`].
    #[must_use]
    pub fn new(
        tree: TreeIdentity,
        file_system: Arc<dyn FileSystem>,
        holders: Arc<Holders>,
        changes_elsewhere: ChangesElsewhere,
    ) -> Home {
        Home {
            tree,
            file_system,
            holders,
            changes_elsewhere,
            accounts: Mutex::default(),
        }
    }

    pub(crate) fn check_tree(&self, meant: Option<FsId>) -> Result<()> {
        match meant {
            Some(tree) if tree != self.tree.fs_id => {
                Err(Error::Io("another tree is meant".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn accounts(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run of a metadata server has begun, or goes on. What clients had open in those before stays so until they had time to open it
    /// again ([`Question::EndReclaim`]), and nothing is opened in those any more.
    pub fn meet(&self, asker: Asker) {
        let mut accounts = self.accounts();
        accounts.entry(asker.server).or_default().meet(asker.run);
        drop(accounts);
        self.holders.meet(asker, false);
    }

    /// What clients of earlier runs had open and have not opened again is closed.
    async fn end_reclaim(&self, asker: Asker) {
        let left = {
            let mut accounts = self.accounts();
            let opens = &mut accounts.entry(asker.server).or_default().opens;
            let stays =
                opens.split_off(&(asker.run, ObjectId::from_u64(0), OpenOwner(Arc::from([]))));
            std::mem::replace(opens, stays)
        };
        self.close_all(left).await;
    }

    /// A metadata server is about to leave the pool. Returns when it answers from no copies; it gets none any more.
    pub async fn expect_parting(&self, server: ReplicaSlot) {
        self.holders.expect_parting(server).await;
    }

    /// It stays in the pool after all.
    pub fn stays(&self, server: ReplicaSlot) {
        self.holders.stays(server);
    }

    /// It has left the pool: what its clients had open is closed.
    pub async fn part(&self, server: ReplicaSlot) {
        self.holders.part(server);
        let parted = self.accounts().remove(&server);
        self.close_all(parted.unwrap_or_default().opens).await;
    }

    async fn close_all(&self, opens: BTreeSet<Open>) {
        for (_, object, owner) in opens {
            if let Err(error) = self.file_system.close(object, &owner).await {
                tracing::warn!(%object, %error, "what a client of another metadata server had open was not closed");
            }
        }
    }

    /// Answers a question, as of now.
    pub(crate) async fn answer_one(&self, asker: Asker, question: Question) -> Result<Answer> {
        let below = &self.file_system;
        Ok(match question {
            Question::Tree => Answer::of_tree(self.tree),
            Question::Space => Answer::Space(below.space().await?),
            Question::Attributes(id) => Answer::Attributes(below.attributes(id).await?),
            Question::Lookup(who, directory, name) => {
                Answer::Attributes(below.lookup(&who, directory, &name).await?)
            }
            Question::Parent(who, directory) => {
                Answer::Attributes(below.parent(&who, directory).await?)
            }
            Question::ReadDirectory(who, directory, after, entries) => {
                let entries = entries.min(ENTRIES_MAX) as usize;
                let page = below.read_directory(&who, directory, after, entries);
                Answer::Page(page.await?)
            }
            Question::Open(warrant, id, owner, share) => {
                let opened = self.open(asker, warrant.access(), (id, owner), share);
                Answer::Attributes(opened.await?)
            }
            Question::EndReclaim => {
                self.end_reclaim(asker).await;
                Answer::Done
            }
            Question::Downgrade(id, owner, share) => {
                let owner = owner_here(asker, &owner);
                below.downgrade(id, &owner, share).await?;
                Answer::Done
            }
            Question::Close(id, owner) => {
                self.close(asker, id, &owner).await?;
                Answer::Done
            }
            Question::Change(change) => self.change(asker, change).await?,
            Question::Lease => Answer::Done,
            Question::EndRequests(ended) => {
                below.end_requests(ended).await?;
                Answer::Done
            }
            question => self.answer_about_contents(question).await?,
        })
    }

    /// Makes a change that the present run of a metadata server asks for, when no run before has one under way: its client may have
    /// asked for the same, and for something else since.
    async fn change(&self, asker: Asker, change: Change) -> Result<Answer> {
        let _under_way = self.begin_change(asker).await?;
        let below = &self.file_system;
        Ok(match change {
            Change::SetAttributes(warrant, id, set) => {
                let set = below.set_attributes(warrant.access(), id, &set);
                Answer::Attributes(set.await?)
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
            Change::Write(warrant, id, offset, data, stability) => {
                let written = below.write(warrant.access(), id, offset, data, stability);
                Answer::Written(written.await?)
            }
            Change::Allocate(warrant, id, extent) => {
                below.allocate(warrant.access(), id, extent).await?;
                Answer::Done
            }
            Change::Deallocate(warrant, id, extent) => {
                below.deallocate(warrant.access(), id, extent).await?;
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

    /// Waits until changes of earlier runs are over.
    async fn begin_change(&self, asker: Asker) -> Result<OwnedRwLockReadGuard<()>> {
        let (under_way, earlier) = {
            let mut accounts = self.accounts();
            let account = accounts.entry(asker.server).or_default();
            account.meet(asker.run);
            if account.run != asker.run {
                return Err(Error::Delay);
            }
            // Nobody waits to write to that of the present run.
            let under_way = account.changes.clone().try_read_owned();
            (
                under_way.map_err(|_| Error::Delay)?,
                account.earlier.clone(),
            )
        };
        for changes in earlier {
            drop(changes.write().await);
        }
        Ok(under_way)
    }

    async fn answer_about_contents(&self, question: Question) -> Result<Answer> {
        let below = &self.file_system;
        Ok(match question {
            Question::ReadLink(who, id) => Answer::Bytes(below.read_link(&who, id).await?),
            Question::TestLock(id, owner, range, kind) => {
                Answer::Conflict(below.test_lock(id, &owner, range, kind).await?)
            }
            Question::Read(warrant, id, offset, count) => {
                let count = count.min(BYTES_MAX);
                Answer::Read(below.read(warrant.access(), id, offset, count).await?)
            }
            Question::Commit(id, offset, count) => {
                Answer::Committed(below.commit(id, offset, count).await?)
            }
            Question::Seek(warrant, id, offset, target) => {
                Answer::Found(below.seek(warrant.access(), id, offset, target).await?)
            }
            Question::Xattr(who, id, name) => Answer::Bytes(below.xattr(&who, id, &name).await?),
            Question::Xattrs(who, id, cookie, max_bytes) => {
                let max_bytes = max_bytes.min(BYTES_MAX) as usize;
                Answer::Xattrs(below.xattrs(&who, id, cookie, max_bytes).await?)
            }
            _ => return Err(Error::NotSupported),
        })
    }

    /// Opens a file for a client of another metadata server, which keeps nobody out.
    async fn open(
        &self,
        asker: Asker,
        access: AccessCheck<'_>,
        (id, owner): (ObjectId, OpenOwner),
        share: Share,
    ) -> Result<vfs::Attributes> {
        if keeps_out(share) {
            return Err(Error::ReadOnly);
        }
        self.meet(asker);
        let open = (asker.run, id, owner_here(asker, &owner));
        // On the account first, so that nothing stays open of which nobody knows.
        let is_new = {
            let mut accounts = self.accounts();
            match accounts.get_mut(&asker.server) {
                Some(account) if account.run == asker.run => {
                    let has_room = account.opens.len() < OPENS_MAX;
                    if !has_room && !account.opens.contains(&open) {
                        return Err(Error::Delay);
                    }
                    account.opens.insert(open.clone())
                }
                _ => return Err(Error::Delay),
            }
        };
        let opened = self.file_system.open(access, id, &open.2, share).await;
        let is_on_account = {
            let mut accounts = self.accounts();
            let account = accounts.get_mut(&asker.server);
            account.is_some_and(|account| match opened.is_err() && is_new {
                true => account.opens.remove(&open),
                false => account.opens.contains(&open),
            })
        };
        if opened.is_ok() && !is_on_account {
            // The asker was removed meanwhile, or the client has closed the file.
            self.file_system.close(id, &open.2).await?;
        }
        opened
    }

    async fn close(&self, asker: Asker, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let open = (asker.run, id, owner_here(asker, owner));
        if let Some(account) = self.accounts().get_mut(&asker.server) {
            account.opens.remove(&open);
        }
        self.file_system.close(id, &open.2).await
    }
}

/// Whether an open keeps others from something.
pub(crate) fn keeps_out(share: Share) -> bool {
    share.deny_read || share.deny_write
}

/// An owner at another metadata server is none of those who have the same name here, or in another run of that server.
fn owner_here(asker: Asker, owner: &OpenOwner) -> OpenOwner {
    let server = format!("metadata-server-{}-{}", asker.server.0, asker.run);
    OpenOwner::new(server.as_bytes(), &owner.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control::Moment;
    use pool::{LeaseClock, LeaseSettings};
    use store::{NewStore, Store, StoreOptions};

    use super::*;

    fn run(run: u64) -> Asker {
        Asker {
            server: ReplicaSlot(2),
            run,
        }
    }

    #[tokio::test]
    async fn a_change_waits_for_those_of_earlier_runs_and_no_run_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(directory.path().join("store"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        let now: LeaseClock = Arc::new(|| Moment(0));
        let holders = Holders::new(1, LeaseSettings::default(), now, []);
        let sure = Arc::new(|_| false);
        let home = Home::new(store.tree(), Arc::new(store), holders, sure);
        let first = home.begin_change(run(1)).await.unwrap();
        let beside = home.begin_change(run(1)).await.unwrap();
        home.meet(run(2));
        home.meet(run(3));
        assert_eq!(home.begin_change(run(1)).await.err(), Some(Error::Delay));
        let mut next = std::pin::pin!(home.begin_change(run(3)));
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, &mut next).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(soon, &mut next).await.is_err());
        drop(beside);
        next.await.unwrap();
        // Another server's changes wait for nobody.
        let other = Asker {
            server: ReplicaSlot(3),
            ..run(1)
        };
        home.begin_change(other).await.unwrap();
    }
}
