//! How messages name the members of a set: by number, and by name if there is one.
//!
//! What must never enter: which member may change a name.

use replica::MemberNames;

/// A member in words: `replica 2 (beta)`, or `replica 2` when it has no name.
pub(crate) fn replica(names: &MemberNames, slot: u16) -> String {
    format!("replica {}", short(names, slot))
}

/// The same without the word "replica": `2 (beta)`.
pub(crate) fn short(names: &MemberNames, slot: u16) -> String {
    match names.get(&slot) {
        Some(name) => format!("{slot} ({name})"),
        None => slot.to_string(),
    }
}
