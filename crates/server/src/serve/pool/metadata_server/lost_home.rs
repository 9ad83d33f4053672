//! A metadata server that has joined the pool and is lost for good, with the directories that live there.
//!
//! What must never enter: what becomes of their names.

use std::sync::Arc;

use vfs::ReplicaSlot;

use super::MetadataServer;
use super::forgetting::searched;
use crate::pools;
use crate::status::ForgetAnswer;

impl MetadataServer {
    /// Gives up a joined metadata server, and reports the names of objects that lived there. Without `meant`, it only reports.
    ///
    /// # Errors
    /// Why it is not given up, and what to do next.
    pub(super) async fn forget_metadata_server(
        self: &Arc<Self>,
        slot: ReplicaSlot,
        meant: bool,
    ) -> Result<ForgetAnswer, String> {
        let number = slot.0;
        let is_decided = self.is_forgetting(slot);
        if !is_decided {
            if self.place.member(slot).is_some_and(|member| member.revoked) {
                return Err(format!("metadata server {number} was removed"));
            }
            self.expect_away(slot)?;
        }
        let tree = self.known.homes.shown();
        let tree = tree.ok_or("the metadata server starts; try again")?;
        let (lost, is_whole) = searched(|lost| tree.show_paths_at(slot, lost)).await;
        let lost = lost.map_err(unfinished)?;
        if meant && !is_decided {
            let this = self.clone();
            // It runs to its end even if the caller stops waiting.
            let decided = tokio::spawn(async move { this.decide_loss(slot).await });
            decided.await.map_err(|error| error.to_string())??;
        }
        Ok(ForgetAnswer {
            number,
            done: meant || is_decided,
            metadata_server: true,
            files: lost.files,
            paths: lost.paths,
            partial: !is_whole,
            goes_on: !self.have_followed(slot).await,
        })
    }

    /// Notes in the book that a metadata server is given up. From then on it is refused, and this cannot be undone.
    async fn decide_loss(&self, slot: ReplicaSlot) -> Result<(), String> {
        let _alone = self.departing.lock().await;
        if self.is_forgetting(slot) {
            return Ok(());
        }
        self.known.home.expect_parting(slot).await;
        // It may have come back during the search.
        let decided = match self.expect_away(slot) {
            Ok(()) => self.keep_forgetting(slot).await,
            Err(why) => Err(why),
        };
        match &decided {
            Ok(()) => self.endpoint.revoke(slot),
            Err(_) => self.known.home.stays(slot),
        }
        self.forgetting.is_due();
        decided
    }

    async fn keep_forgetting(&self, slot: ReplicaSlot) -> Result<(), String> {
        let _alone = self.changes.lock().await;
        let mut book = self.keeping().book.clone();
        book.forgetting.insert(slot);
        self.keep_changed(book).await
    }

    /// Refuses a metadata server that is given up, and removes its names. Returns their number.
    pub(super) async fn follow_lost_home(&self, slot: ReplicaSlot) -> Result<u64, String> {
        // An earlier run may have stopped before this was done.
        self.endpoint.revoke(slot);
        self.known.home.expect_parting(slot).await;
        pools::revoke(&self.place.directory, slot).map_err(|error| error.to_string())?;
        self.known.home.part(slot).await;
        let tree = self.known.homes.shown();
        let tree = tree.ok_or("the metadata server starts")?;
        let mut names = 0;
        let given_up = tree.give_up_home(slot, |_| names += 1).await;
        given_up.map_err(unfinished)?;
        self.known.homes.has_left(slot);
        Ok(names)
    }

    fn expect_away(&self, slot: ReplicaSlot) -> Result<(), String> {
        let number = slot.0;
        match self.is_connected(slot) {
            true => Err(format!(
                "metadata server {number} runs, and is not given up; `meridian pool remove {number}` removes one at which no directories live"
            )),
            false => Ok(()),
        }
    }

    /// Ends the connection to a former member, and releases what its clients had open.
    pub(super) async fn has_parted(&self, slot: ReplicaSlot) {
        self.endpoint.revoke(slot);
        self.known.home.part(slot).await;
        self.known.homes.has_left(slot);
    }
}

fn unfinished(error: vfs::Error) -> String {
    format!(
        "the tree cannot be searched for what lived on the metadata server: {error}; see the log, and try again"
    )
}
