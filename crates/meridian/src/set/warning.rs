//! What those who run a set should know of its size.

use server::set::{self, Joined};

/// What a set of two has to be told, or one that a further server would make safer.
pub(super) fn warning(joined: &Joined) -> String {
    let warning = set::warning(&joined.members).map(|warning| format!("WARNING: {warning}.\n"));
    let hint = || set::hint(&joined.members).map(|hint| format!("Hint: {hint}.\n"));
    warning.or_else(hint).unwrap_or_default()
}
