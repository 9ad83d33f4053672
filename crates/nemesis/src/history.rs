//! What clients did, when, and what they were answered.
//!
//! Times are microseconds since the run began, by one monotonic clock. An event's interval reaches from before its
//! first request was sent until after its last answer arrived.
//!
//! What must never enter: judgement; see `check`.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Microseconds since the run began.
pub type Time = u64;

/// One thing that a client did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The number of the client's site, from zero.
    pub site: usize,
    /// The number of the client, from zero, over all sites.
    pub client: usize,
    /// Before its first request was sent.
    pub begin: Time,
    /// After its last answer arrived.
    pub end: Time,
    /// What was done.
    pub act: Act,
    /// What came of it.
    pub outcome: Outcome,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// A file was opened, read and closed. Zero stands for what it held before the first write.
    Read {
        /// Which.
        register: usize,
        /// What it held.
        saw: Option<Seen>,
    },
    /// A file was opened, overwritten and closed.
    Write {
        /// Which.
        register: usize,
        /// A value that nobody else writes.
        value: u64,
    },
    /// A name was created that must not exist.
    Create {
        /// Which of the names that clients compete for.
        name: u64,
    },
    /// A new file was renamed over a name that always exists.
    Replace {
        /// Which.
        name: usize,
        /// A value that nobody else writes.
        value: u64,
    },
    /// Such a name was opened and read.
    ReadReplaced {
        /// Which.
        name: usize,
        /// What it held.
        saw: Option<Seen>,
    },
    /// A file was renamed from one directory into another.
    Move {
        /// Which.
        token: usize,
        /// From which directory.
        from: usize,
        /// Into which.
        to: usize,
    },
    /// A counter was incremented under a lock.
    Section(Section),
    /// A name that nobody else touches was made, linked, renamed, moved into a new directory and removed with it.
    Round {
        /// Which.
        name: u64,
    },
    /// A file was opened, its change attribute shown with that, then read and closed.
    Version {
        /// Which register.
        register: usize,
        /// The attribute.
        change: u64,
        /// What it held.
        saw: Seen,
    },
    /// Attributes of a log were asked for, without an open.
    Stat {
        /// Which.
        log: usize,
        /// How long it is said to be, in bytes.
        size: u64,
    },
    /// A token was looked for in every directory between which it moves, one after the other.
    Search {
        /// Which.
        token: usize,
        /// Where it was.
        found: Vec<usize>,
    },
    /// A right was used that there never was, or that had been taken away.
    Old {
        /// Which right.
        right: Right,
        /// When its end was answered; zero for one that never was.
        ended: Time,
        /// What was done was done by it.
        served: bool,
    },
    /// A record was written and committed.
    Append {
        /// Which log; each has one writer.
        log: usize,
        /// Which record of it, from zero.
        number: u64,
    },
}

/// What somebody has no right to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Right {
    /// To read and write at a data server by a handle of a file that is removed.
    RemovedThere,
    /// To open such a file at another metadata server, by the handle that it had.
    Removed,
    /// To open a file for reading at another metadata server when its mode is 0.
    Narrowed,
    /// To read and write at a data server by a handle of before the file was cut.
    Fenced,
    /// To read and write at a data server by a handle that no server has made.
    Forged,
}

/// What was done under a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Which counter.
    pub counter: usize,
    /// When the lock was asked for by the request that was granted.
    pub asked: Time,
    /// When the grant arrived, if one did.
    pub granted: Option<Time>,
    /// When the last request was sent that succeeded under the lock: until then it was held.
    pub held_until: Time,
    /// What the counter said.
    pub saw: Option<u64>,
    /// What was written, if that was answered.
    pub wrote: Option<u64>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// What one write has written.
    Value(u64),
    /// Something that nobody has written.
    Garbage(String),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was refused, and nothing has happened.
    Refused(Refusal),
    /// Whether it happened is not known.
    Unknown(String),
}

/// Why nothing has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// NFS4ERR_EXIST: the name exists.
    Exist,
    /// NFS4ERR_NOENT: the name does not exist.
    NoEnt,
    /// What no check tells apart, in words.
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
    /// True when it was answered as done.
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }

    /// True when it certainly did not happen.
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

/// The clock of a run, and what has been recorded so far.
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

    /// The time.
    pub fn now(&self) -> Time {
        // A run of half a million years would saturate.
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Keeps an event.
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
