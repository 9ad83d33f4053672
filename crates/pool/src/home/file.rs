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

/// What the row of a file says, as far as its contents are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The file and its placement.
    pub contents: ContentsId,
    /// The generation of the placement.
    pub generation: Generation,
    /// The data servers of the placement's device group.
    pub members: Vec<DataServerNumber>,
    /// Its size in bytes; while it is unsettled the data servers know better.
    pub size: u64,
    /// Clients may write, or have written, past the home (rule 7).
    pub unsettled: bool,
}

/// A file in use.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) row: FileRow,
    pub(super) holders: BTreeMap<Holder, Held>,
    /// What each data server said last.
    pub(super) seen: BTreeMap<DataServerNumber, Report>,
    /// For whose sake the data servers were last asked what they have before anybody writes, so that what is written shows.
    pub(super) compared_by: Option<OperationId>,
    /// Where it is being moved.
    pub(super) moving: Option<Moving>,
    pub(super) job: Option<Job>,
    /// What waits for the job to end, in order.
    pub(super) queue: VecDeque<(OperationId, Request)>,
}

/// What a holder was given last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) access: Access,
    /// Which key its handles were sealed with.
    pub(super) key: KeyNumber,
}

/// What is being done.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// The data servers are asked what they have.
    Asking(Asking),
    /// Clients are asked for their layouts.
    Recalling(Recalling),
    /// Data servers carry an intent out.
    Carrying(Carrying),
    /// The contents of the row are about to be others.
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

    /// Whether a fence is not done yet that was begun, or waits for its turn.
    pub(super) fn is_being_fenced(&self) -> bool {
        let is_begun = match self.job {
            Some(Job::Recalling(_) | Job::Carrying(_)) => true,
            // The old contents were fenced before they are replaced.
            Some(Job::Asking(_) | Job::Switching(_)) | None => false,
        };
        is_begun || self.changes_queued() > 0
    }

    /// How many changes wait before everything else.
    pub(super) fn changes_queued(&self) -> usize {
        let queued = self.queue.iter();
        let changes = queued.take_while(|(_, queued)| queued.is_change());
        changes.count()
    }

    /// Its row says everything.
    pub(super) fn is_idle(&self) -> bool {
        let is_used = self.moving.is_some() || !self.holders.is_empty();
        !is_used && self.job.is_none() && self.queue.is_empty()
    }
}
