//! The repository that the tests of its pages and of its structure look at.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every file and folder below a folder, what Cargo has built and what the version control keeps left out.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") || path.ends_with(".git") {
            continue;
        }
        if path.is_dir() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}
