//! Large files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use bench::tally::{Span, Tally};

use super::hand::Hand;
use crate::workload::data;

/// The number of bytes that one call writes or reads.
pub(super) const BLOCK: usize = data::BLOCK as usize;

/// The same for random access.
const PAGE: usize = data::PAGE as usize;

impl Hand {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

/// The number of blocks of a file with about this number of bytes, at least one.
fn blocks(size: u64) -> u64 {
    (size / BLOCK as u64).max(1)
}

/// Overwrites the file, and writes it to the disk at the end.
pub(super) fn write(hand: &mut Hand, size: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let file = File::create(hand.data())?;
    let content = vec![7; BLOCK];
    for index in 0..blocks(size) {
        let began = Instant::now();
        file.write_all_at(&content, index * BLOCK as u64)?;
        tally.add(began, BLOCK as u64);
    }
    file.sync_data()?;
    Ok(tally)
}

/// Reads the file from beginning to end.
pub(super) fn read(hand: &mut Hand, size: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let file = File::open(hand.data())?;
    let mut content = vec![0; BLOCK];
    for index in 0..blocks(size) {
        let began = Instant::now();
        file.read_exact_at(&mut content, index * BLOCK as u64)?;
        tally.add(began, BLOCK as u64);
    }
    Ok(tally)
}

/// Reads pages anywhere in the file.
pub(super) fn read_randomly(hand: &mut Hand, size: u64, span: Span) -> Result<Tally> {
    let mut tally = Tally::default();
    let file = File::open(hand.data())?;
    let mut content = vec![0; PAGE];
    while span.goes_on() {
        let offset = place(hand, size);
        let began = Instant::now();
        file.read_exact_at(&mut content, offset)?;
        tally.add(began, 1);
    }
    Ok(tally)
}

/// Writes random pages of the file, and writes them to the disk at the end.
pub(super) fn write_randomly(hand: &mut Hand, size: u64, span: Span) -> Result<Tally> {
    let mut tally = Tally::default();
    let file = File::options().write(true).open(hand.data())?;
    let content = vec![8; PAGE];
    while span.goes_on() {
        let offset = place(hand, size);
        let began = Instant::now();
        file.write_all_at(&content, offset)?;
        tally.add(began, 1);
    }
    file.sync_data()?;
    Ok(tally)
}

/// Removes the file.
pub(super) fn clear(hand: &Hand) -> Result<()> {
    Ok(fs::remove_file(hand.data())?)
}

/// The offset of a random page.
fn place(hand: &mut Hand, size: u64) -> u64 {
    let pages = blocks(size) * (BLOCK / PAGE) as u64;
    hand.random.u64(..pages) * PAGE as u64
}
