//! What a home knows of a file that is in use.

use super::asking::Asking;
use super::fencing::{Carrying, Recalling};
use super::moving::{Moving, Switching};
use super::{Holder, Request};
use crate::handle::Access;
use crate::message::{ContentsId, Report};
use crate::numbers::{DataServerNumber, Generation, KeyNumber};
use control::OperationId;
use std::collections::{BTreeMap, VecDeque};

/// The row of a file, as far as its contents are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The file and its placement.
    pub contents: ContentsId,
    /// The generation of the placement.
    pub generation: Generation,
    /// The data servers of the placement's device group.
    pub members: Vec<DataServerNumber>,
    /// Its size in bytes; while it is unsettled the data servers know it better.
    pub size: u64,
    /// Clients may write, or have written, directly to the data servers (rule 7).
    pub unsettled: bool,
}

/// A file in use.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) row: FileRow,
    pub(super) holders: BTreeMap<Holder, Held>,
    /// The last report of each data server.
    pub(super) seen: BTreeMap<DataServerNumber, Report>,
    /// The operation for which the data servers last reported before any client writes, so that later writes are noticed.
    pub(super) compared_by: Option<OperationId>,
    /// The move of the file, if any.
    pub(super) moving: Option<Moving>,
    pub(super) job: Option<Job>,
    /// The requests that wait for the end of the job, in order.
    pub(super) queue: VecDeque<(OperationId, Request)>,
}

/// The last layout of a holder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) access: Access,
    /// The key that sealed its handles.
    pub(super) key: KeyNumber,
}

/// The present activity.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// The data servers are asked for reports.
    Asking(Asking),
    /// Clients are asked to return their layouts.
    Recalling(Recalling),
    /// Data servers carry an intent out.
    Carrying(Carrying),
    /// The row is about to name other contents.
    Switching(Switching),
}

impl File {
    pub(super) fn new(row: &FileRow) -> File {
        File {
            row: row.clone(),
            holders: BTreeMap::new(),
            seen: BTreeMap::new(),
            compared_by: None,
            moving: None,
            job: None,
            queue: VecDeque::new(),
        }
    }

    pub(super) fn has_writers(&self) -> bool {
        self.holders
            .values()
            .any(|held| held.access == Access::ReadWrite)
    }

    /// Whether a fence has begun and is not done, or is queued.
    pub(super) fn is_being_fenced(&self) -> bool {
        let is_begun = match self.job {
            Some(Job::Recalling(_) | Job::Carrying(_)) => true,
            // The old contents were fenced before they are replaced.
            Some(Job::Asking(_) | Job::Switching(_)) | None => false,
        };
        is_begun || self.changes_queued() > 0
    }

    /// The number of changes at the head of the queue.
    pub(super) fn changes_queued(&self) -> usize {
        let queued = self.queue.iter();
        let changes = queued.take_while(|(_, queued)| queued.is_change());
        changes.count()
    }

    /// Nothing is known beyond its row.
    pub(super) fn is_idle(&self) -> bool {
        let is_used = self.moving.is_some() || !self.holders.is_empty();
        !is_used && self.job.is_none() && self.queue.is_empty()
    }
}
