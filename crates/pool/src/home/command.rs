//! What a home asks its caller to do. A home has no other output.

use super::{FileRow, Holder, Outcome, Owed};
use crate::message::{IntentNumber, StoreIdentity, ToDataServer};
use crate::numbers::{DataServerNumber, KeyNumber};
use control::{Mark, OperationId};
use vfs::ObjectId;

/// A change of what a home stores stably.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The last known contents of a data server.
    StoreIdentity(DataServerNumber, StoreIdentity),
    /// The number of the newest key. All keys of later runs have larger numbers.
    Key(KeyNumber),
    /// An intent, with all data servers that owe it.
    Intend(Owed),
    /// A data server has carried an intent out. The intent is removed when no data server owes it and the row includes it.
    Taken(IntentNumber, DataServerNumber),
    /// The row of a file.
    Row {
        /// The new row.
        row: FileRow,
        /// The contents have changed, or may have: the file gets a new change attribute, and new times.
        changed: bool,
        /// The intent that the row includes from this batch on.
        intent: Option<IntentNumber>,
    },
    /// The contents of a file are gone, and its row may be removed, in the same batch in which the intent is marked.
    Gone(ObjectId, IntentNumber),
    /// Bytes may be written to these contents of a file, though its row names other contents.
    Moving(FileRow),
    /// From now on the row of a file names these contents. The intent that removes the earlier contents is in the same batch.
    Moved {
        /// The new row.
        row: FileRow,
        /// The removal of the earlier contents.
        old: Owed,
    },
    /// This intent removes the contents of [`Record::Moving`].
    MoveGivenUp(Owed),
}

/// The home's only output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Put a record on stable storage. Several may share one commit; their order must be kept.
    Persist(Record),
    /// Send a message to a data server, not before the records up to `after` are stable.
    Send {
        /// The data server.
        to: DataServerNumber,
        /// The message.
        message: ToDataServer,
        /// What must be stable first.
        after: Mark,
    },
    /// Ask a holder for its layout of a file. Repeated until it is given back or fenced.
    Recall(ObjectId, Holder),
    /// An operation is done, once the records up to `after` are stable.
    Answer {
        /// The operation.
        operation: OperationId,
        /// Its result.
        outcome: Outcome,
        /// What must be stable first.
        after: Mark,
    },
}
