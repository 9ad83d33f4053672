//! What people call the members of a set: by number, and by name where they have one.
//!
//! What must never enter: who may name whom.

use replica::MemberNames;

/// A member in words: `replica 2 (beta)`, or `replica 2` when it has no name.
pub(crate) fn replica(names: &MemberNames, slot: u16) -> String {
    format!("replica {}", short(names, slot))
}

/// The same where it is clear that a replica is meant: `2 (beta)`.
pub(crate) fn short(names: &MemberNames, slot: u16) -> String {
    match names.get(&slot) {
        Some(name) => format!("{slot} ({name})"),
        None => slot.to_string(),
    }
}
