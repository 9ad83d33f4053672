//! Publishing: pages are written into the repository, under a date.
//!
//! What must never enter: the content of a page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Refuses a date that is not written like 2026-01-31.
///
/// # Errors
/// Explains the format of dates.
pub fn check_date(text: &str) -> Result<()> {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let digits = parts.concat().bytes().all(|byte| byte.is_ascii_digit());
    ensure!(
        lengths == [4, 2, 2] && digits,
        "'{text}' is no date; write it as 2026-01-31"
    );
    Ok(())
}

/// Writes a page.
///
/// # Errors
/// Fails outside of the repository.
pub fn publish(file: &Path, text: String) -> Result<()> {
    let text = text.trim_end().to_owned() + "\n";
    fs::write(file, text).with_context(|| {
        let shown = file.display();
        format!("could not write {shown}; run it in the repository")
    })?;
    eprintln!("{} is written", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_told_from_other_words() {
        assert!(check_date("2026-01-31").is_ok());
        assert!(check_date("today").is_err());
        assert!(check_date("31-01-2026").is_err());
    }
}
