//! Versions that a decision discarded, kept beside the store so that people can view and restore them.
//!
//! ```text
//! DIR/recovered/LABEL/set.json        the content, reason and time of the set; written last
//! DIR/recovered/LABEL/manifest.jsonl  one object per line
//! DIR/recovered/LABEL/data/ID         the content of a file, or the names in a directory, one per line
//! ```
//!
//! A set is created under a temporary name and renamed when all of it is stable. These sets are not part of the tree
//! that is served, and only [`forget`] removes them. What must never enter: restoring a version;
//! this is done through the file system, like any other change.

mod copy;
mod entry;
mod save;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub use entry::{EscapedBytes, RecoveredEntry, RecoveredKind, RecoveredName, RecoveredSet};
use vfs::ObjectId;

use crate::error::StoreError;
use crate::layout::sync_directory;

/// The format that this program writes, and the newest that it can read.
const FORMAT: u32 = 1;

const SETS: &str = "recovered";
const ABOUT: &str = "set.json";
const MANIFEST: &str = "manifest.jsonl";
const DATA: &str = "data";

/// The suffix after the label while a set is being created or removed.
const UNFINISHED: &str = ".unfinished";

const MAX_LABEL_BYTES: usize = 100;

/// The longest line of a manifest: a path of 4096 names of 255 bytes, each byte escaped as three.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// The part of [`crate::decode_as_anything`] for sets of discarded versions.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = serde_json::from_slice::<RecoveredSet>(bytes);
    let _ = serde_json::from_slice::<RecoveredEntry>(bytes);
}

/// The sets beside a store, by label; the store may be open.
///
/// # Errors
/// [`StoreError`] when they cannot be read.
pub fn list(store: &Path) -> Result<Vec<RecoveredSet>, StoreError> {
    let home = store.join(SETS);
    let children = match fs::read_dir(&home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        children => children.map_err(|error| StoreError::io("list", &home, error))?,
    };
    let mut sets = Vec::new();
    for child in children {
        let child = child.map_err(|error| StoreError::io("list", &home, error))?;
        let name = child.file_name();
        if let Some(label) = name.to_str().filter(|label| is_label(label)) {
            sets.push(about(&home.join(label))?);
        }
    }
    sets.sort_by(|one, other| one.label.cmp(&other.label));
    Ok(sets)
}

/// The objects of a set, in the order in which they were saved.
///
/// # Errors
/// [`StoreError`] when there is no such set, or it cannot be read.
pub fn entries(
    store: &Path,
    label: &str,
) -> Result<impl Iterator<Item = Result<RecoveredEntry, StoreError>> + use<>, StoreError> {
    let home = home_of(store, label)?;
    about(&home)?;
    let path = home.join(MANIFEST);
    let file = plain_file::open(&path).map_err(|error| StoreError::unread(&path, error))?;
    let mut lines = BufReader::new(file);
    Ok(std::iter::from_fn(move || {
        next_entry(&mut lines, &path).transpose()
    }))
}

/// The path of an object's content in a set: for a file all of its bytes, for a directory lines of [`RecoveredName`]. The
/// caller must not move or change the content; to restore it, copy it.
///
/// # Errors
/// [`StoreError`] for an impossible label.
pub fn content(
    store: &Path,
    label: &str,
    entry: &RecoveredEntry,
) -> Result<Option<PathBuf>, StoreError> {
    let data = home_of(store, label)?.join(DATA);
    Ok(entry.has_data.then(|| data.join(data_name(entry.object))))
}

/// Removes a set and everything in it, permanently.
///
/// # Errors
/// [`StoreError`] when there is no such set, or it cannot be removed.
pub fn forget(store: &Path, label: &str) -> Result<(), StoreError> {
    let home = home_of(store, label)?;
    let doomed = unfinished(&home);
    remove_all(&doomed)?;
    fs::rename(&home, &doomed).map_err(|error| StoreError::io("rename", &home, error))?;
    sync_directory(&store.join(SETS))?;
    remove_all(&doomed)
}

/// Removes sets that were being created or removed when the store stopped, before a new attempt begins.
pub(crate) fn clear_unfinished(store: &Path) {
    let Ok(children) = fs::read_dir(store.join(SETS)) else {
        return;
    };
    for child in children.flatten() {
        let name = child.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(UNFINISHED))
            && let Err(error) = remove_all(&child.path())
        {
            tracing::warn!("an unfinished set of discarded versions is left: {error}");
        }
    }
}

fn home_of(store: &Path, label: &str) -> Result<PathBuf, StoreError> {
    match is_label(label) {
        true => Ok(store.join(SETS).join(label)),
        false => Err(StoreError::Option(
            "a label has 1 to 100 letters, digits, dots, dashes and underscores, and begins with none of the three",
        )),
    }
}

fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(fits)
        && label.as_bytes()[0].is_ascii_alphanumeric()
        && !label.ends_with(UNFINISHED)
}

fn unfinished(home: &Path) -> PathBuf {
    let mut path = home.as_os_str().to_owned();
    path.push(UNFINISHED);
    path.into()
}

fn data_name(object: ObjectId) -> String {
    format!("{:016x}", object.as_u64())
}

fn remove_all(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn about(home: &Path) -> Result<RecoveredSet, StoreError> {
    let path = home.join(ABOUT);
    let text = plain_file::read(&path, MAX_LINE_BYTES)
        .map_err(|error| StoreError::unread(&path, error))?;
    let set: RecoveredSet =
        serde_json::from_slice(&text).map_err(|error| damaged(&path, &error))?;
    match set.format {
        0..=FORMAT => Ok(set),
        found => Err(StoreError::NewerFormat {
            path,
            found,
            known: FORMAT,
        }),
    }
}

fn next_entry(
    lines: &mut BufReader<File>,
    path: &Path,
) -> Result<Option<RecoveredEntry>, StoreError> {
    let mut line = Vec::new();
    let read = lines
        .by_ref()
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut line);
    match read.map_err(|error| StoreError::io("read", path, error))? {
        0 => Ok(None),
        _ => serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| damaged(path, &error)),
    }
}

fn damaged(path: &Path, error: &serde_json::Error) -> StoreError {
    StoreError::Damaged {
        path: path.into(),
        what: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_plain_names() {
        for good in ["a", "2026-11-21", "thaw_7.b"] {
            assert!(is_label(good), "{good}");
        }
        let long = "x".repeat(MAX_LABEL_BYTES + 1);
        for bad in [
            "",
            ".",
            "..",
            "-a",
            "a/b",
            "a b",
            "ä",
            "a.unfinished",
            &long,
        ] {
            assert!(!is_label(bad), "{bad}");
        }
    }
}
