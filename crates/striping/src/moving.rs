//! Moves files to other data servers while they are used (rule 2): copies what they have, and again
//! what was changed meanwhile, until so little is left that writers can wait for it. Who may use
//! which contents is decided by `pool::home`.
//!
//! An attempt that meets anything is given up, and what it had copied goes: a write whose answer was lost may still come, and nobody is
//! to find it behind a later one.
//!
//! What must never enter: which files are to be moved.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pool::home::{FileRow, Outcome, Request};
use store::SyncError;
use tokio::time::timeout;
use vfs::{Error, ObjectId, Result};

use crate::pace::Pace;
use crate::settling::Tracking;
use crate::striped::{Striped, StripedFiles, outcome_of};
use crate::view::{NewFiles, Whereabouts};

/// Bytes that are copied in one step.
const STEP_BYTES: u64 = 1 << 20;
/// Where all bytes of a part of this size are zeros, nothing is written.
const HOLE_BYTES: usize = 64 << 10;
/// Writers wait while at most `LITTLE_BYTES` are copied, or, after `ROUNDS` rounds, while all that
/// is left is copied.
const LITTLE_BYTES: u64 = 4 << 20;
const ROUNDS: usize = 8;
/// Between two looks whether data servers serve, which messages and passing time decide, without telling of it.
const BETWEEN: Duration = Duration::from_millis(20);
/// How long holders of layouts and data servers of the new contents are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What has become of a file that was to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It lies where it is to lie. This many bytes were copied.
    Done(u64),
    /// It is gone, or does not lie at data servers.
    Gone,
    /// A part of it is lost, and it stays where it is.
    Lost,
}

/// What is copied, and who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Nothing lies under the new contents yet, and holes are left out.
    First,
    /// What was changed.
    Again,
    /// Writers wait for the end of it.
    Last,
}

/// An attempt, which is given up unless it ends well.
struct Attempt {
    files: Arc<StripedFiles>,
    id: ObjectId,
    tracking: Tracking,
    is_done: bool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_done {
            // A home that decides nothing any more gives moves up when it is started anew.
            let _begun = self.files.begin(self.id, None, Request::GiveUp);
        }
    }
}

impl Striped {
    /// Moves a file to the data servers of a group, in stripes of the unit that it has. It goes on if nobody waits for it.
    ///
    /// # Errors
    /// [`Error::Delay`] when a data server is away, or somebody changes the file too fast; [`Error::NoSpace`]; [`Error::Io`]. The file lies
    /// where it lay.
    pub async fn move_file(&self, id: ObjectId, to: NewFiles, pace: Arc<Pace>) -> Result<Moved> {
        let files = Arc::clone(&self.files);
        let moved = tokio::spawn(async move { files.move_file(id, to, &pace).await });
        let stopped = |_| Error::Io("the runtime ended".into());
        moved.await.map_err(stopped)?
    }
}

impl StripedFiles {
    /// Waits until all data servers of some contents serve: they may be removing what was moved before.
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
        let driver = self.driver()?;
        let placement = self.view().place_over(id, to);
        let placement = placement.ok_or(Error::Invalid("there is no such device group"))?;
        let new = self.find(id, &placement.encode())?;
        if new.has_lost() {
            return Err(Error::Delay);
        }
        self.serving(&[&old.row, &new.row]).await?;
        let tracking = self.track(id).ok_or(Error::Delay)?;
        let mut attempt = Attempt {
            files: Arc::clone(self),
            id,
            tracking,
            // Nothing has begun.
            is_done: true,
        };
        let members = new.row.members.clone();
        let (row, begun) = loop {
            let as_of = driver.switched();
            let Some(row) = self.row(id)? else {
                return Ok(Moved::Gone);
            };
            let wanted = (placement, members.clone());
            if let Some(begun) = driver.begin_move(as_of, &row, wanted)? {
                break begun;
            }
        };
        if outcome_of(begun).await? != Outcome::Done {
            return Err(Error::Delay);
        }
        attempt.is_done = false;
        let new = Whereabouts {
            row,
            is_named: false,
            ..new
        };
        let moved = attempt.carry_out(&new, pace).await?;
        attempt.is_done = true;
        Ok(moved)
    }
}

impl Attempt {
    async fn carry_out(&self, new: &Whereabouts, pace: &Pace) -> Result<Moved> {
        let (files, id) = (&self.files, self.id);
        // Nobody is given a layout for writing from now on, and nobody has one behind this.
        self.request(Request::Alone).await?;
        files.settle(id).await?;
        let mut copied = 0;
        let Some(size) = files.driver()?.rows().size(id)? else {
            return self.gone();
        };
        // A write that began before the move may have put its bytes there already, and the row hears of it now.
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
        // What was lost before it was copied is told to the client that wrote it, by the next
        // COMMIT.
        let lost = match files.sync(old.clone()).await {
            Ok(()) => false,
            Err(SyncError::Lost(_)) => true,
            Err(SyncError::Later(error)) => return Err(error),
        };
        match files.sync(new.clone()).await {
            Ok(()) => {}
            // It was not written twice, and so is copied anew.
            Err(SyncError::Lost(_)) => return Err(Error::Delay),
            Err(SyncError::Later(error)) => return Err(error),
        }
        // However long that takes: nobody may change the old contents while the row may come to name the new ones.
        match files.request(id, Request::Switch(size)).await? {
            Outcome::Done => {}
            _ => return Err(Error::Delay),
        }
        files.forget_unstable(old.row.contents, new.row.contents, lost);
        Ok(Moved::Done(copied))
    }

    /// The file was removed meanwhile, or a data server of its new contents.
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

    /// Copies a range as it is now.
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

/// What is to be written of some bytes, and where among them: all of it, or without its holes.
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
