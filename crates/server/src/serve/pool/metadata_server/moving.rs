//! Files that move to other data servers: away from those that are to be emptied, and onto those that were added. What is to be done is in
//! the book of the pool, so a server that was stopped goes on with it.
//!
//! What must never enter: how a file is copied.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pool::{DeviceGroupNumber, Placement};
use striping::{Moved, NewFiles, Pace};
use tokio::sync::Notify;
use tokio::time::timeout;
use vfs::ShownBytes;

use super::super::placed::{Found, Walk};
use super::MetadataServer;
use super::leaving::unsearched;
use crate::pools::Book;
use crate::status::{MovingStatus, RebalanceAnswer, RebalanceQuestion};

/// Between two attempts on files that could not be moved.
const AGAIN: Duration = Duration::from_secs(5);

/// What is known of moves.
pub(super) struct Moves {
    woken: Notify,
    /// How often somebody has wanted something.
    wishes: AtomicU64,
    progress: Mutex<Progress>,
}

struct Progress {
    pace: Arc<Pace>,
    rate_bytes: u64,
    /// What was copied at another pace.
    copied_before: u64,
    files_moved: u64,
    left: Option<(u64, u64)>,
    path: Option<String>,
    trouble: Option<String>,
}

impl Moves {
    pub(super) fn new() -> Moves {
        Moves {
            woken: Notify::new(),
            wishes: AtomicU64::new(0),
            progress: Mutex::new(Progress {
                pace: Arc::new(Pace::new(0)),
                rate_bytes: 0,
                copied_before: 0,
                files_moved: 0,
                left: None,
                path: None,
                trouble: None,
            }),
        }
    }

    /// Somebody wants something.
    pub(super) fn wake(&self) {
        self.wishes.fetch_add(1, Ordering::SeqCst);
        self.woken.notify_one();
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pace that the book says.
    fn pace(&self, rate_bytes: u64) -> Arc<Pace> {
        let mut progress = self.progress();
        if progress.rate_bytes != rate_bytes {
            progress.copied_before += progress.pace.copied();
            progress.pace = Arc::new(Pace::new(rate_bytes));
            progress.rate_bytes = rate_bytes;
        }
        progress.pace.clone()
    }
}

/// What is to be moved, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    from: BTreeSet<DeviceGroupNumber>,
    to: DeviceGroupNumber,
}

impl Work {
    /// Nothing when nothing is to be moved.
    fn of(book: &Book) -> Option<Work> {
        let (from, to) = (book.groups_to_leave(), book.move_to()?);
        (!from.is_empty() && !from.contains(&to)).then_some(Work { from, to })
    }

    /// The placement of a file that is to be moved.
    fn concerns(&self, found: &Found) -> Option<Placement> {
        let placement = found.placement?;
        self.from.contains(&placement.group).then_some(placement)
    }
}

/// What has come of one way through the tree.
#[derive(Default)]
struct Round {
    moved: u64,
    failed: u64,
}

impl MetadataServer {
    /// How far it is; nothing when nothing is to be moved.
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
            bytes_copied: progress.copied_before + progress.pace.copied(),
            rate_bytes: book.move_rate,
            path: progress.path.clone(),
            trouble: progress.trouble.clone(),
        })
    }

    /// Spreads files over the data servers over which new ones are, or does so no longer.
    ///
    /// # Errors
    /// Why not, and what to do next.
    pub(in crate::serve) async fn rebalance(
        &self,
        RebalanceQuestion { stop, rate_bytes }: RebalanceQuestion,
    ) -> Result<RebalanceAnswer, String> {
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
            (files, bytes) = self
                .count(Work::of(&book).as_ref())
                .await
                .map_err(unsearched)?;
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

    /// How many files are to be moved, and how many bytes they have.
    async fn count(&self, work: Option<&Work>) -> vfs::Result<(u64, u64)> {
        let Some(work) = work else {
            return Ok((0, 0));
        };
        let (mut files, mut bytes, mut walk) = (0, 0, Walk::new());
        while let Some(found) = walk.next(&self.store).await? {
            if work.concerns(&found).is_some() {
                files += 1;
                bytes += found.attributes.size;
            }
        }
        Ok((files, bytes))
    }

    /// Goes through the tree once, and moves what is to be moved.
    async fn move_once(&self, work: &Work) -> vfs::Result<Round> {
        // Nobody chooses another group for a new file from now on.
        self.striped.creations_ended().await?;
        let left = self.count(Some(work)).await?;
        self.moves.progress().left = Some(left);
        let (mut round, mut walk) = (Round::default(), Walk::new());
        while let Some(found) = walk.next(&self.store).await? {
            let Some(placement) = work.concerns(&found) else {
                continue;
            };
            let book = self.keeping().book.clone();
            if Work::of(&book).as_ref() != Some(work) {
                break;
            }
            self.moves.progress().path = Some(found.path.clone());
            let to = NewFiles {
                group: work.to,
                unit: placement.unit,
            };
            let pace = self.moves.pace(book.move_rate);
            let moved = self.striped.move_file(found.attributes.id, to, pace).await;
            self.note(&found, moved, &mut round);
        }
        Ok(round)
    }

    fn note(&self, found: &Found, moved: vfs::Result<Moved>, round: &mut Round) {
        let mut progress = self.moves.progress();
        progress.path = None;
        match moved {
            Ok(Moved::Done(bytes)) => {
                tracing::debug!(path = found.path, bytes, "a file was moved");
                progress.files_moved += 1;
                round.moved += 1;
            }
            Ok(Moved::Gone) => {}
            Ok(Moved::Lost) => {
                progress.trouble = Some(format!(
                    "{}: a part of it lies on a data server that was given up",
                    found.path
                ));
                round.failed += 1;
                return;
            }
            Err(error) => {
                tracing::info!(path = found.path, %error, "a file is not moved now; it is tried again");
                let why = match error {
                    vfs::Error::Delay => {
                        "a data server is away, or the file changes too fast".to_owned()
                    }
                    error => error.to_string(),
                };
                progress.trouble = Some(format!("{}: {why}", found.path));
                round.failed += 1;
                return;
            }
        }
        if let Some((files, bytes)) = &mut progress.left {
            *files = files.saturating_sub(1);
            *bytes = bytes.saturating_sub(found.attributes.size);
        }
    }

    /// Nothing is left to be moved.
    async fn moved_all(&self, work: Option<&Work>) {
        {
            let mut progress = self.moves.progress();
            progress.left = Some((0, 0));
            progress.trouble = None;
        }
        let _alone = self.changes.lock().await;
        let mut book = self.keeping().book.clone();
        let is_same = Work::of(&book).as_ref() == work && book.move_to().is_some();
        if !is_same || book.spreading.take().is_none() {
            return;
        }
        match self.keep_changed(book).await {
            Ok(()) => tracing::info!("files are spread over all data servers"),
            // It is found once more that nothing is to be done.
            Err(error) => tracing::warn!(error, "it cannot be noted that files are spread"),
        }
    }
}

/// Moves files as long as the server runs.
pub(super) async fn run(server: Weak<MetadataServer>) {
    // Which wish needs nothing more to be done.
    let mut done: Option<(u64, Option<Work>)> = None;
    loop {
        let Some(held) = server.upgrade() else {
            return;
        };
        let book = held.keeping().book.clone();
        let wish = (held.moves.wishes.load(Ordering::SeqCst), Work::of(&book));
        if done.as_ref() != Some(&wish) {
            done = None;
            let round = match &wish.1 {
                Some(work) => held.move_once(work).await,
                None => Ok(Round::default()),
            };
            match round {
                Ok(Round {
                    moved: 0,
                    failed: 0,
                }) => {
                    held.moved_all(wish.1.as_ref()).await;
                    done = Some(wish);
                }
                Ok(Round { failed: 0, .. }) => {
                    held.moves.progress().trouble = None;
                    // Whether that were all is seen at once.
                    continue;
                }
                Ok(_) => {}
                Err(error) => {
                    let why = ShownBytes(error.to_string().as_bytes()).to_string();
                    held.moves.progress().trouble = Some(format!("the tree cannot be read: {why}"));
                }
            }
        }
        // The server may end meanwhile.
        let moves = Arc::clone(&held.moves);
        drop(held);
        let _woken = timeout(AGAIN, moves.woken.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pool::DataServerNumber;

    #[test]
    fn files_move_only_where_there_is_another_place() {
        let servers = |numbers: &[u16]| numbers.iter().copied().map(DataServerNumber).collect();
        let book = Book::default()
            .with_new_files_over(&servers(&[2, 3]))
            .unwrap();
        assert_eq!(Work::of(&book), None);
        let mut book = book.with_new_files_over(&servers(&[2])).unwrap();
        assert_eq!(Work::of(&book), None);
        book.draining = servers(&[3]);
        let work = Work::of(&book).unwrap();
        assert_eq!(work.from, BTreeSet::from([DeviceGroupNumber(1)]));
        assert_eq!(work.to, DeviceGroupNumber(2));
        let book = Book {
            new_files: None,
            ..book
        };
        assert_eq!(Work::of(&book), None);
    }
}
