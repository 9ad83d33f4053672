//! What a home and a data server say to each other. Messages arrive in the order they were sent, or not at all.

use crate::keys::HandleKeys;
use crate::numbers::{Generation, IssueNumber, KeyNumber, PlacementNumber};
use control::Moment;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vfs::{Extent, ObjectId};

/// The contents of one object under one placement, as a data server keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentsId {
    /// The file.
    pub object: ObjectId,
    /// Which contents of it.
    pub placement: PlacementNumber,
}

/// Which contents a data server has, as a home recognises them (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Drawn at random when the data server's store was made.
    pub store: u128,
    /// Counts reports that were answered, and its starts since the last of them, stably, so that an older copy of the store shows
    /// ([`StoreIdentity::counted_answer`], [`StoreIdentity::counted_start`]). However often such a copy is started, nobody has answered it.
    pub counter: u64,
    /// Which run of the data server says so, drawn at random when it started. Reports of others do not count from now on.
    pub run: u64,
}

/// Starts since the last report that was answered are counted in this many bits of the counter, below the
/// reports.
const START_BITS: u32 = 24;

/// Marks a counter that a home keeps. With a report a second none grows as large in ten thousand years.
const DOUBT: u64 = 1 << 63;

impl StoreIdentity {
    /// The counter behind one more start.
    #[must_use]
    pub fn counted_start(counter: u64) -> u64 {
        let starts = (1 << START_BITS) - 1;
        match counter & starts == starts {
            // More starts do not make a report.
            true => counter,
            false => counter + 1,
        }
    }

    /// The counter behind one more report that was answered.
    #[must_use]
    pub fn counted_answer(counter: u64) -> u64 {
        let reports = (counter >> START_BITS).saturating_add(1);
        reports.min(u64::MAX >> START_BITS) << START_BITS
    }

    /// The same, marked: an older copy of the store was seen.
    pub(crate) fn doubted(self) -> StoreIdentity {
        let counter = self.counter | DOUBT;
        StoreIdentity { counter, ..self }
    }

    /// Whether an older copy of the store was seen.
    pub(crate) fn is_doubted(&self) -> bool {
        self.counter & DOUBT != 0
    }

    /// The same without the mark.
    pub(crate) fn believed(self) -> StoreIdentity {
        let counter = self.counter & !DOUBT;
        StoreIdentity { counter, ..self }
    }
}

/// What a data server has of some contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Where they end: behind the last byte that was written, or where they were cut. 0: there is nothing.
    pub end: u64,
    /// Which run of the data server counts the writes.
    pub run: u64,
    /// Writes to these contents in that run.
    pub writes: u64,
}

/// What is done to contents when they are fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing else.
    Fence,
    /// They end at this offset, whether they were longer or shorter before.
    Truncate(u64),
    /// This becomes a hole; the end stays.
    Punch(Extent),
    /// They go, and leave a tombstone.
    Remove,
}

/// Counts the intents of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentNumber(pub u64);

/// What a home has decided, stably, about some contents, and what data servers may still owe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Intents are carried out in the order of their numbers.
    pub number: IntentNumber,
    /// Whose contents.
    pub contents: ContentsId,
    /// Handles of a smaller generation are worth nothing from now on.
    pub generation: Generation,
    /// What else is done, in the same step.
    pub act: Act,
}

/// How much a data server keeps, for people, and for choosing where new files lie. No decision about what may be read or written
/// rests on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The size of its disk, in bytes.
    pub total_bytes: u64,
    /// Bytes that may still be written.
    pub available_bytes: u64,
    /// Contents of files, in whatever number of stripes.
    pub contents: u64,
    /// Bytes of contents that were read in this run.
    pub read_bytes: u64,
    /// Bytes of contents that were written in this run.
    pub written_bytes: u64,
}

/// From a data server to a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToHome {
    /// It asks for a lease.
    LeaseRequest {
        /// When, on its own clock; comes back with the lease.
        asked: Moment,
        /// What it has.
        identity: StoreIdentity,
    },
    /// It has carried an intent out, stably.
    Taken {
        /// Which one.
        number: IntentNumber,
        /// What there is of the contents now.
        report: Report,
    },
    /// The answer to [`ToDataServer::Look`].
    Looked {
        /// The number of the question.
        question: u64,
        /// What there is of the contents.
        report: Report,
    },
}

/// From a home to a data server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDataServer {
    /// Leave to answer for the home.
    Lease {
        /// When the data server asked for it.
        asked: Moment,
        /// Handles of other issue numbers are worth nothing.
        issue: IssueNumber,
        /// What handles are sealed with that count.
        keys: HandleKeys,
        /// How long those of clients count, from the asking on: at most as long as the lease.
        clients: Duration,
    },
    /// An intent is to be carried out. No handle of its contents was, or will be, sealed with a key behind this one, if it removes them.
    Take(Intent, KeyNumber),
    /// What is there of some contents?
    Look {
        /// Answered only under this issue number, so that nothing older is still served.
        issue: IssueNumber,
        /// Comes back with the answer.
        question: u64,
        /// Whose contents.
        contents: ContentsId,
        /// Whether they have to be stable before it is answered.
        stable: bool,
    },
}

impl ToDataServer {
    /// The contents that it is about, if it is about some.
    #[must_use]
    pub fn contents(&self) -> Option<ContentsId> {
        match self {
            ToDataServer::Lease { .. } => None,
            ToDataServer::Take(intent, _) => Some(intent.contents),
            ToDataServer::Look { contents, .. } => Some(*contents),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_starts_reaches_a_report_that_was_answered() {
        let answered = StoreIdentity::counted_answer(7);
        let mut copy = 7;
        for _ in 0..100 {
            let started = StoreIdentity::counted_start(copy);
            assert!(started > copy && started < answered);
            copy = started;
        }
        let last = answered - 1;
        assert_eq!(StoreIdentity::counted_start(last), last);
        assert!(StoreIdentity::counted_answer(last) >= answered);
        assert!(StoreIdentity::counted_start(answered) > answered);
        assert!(
            StoreIdentity::counted_answer(StoreIdentity::counted_start(answered)) > answered + 1
        );
    }
}
