//! `testbed guest` without a script: runs typed lines in the guest.
//!
//! What must never enter: editing of lines, and anything that only a terminal can show.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use testbed::{Guest, Script};

/// Runs each line of standard input as a separate script, shows its output, and returns the exit code
/// of the last. The folder is kept from one line to the next; variables are not.
///
/// # Errors
/// Fails when the guest dies.
pub(crate) fn shell(guest: &Guest, at: &str) -> Result<i32> {
    let mut folder = at.to_owned();
    let (mut code, mut number) = (0, 0);
    prompt(guest, &folder)?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.trim() == "exit" {
            break;
        }
        number += 1;
        // A different name for each line, see `Guest::shared`.
        let note = format!("folder-{number}");
        let body = format!("{line}\ncode=$?; pwd >{}/{note}; exit $code", Guest::SHARED);
        let job = guest.start(Script::new(body).directory(&folder))?;
        code = job.follow(&mut io::stdout().lock(), &mut io::stderr().lock())?;
        // A line that bash did not understand, or that has left the shell, does not change the folder.
        if let Ok(path) = fs::read_to_string(guest.shared().join(note)) {
            path.trim_end_matches('\n').clone_into(&mut folder);
        }
        prompt(guest, &folder)?;
    }
    Ok(code)
}

fn prompt(guest: &Guest, folder: &str) -> Result<()> {
    if !io::stdin().is_terminal() {
        return Ok(());
    }
    let mut error = io::stderr().lock();
    write!(error, "{}:{folder}# ", guest.name())?;
    Ok(error.flush()?)
}
