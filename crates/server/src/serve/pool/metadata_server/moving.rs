//! Moves files to other data servers as an administrator wants: files of this server, and files of joined homes, which follow the same
//! book.
//!
//! What must never enter: how files are moved.

use std::sync::Arc;

use async_trait::async_trait;
use store::Store;
use striping::Striped;

use super::super::connection::Survey;
use super::super::moving::{self, Moves, Moving, Work};
use super::MetadataServer;
use super::leaving::unsearched;
use crate::pools::Book;
use crate::status::{MovingStatus, RebalanceAnswer, RebalanceQuestion};

impl MetadataServer {
    /// The progress. `None` if nothing must be moved.
    pub(super) fn moving_status(&self) -> Option<MovingStatus> {
        let book = self.keeping().book.clone();
        let is_wanted = book.spreading.is_some() || !book.draining.is_empty();
        if !is_wanted {
            return None;
        }
        let progress = self.moves.progress();
        Some(MovingStatus {
            spreading: book.spreading.is_some(),
            files_left: progress.left.map(|(files, _)| files),
            bytes_left: progress.left.map(|(_, bytes)| bytes),
            files_moved: progress.files_moved,
            bytes_copied: progress.bytes_copied(),
            rate_bytes: book.move_rate,
            path: progress.path.clone(),
            trouble: progress.trouble.clone(),
        })
    }

    /// Starts or stops spreading files over all data servers that get new ones.
    ///
    /// # Errors
    /// Why not, and what to do next.
    pub(in crate::serve) async fn rebalance(
        &self,
        RebalanceQuestion { stop, rate_bytes }: RebalanceQuestion,
    ) -> Result<RebalanceAnswer, String> {
        if !stop {
            self.tell_homes().await?;
        }
        let book = {
            let _alone = self.changes.lock().await;
            let mut book = self.keeping().book.clone();
            book.move_rate = rate_bytes.unwrap_or(book.move_rate);
            book.spreading = match stop {
                true => None,
                false => Some(book.new_files.ok_or(
                    "no data server gets new files, so there is none over which files could be spread; `meridian status` shows how they are",
                )?),
            };
            self.keep_changed(book.clone()).await?;
            book
        };
        tracing::info!(
            stop,
            "files are to be spread over data servers, or no longer"
        );
        let (mut files, mut bytes) = (0, 0);
        if !stop {
            let counted = moving::count(&self.store, Work::of(&book).as_ref()).await;
            (files, bytes) = counted.map_err(unsearched)?;
            self.tell_homes().await?;
            for home in self.survey(Survey::ToMove).await?.values() {
                files += home.to_move.0;
                bytes += home.to_move.1;
            }
        }
        self.moves.wake();
        let over = book.in_use().iter().map(|server| server.0).collect();
        Ok(RebalanceAnswer {
            stopped: stop,
            over,
            files,
            bytes,
        })
    }
}

#[async_trait]
impl Moving for MetadataServer {
    fn moves(&self) -> &Arc<Moves> {
        &self.moves
    }

    fn striped(&self) -> &Arc<Striped> {
        &self.striped
    }

    fn rows(&self) -> Option<Arc<Store>> {
        Some(self.store.clone())
    }

    fn book(&self) -> Book {
        self.keeping().book.clone()
    }

    /// Spreading is done only when the files of all homes are spread.
    async fn moved_all(&self, work: Option<&Work>) -> bool {
        if self.keeping().book.spreading.is_some()
            && let Err(why) = self.have_homes_moved_all().await
        {
            self.moves.progress().trouble = Some(why);
            return false;
        }
        let _alone = self.changes.lock().await;
        let mut book = self.keeping().book.clone();
        let is_same = Work::of(&book).as_ref() == work && book.move_to().is_some();
        if !is_same || book.spreading.take().is_none() {
            return true;
        }
        match self.keep_changed(book).await {
            Ok(()) => tracing::info!("files are spread over all data servers"),
            // The next run finds again that nothing is left to do.
            Err(error) => tracing::warn!(error, "it cannot be noted that files are spread"),
        }
        true
    }
}
