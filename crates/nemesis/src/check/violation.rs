//! A broken promise.

use std::fmt;

use serde::Serialize;

use crate::history::Time;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The promise.
    pub promise: &'static str,
    /// What happened.
    pub what: String,
    /// When it was seen; none if it was found at the end.
    pub at: Option<Time>,
}

impl Violation {
    pub(super) fn at(promise: &'static str, at: Time, what: String) -> Self {
        Self {
            promise,
            what,
            at: Some(at),
        }
    }

    pub(super) fn in_the_end(promise: &'static str, what: String) -> Self {
        Self {
            promise,
            what,
            at: None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at {}: {}", self.promise, seconds(at), self.what),
            None => write!(f, "{} in the end: {}", self.promise, self.what),
        }
    }
}

/// A time as a text.
pub(super) fn seconds(time: Time) -> String {
    format!("{:.3} s", time as f64 / 1e6)
}
