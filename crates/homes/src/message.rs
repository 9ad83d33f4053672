//! What metadata servers say to each other. Any message may be lost, come late, come twice, or overtake another.

use crate::part::Part;
use crate::wish::{Answer, Look, Origin, Refusal, Wish};
use control::Moment;
use pool::HomeNumber;
use vfs::ObjectId;

/// An operation over homes, by who decides it. No two are ever named alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationName {
    /// Who decides.
    pub decider: HomeNumber,
    /// In which run of it.
    pub run: u64,
    /// Counts the operations of a run.
    pub number: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which run of the sender says it.
    pub from_run: u64,
    /// To which run of the receiver. 0: the sender knows none.
    pub to_run: u64,
    /// Operations of this run of the sender with smaller numbers are over for everybody.
    pub oldest: u64,
    /// What is said.
    pub body: Body,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The sender runs.
    Hello,
    /// A client's change, for who decides it.
    Request {
        /// Whose.
        origin: Origin,
        /// What is to be done.
        wish: Wish,
    },
    /// The answer to [`Body::Request`].
    Answered {
        /// To which.
        origin: Origin,
        /// The answer.
        answer: Answer,
    },
    /// A question for a home.
    Fetch {
        /// Comes back with the answer.
        question: u64,
        /// When it was asked first or again, by the asker's clock. Comes back with a lease.
        asked: Moment,
        /// The question.
        look: Look,
    },
    /// The answer to [`Body::Fetch`].
    Fetched {
        /// To which question.
        question: u64,
        /// The answer.
        answer: Answer,
        /// How often the asker had been told something when this was answered.
        told: u64,
        /// When the asker asked for the lease that this gives for all copies of the home.
        lease: Option<Moment>,
        /// Whether the answer may be kept: the asker is going to be told when it changes.
        keep: bool,
    },
    /// Copies of this object do not count any more: its row, and the names in it.
    Tell {
        /// Counts what the receiver was told.
        number: u64,
        /// Which object.
        object: ObjectId,
    },
    /// The answer to [`Body::Tell`].
    Told {
        /// Which.
        number: u64,
    },
    /// A part of an operation is to be prepared.
    Prepare {
        /// Of which operation.
        operation: OperationName,
        /// Which of its parts.
        index: u8,
        /// What is to be prepared.
        part: Part,
    },
    /// It is prepared.
    Prepared {
        /// Of which operation.
        operation: OperationName,
        /// Which part.
        index: u8,
        /// Whether it can be carried out. Nothing changes before the outcome is known, either way.
        result: Result<(), Refusal>,
    },
    /// How an operation was decided.
    Finish {
        /// Which.
        operation: OperationName,
        /// Whether it is carried out.
        done: bool,
    },
    /// It was carried out here.
    Finished {
        /// Which.
        operation: OperationName,
    },
    /// How was an operation decided?
    OutcomeRequest {
        /// Which.
        operation: OperationName,
    },
}
