//! A journal of numbered records, each synchronised before it is acknowledged, and its audit.
//!
//! What must never enter: a way to go on after an error; none may be seen.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Bytes of a record; no divisor of a page, so that records cross pages.
const RECORD_BYTES: usize = 1000;

fn record(number: u64) -> Vec<u8> {
    let mut record = format!("record {number} ").into_bytes();
    while record.len() < RECORD_BYTES - 1 {
        record.push(b'a' + ((number + record.len() as u64) % 26) as u8);
    }
    record.push(b'\n');
    record
}

/// Appends records until it is killed. A record's number is printed after `fsync` has returned.
pub fn write(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    for number in 0.. {
        file.write_all(&record(number))
            .context("an append failed")?;
        file.sync_data().context("fsync failed")?;
        println!("{number}");
    }
    Ok(())
}

/// Ends well when the journal begins with at least `count` records and whatever follows them is the
/// beginning of the next.
pub fn audit(path: &Path, count: u64) -> Result<()> {
    let bytes = fs::read(path)?;
    let mut found = 0;
    for (number, bytes) in bytes.chunks(RECORD_BYTES).enumerate() {
        let wanted = record(number as u64);
        ensure!(wanted.starts_with(bytes), "record {number} is damaged");
        found += u64::from(bytes.len() == RECORD_BYTES);
    }
    ensure!(
        found >= count,
        "{count} records were acknowledged and {found} are there"
    );
    println!("{found} records");
    Ok(())
}
