//! A folder on the measured disk, for the files of servers during a run.
//!
//! What must never enter: results.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::machine;

/// A folder on the measured disk, removed when it is dropped.
pub struct WorkFolder {
    path: PathBuf,
}

impl WorkFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a new one in a folder, and removes the folders of interrupted runs there.
    pub fn make_in(parent: &Path) -> Result<Self> {
        for folder in abandoned(parent) {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("could not remove {}", folder.display()))?;
        }
        let path = parent.join(format!("work-{}", std::process::id()));
        fs::create_dir_all(&path)
            .with_context(|| format!("could not create {}", path.display()))?;
        let path = path.canonicalize()?;
        machine::spread_subfolders(&path)?;
        Ok(Self { path })
    }
}

/// The work folders of processes that are gone. A folder is kept if its process cannot be told from a running one.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten();
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_abandoned = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("work-"));
        let number = number.and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| !Path::new("/proc").join(number.to_string()).exists())
    };
    folders.filter(is_abandoned).collect()
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("bench: could not remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_abandoned() {
        let own = std::process::id();
        let parent = std::env::temp_dir().join(format!("bench-abandoned-{own}"));
        // No process has a number above the kernel's largest, 2^22.
        let gone = parent.join("work-4194305");
        for folder in [
            &gone,
            &parent.join(format!("work-{own}")),
            &parent.join("paper"),
        ] {
            fs::create_dir_all(folder).unwrap();
        }
        assert_eq!(abandoned(&parent), [gone]);
        fs::remove_dir_all(parent).unwrap();
    }
}
