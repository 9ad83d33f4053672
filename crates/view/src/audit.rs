//! What was decided, by whom, when, in plain words: the part of the state that administrators read.
//!
//! Entries are made where decisions are applied, the same at every replica. What must never enter:
//! anything that a decision does not say itself, such as this machine's clock.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

/// At most this many entries are kept; older ones are dropped.
pub const AUDIT_ENTRIES_MAX: usize = 1000;

/// Longer texts of a person or a program are cut here, in bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// One decision that changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The epoch that the decision began; for one that began none, the epoch it was made in.
    pub epoch: u64,
    /// When, in seconds since 1970, by the clock of who decided.
    pub at_unix_s: u64,
    /// The replica that asked for the decision.
    pub by: ReplicaSlot,
    /// What, for people.
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
