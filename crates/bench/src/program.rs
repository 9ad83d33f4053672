//! The measured server programs: their paths and versions.
//!
//! What must never enter: how to start them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The server program to measure: the one named, or the one built beside this program.
pub fn meridian(named: Option<&Path>) -> Result<PathBuf> {
    let program = match named {
        Some(named) => named.to_owned(),
        None => std::env::current_exe()?.with_file_name("meridian"),
    };
    match program.canonicalize() {
        Ok(program) => Ok(program),
        Err(_) => bail!(
            "there is no {}; run `cargo build --release -p meridian`, or name it with --meridian",
            program.display()
        ),
    }
}

/// The version that a server prints; additions in parentheses are left out.
pub fn version(program: &Path, argument: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.with_context(|| format!("could not start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.split_once('(').map_or(&*text, |(before, _)| before);
    let word = text.split_whitespace().last();
    let word = word.with_context(|| format!("{} has no version", program.display()))?;
    Ok(word.trim_start_matches('V').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_last_word_before_parentheses() {
        let said = |words| version(Path::new("echo"), words).map_err(drop);
        assert_eq!(
            said("meridian 0.1.0 (0123abcd, built today)"),
            Ok("0.1.0".into())
        );
        assert_eq!(said("NFS-Ganesha Release = V4.3"), Ok("4.3".into()));
        assert_eq!(said(""), Err(()));
    }
}
