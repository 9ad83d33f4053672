//! Servers that leave the pool, or come back by an administrator's decision.
//!
//! What must never enter: over which data servers new files are striped, except which of them must get none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peer::set::Member;
use pool::home::{ServerView, Stranger};
use pool::{DataServerNumber, DeviceGroupNumber, Holding};
use vfs::{Counted, ReplicaSlot};

use super::super::connection::Survey;
use super::super::placed::{self, Listed};
use super::shown::told;
use super::{LOOK, MetadataServer};
use crate::pools::{self, Book, PoolError, PoolRole};
use crate::status::{DrainDataAnswer, DrainDataQuestion};

/// How long to wait for a readmitted data server.
const READMISSION: Duration = Duration::from_secs(10);

impl MetadataServer {
    /// The data server of this number, removed or not.
    pub(super) fn data_server(&self, number: u16) -> Result<Member, String> {
        let slot = ReplicaSlot(number);
        let found = match self.place.member(slot) {
            Some(member) => match PoolRole::of(&member, self.place.keeper) {
                PoolRole::First => Err(PoolError::MetadataServer(number)),
                PoolRole::MetadataServer => Err(PoolError::NoDataServer(number)),
                PoolRole::DataServer => Ok(member),
            },
            None => Err(PoolError::NoSuchDataServer(number)),
        };
        found.map_err(|error| error.to_string())
    }

    fn view_of(&self, number: u16) -> Option<ServerView> {
        let mut views = self.striped.servers().into_iter();
        views.find(|view| view.number == DataServerNumber(number))
    }

    /// Has a data server serve again that is refused because an older copy of its contents was seen. Returns when it serves or a time limit
    /// has passed, with whether it serves.
    ///
    /// # Errors
    /// Why it is not readmitted, and what to do next.
    pub(in crate::serve) async fn readmit(&self, number: u16) -> Result<bool, String> {
        if self.data_server(number)?.revoked {
            return Err(format!("data server {number} was removed"));
        }
        if !self.is_connected(ReplicaSlot(number)) {
            return Err(format!(
                "data server {number} is not connected: start it with the contents that are to be used, and try again"
            ));
        }
        let stranger = self.view_of(number).and_then(|view| view.stranger);
        if let Some(stranger) = stranger
            && stranger != Stranger::Doubted
        {
            return Err(format!(
                "data server {number} is not readmitted: {}",
                told(number, stranger)
            ));
        }
        if stranger.is_some() && !self.striped.readmit(DataServerNumber(number)) {
            return Err(format!(
                "data server {number} has changed meanwhile; try again"
            ));
        }
        if !self.readmit_at_homes(number).await? && stranger.is_none() {
            return Err(format!(
                "data server {number} is not refused; `meridian status` says how it is"
            ));
        }
        tracing::warn!(
            number,
            "a data server was readmitted, after an older copy of its contents had been seen"
        );
        let begun = Instant::now();
        while begun.elapsed() < READMISSION {
            if self.view_of(number).is_some_and(|view| view.serves) {
                return Ok(true);
            }
            tokio::time::sleep(LOOK / 4).await;
        }
        Ok(false)
    }

    /// Refuses a data server that serves, or may still answer clients.
    pub(super) fn expect_lost(&self, number: u16) -> Result<(), String> {
        let view = self.view_of(number);
        if view.is_some_and(|view| view.serves) {
            return Err(format!(
                "data server {number} serves, and is not given up; `meridian pool remove {number}` removes one on which no file lies"
            ));
        }
        if view.is_some_and(|view| view.may_serve) {
            return Err(format!(
                "data server {number} may still answer clients for a few seconds; try again"
            ));
        }
        Ok(())
    }

    /// Stores the book after an administrator's change.
    pub(super) async fn keep_changed(&self, book: Book) -> Result<(), String> {
        let members = self.place.directory.members();
        let members = members.map_err(|error| error.to_string())?;
        let kept = self.keep_book(&members, book).await;
        kept.map_err(|error| format!("the book of the pool cannot be kept: {error}"))
    }

    /// Stops or restarts striping new files over a data server. Returns the files that are striped over it.
    ///
    /// # Errors
    /// Why not, and what to do next.
    pub(in crate::serve) async fn drain_data(
        &self,
        DrainDataQuestion {
            number,
            stop,
            rate_bytes,
        }: DrainDataQuestion,
    ) -> Result<DrainDataAnswer, String> {
        let server = DataServerNumber(number);
        if self.data_server(number)?.revoked {
            return Err(format!("data server {number} was removed"));
        }
        if !stop {
            // A home that is away may have files there that it does not move.
            self.tell_homes().await?;
        }
        {
            let _alone = self.changes.lock().await;
            let mut book = self.keeping().book.clone();
            book.move_rate = rate_bytes.unwrap_or(book.move_rate);
            match stop {
                true => book.draining.remove(&server),
                false => book.draining.insert(server),
            };
            let others = &book.in_use() - &book.draining;
            if !stop && others.is_empty() {
                return Err(format!(
                    "no other data server gets new files, and they would lie at the metadata server; let another one join before \
                     data server {number} is emptied"
                ));
            }
            self.keep_changed(book).await?;
        }
        tracing::info!(number, stop, "a data server is to be emptied, or no longer");
        let (mut listed, mut elsewhere) = (Listed::default(), 0);
        if !stop {
            let groups = self.without_new_files(server).await?;
            let all = placed::all(&self.store, &groups).await;
            listed = all.map_err(unsearched)?;
            let homes = self.survey(Survey::Server(number)).await?;
            elsewhere = homes.values().map(|home| home.files).sum();
        }
        self.moves.wake();
        Ok(DrainDataAnswer {
            number,
            stopped: stop,
            files: listed.files + elsewhere,
            paths: listed.paths,
        })
    }

    /// Removes a data server without files, or a joined metadata server, for good.
    ///
    /// # Errors
    /// Why it stays, and what to do next.
    pub(in crate::serve) async fn remove(self: &Arc<Self>, number: u16) -> Result<(), String> {
        let this = self.clone();
        // It runs to its end even if the caller stops waiting: what it has begun is completed or undone.
        let removed = tokio::spawn(async move { this.remove_to_its_end(number).await });
        removed.await.map_err(|error| error.to_string())?
    }

    async fn remove_to_its_end(&self, number: u16) -> Result<(), String> {
        let _alone = self.departing.lock().await;
        let (slot, server) = (ReplicaSlot(number), DataServerNumber(number));
        if self.known.is_metadata_server(slot) {
            return self.remove_metadata_server(slot).await;
        }
        if !self.data_server(number)?.revoked {
            may_go(number, self.holding(slot))?;
            self.keeping().leaving.insert(server);
            let empty = self.expect_empty(server).await;
            if let Err(why) = empty.and_then(|()| self.revoke(server)) {
                self.keeping().leaving.remove(&server);
                return Err(why);
            }
            tracing::warn!(number, "a data server was removed from the pool");
            self.is_emptied(server).await;
        }
        self.striped.dismiss(server);
        self.endpoint.revoke(slot);
        Ok(())
    }

    /// A joined metadata server is removed only if no directories live there. What its clients have open is open here.
    async fn remove_metadata_server(&self, slot: ReplicaSlot) -> Result<(), String> {
        if self.is_forgetting(slot) {
            return Err(format!(
                "metadata server {} is being given up; `meridian status` shows it until that is done",
                slot.0
            ));
        }
        let home = &self.known.home;
        let tree = self.known.homes.shown();
        if let Some(tree) = &tree {
            let may_go = match tree.expect_leaving(slot).await {
                Ok(false) => Ok(()),
                Ok(true) => Err(format!(
                    "directories live at metadata server {}, and would be lost: remove them, \
                     or have another server move what is in them with `mv`, which copies it",
                    slot.0
                )),
                Err(_) => Err(format!(
                    "metadata server {0} is away, and directories live there; start it, and try again; if it is lost for good, `meridian pool forget {0}` gives them up",
                    slot.0
                )),
            };
            if let Err(why) = may_go {
                tree.stays(slot).await;
                return Err(why);
            }
        }
        home.expect_parting(slot).await;
        if let Err(error) = pools::revoke(&self.place.directory, slot) {
            home.stays(slot);
            if let Some(tree) = &tree {
                tree.stays(slot).await;
            }
            return Err(error.to_string());
        }
        self.has_parted(slot).await;
        tracing::warn!(
            number = slot.0,
            "a metadata server was removed from the pool"
        );
        Ok(())
    }

    /// A removed data server needs no emptying any more.
    async fn is_emptied(&self, server: DataServerNumber) {
        let _alone = self.changes.lock().await;
        let mut book = self.keeping().book.clone();
        if book.draining.remove(&server)
            && let Err(error) = self.keep_changed(book).await
        {
            tracing::warn!(
                error,
                "a data server that was removed stays in the book of those to be emptied"
            );
        }
    }

    pub(super) fn revoke(&self, server: DataServerNumber) -> Result<(), String> {
        let removed = pools::revoke(&self.place.directory, ReplicaSlot(server.0));
        removed.map_err(|error| error.to_string())
    }

    /// Stops striping new files over a data server, and checks that no files are striped over it.
    async fn expect_empty(&self, server: DataServerNumber) -> Result<(), String> {
        let groups = self.without_new_files(server).await?;
        let found = placed::find(&self.store, &groups).await;
        if let Some(path) = found.map_err(unsearched)? {
            return Err(format!(
                "{path} is striped over data server {}, and so may be other files: they would be lost; `meridian pool drain-data {}` moves them",
                server.0, server.0
            ));
        }
        let homes = self.survey(Survey::Server(server.0)).await?;
        if let Some((home, with)) = homes.iter().find(|(_, home)| home.files > 0) {
            return Err(format!(
                "{} of directories that live at metadata server {} are striped over data server {}, and would be lost; \
                 `meridian pool drain-data {}` moves them",
                Counted(with.files, "file"),
                home.0,
                server.0,
                server.0
            ));
        }
        let at_homes: u64 = homes.values().map(|home| home.owes).sum();
        let owes = self.view_of(server.0).map_or(0, |view| view.owes as u64) + at_homes;
        let holding = self.holding(ReplicaSlot(server.0));
        if owes > 0 && holding.is_some() {
            return Err(format!(
                "{owes} changes wait for data server {}, as `meridian status` shows; wait until it has carried them out, and try again",
                server.0
            ));
        }
        may_go(server.0, holding)
    }

    /// Waits until no new files are striped over a data server that must get none. Returns the groups with this server.
    async fn without_new_files(
        &self,
        server: DataServerNumber,
    ) -> Result<BTreeSet<DeviceGroupNumber>, String> {
        let members = self.place.directory.members();
        self.settle(&members.map_err(|error| error.to_string())?)
            .await;
        let groups = {
            let keeping = self.keeping();
            if keeping.book.in_use().contains(&server) {
                return Err("the disk of this server refuses to note that no new files go there; see its log".to_owned());
            }
            keeping.book.groups_with(server)
        };
        let ended = self.striped.creations_ended().await;
        ended.map_err(unsearched)?;
        self.tell_homes().await?;
        Ok(groups)
    }
}

pub(super) fn unsearched(error: vfs::Error) -> String {
    format!(
        "the tree cannot be searched for files on the data server: {error}; see the log, and try again"
    )
}

/// Why a connected data server cannot be removed: no other place has its contents. For a server that is away, only the rows of files tell
/// whether it has any.
fn may_go(number: u16, holding: Option<Holding>) -> Result<(), String> {
    match holding {
        None | Some(Holding { contents: 0, .. }) => Ok(()),
        Some(Holding { contents, .. }) => Err(format!(
            "parts of {} lie on data server {number}, and would be lost; `meridian pool drain-data {number}` moves them to the \
             other data servers",
            Counted(contents, "file")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_server_that_says_that_it_holds_files_stays() {
        let holding = |contents| Holding {
            contents,
            ..Holding::default()
        };
        assert_eq!(may_go(2, Some(holding(0))), Ok(()));
        assert_eq!(may_go(2, None), Ok(()));
        let refused = may_go(2, Some(holding(7))).unwrap_err();
        assert!(refused.contains("parts of 7 files"), "{refused}");
    }
}
