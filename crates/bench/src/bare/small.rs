//! Small files and names.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use bench::tally::{Span, Tally};

use super::hand::{Hand, Promise, Shared};
use super::journal::ROW;
use crate::workload::directory::ENTRIES;
use crate::workload::files::{FILES_MAX, SIZE};

impl Hand {
    fn file(&self, number: usize) -> PathBuf {
        self.folder.join(format!("file-{number:06}"))
    }
}

/// Makes files until the time is over. Each is one row for its name, the file with its content, and another row for its length. If the
/// content has to be `stable` when it is written, the second row contains it, too, as for Meridian's small stable writes.
pub(super) fn create(
    hand: &mut Hand,
    shared: &Shared<'_>,
    span: Span,
    stable: bool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let content = vec![7; SIZE];
    let first = hand.files;
    while span.goes_on() && hand.files - first < FILES_MAX {
        let began = Instant::now();
        shared
            .journal
            .note(ROW, shared.promise == Promise::AtOnce)?;
        let mut file = File::create_new(hand.file(hand.files))?;
        file.write_all(&content)?;
        let kept = if stable { SIZE } else { 0 };
        shared.journal.note(ROW + kept, stable)?;
        drop(file);
        tally.add(began, 1);
        hand.files += 1;
    }
    Ok(tally)
}

/// Reads attributes of random files, by name.
pub(super) fn look(hand: &mut Hand, span: Span) -> Result<Tally> {
    let mut tally = Tally::default();
    ensure!(hand.files > 0, "there is no file to look at");
    while span.goes_on() {
        let number = hand.random.usize(..hand.files);
        let path = hand.file(number);
        let began = Instant::now();
        let found = fs::symlink_metadata(&path)?;
        tally.add(began, 1);
        ensure!(
            found.len() == SIZE as u64,
            "{} has {} bytes",
            path.display(),
            found.len()
        );
    }
    Ok(tally)
}

/// Makes the directory that [`list`] reads, unless it exists.
pub(super) fn make_directory(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir(path)?;
    for number in 0..ENTRIES {
        File::create_new(path.join(format!("entry-{number:05}")))?;
    }
    Ok(())
}

/// Reads a directory repeatedly, with the attributes of every entry.
pub(super) fn list(directory: &Path, span: Span) -> Result<Tally> {
    let mut tally = Tally::default();
    while span.goes_on() {
        let began = Instant::now();
        let mut entries = 0;
        for entry in fs::read_dir(directory)? {
            entry?.metadata()?;
            entries += 1;
        }
        tally.add(began, entries as u64);
        ensure!(
            entries == ENTRIES,
            "a directory of {ENTRIES} entries lists {entries}"
        );
    }
    Ok(tally)
}

/// Removes all files: a row for each, and the file.
pub(super) fn remove(hand: &mut Hand, shared: &Shared<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..std::mem::take(&mut hand.files) {
        let path = hand.file(number);
        let began = Instant::now();
        shared
            .journal
            .note(ROW, shared.promise == Promise::AtOnce)?;
        fs::remove_file(path)?;
        tally.add(began, 1);
    }
    Ok(tally)
}
