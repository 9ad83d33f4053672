//! Asks a person for consent before an action that cannot be undone.
//!
//! What must never enter: the action.

use std::io::{self, IsTerminal};

use anyhow::bail;

use crate::output;

/// The only answer that counts as consent.
const CONSENT: &str = "yes";

/// Returns when the person has agreed to what was printed before, here or on the command line.
///
/// # Errors
/// When the person does not agree, or cannot be asked.
pub(crate) fn obtain(given: bool) -> anyhow::Result<()> {
    if given {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        bail!("nobody is there to be asked; nothing was done. Say --yes if it is meant");
    }
    output::ask(format_args!("Type `{CONSENT}` to go on: "))?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if answer.trim() != CONSENT {
        bail!("nothing was done");
    }
    Ok(())
}
