//! What a home asks its caller to do. Nothing happens in any other way.

use super::{FileRow, Holder, Outcome, Owed};
use crate::message::{IntentNumber, StoreIdentity, ToDataServer};
use crate::numbers::{DataServerNumber, KeyNumber};
use control::{Mark, OperationId};
use vfs::ObjectId;

/// A change of what a home keeps stably.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A data server was heard of, with these contents.
    StoreIdentity(DataServerNumber, StoreIdentity),
    /// The number of the newest key. No key of a later run has it, or a smaller one.
    Key(KeyNumber),
    /// An intent, with all who owe it.
    Intend(Owed),
    /// A data server owes an intent no more. The intent goes when nobody owes it and the row says it.
    Taken(IntentNumber, DataServerNumber),
    /// The row of a file.
    Row {
        /// What it says now.
        row: FileRow,
        /// The contents have changed, or may have: the file gets a new change attribute, and new times.
        changed: bool,
        /// The intent that is now in the row, in the same batch.
        intent: Option<IntentNumber>,
    },
    /// The contents of a file are gone, and its row may go, in the same batch as the intent is marked.
    Gone(ObjectId, IntentNumber),
    /// Bytes may be written to these contents of a file, though its row names others.
    Moving(FileRow),
    /// The row of a file names these contents from now on, in the same batch as the intent that removes those before.
    Moved {
        /// What it says now.
        row: FileRow,
        /// What becomes of the contents before.
        old: Owed,
    },
    /// The contents of [`Record::Moving`] go, by this intent.
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
        /// What came of it.
        outcome: Outcome,
        /// What must be stable first.
        after: Mark,
    },
}
