//! Compares two trees, entry by entry and byte by byte.
//!
//! What must never enter: what may differ without harm; nothing may, but directories' own sizes.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Ends well only when `copy` has the same entries as `original`: names, types, permissions, times,
/// targets of symbolic links and content.
pub fn compare(original: &Path, copy: &Path) -> Result<()> {
    let (left, right) = (entries(original)?, entries(copy)?);
    for path in left.keys().chain(right.keys()) {
        let both = left.contains_key(path) && right.contains_key(path);
        ensure!(both, "{} is in one tree only", path.display());
    }
    let mut bytes = 0;
    for (path, metadata) in &left {
        let other = &right[path];
        ensure!(
            described(metadata) == described(other),
            "{}: {} became {}",
            path.display(),
            described(metadata),
            described(other)
        );
        bytes += same_content(&original.join(path), &copy.join(path), metadata)?;
    }
    println!("{} entries, {bytes} bytes", left.len());
    Ok(())
}

fn entries(root: &Path) -> Result<BTreeMap<PathBuf, Metadata>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let listing = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in listing {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            let inner = path
                .strip_prefix(root)
                .expect("it was found below the root");
            found.insert(inner.to_owned(), metadata);
        }
    }
    Ok(found)
}

fn described(metadata: &Metadata) -> String {
    let size = match metadata.is_dir() {
        true => 0,
        false => metadata.len(),
    };
    let socket = metadata.file_type().is_socket();
    format!(
        "mode {:o}, {size} bytes, changed at {}, socket {socket}",
        metadata.mode(),
        metadata.mtime()
    )
}

/// How many bytes were compared.
fn same_content(original: &Path, copy: &Path, metadata: &Metadata) -> Result<u64> {
    if metadata.is_symlink() {
        let (left, right) = (fs::read_link(original)?, fs::read_link(copy)?);
        ensure!(left == right, "{} points elsewhere", copy.display());
    }
    if !metadata.is_file() {
        return Ok(0);
    }
    let (left, right) = (content(original)?, content(copy)?);
    let place = left
        .iter()
        .zip(&right)
        .position(|(left, right)| left != right);
    ensure!(
        left == right,
        "{} differs from byte {place:?} on ({} and {} bytes)",
        copy.display(),
        left.len(),
        right.len()
    );
    Ok(left.len() as u64)
}

fn content(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.with_context(|| path.display().to_string())?;
    Ok(bytes)
}
