//! The messages between a home and a data server. Messages arrive in the order they were sent, or not at all.

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
    /// The placement of these contents.
    pub placement: PlacementNumber,
}

/// Identifies the contents of a data server for a home (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Drawn at random when the data server's store was made.
    pub store: u128,
    /// Counts answered reports, and starts since the last of them, stably, so that an older copy of the store is noticed
    /// ([`StoreIdentity::counted_answer`], [`StoreIdentity::counted_start`]). Starts of such a copy never count as answered reports.
    pub counter: u64,
    /// The run of the data server, drawn at random when it started. From now on, reports of other runs do not count.
    pub run: u64,
}

/// The lowest bits of the counter: starts since the last answered report. Reports are counted above them.
const START_BITS: u32 = 24;

/// Marks a counter that a home keeps. At one report a second, no counter gets this large in ten thousand years.
const DOUBT: u64 = 1 << 63;

impl StoreIdentity {
    /// The counter after one more start.
    #[must_use]
    pub fn counted_start(counter: u64) -> u64 {
        let starts = (1 << START_BITS) - 1;
        match counter & starts == starts {
            // More starts do not count as a report.
            true => counter,
            false => counter + 1,
        }
    }

    /// The counter after one more answered report.
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

/// The state of some contents at a data server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Their end: after the last written byte, or where they were cut. 0: there are no contents.
    pub end: u64,
    /// The run of the data server that counts the writes.
    pub run: u64,
    /// Writes to these contents in that run.
    pub writes: u64,
}

/// What happens to contents when they are fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing more.
    Fence,
    /// They end at this offset, whether they were longer or shorter before.
    Truncate(u64),
    /// This range becomes a hole; the end stays.
    Punch(Extent),
    /// They are removed, and leave a tombstone.
    Remove,
}

/// Counts the intents of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentNumber(pub u64);

/// A stable decision of a home about some contents, which data servers may still have to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Intents are carried out in the order of their numbers.
    pub number: IntentNumber,
    /// The contents.
    pub contents: ContentsId,
    /// From now on, handles of a smaller generation are not valid.
    pub generation: Generation,
    /// What happens in the same step.
    pub act: Act,
}

/// How much a data server stores, for administrators, and to choose where new files lie. No decision about reads or writes depends on
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The size of its disk, in bytes.
    pub total_bytes: u64,
    /// Bytes that may still be written.
    pub available_bytes: u64,
    /// Contents of files, each counted once, whatever its number of stripes.
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
        /// The time by its own clock; comes back with the lease.
        asked: Moment,
        /// Its contents.
        identity: StoreIdentity,
    },
    /// It has carried an intent out, stably.
    Taken {
        /// The intent.
        number: IntentNumber,
        /// The state of the contents now.
        report: Report,
    },
    /// The answer to [`ToDataServer::Look`].
    Looked {
        /// The number of the question.
        question: u64,
        /// The state of the contents.
        report: Report,
    },
}

/// From a home to a data server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDataServer {
    /// The right to answer for the home.
    Lease {
        /// When the data server asked for it.
        asked: Moment,
        /// Handles of other issue numbers are not valid.
        issue: IssueNumber,
        /// The keys with which valid handles are sealed.
        keys: HandleKeys,
        /// How long handles of clients count after the request: at most as long as the lease.
        clients: Duration,
    },
    /// An intent to carry out. If it removes its contents, no handle of them was or will be sealed with a later key than this one.
    Take(Intent, KeyNumber),
    /// Asks for the state of some contents.
    Look {
        /// It is answered only under this issue number, so that no older handle is still served.
        issue: IssueNumber,
        /// Comes back with the answer.
        question: u64,
        /// The contents.
        contents: ContentsId,
        /// Whether they have to be stable before the answer.
        stable: bool,
    },
}

impl ToDataServer {
    /// The contents that the message is about, if any.
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
