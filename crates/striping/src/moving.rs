//! Moves files to other data servers while they are in use (rule 2). It copies the contents, then what was changed meanwhile, until writers
//! can wait for the small rest. `pool::home` decides which clients may use which contents.
//!
//! An attempt that meets a problem is given up, and its copy is removed: a write whose answer was lost may still arrive, and must not take
//! effect after a later one.
//!
//! What must never enter: which files to move.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pool::Placement;
use pool::home::{FileRow, Outcome, Request};
use store::SyncError;
use tokio::task::JoinError;
use tokio::time::timeout;
use vfs::{Error, ObjectId, Result};

use crate::pace::Pace;
use crate::settling::Tracking;
use crate::striped::{Striped, StripedFiles, outcome_of};
use crate::view::{NewFiles, Whereabouts};

/// Bytes copied in one step.
const STEP_BYTES: u64 = 1 << 20;
/// A part of this size that is all zeros is not written.
const HOLE_BYTES: usize = 64 << 10;
/// Writers wait while at most `LITTLE_BYTES` are copied. After `ROUNDS` rounds they wait while the whole rest is copied.
const LITTLE_BYTES: u64 = 4 << 20;
const ROUNDS: usize = 8;
/// Between two checks whether data servers serve. Messages and time decide that without an event.
const BETWEEN: Duration = Duration::from_millis(20);
/// How long to wait for layout holders and for data servers of the new contents.
const PATIENCE: Duration = Duration::from_secs(60);

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It lies at the target. This many bytes were copied.
    Done(u64),
    /// It was removed, or does not lie at data servers.
    Gone,
    /// A part of it is lost, and it stays where it is.
    Lost,
}

/// What is copied, and whether writers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// The new contents are empty, and holes are left out.
    First,
    /// The changed ranges.
    Again,
    /// Writers wait for its end.
    Last,
}

/// New contents that are to replace those of a file. Dropping this gives them up unless the move has succeeded.
pub(crate) struct Attempt {
    files: Arc<StripedFiles>,
    id: ObjectId,
    tracking: Tracking,
    is_done: AtomicBool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_done.load(Ordering::Acquire) {
            // If the home does not decide any more, it gives moves up at its next start.
            let _begun = self.files.begin(self.id, None, Request::GiveUp);
        }
    }
}

impl Striped {
    /// Moves a file to the data servers of a group, in stripes of the given unit. It continues even if the caller stops waiting.
    ///
    /// # Errors
    /// [`Error::Delay`] when a data server is away, or clients change the file too fast; [`Error::NoSpace`]; [`Error::Io`]. The file then
    /// stays where it was.
    pub async fn move_file(&self, id: ObjectId, to: NewFiles, pace: Arc<Pace>) -> Result<Moved> {
        let files = Arc::clone(&self.files);
        let moved = tokio::spawn(async move { files.move_file(id, to, &pace).await });
        let stopped = |error: JoinError| Error::broken_off(error.is_cancelled(), &error);
        moved.await.map_err(stopped)?
    }
}

impl StripedFiles {
    /// Waits until all data servers of some contents serve: they may be removing contents of an earlier move.
    async fn serving(&self, rows: &[&FileRow]) -> Result<()> {
        let (driver, begun) = (self.driver()?, Instant::now());
        let serves = |row: &&FileRow| {
            let mut members = row.members.iter();
            members.all(|member| driver.handle(row, *member).is_some())
        };
        while !rows.iter().all(serves) {
            if begun.elapsed() > self.patience() {
                return Err(Error::Delay);
            }
            tokio::time::sleep(BETWEEN).await;
        }
        Ok(())
    }

    async fn move_file(self: &Arc<Self>, id: ObjectId, to: NewFiles, pace: &Pace) -> Result<Moved> {
        let Some(old) = self.present(id)? else {
            return Ok(Moved::Gone);
        };
        if old.has_lost() {
            return Ok(Moved::Lost);
        }
        let placement = self.view().place_over(id, to);
        let placement = placement.ok_or(Error::Invalid("there is no such device group"))?;
        let new = self.find(id, &placement.encode())?;
        if new.has_lost() {
            return Err(Error::Delay);
        }
        self.serving(&[&old.row, &new.row]).await?;
        match self.begin_attempt(id, placement, new).await? {
            None => Ok(Moved::Gone),
            Some((attempt, new)) => attempt.carry_out(&new, pace).await,
        }
    }

    /// Begins new, empty contents of a file. `None` if the file is gone.
    async fn begin_attempt(
        self: &Arc<Self>,
        id: ObjectId,
        placement: Placement,
        new: Whereabouts,
    ) -> Result<Option<(Attempt, Whereabouts)>> {
        let driver = self.driver()?;
        let tracking = self.track(id).ok_or(Error::Delay)?;
        let attempt = Attempt {
            files: Arc::clone(self),
            id,
            tracking,
            // Nothing has begun.
            is_done: AtomicBool::new(true),
        };
        let members = new.row.members.clone();
        let (row, begun) = loop {
            let as_of = driver.switched();
            let Some(row) = self.row(id)? else {
                return Ok(None);
            };
            let wanted = (placement, members.clone());
            if let Some(begun) = driver.begin_move(as_of, &row, wanted)? {
                break begun;
            }
        };
        if outcome_of(begun).await? != Outcome::Done {
            return Err(Error::Delay);
        }
        attempt.is_done.store(false, Ordering::Release);
        let new = Whereabouts {
            row,
            is_named: false,
            ..new
        };
        Ok(Some((attempt, new)))
    }

    /// Begins contents of a file that are placed like those of new files. Nothing is copied into them.
    pub(crate) async fn begin_replacement(
        self: &Arc<Self>,
        id: ObjectId,
    ) -> Result<(Attempt, Whereabouts)> {
        // If no data servers take new files, the caller must wait for some.
        let placement = self.view().place(id).ok_or(Error::Delay)?;
        let new = self.find(id, &placement.encode())?;
        if new.has_lost() {
            return Err(Error::Delay);
        }
        self.serving(&[&new.row]).await?;
        let begun = self.begin_attempt(id, placement, new).await?;
        begun.ok_or(Error::Stale)
    }
}

impl Attempt {
    async fn carry_out(&self, new: &Whereabouts, pace: &Pace) -> Result<Moved> {
        let (files, id) = (&self.files, self.id);
        // From now on no client gets a layout for writing. After this call no client has one.
        self.request(Request::Alone).await?;
        files.settle(id).await?;
        let mut copied = 0;
        let Some(size) = files.driver()?.rows().size(id)? else {
            return self.gone();
        };
        // A write that began before the move may have stored bytes there that the row does not include yet.
        self.tracking.add(size..u64::MAX);
        copied += self.copy(new, 0..size, (pace, Round::First)).await?;
        for _ in 0..ROUNDS {
            let Some(size) = files.driver()?.rows().size(id)? else {
                return self.gone();
            };
            let changed = self.tracking.take(size, false);
            for range in changed.iter() {
                copied += self.copy(new, range, (pace, Round::Again)).await?;
            }
            if changed.bytes() <= LITTLE_BYTES {
                break;
            }
        }
        self.tracking.hold().await?;
        if self.request(Request::Seal).await? != Outcome::Done {
            return self.gone();
        }
        let old = files.present(id)?;
        let size = files.driver()?.rows().size(id)?;
        let (Some(old), Some(size)) = (old, size) else {
            return self.gone();
        };
        let changed = self.tracking.take(size, true);
        for range in changed.iter() {
            copied += self.copy(new, range, (pace, Round::Last)).await?;
        }
        // If writes were lost before the copy, the next COMMIT tells the client.
        let lost = match files.sync(old.clone()).await {
            Ok(()) => false,
            Err(SyncError::Lost(_)) => true,
            Err(SyncError::Later(error)) => return Err(error),
        };
        match files.sync(new.clone()).await {
            Ok(()) => {}
            // The lost bytes are not kept for another write, so the move must start again.
            Err(SyncError::Lost(_)) => return Err(Error::Delay),
            Err(SyncError::Later(error)) => return Err(error),
        }
        self.switch(size).await?;
        files.forget_unstable(old.row.contents, new.row.contents, lost);
        Ok(Moved::Done(copied))
    }

    /// From now on the file has the new contents, of this size. There is no time limit: the old contents must not change while the row may
    /// still switch to the new ones.
    async fn switch(&self, size: u64) -> Result<()> {
        match self.files.request(self.id, Request::Switch(size)).await? {
            Outcome::Done => {
                self.is_done.store(true, Ordering::Release);
                Ok(())
            }
            _ => Err(Error::Delay),
        }
    }

    /// Replaces contents that nothing uses with these stable ones, which were not copied from them.
    pub(crate) async fn put_in_place(&self, new: &Whereabouts, size: u64) -> Result<()> {
        let files = &self.files;
        self.request(Request::Alone).await?;
        self.tracking.hold().await?;
        let old = files.present(self.id)?.ok_or(Error::Stale)?;
        if self.request(Request::Seal).await? != Outcome::Done {
            return Err(Error::Delay);
        }
        self.switch(size).await?;
        files.forget_unstable(old.row.contents, new.row.contents, false);
        Ok(())
    }

    /// The file was removed meanwhile, or a data server of its new contents was.
    fn gone(&self) -> Result<Moved> {
        match self.files.driver()?.rows().size(self.id)? {
            None => Ok(Moved::Gone),
            Some(_) => Err(Error::Delay),
        }
    }

    async fn request(&self, request: Request) -> Result<Outcome> {
        let done = timeout(PATIENCE, self.files.request(self.id, request)).await;
        done.unwrap_or(Err(Error::Delay))
    }

    /// Copies the current bytes of a range.
    async fn copy(
        &self,
        new: &Whereabouts,
        range: Range<u64>,
        (pace, round): (&Pace, Round),
    ) -> Result<u64> {
        let (mut offset, mut copied) = (range.start, 0);
        while offset < range.end {
            let length = STEP_BYTES - offset % STEP_BYTES;
            let length = length.min(range.end - offset);
            match round {
                Round::First | Round::Again => pace.take(length).await,
                Round::Last => pace.count(length),
            }
            let Some(old) = self.files.present(self.id)? else {
                return Err(Error::Delay);
            };
            // At most `STEP_BYTES`.
            let mut bytes = vec![0; length as usize];
            self.files.read(old, &mut bytes, offset).await?;
            for (at, piece) in pieces(Bytes::from(bytes), round == Round::First) {
                copied += piece.len() as u64;
                let written = self.files.write(new.clone(), piece, offset + at);
                written.await?;
            }
            offset += length;
        }
        Ok(copied)
    }
}

/// The pieces of some bytes to write, with their offsets: all bytes, or without holes.
fn pieces(bytes: Bytes, without_holes: bool) -> Vec<(u64, Bytes)> {
    if !without_holes {
        return vec![(0, bytes)];
    }
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for start in (0..bytes.len()).step_by(HOLE_BYTES) {
        let end = (start + HOLE_BYTES).min(bytes.len());
        if bytes[start..end].iter().all(|byte| *byte == 0) {
            continue;
        }
        match pieces.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => pieces.push(start..end),
        }
    }
    let cut = |piece: Range<usize>| (piece.start as u64, bytes.slice(piece));
    pieces.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_left_out_of_what_is_copied_first() {
        let mut bytes = vec![0; 5 * HOLE_BYTES + 7];
        bytes[HOLE_BYTES] = 1;
        bytes[3 * HOLE_BYTES - 1] = 2;
        bytes[5 * HOLE_BYTES + 6] = 3;
        let bytes = Bytes::from(bytes);
        let told: Vec<_> = pieces(bytes.clone(), true)
            .into_iter()
            .map(|(at, piece)| (at as usize, piece.len()))
            .collect();
        assert_eq!(told, [(HOLE_BYTES, 2 * HOLE_BYTES), (5 * HOLE_BYTES, 7)]);
        assert_eq!(pieces(bytes.clone(), false), [(0, bytes)]);
    }
}
