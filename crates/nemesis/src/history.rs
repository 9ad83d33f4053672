//! The operations of clients, their times, and the answers.
//!
//! Times are microseconds since the run began, by one monotonic clock. An event's interval begins before its first request was sent, and
//! ends after its last answer arrived.
//!
//! What must never enter: judgement; see `check`.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Microseconds since the run began.
pub type Time = u64;

/// One operation of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The number of the client's site, from zero.
    pub site: usize,
    /// The number of the client, from zero, over all sites.
    pub client: usize,
    /// A time before its first request was sent.
    pub begin: Time,
    /// A time after its last answer arrived.
    pub end: Time,
    /// The operation.
    pub act: Act,
    /// Its result.
    pub outcome: Outcome,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// A file was opened, read and closed. Zero stands for its content before the first write.
    Read {
        /// The register.
        register: usize,
        /// Its content.
        saw: Option<Seen>,
    },
    /// A file was opened, overwritten and closed.
    Write {
        /// The register.
        register: usize,
        /// A value that no other operation writes.
        value: u64,
    },
    /// A name was created that must not exist.
    Create {
        /// The name, one of those that clients compete for.
        name: u64,
    },
    /// A new file was renamed over a name that always exists.
    Replace {
        /// The name.
        name: usize,
        /// A value that no other operation writes.
        value: u64,
    },
    /// Such a name was opened and read.
    ReadReplaced {
        /// The name.
        name: usize,
        /// Its content.
        saw: Option<Seen>,
    },
    /// A file was renamed from one directory into another.
    Move {
        /// The token.
        token: usize,
        /// The old directory.
        from: usize,
        /// The new directory.
        to: usize,
    },
    /// A counter was incremented under a lock.
    Section(Section),
    /// A name that no other client uses was made, linked, renamed, moved into a new directory and removed with it.
    Round {
        /// The name.
        name: u64,
    },
    /// A file was opened, which returned its change attribute, then read and closed.
    Version {
        /// The register.
        register: usize,
        /// The attribute.
        change: u64,
        /// Its content.
        saw: Seen,
    },
    /// Attributes of a log were asked for, without an open.
    Stat {
        /// The log.
        log: usize,
        /// Its reported size in bytes.
        size: u64,
    },
    /// A token was looked up in each of the directories between which it moves, one after another.
    Search {
        /// The token.
        token: usize,
        /// The directories that had it.
        found: Vec<usize>,
    },
    /// A right was used that never existed or had ended.
    Old {
        /// The right.
        right: Right,
        /// When its end was answered; zero if it never existed.
        ended: Time,
        /// Whether the right was accepted.
        served: bool,
    },
    /// A record was written and committed.
    Append {
        /// The log; each has one writer.
        log: usize,
        /// The number of the record, from zero.
        number: u64,
    },
}

/// A right that the client does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Right {
    /// To read and write at a data server by a handle of a file that is removed.
    RemovedThere,
    /// To open such a file at another metadata server, by its handle.
    Removed,
    /// To open a file for reading at another metadata server when its mode is 0.
    Narrowed,
    /// To read and write at a data server by a handle from before the file was cut.
    Fenced,
    /// To read and write at a data server by a handle that no server has made.
    Forged,
}

/// An operation under a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The counter.
    pub counter: usize,
    /// When the client sent the lock request that was granted.
    pub asked: Time,
    /// When the grant arrived, if one did.
    pub granted: Option<Time>,
    /// When the last request that succeeded under the lock was sent: until then the client held it.
    pub held_until: Time,
    /// The value that was read.
    pub saw: Option<u64>,
    /// The value that was written, if that was answered.
    pub wrote: Option<u64>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// The value of one write.
    Value(u64),
    /// A content that no client has written.
    Garbage(String),
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was refused, and nothing was changed.
    Refused(Refusal),
    /// It is not known whether it happened.
    Unknown(String),
}

/// The reason for a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// NFS4ERR_EXIST: the name exists.
    Exist,
    /// NFS4ERR_NOENT: the name does not exist.
    NoEnt,
    /// Other reasons, in words. The checks treat them alike.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Exist => "NFS4ERR_EXIST",
            Refusal::NoEnt => "NFS4ERR_NOENT",
            Refusal::Other(words) => words,
        })
    }
}

impl Event {
    /// Whether it was answered as done.
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }

    /// Whether it certainly did not happen.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_))
    }
}

impl Act {
    /// A word for tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Act::Read { .. } => "read",
            Act::Write { .. } => "write",
            Act::Create { .. } => "exclusive create",
            Act::Replace { .. } => "replace by rename",
            Act::ReadReplaced { .. } => "read a replaced name",
            Act::Move { .. } => "move",
            Act::Section(_) => "section under a lock",
            Act::Round { .. } => "round of names of one's own",
            Act::Version { .. } => "read with its change attribute",
            Act::Stat { .. } => "ask attributes",
            Act::Search { .. } => "look for a name",
            Act::Old { .. } => "use what is no right",
            Act::Append { .. } => "append and commit",
        }
    }
}

/// The clock of a run, and the recorded events.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    events: Mutex<Vec<Event>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Begins a run now.
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            events: Mutex::default(),
        }
    }

    /// The time since the run began.
    pub fn now(&self) -> Time {
        // A run of half a million years would saturate.
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Records an event.
    pub fn record(&self, event: Event) {
        self.lock().push(event);
    }

    /// All events so far, in the order of their ends.
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        // An event is pushed whole or not at all.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
