//! Many entries in one directory: made, listed, and changed without end.
//!
//! What must never enter: anything about what the entries contain.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Creates entries with the numbers `from` to `until` and names that begin with `prefix`. They are
/// symbolic links, each of which costs a client one request.
pub fn fill(folder: &Path, prefix: &str, from: u32, until: u32) -> Result<()> {
    for number in from..until {
        let path = folder.join(format!("{prefix}{number}"));
        symlink("x", &path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Lists the folder once, and ends well only when each of the `count` entries with this prefix was
/// there exactly once, whatever else was.
pub fn list(folder: &Path, prefix: &str, count: u32) -> Result<()> {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let mut others = 0;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().context("every name here is text")?;
        match name.strip_prefix(prefix) {
            Some(number) => *seen.entry(number.parse()?).or_default() += 1,
            None => others += 1,
        }
    }
    let missed = (0..count).filter(|number| !seen.contains_key(number));
    let missed: Vec<u32> = missed.collect();
    ensure!(
        missed.is_empty(),
        "{} were missed: {:?}",
        missed.len(),
        &missed[..missed.len().min(9)]
    );
    let repeated = seen.values().filter(|times| **times > 1).count();
    ensure!(repeated == 0, "{repeated} were listed more than once");
    ensure!(seen.len() as u64 == u64::from(count), "there are strangers");
    println!("{count} steady, {others} others");
    Ok(())
}

/// Creates and removes entries until it is killed, keeping some hundred, and says how many were
/// removed from time to time.
pub fn churn(folder: &Path) -> Result<()> {
    const KEPT: u64 = 300;
    for number in 0_u64.. {
        let path = |number: u64| folder.join(format!("passing-{number}"));
        File::create_new(path(number)).context("a new name must be free")?;
        if number >= KEPT {
            fs::remove_file(path(number - KEPT)).context("an entry of its own must be there")?;
            if number % 50 == 0 {
                println!("{number}");
            }
        }
    }
    Ok(())
}
