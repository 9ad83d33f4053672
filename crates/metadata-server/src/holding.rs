//! The home's side of opens and locks: those of other metadata servers' clients stand beside those of the home's own clients.
//!
//! The clients of each server have their own owner names here. So their state is released with their server, and the same client at another
//! server conflicts with it.
//!
//! What must never enter: which servers are lost.

use std::sync::Arc;

use homes::holdings::{Held, Left};
use tokio::sync::OwnedRwLockReadGuard;
use vfs::{
    AccessCheck, Attributes, ByteRange, Error, LockConflict, LockKind, LockOwner, ObjectId,
    OpenOwner, ReplicaSlot, Result, Share,
};

use crate::home::{Account, Asking, Home};
use crate::question::{Answer, Question};

/// While one exists, no leftover state is released.
pub(crate) struct Holding {
    _change: OwnedRwLockReadGuard<()>,
    _holding: OwnedRwLockReadGuard<()>,
}

impl Home {
    pub(crate) async fn answer_about_holdings(
        &self,
        asker: Asking,
        question: Question,
    ) -> Result<Answer> {
        if matches!(question, Question::Open(..) | Question::Lock(..))
            && !self.holders.claims.are_over()
        {
            return Err(Error::Grace);
        }
        Ok(match question {
            Question::Open(check, id, owner, share) => {
                let opened = self.open(asker, check.access(), (id, owner), share);
                Answer::Attributes(opened.await?)
            }
            Question::OpenAgain(check, id, owner, share) => {
                if keeps_out(share) && !self.has_open(asker, id, &owner) {
                    // Other clients may have opened the file meanwhile.
                    return Err(Error::ShareDenied);
                }
                let opened = self.open(asker, check.access(), (id, owner), share);
                Answer::Attributes(opened.await?)
            }
            Question::Downgrade(id, owner, share) => {
                let _holding = self.hold(asker).await?;
                let owner = opener_here(asker.server, &owner);
                self.file_system.downgrade(id, &owner, share).await?;
                self.held(asker, |held| held.downgrade(id, &owner, share));
                Answer::Done
            }
            Question::Close(id, owner) => {
                let _holding = self.hold(asker).await?;
                let owner = opener_here(asker.server, &owner);
                self.held(asker, |held| held.close(id, &owner));
                self.file_system.close(id, &owner).await?;
                Answer::Done
            }
            Question::BeginAgain => {
                // Layouts are not reported again: clients ask for new ones.
                self.alone(asker, asker.run, |held| {
                    held.begin_again();
                    Left::default()
                })
                .await?;
                self.account(asker, |account| account.joined.begin_telling())?;
                Answer::Done
            }
            Question::EndReclaim => {
                if !self.account(asker, |account| account.joined.has_begun_telling())? {
                    return Err(Error::Delay);
                }
                let earlier = asker.run.saturating_sub(1);
                self.alone(asker, earlier, Held::end_again).await?;
                // A server that is silent by now may be about to be given up. The note of that must stay.
                let goes_on = |account: &Account| {
                    account.joined.admits(asker.as_run()) && !self.is_silent(account)
                };
                self.is_known_again(asker, goes_on).await?;
                self.holders.claims.has_told(asker.server);
                Answer::Done
            }
            Question::HasForgotten => {
                let is_of = |account: &Account| account.joined.is_of(asker.as_run());
                self.give_back_all(asker.server, is_of).await;
                self.is_known_again(asker, is_of).await?;
                // Its clients have nothing to reclaim, either.
                self.holders.claims.has_told(asker.server);
                if let Some(account) = self.accounts().get_mut(&asker.server) {
                    account.joined.begin_anew(asker.as_run());
                }
                Answer::Done
            }
            question => self.answer_about_locks(asker, question).await?,
        })
    }

    async fn answer_about_locks(&self, asker: Asking, question: Question) -> Result<Answer> {
        Ok(match question {
            Question::Lock(id, owner, range, kind)
            | Question::LockAgain(id, owner, range, kind) => {
                let owner = locker_here(asker.server, &owner);
                let locked = self.lock(asker, (id, owner), range, kind).await;
                locked.map_err(|error| match error {
                    Error::Locked(conflict) => {
                        Error::Locked(Box::new(as_seen_by(asker.server, *conflict)))
                    }
                    error => error,
                })?;
                Answer::Done
            }
            Question::Unlock(id, owner, range) => {
                let owner = locker_here(asker.server, &owner);
                self.unlock(asker, (id, owner), range).await?;
                Answer::Done
            }
            Question::TestLock(id, owner, range, kind) => {
                let owner = locker_here(asker.server, &owner);
                let conflict = self.file_system.test_lock(id, &owner, range, kind).await?;
                Answer::Conflict(conflict.map(|conflict| as_seen_by(asker.server, conflict)))
            }
            Question::HoldsLock(id, owner) => {
                let owner = locker_here(asker.server, &owner);
                let may_hold = self.holders.claims.expects(asker.server);
                Answer::Holds(may_hold || self.file_system.holds_lock(id, &owner).await?)
            }
            _ => return Err(Error::NotSupported),
        })
    }

    /// Begins to open or lock something for a client of the current run of a metadata server.
    pub(crate) async fn hold(&self, asker: Asking) -> Result<Holding> {
        let change = self.begin_change(asker).await?;
        let holding = self.account(asker, |account| account.holding.clone())?;
        let holding = holding.read_owned().await;
        // State that is being given up is not acquired again.
        self.account(asker, |_| ())?;
        Ok(Holding {
            _change: change,
            _holding: holding,
        })
    }

    pub(crate) fn account<T>(
        &self,
        asker: Asking,
        look: impl FnOnce(&mut Account) -> T,
    ) -> Result<T> {
        let mut accounts = self.accounts();
        match accounts.get_mut(&asker.server) {
            Some(account) if account.joined.admits(asker.as_run()) => Ok(look(account)),
            _ => Err(Error::Delay),
        }
    }

    /// `None` for a server that has left.
    fn held<T>(&self, asker: Asking, look: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let mut accounts = self.accounts();
        accounts
            .get_mut(&asker.server)
            .map(|account| look(&mut account.held))
    }

    /// Runs `look` on the held state while no task opens or locks anything, and releases what it returns. First waits until changes for
    /// earlier runs have ended, and fences layouts of runs up to `run`.
    async fn alone(
        &self,
        asker: Asking,
        run: u64,
        look: impl FnOnce(&mut Held) -> Left,
    ) -> Result<()> {
        self.have_ended(asker.server).await;
        let holding = self.account(asker, |account| account.holding.clone())?;
        let _alone = holding.write().await;
        self.fence_layouts(asker.server, run).await;
        let left = self.account(asker, |account| look(&mut account.held))?;
        self.give_back(left).await;
        Ok(())
    }

    /// Releases everything that clients of a server hold, if `goes` still holds when no task opens or locks anything. Before others can get
    /// this state, changes for these clients have ended, and their layouts are fenced.
    pub(crate) async fn give_back_all(&self, server: ReplicaSlot, goes: impl Fn(&Account) -> bool) {
        // Before the exclusive lock: a task that opens or locks waits for the same changes.
        self.have_ended(server).await;
        let holding = {
            let accounts = self.accounts();
            accounts.get(&server).map(|account| account.holding.clone())
        };
        let Some(holding) = holding else { return };
        let _alone = holding.write().await;
        let run = {
            let accounts = self.accounts();
            let account = accounts.get(&server);
            account
                .filter(|account| goes(account))
                .map(|account| account.joined.run())
        };
        let Some(run) = run else { return };
        self.fence_layouts(server, run).await;
        let left = {
            let mut accounts = self.accounts();
            let account = accounts.get_mut(&server);
            let account = account.filter(|account| goes(account));
            account.map(|account| account.held.take())
        };
        self.give_back(left.unwrap_or_default()).await;
    }

    /// Notes stably that a server's clients are no longer given up: they have lost the old state, and their new state must not count as
    /// lost. Does so only if `is_so` holds at that moment.
    async fn is_known_again(&self, asker: Asking, is_so: impl Fn(&Account) -> bool) -> Result<()> {
        let server = asker.server;
        let mut is_noted = false;
        let noted = self.note_given_up(|noted| {
            is_noted = self.accounts().get(&server).is_some_and(is_so);
            if is_noted {
                noted.remove(&server);
            }
        });
        noted.await.map_err(|error| {
            tracing::warn!(%error, "a metadata server is not served before it is noted that it has forgotten its clients");
            Error::Delay
        })?;
        is_noted.then_some(()).ok_or(Error::Delay)
    }

    /// Gives up what a server's clients may have held but did not report in time: others may get it from now on. If a new run was met
    /// meanwhile, it may have acquired state, and that must be given up first.
    pub(crate) fn end_claim(&self, server: ReplicaSlot) {
        let accounts = self.accounts();
        let account = accounts.get(&server);
        if account.is_some_and(|account| account.joined.is_given_up()) {
            self.holders.claims.give_up(server);
        }
    }

    async fn give_back(&self, left: Left) {
        let failed = |object: ObjectId, error: Error| {
            tracing::warn!(%object, %error, "what a client of another metadata server held was not given back");
        };
        for (object, owner) in left.closed {
            if let Err(error) = self.file_system.close(object, &owner).await {
                failed(object, error);
            }
        }
        for (object, owner, share) in left.downgraded {
            if let Err(error) = self.file_system.downgrade(object, &owner, share).await {
                failed(object, error);
            }
        }
        for (object, owner, range) in left.unlocked {
            match self.file_system.unlock(object, &owner, range).await {
                Ok(()) => self.holders.locks_changed(object),
                Err(error) => failed(object, error),
            }
        }
    }

    fn has_open(&self, asker: Asking, id: ObjectId, owner: &OpenOwner) -> bool {
        let owner = opener_here(asker.server, owner);
        let has_open = self.held(asker, |held| held.has_open(id, &owner));
        has_open == Some(true) || self.holders.claims.expects(asker.server)
    }

    async fn open(
        &self,
        asker: Asking,
        access: AccessCheck<'_>,
        (id, owner): (ObjectId, OpenOwner),
        share: Share,
    ) -> Result<Attributes> {
        let _holding = self.hold(asker).await?;
        let owner = opener_here(asker.server, &owner);
        // Recorded first, so that every open is on record.
        let on_account = self.account(asker, |account| account.held.open(id, &owner, share))?;
        let is_new = on_account.ok_or(Error::Delay)?;
        let opened = self.file_system.open(access, id, &owner, share).await;
        if opened.is_err() && is_new {
            self.held(asker, |held| held.close(id, &owner));
        }
        let is_on_account = self.held(asker, |held| held.has_open(id, &owner));
        if opened.is_ok() && is_on_account != Some(true) {
            // The asker was removed meanwhile, or the client has closed the file.
            self.file_system.close(id, &owner).await?;
        }
        opened
    }

    async fn lock(
        &self,
        asker: Asking,
        (id, owner): (ObjectId, LockOwner),
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        let _holding = self.hold(asker).await?;
        let on_account = self.account(asker, |account| account.held.locks(id, &owner))?;
        let is_new = on_account.ok_or(Error::Delay)?;
        let mut locked = self.file_system.lock(id, &owner, range, kind).await;
        if let Err(Error::Locked(_)) = locked {
            self.holders.want(asker.asker(), id);
            // It may have been released before this wish was noted.
            locked = self.file_system.lock(id, &owner, range, kind).await;
        }
        match &locked {
            Ok(()) => {
                self.held(asker, |held| held.locked(id, &owner, range, kind));
                if kind == LockKind::Read {
                    // It may replace a write lock.
                    self.holders.locks_changed(id);
                }
            }
            Err(_) if is_new => {
                self.held(asker, |held| held.unlocked(id, &owner, range, true));
            }
            Err(_) => {}
        }
        locked
    }

    async fn unlock(
        &self,
        asker: Asking,
        (id, owner): (ObjectId, LockOwner),
        range: ByteRange,
    ) -> Result<()> {
        let _holding = self.hold(asker).await?;
        self.file_system.unlock(id, &owner, range).await?;
        let is_all = !self.file_system.holds_lock(id, &owner).await?;
        self.held(asker, |held| held.unlocked(id, &owner, range, is_all));
        self.holders.locks_changed(id);
        Ok(())
    }
}

/// Whether an open denies others something.
pub(crate) fn keeps_out(share: Share) -> bool {
    share.deny_read || share.deny_write
}

/// Prefix of the owner names of a metadata server's clients.
fn server_here(server: ReplicaSlot) -> String {
    format!("metadata-server-{}", server.0)
}

fn opener_here(server: ReplicaSlot, owner: &OpenOwner) -> OpenOwner {
    OpenOwner::new(server_here(server).as_bytes(), &owner.0)
}

fn locker_here(server: ReplicaSlot, owner: &LockOwner) -> LockOwner {
    LockOwner {
        client: OpenOwner::new(server_here(server).as_bytes(), &owner.client).0,
        owner: owner.owner.clone(),
    }
}

/// A lock conflict as this server must see it: a client of the server itself may hold the lock.
fn as_seen_by(server: ReplicaSlot, conflict: LockConflict) -> LockConflict {
    let prefix = OpenOwner::new(server_here(server).as_bytes(), b"");
    let client = match conflict.owner.client.strip_prefix(&*prefix.0) {
        Some(own) => Arc::from(own),
        None => conflict.owner.client.clone(),
    };
    LockConflict {
        owner: LockOwner {
            client,
            ..conflict.owner
        },
        ..conflict
    }
}
