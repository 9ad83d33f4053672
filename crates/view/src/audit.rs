//! The audit: which decisions were made, by which replica and when, in plain words for administrators.
//!
//! Every replica makes the same entry when it applies a decision. What must never enter: information that is not in the
//! decision, such as this machine's clock.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

/// The maximum number of entries; older ones are dropped.
pub const AUDIT_ENTRIES_MAX: usize = 1000;

/// Longer texts from a person or a program are cut to this number of bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// One decision that changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The epoch that the decision began. If it began none, the epoch in which it was made.
    pub epoch: u64,
    /// The time of the decision, in seconds since 1970, by the clock of the deciding replica.
    pub at_unix_s: u64,
    /// The replica that asked for the decision.
    pub by: ReplicaSlot,
    /// The effect, for people.
    pub what: String,
}

/// Adds an entry and drops the oldest ones beyond [`AUDIT_ENTRIES_MAX`].
pub(crate) fn record(audit: &mut VecDeque<AuditEntry>, entry: AuditEntry) {
    audit.push_back(entry);
    while audit.len() > AUDIT_ENTRIES_MAX {
        audit.pop_front();
    }
}

/// The beginning of `words`, at most [`REASON_BYTES_MAX`] long.
pub(crate) fn shortened(words: &str) -> String {
    let mut end = words.len().min(REASON_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].to_owned()
}
