//! Moves files of a home to other data servers: away from those that must be emptied, and onto those that were added. The book of the pool
//! states what must be moved, so a restarted server continues.
//!
//! What must never enter: how a file is copied.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use pool::{DeviceGroupNumber, Placement};
use store::Store;
use striping::{Moved, NewFiles, Pace, Striped};
use tokio::sync::Notify;
use tokio::time::timeout;
use vfs::ShownBytes;

use super::placed::{Found, Walk};
use crate::pools::Book;

/// Between two attempts on files that could not be moved.
const AGAIN: Duration = Duration::from_secs(5);

/// A home whose files are moved according to a book.
#[async_trait]
pub(super) trait Moving: Send + Sync + 'static {
    fn moves(&self) -> &Arc<Moves>;

    fn striped(&self) -> &Arc<Striped>;

    /// Its rows. `None` when the server ends.
    fn rows(&self) -> Option<Arc<Store>>;

    fn book(&self) -> Book;

    /// Nothing is left to move here. Returns whether this stays true until the book or a wish changes.
    async fn moved_all(&self, work: Option<&Work>) -> bool;
}

/// The state of moves.
pub(super) struct Moves {
    woken: Notify,
    /// The number of wishes so far.
    wishes: AtomicU64,
    progress: Mutex<Progress>,
}

pub(super) struct Progress {
    pace: Arc<Pace>,
    rate_bytes: u64,
    /// Bytes copied at earlier rates.
    copied_before: u64,
    pub(super) files_moved: u64,
    pub(super) left: Option<(u64, u64)>,
    pub(super) path: Option<String>,
    pub(super) trouble: Option<String>,
    /// The last work for which nothing was left to move.
    done: Option<Option<Work>>,
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
                done: None,
            }),
        }
    }

    /// Notes a new wish.
    pub(super) fn wake(&self) {
        self.wishes.fetch_add(1, Ordering::SeqCst);
        self.woken.notify_one();
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing was left to move under this book.
    pub(super) fn are_done(&self, book: &Book) -> bool {
        self.progress().done == Some(Work::of(book))
    }

    /// The pace for the rate in the book.
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

impl Progress {
    /// The bytes copied so far.
    pub(super) fn bytes_copied(&self) -> u64 {
        self.copied_before + self.pace.copied()
    }
}

/// The groups to leave, and the target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    from: BTreeSet<DeviceGroupNumber>,
    to: DeviceGroupNumber,
}

impl Work {
    /// `None` if nothing must be moved.
    pub(super) fn of(book: &Book) -> Option<Work> {
        let (from, to) = (book.groups_to_leave(), book.move_to()?);
        (!from.is_empty() && !from.contains(&to)).then_some(Work { from, to })
    }

    /// The placement of the file, if it must be moved.
    fn concerns(&self, found: &Found) -> Option<Placement> {
        let placement = found.placement?;
        self.from.contains(&placement.group).then_some(placement)
    }
}

/// The result of one walk through the tree.
#[derive(Default)]
struct Round {
    moved: u64,
    failed: u64,
}

/// The number of files to move, and of their bytes.
pub(super) async fn count(store: &Store, work: Option<&Work>) -> vfs::Result<(u64, u64)> {
    let Some(work) = work else {
        return Ok((0, 0));
    };
    let (mut files, mut bytes, mut walk) = (0, 0, Walk::new());
    while let Some(found) = walk.next(store).await? {
        if work.concerns(&found).is_some() {
            files += 1;
            bytes += found.attributes.size;
        }
    }
    Ok((files, bytes))
}

/// Walks through the tree once, and moves all files that must be moved.
async fn move_once(home: &impl Moving, work: &Work) -> vfs::Result<Round> {
    let (mut round, mut walk) = (Round::default(), Walk::new());
    let Some(store) = home.rows() else {
        return Ok(round);
    };
    // From now on no new file gets another group.
    home.striped().creations_ended().await?;
    let left = count(&store, Some(work)).await?;
    home.moves().progress().left = Some(left);
    while let Some(found) = walk.next(&store).await? {
        let Some(placement) = work.concerns(&found) else {
            continue;
        };
        let book = home.book();
        if Work::of(&book).as_ref() != Some(work) {
            break;
        }
        home.moves().progress().path = Some(found.path.clone());
        let to = NewFiles {
            group: work.to,
            unit: placement.unit,
        };
        let pace = home.moves().pace(book.move_rate);
        let moved = home
            .striped()
            .move_file(found.attributes.id, to, pace)
            .await;
        note(home.moves(), &found, moved, &mut round);
    }
    Ok(round)
}

fn note(moves: &Moves, found: &Found, moved: vfs::Result<Moved>, round: &mut Round) {
    let mut progress = moves.progress();
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

/// Moves files while the server runs.
pub(super) async fn run(home: Weak<impl Moving>) {
    // The wish for which nothing is left to do.
    let mut done: Option<(u64, Option<Work>)> = None;
    loop {
        let Some(held) = home.upgrade() else {
            return;
        };
        let book = held.book();
        let wish = (held.moves().wishes.load(Ordering::SeqCst), Work::of(&book));
        if done.as_ref() != Some(&wish) {
            done = None;
            let round = match &wish.1 {
                Some(work) => move_once(&*held, work).await,
                None => Ok(Round::default()),
            };
            match round {
                Ok(Round {
                    moved: 0,
                    failed: 0,
                }) => {
                    {
                        let mut progress = held.moves().progress();
                        progress.left = Some((0, 0));
                        progress.trouble = None;
                        progress.done = Some(wish.1.clone());
                    }
                    if held.moved_all(wish.1.as_ref()).await {
                        done = Some(wish);
                    }
                }
                Ok(Round { failed: 0, .. }) => {
                    held.moves().progress().trouble = None;
                    // The next round checks at once whether these were all.
                    continue;
                }
                Ok(_) => {}
                Err(error) => {
                    let why = ShownBytes(error.to_string().as_bytes()).to_string();
                    held.moves().progress().trouble =
                        Some(format!("the tree cannot be read: {why}"));
                }
            }
        }
        // The server may end during the wait.
        let moves = Arc::clone(held.moves());
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
