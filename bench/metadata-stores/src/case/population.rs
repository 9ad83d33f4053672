//! A file system of a million objects, as clients would have made it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::figure;
use crate::group::with_clients;
use crate::process::{disk_bytes, processor_time, resident};
use crate::rows::{Key, ObjectId, Operation, scramble};
use crate::store::{Durability, Kind, Limits, Snapshot, Store};

/// Files in the file system.
pub const FILES: u64 = 1_000_000;
/// The directory that holds every tenth file: a hundred thousand entries.
pub const BIG_DIRECTORY: ObjectId = 2;
/// Files in `BIG_DIRECTORY`.
pub const BIG_DIRECTORY_FILES: u64 = FILES / 10;

const SMALL_DIRECTORY_FIRST: ObjectId = 3;
const FILE_FIRST: ObjectId = 1 << 32;
const CLIENTS: u64 = 16;
/// Time that background work gets to finish what the filling left behind.
const SETTLING: Duration = Duration::from_secs(5);
/// Time over which a store that should have nothing to do is watched.
const IDLE: Duration = Duration::from_secs(2);

/// Identifier of a file by its number below `FILES`.
pub fn file(number: u64) -> ObjectId {
    FILE_FIRST + number
}

/// The directory that names a file.
pub fn directory_of(file: ObjectId) -> ObjectId {
    let number = file - FILE_FIRST;
    if number.is_multiple_of(10) {
        BIG_DIRECTORY
    } else {
        SMALL_DIRECTORY_FIRST + number / 1000
    }
}

/// The `index`th file of the big directory.
pub fn big_directory_file(index: u64) -> ObjectId {
    file(index * 10)
}

/// A file chosen at random, the same in every run.
pub fn random_file(turn: u64) -> ObjectId {
    file(scramble(turn) % FILES)
}

/// Creates every file, sixteen clients at a time, and prints what that cost.
pub fn fill(kind: Kind, directory: &Path) -> Result<()> {
    let store = kind.open(directory, Durability::Async, Limits::SMALL)?;
    let (start, processor) = (Instant::now(), processor_time()?);
    with_clients(
        &*store,
        Durability::Async,
        store.writing(),
        CLIENTS,
        |client, group| {
            for number in (client..FILES).step_by(CLIENTS as usize) {
                let file = file(number);
                group.execute(Operation::create(directory_of(file), file, number + 1))?;
            }
            Ok(())
        },
    )?;
    figure("fill_s", start.elapsed().as_secs_f64());
    figure(
        "fill_cpu_us",
        (processor_time()? - processor).as_secs_f64() * 1e6 / FILES as f64,
    );
    let processor = processor_time()?;
    std::thread::sleep(SETTLING);
    figure(
        "settle_cpu_s",
        (processor_time()? - processor).as_secs_f64(),
    );
    let processor = processor_time()?;
    std::thread::sleep(IDLE);
    let idle = (processor_time()? - processor).as_secs_f64() / IDLE.as_secs_f64();
    figure("idle_cpu_percent", idle * 100.0);
    figure(
        "fill_anon_mib",
        resident()?.anonymous_bytes as f64 / f64::from(1 << 20),
    );
    drop(store);
    figure(
        "fill_disk_mib",
        disk_bytes(directory)? as f64 / f64::from(1 << 20),
    );
    Ok(())
}

/// Fails unless every file of the population has its object row.
pub fn verify(store: &dyn Store) -> Result<()> {
    let mut found = 0;
    let snapshot: Box<dyn Snapshot + '_> = store.snapshot()?;
    snapshot.scan(
        &Key::object(FILE_FIRST - 1),
        &Key::object(file(FILES)),
        &mut |_, _| {
            found += 1;
            Ok(true)
        },
    )?;
    ensure!(found == FILES, "{found} of {FILES} files are left");
    Ok(())
}
