//! Warnings about the size of a set.

use server::set::{self, Joined};

/// The warning for a set of two, or for a set that a further server would make safer.
pub(super) fn warning(joined: &Joined) -> String {
    let warning = set::warning(&joined.members).map(|warning| format!("WARNING: {warning}.\n"));
    let hint = || set::hint(&joined.members).map(|hint| format!("Hint: {hint}.\n"));
    warning.or_else(hint).unwrap_or_default()
}
