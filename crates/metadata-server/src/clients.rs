//! What clients of a joined metadata server have opened and locked: the home decides about it, and hears of it again when it was started anew.
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

/// Before the home is told once more that clients are forgotten.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Tables {
    opens: BTreeMap<(ObjectId, OpenOwner), Share>,
    locks: BTreeMap<(ObjectId, LockOwner), Ranges>,
}

type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// Whose clients they are.
#[derive(Clone, Copy, Default)]
struct ClientsState {
    /// So often all of them were forgotten.
    forgotten: u64,
    /// The home has given up what they held, and they are being forgotten.
    are_lost: bool,
}

/// What clients hold, by what the home has granted.
#[derive(Default)]
pub(crate) struct Clients {
    tables: Mutex<Tables>,
    /// Held while something is asked for and noted, and alone while all is told again: so nothing is granted of which no home knows.
    pub(crate) telling: RwLock<()>,
    /// They have nothing to reclaim any more.
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

    /// How often all were forgotten so far. What is done for one begins with this, before it waits for anything.
    pub(crate) fn forgotten(&self) -> u64 {
        self.state.borrow().forgotten
    }

    /// Whether those are still there that were when all had been forgotten so often.
    pub(crate) fn still_are(&self, forgotten: u64) -> bool {
        let state = *self.state.borrow();
        state.forgotten == forgotten && !state.are_lost
    }

    /// Returns when they are lost.
    pub(crate) async fn until_lost(&self, forgotten: u64) {
        let gone = |state: &ClientsState| state.forgotten != forgotten || state.are_lost;
        // The sender lives as long as this.
        let _ = self.state.subscribe().wait_for(gone).await;
    }

    /// They are lost, if they were not before.
    fn lose(&self) -> bool {
        self.state
            .send_if_modified(|state| !std::mem::replace(&mut state.are_lost, true))
    }

    /// Nothing is kept of them.
    fn are_forgotten(&self) {
        self.state.send_modify(|state| state.forgotten += 1);
    }

    /// The home knows it.
    fn begin_anew(&self) {
        self.state.send_modify(|state| state.are_lost = false);
    }

    /// Nothing that they could have held before is known to be anywhere.
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
    /// Has the home do something that has no answer but that it is done.
    pub(crate) async fn do_at_home(&self, question: Question) -> Result<()> {
        self.do_for(self.clients.forgotten(), question).await
    }

    /// The same for a client that was there when all had been forgotten so often.
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

    /// Nobody can have a claim on a file that was made a moment ago.
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
        // First: nobody tells a home of it that is started anew meanwhile.
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

    /// Clients have nothing to reclaim any more. A home that does not hear it now hears it when all is told again, and one that was started
    /// anew meanwhile hears it then alone: it would take it for the end of what it was told. What is being reclaimed comes before.
    pub(crate) async fn end_reclaim_at_home(&self) -> Result<()> {
        self.clients.have_reclaimed.store(true, Ordering::Release);
        let _alone = self.clients.telling.write().await;
        self.do_at_home(Question::EndReclaim).await
    }

    /// Tells a home what clients hold here: one that was started anew, or that was out of touch and may have heard less than was given
    /// back. Returns how many opens and locks that are, counted by owner.
    ///
    /// # Errors
    /// [`Error::Delay`] when it cannot be told now; then all of it is to be told again.
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

    /// What the home says to one thing that it was told again.
    fn told(&self, id: ObjectId, told: Result<()>) -> Result<()> {
        match told {
            Ok(()) => Ok(()),
            // A client that uses what is gone meanwhile gets the error then.
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

    /// What clients held is given up. Nothing is asked for them until they are forgotten, and the home knows it.
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
            // Who comes from now on is somebody else.
            if let Some(tree) = this.upgrade() {
                tree.clients.are_forgotten();
            }
            while let Some(tree) = this.upgrade() {
                // What was granted before, and is noted by now.
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
