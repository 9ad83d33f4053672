//! The messages between metadata servers. Any message may be lost, delayed, duplicated or reordered.

use crate::part::Part;
use crate::wish::{Answer, Look, Origin, Refusal, Wish};
use control::Moment;
use pool::HomeNumber;
use vfs::ObjectId;

/// The unique name of an operation over homes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationName {
    /// The home that decides.
    pub decider: HomeNumber,
    /// The run of that home.
    pub run: u64,
    /// Counts the operations of a run.
    pub number: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The run of the sender.
    pub from_run: u64,
    /// The run of the receiver. 0: the sender does not know it.
    pub to_run: u64,
    /// Operations of this run of the sender with smaller numbers are over for all servers.
    pub oldest: u64,
    /// The content.
    pub body: Body,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The sender runs.
    Hello,
    /// A client's change, for the home that decides it.
    Request {
        /// The client's request.
        origin: Origin,
        /// What is to be done.
        wish: Wish,
    },
    /// The answer to [`Body::Request`].
    Answered {
        /// The request that is answered.
        origin: Origin,
        /// The answer.
        answer: Answer,
    },
    /// A question for a home.
    Fetch {
        /// Comes back with the answer.
        question: u64,
        /// The time of the last sending, by the asker's clock. It comes back with a lease.
        asked: Moment,
        /// The question.
        look: Look,
    },
    /// The answer to [`Body::Fetch`].
    Fetched {
        /// The question that is answered.
        question: u64,
        /// The answer.
        answer: Answer,
        /// The number of invalidations to the asker when this was answered.
        told: u64,
        /// All copies of this home get a lease that starts at this time, at which the asker asked.
        lease: Option<Moment>,
        /// Whether the answer may be kept: the asker will be told when it changes.
        keep: bool,
    },
    /// Copies of this object do not count any more: its row, and the names in it.
    Tell {
        /// Counts the invalidations to the receiver.
        number: u64,
        /// The object.
        object: ObjectId,
    },
    /// The answer to [`Body::Tell`].
    Told {
        /// The number of the invalidation.
        number: u64,
    },
    /// A part of an operation is to be prepared.
    Prepare {
        /// The operation.
        operation: OperationName,
        /// The part of the operation.
        index: u8,
        /// What is to be prepared.
        part: Part,
    },
    /// It is prepared.
    Prepared {
        /// The operation.
        operation: OperationName,
        /// The part.
        index: u8,
        /// Whether it can be carried out. In both cases nothing changes before the outcome is known.
        result: Result<(), Refusal>,
    },
    /// The outcome of an operation.
    Finish {
        /// The operation.
        operation: OperationName,
        /// Whether it is carried out.
        done: bool,
    },
    /// It was carried out here.
    Finished {
        /// The operation.
        operation: OperationName,
    },
    /// Asks for the outcome of an operation.
    OutcomeRequest {
        /// The operation.
        operation: OperationName,
    },
}
