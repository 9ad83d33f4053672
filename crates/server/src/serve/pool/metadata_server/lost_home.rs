//! A metadata server that has joined the pool and is lost for good, with the directories that live there.
//!
//! What must never enter: what becomes of their names.

use metadata_server::PoolTree;
use vfs::ReplicaSlot;

use super::super::placed::Listed;
use super::MetadataServer;
use crate::pools;
use crate::status::ForgetAnswer;

impl MetadataServer {
    /// Gives up a metadata server that has joined, and says which names led to what lived there; unless it is meant, only says it.
    ///
    /// # Errors
    /// Why it is not given up, and what to do next.
    pub(super) async fn forget_metadata_server(
        &self,
        slot: ReplicaSlot,
        meant: bool,
    ) -> Result<ForgetAnswer, String> {
        let number = slot.0;
        if self.place.member(slot).is_some_and(|member| member.revoked) {
            return Err(format!("metadata server {number} was removed"));
        }
        self.expect_away(slot)?;
        let tree = self.known.homes.shown();
        let tree = tree.ok_or("the metadata server starts; try again")?;
        let mut lost = Listed::default();
        let paths = tree.paths_at(slot).await.map_err(unfinished)?;
        paths.into_iter().for_each(|path| lost.add(path));
        if meant {
            self.known.home.expect_parting(slot).await;
            if let Err(why) = self.give_up_home(slot, &tree).await {
                self.known.home.stays(slot);
                tree.stays(slot).await;
                return Err(why);
            }
            self.has_parted(slot).await;
            tracing::warn!(
                number,
                names = lost.files,
                "a metadata server was given up, with all that lived there"
            );
        }
        Ok(ForgetAnswer {
            number,
            done: meant,
            metadata_server: true,
            files: lost.files,
            paths: lost.paths,
        })
    }

    async fn give_up_home(&self, slot: ReplicaSlot, tree: &PoolTree) -> Result<(), String> {
        // It may have come back while the tree was searched.
        self.expect_away(slot)?;
        tree.give_up_home(slot).await.map_err(unfinished)?;
        pools::revoke(&self.place.directory, slot).map_err(|error| error.to_string())
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

    /// A metadata server that is no member any more is told of nothing, and what its clients had open is closed.
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
