//! Opens, closes and locks across sites.
//!
//! An open that denies nothing is first registered where its client is, so that a removed file stays for it (`removed`); permission and
//! attributes come from the primary. An open that denies others something, and every byte-range lock, is a change of the file and goes to its
//! primary; the tables travel with the updates.

use std::time::Duration;

use store::Store;
use tokio::time::Instant;
use vfs::{
    AccessCheck, Attributes, Credentials, Error, FileSystem, ObjectId, OpenOwner, Result, Share,
};

use super::carry_out::Tried;
use super::{Absence, ReplicatedFileSystem};
use crate::driver::waiting::{CALM, changed};
use crate::state::forward::Operation;
use crate::state::ledger::Verdict;

/// How long to wait for a file that another replica has just made for a client here, before its primary is asked.
const ARRIVAL: Duration = Duration::from_millis(20);

fn denies(share: Share) -> bool {
    share.deny_read || share.deny_write
}

impl ReplicatedFileSystem {
    pub(super) async fn open_file(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        let store = &self.replica.store;
        if self.replica.engine.is_alone() {
            return self.store().open(access, id, owner, share).await;
        }
        self.wait_for_lease(self.deadline()).await?;
        let operation = || Operation::Open(access.into(), id, owner.clone(), share);
        if denies(share) || self.replica.state.opens.denies(id, owner) {
            let attempt = |store: Store| async move { store.open(access, id, owner, share).await };
            let attributes = self.change(id, attempt, operation).await?;
            if self.is_forwarded() {
                store.wait_all_stable().await?;
            }
            self.replica.state.opens.note_denial(id, owner);
            self.note_writer(id, owner, share);
            return Ok(attributes);
        }
        if self.is_forwarded() {
            return self.probe(access, id, owner, share).await;
        }
        let deadline = self.deadline();
        loop {
            let mut changes = self.replica.engine.notifications();
            // Before the decision: a removal that is applied later finds the open, no matter which replica decides, and even if nothing of the
            // file is here yet.
            let registered = store.register_open(id, owner, share);
            let held = registered.as_ref().map_or(None, |before| *before);
            let attempt = || store.open_registered(access, id, owner, (held, share));
            let opened: Result<Attributes> = self.look(&[id], attempt, operation).await;
            return match (registered, opened) {
                (Ok(_), Ok(attributes)) => {
                    self.note_writer(id, owner, share);
                    Ok(attributes)
                }
                (Ok(before), Err(error)) => {
                    self.store().take_back_open(id, owner, before).await?;
                    Err(error)
                }
                // Its primary knows that nobody denies it any more, and this copy learns it soon.
                (Err(Error::ShareDenied), Ok(_)) if Instant::now() < deadline => {
                    changed(&mut changes, CALM, deadline).await;
                    continue;
                }
                (Err(Error::ShareDenied), Ok(_)) => Err(Error::Delay),
                (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
            };
        }
    }

    /// Registers the open of a file that the same request made, at any replica. By making it, its primary has said what it would be asked. If
    /// that was elsewhere, this waits a moment until the file arrives. If it does not arrive, the primary is asked.
    pub(super) async fn open_made_file(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        let access = AccessCheck::Open(who);
        if denies(share) || self.replica.engine.is_alone() {
            self.open_file(access, id, owner, share).await?;
            return Ok(());
        }
        // A removal that is applied later finds it.
        let before = self.replica.store.register_open(id, owner, share)?;
        let arrived = async {
            let mut notifications = self.replica.engine.notifications();
            loop {
                match self.replica.store.open(access, id, owner, share).await {
                    // The sender lives in the engine.
                    Err(Error::Stale) => drop(notifications.changed().await),
                    outcome => return outcome,
                }
            }
        };
        let opened = match tokio::time::timeout(ARRIVAL, arrived).await {
            Ok(outcome) => outcome,
            Err(_) => self.open_file(access, id, owner, share).await,
        };
        match opened {
            Ok(_) => self.note_writer(id, owner, share),
            Err(error) => {
                self.store().take_back_open(id, owner, before).await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether another site's client may open the file; registers nothing.
    async fn probe(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        if self.holder(id).is_some() {
            return Err(self.not_primary());
        }
        let store = self.store();
        // A client here may have it open under the same name.
        let before = store.register_open(id, owner, share)?;
        let opened = store.open_registered(access, id, owner, (before, share));
        let opened = opened.await;
        store.take_back_open(id, owner, before).await?;
        opened
    }

    /// Keeps the file's control while a client here has it open for writing.
    fn note_writer(&self, id: ObjectId, owner: &OpenOwner, share: Share) {
        if share.write && !self.is_forwarded() && self.replica.state.opens.note_writer(id, owner) {
            self.replica.engine.opened_for_writing(id);
        }
    }

    pub(super) async fn downgrade_open(
        &self,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        if !share.write {
            self.end_writing(id, owner).await?;
        }
        if !self.replica.state.opens.denies(id, owner) {
            return match self.store().downgrade(id, owner, share).await {
                // It was opened at the primary before the file was known here.
                Err(Error::Invalid(_)) if !self.replica.engine.is_alone() => Ok(()),
                outcome => outcome,
            };
        }
        let attempt = |store: Store| async move { store.downgrade(id, owner, share).await };
        let operation = || Operation::Downgrade(id, owner.clone(), share);
        self.change(id, attempt, operation).await?;
        if !denies(share) {
            self.replica.state.opens.forget_denial(id, owner);
        }
        Ok(())
    }

    pub(super) async fn close_file(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.end_writing(id, owner).await?;
        // Only an open that denies something is closed by a forward.
        if !self.is_forwarded() && !self.replica.state.opens.denies(id, owner) {
            return self.store().close(id, owner).await;
        }
        self.close_denial(id, owner).await
    }

    /// Ends an open here of an owner that may have opened the file again at another replica: what it denies stays.
    pub(super) async fn leave_file(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.end_writing(id, owner).await?;
        self.replica.state.opens.forget_denial(id, owner);
        self.store().leave(id, owner).await
    }

    /// Ends an open that denies something, no matter where it was made.
    pub(super) async fn close_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        let attempt = |store: Store| async move { store.close(id, owner).await };
        let operation = || Operation::Close(id, owner.clone());
        match self.change(id, attempt, operation).await {
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        self.replica.state.opens.forget_denial(id, owner);
        Ok(())
    }

    /// Applies the close rule to an open that could write.
    async fn end_writing(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        if self.is_forwarded() || !self.replica.state.opens.is_writer(id, owner) {
            return Ok(());
        }
        self.settle(id).await?;
        if self.replica.state.opens.forget_writer(id, owner) {
            self.replica.engine.closed_for_writing(id);
        }
        Ok(())
    }

    /// Returns when every active replica would look for this file where its content is (rule 19).
    pub(crate) async fn settle(&self, file: ObjectId) -> Result<()> {
        if self.replica.engine.is_alone() {
            return Ok(());
        }
        if self.replica.store.orphan_home(file).is_some() {
            // No client can open it any more.
            return Ok(());
        }
        let deadline = self.deadline();
        let settle = || async {
            if let Some(holder) = self.holder(file) {
                return Ok(Tried::Elsewhere(holder));
            }
            if !self.is_forwarded()
                && let Absence::Elsewhere(maker) = self.absence(&[file]).await
            {
                return Ok(Tried::Elsewhere(maker));
            }
            Ok(Tried::Answer(self.settle_here(file).await))
        };
        let operation = || Operation::Settle(file);
        match self.carry_out(&[file], settle, operation, deadline).await {
            Err(Error::Stale) => Ok(()),
            outcome => outcome,
        }
    }

    async fn settle_here(&self, file: ObjectId) -> Result<()> {
        let verdict = self.replica.engine.close(file);
        let verdict = verdict.ok_or(Error::Delay)?;
        // A replica that is away delays this until it is back, or has left the set.
        match verdict.await {
            Ok(Verdict::Admitted) => Ok(()),
            _ => Err(Error::Delay),
        }
    }
}
