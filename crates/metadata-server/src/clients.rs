//! Opens and locks of clients of a joined metadata server. The home decides about them, and is told again after a restart.
//!
//! What must never enter: what is in the files.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homes::holdings::Ranges;
use tokio::sync::{RwLock, watch};
use vfs::{
    AccessCheck, Attributes, ByteRange, Credentials, Error, Forget, LockKind, LockOwner, ObjectId,
    OpenOwner, OwnedAccessCheck, Result, Share,
};

use crate::holding::keeps_out;
use crate::question::{Answer, Question, other_answer};
use crate::remote_tree::RemoteTree;

/// Delay before the home is told again that clients are forgotten.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Tables {
    opens: BTreeMap<(ObjectId, OpenOwner), Share>,
    locks: BTreeMap<(ObjectId, LockOwner), Ranges>,
}

type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// The generation of the clients.
#[derive(Clone, Copy, Default)]
struct ClientsState {
    /// How often all of them were forgotten.
    forgotten: u64,
    /// The home has given up their state, and they are being forgotten.
    are_lost: bool,
}

/// What clients hold, as the home has granted it.
#[derive(Default)]
pub(crate) struct Clients {
    tables: Mutex<Tables>,
    /// Tasks that ask for state and note it hold this shared. The task that tells the home everything again holds it exclusively, so the
    /// home knows all granted state.
    pub(crate) telling: RwLock<()>,
    /// Clients have nothing to reclaim any more.
    have_reclaimed: AtomicBool,
    state: watch::Sender<ClientsState>,
    forget: Mutex<Vec<Forget>>,
    lock_listeners: Mutex<Vec<LockListener>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        locked(&self.tables)
    }

    pub(crate) fn hold_nothing(&self) -> bool {
        let tables = self.tables();
        tables.opens.is_empty() && tables.locks.is_empty()
    }

    pub(crate) fn have_reclaimed(&self) -> bool {
        self.have_reclaimed.load(Ordering::Acquire)
    }

    /// How often all clients were forgotten. An operation for a client reads this first, before it waits for anything.
    pub(crate) fn forgotten(&self) -> u64 {
        self.state.borrow().forgotten
    }

    /// Whether the clients of this generation are still there.
    pub(crate) fn still_are(&self, forgotten: u64) -> bool {
        let state = *self.state.borrow();
        state.forgotten == forgotten && !state.are_lost
    }

    /// Returns when the clients of this generation are lost.
    pub(crate) async fn until_lost(&self, forgotten: u64) {
        let gone = |state: &ClientsState| state.forgotten != forgotten || state.are_lost;
        // The sender lives as long as `self`.
        let _ = self.state.subscribe().wait_for(gone).await;
    }

    /// Marks them as lost. Returns whether they were not before.
    fn lose(&self) -> bool {
        self.state
            .send_if_modified(|state| !std::mem::replace(&mut state.are_lost, true))
    }

    /// The clients are forgotten: a new generation begins.
    fn are_forgotten(&self) {
        self.state.send_modify(|state| state.forgotten += 1);
    }

    /// The home knows that they are forgotten.
    fn begin_anew(&self) {
        self.state.send_modify(|state| state.are_lost = false);
    }

    /// No state from earlier runs is left to reclaim.
    pub(crate) fn set_reclaimed(&self) {
        self.have_reclaimed.store(true, Ordering::Release);
    }

    pub(crate) fn on_loss(&self, forget: Forget) {
        locked(&self.forget).push(forget);
    }

    pub(crate) fn on_lock_change(&self, listener: LockListener) {
        locked(&self.lock_listeners).push(listener);
    }

    pub(crate) fn locks_changed(&self, files: impl Iterator<Item = ObjectId>) {
        let listeners = locked(&self.lock_listeners).clone();
        for file in files {
            listeners.iter().for_each(|listener| listener(file));
        }
    }

    fn opened(&self, id: ObjectId, owner: &OpenOwner, share: Share) {
        let mut tables = self.tables();
        let held = tables.opens.entry((id, owner.clone())).or_default();
        *held = held.union(share);
    }
}

impl RemoteTree {
    /// Has the home do something that has no result.
    pub(crate) async fn do_at_home(&self, question: Question) -> Result<()> {
        self.do_for(self.clients.forgotten(), question).await
    }

    /// The same for a client of this generation.
    pub(crate) async fn do_for(&self, clients: u64, question: Question) -> Result<()> {
        match self.ask_for(clients, question).await? {
            Answer::Done => Ok(()),
            _ => Err(other_answer()),
        }
    }

    pub(crate) async fn open_for(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        let check = OwnedAccessCheck::from(access);
        let question = match self.clients.have_reclaimed() {
            true => Question::Open(check, id, owner.clone(), share),
            false => Question::OpenAgain(check, id, owner.clone(), share),
        };
        self.ask_to_open((clients, question), id, owner, share)
            .await
    }

    /// Opens a file that was just made: no other client can have a claim on it.
    pub(crate) async fn open_what_was_made(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        let access = AccessCheck::Open(who);
        if keeps_out(share) {
            return self.open_for(access, id, owner, share).await.map(drop);
        }
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        let question = Question::OpenAgain(access.into(), id, owner.clone(), share);
        let opened = self.ask_to_open((clients, question), id, owner, share);
        opened.await.map(drop)
    }

    async fn ask_to_open(
        &self,
        (clients, question): (u64, Question),
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        match self.ask_for(clients, question).await? {
            Answer::Attributes(found) => {
                self.clients.opened(id, owner, share);
                Ok(found)
            }
            _ => Err(other_answer()),
        }
    }

    pub(crate) async fn downgrade_for(
        &self,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        self.let_go(clients, Question::Downgrade(id, owner.clone(), share))
            .await?;
        if let Some(held) = self.clients.tables().opens.get_mut(&(id, owner.clone())) {
            *held = share;
        }
        Ok(())
    }

    pub(crate) async fn close_for(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        if !self.clients.still_are(clients) {
            return Ok(());
        }
        // First, so that a home that restarts meanwhile is not told of this open.
        self.clients.tables().opens.remove(&(id, owner.clone()));
        self.let_go(clients, Question::Close(id, owner.clone()))
            .await
    }

    pub(crate) async fn lock_for(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        let question = match self.clients.have_reclaimed() {
            true => Question::Lock(id, owner.clone(), range, kind),
            false => Question::LockAgain(id, owner.clone(), range, kind),
        };
        self.do_for(clients, question).await?;
        let mut tables = self.clients.tables();
        let held = tables.locks.entry((id, owner.clone())).or_default();
        held.lock(range, kind);
        Ok(())
    }

    pub(crate) async fn unlock_for(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
    ) -> Result<()> {
        let clients = self.clients.forgotten();
        let _noted = self.clients.telling.read().await;
        if !self.clients.still_are(clients) {
            return Ok(());
        }
        {
            let mut tables = self.clients.tables();
            let lock = (id, owner.clone());
            if let Some(held) = tables.locks.get_mut(&lock) {
                held.unlock(range);
                if held.is_empty() {
                    tables.locks.remove(&lock);
                }
            }
        }
        self.let_go(clients, Question::Unlock(id, owner.clone(), range))
            .await
    }

    /// Tells the home that clients have nothing to reclaim any more. If the home does not hear it now, [`RemoteTree::hand_over`] tells it
    /// again. A restarted home accepts it only from there: here it would mistake it for the end of a report. Running reclaims finish first.
    pub(crate) async fn end_reclaim_at_home(&self) -> Result<()> {
        self.clients.have_reclaimed.store(true, Ordering::Release);
        let _alone = self.clients.telling.write().await;
        self.do_at_home(Question::EndReclaim).await
    }

    /// Tells a home what clients hold here: after the home's restart, or after a loss of contact in which it may have missed releases.
    /// Returns the number of opens and locks, counted by owner.
    ///
    /// # Errors
    /// [`Error::Delay`] if it cannot be told now. Then all of it must be told again.
    pub async fn hand_over(&self) -> Result<(usize, usize)> {
        let _alone = self.clients.telling.write().await;
        self.do_at_home(Question::BeginAgain).await?;
        self.owed.have_ended();
        let (opens, locks) = {
            let tables = self.clients.tables();
            (tables.opens.clone(), tables.locks.clone())
        };
        let count = (opens.len(), locks.len());
        let who = Credentials::root();
        for ((id, owner), share) in opens {
            let check = OwnedAccessCheck::from(AccessCheck::Open(&who));
            let open = Question::OpenAgain(check, id, owner, share);
            self.told(id, self.ask(open).await.map(drop))?;
        }
        for ((id, owner), ranges) in locks {
            for (range, kind) in ranges.iter() {
                let lock = Question::LockAgain(id, owner.clone(), range, kind);
                self.told(id, self.ask(lock).await.map(drop))?;
            }
        }
        if self.clients.have_reclaimed() {
            self.do_at_home(Question::EndReclaim).await?;
        }
        Ok(count)
    }

    /// Handles the home's answer to one repeated item.
    fn told(&self, id: ObjectId, told: Result<()>) -> Result<()> {
        match told {
            Ok(()) => Ok(()),
            // The file is gone. A client that uses it gets the error then.
            Err(Error::Stale) => Ok(()),
            Err(Error::Locked(_) | Error::ShareDenied) => {
                tracing::warn!(%id, "somebody else has what a client held: clients begin anew");
                self.lose_clients();
                Err(Error::Delay)
            }
            Err(error) => {
                tracing::debug!(%id, %error, "what a client holds was not handed over");
                Err(Error::Delay)
            }
        }
    }

    /// The home has given up the clients' state. Nothing is asked for these clients until they are forgotten and the home knows it.
    pub(crate) fn lose_clients(&self) {
        if !self.clients.lose() {
            return;
        }
        *self.clients.tables() = Tables::default();
        let this = self.this();
        tokio::spawn(async move {
            let Some(forget) = this
                .upgrade()
                .map(|tree| locked(&tree.clients.forget).clone())
            else {
                return;
            };
            tracing::warn!(
                "this server was away for so long that what its clients had open and locked is given up"
            );
            for forget in forget {
                forget().await;
            }
            // Clients that come from now on are new ones.
            if let Some(tree) = this.upgrade() {
                tree.clients.are_forgotten();
            }
            while let Some(tree) = this.upgrade() {
                // Drops state that was granted before and noted meanwhile.
                let alone = tree.clients.telling.write().await;
                *tree.clients.tables() = Tables::default();
                let forgotten = tree.clients.forgotten();
                let told = tree.ask_for_all(forgotten, Question::HasForgotten);
                if told.await == Ok(Answer::Done) {
                    return tree.clients.begin_anew();
                }
                drop(alone);
                drop(tree);
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
}
