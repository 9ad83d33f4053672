//! Behaviour that speed does not show: a full disk, a torn journal, and fjall's own rotation.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::figure;
use crate::process::resident;
use crate::rows::{Key, Operation, scramble};
use crate::store::{Durability, Kind, Limits, Store};

/// Directory in which the full-disk case creates files.
const HOME: u64 = 1 << 40;
/// Space given back after the disk was full.
const BALLAST_BYTES: u64 = 32 << 20;

/// Fills the file system at `directory`, gives some space back, and tries to go on.
pub fn full_disk(kind: Kind, directory: &Path) -> Result<()> {
    let name = kind.name();
    let ballast = directory.join("ballast");
    std::fs::create_dir_all(directory)?;
    std::fs::write(&ballast, vec![7; BALLAST_BYTES as usize])?;
    let open = || kind.open(directory, Durability::Sync, Limits::SMALL);
    let store = open()?;
    let (created, refusal) = create_until_refused(&*store, 0);
    println!("{name}: refused after {created} files: {refusal:#}");
    let readable = outcome(count_files(&*store, created));
    println!("{name}: reading while the disk is full: {readable}");
    drop(store);
    let reopened = outcome(open().and_then(|store| count_files(&*store, created)));
    println!("{name}: reopening while the disk is full: {reopened}");

    let store = open().context("opening again to fail again")?;
    let (created, _) = create_until_refused(&*store, created);
    std::fs::remove_file(&ballast)?;
    let again = outcome(store.commit(&[Operation::create(HOME, HOME + created + 1, created)]));
    println!("{name}: writing with space again, without reopening: {again}");
    drop(store);
    let store = open().context("reopening with space again")?;
    let found = count_files(&*store, created)?;
    ensure!(found == created, "{found} of {created} files are left");
    store.commit(&[Operation::create(HOME, HOME + created + 2, created)])?;
    store.persist()?;
    println!("{name}: after reopening all {created} files are there and writing works");
    Ok(())
}

fn outcome<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.map_or_else(
        |error| format!("refused: {error:#}"),
        |value| format!("works: {value:?}"),
    )
}

/// Creates files after the first `created` until the store refuses; returns how many there are.
fn create_until_refused(store: &dyn Store, mut created: u64) -> (u64, anyhow::Error) {
    loop {
        let group: Vec<_> = (1..=64)
            .map(|step| Operation::create(HOME, HOME + created + step, created))
            .collect();
        let attempt = store
            .commit(&group)
            .and_then(|()| store.persist())
            .inspect(|()| created += group.len() as u64)
            .and_then(|()| store.tend());
        if let Err(error) = attempt {
            return (created, error);
        }
    }
}

fn count_files(store: &dyn Store, created: u64) -> Result<u64> {
    let mut found = 0;
    store.snapshot()?.scan(
        &Key::object(HOME),
        &Key::object(HOME + created + 1),
        &mut |_, _| {
            found += 1;
            Ok(true)
        },
    )?;
    Ok(found)
}

/// Shows whether fjall's flushing threads survive a load without any pause between commits.
///
/// `own` is fjall's own rotation of memtables; otherwise this thread rotates them.
pub fn rotation(directory: &Path, workers: usize, own: bool) -> Result<()> {
    const MEMTABLE_BYTES: u64 = 4 << 20;
    let limit = if own { MEMTABLE_BYTES } else { u64::MAX };
    let database = Database::builder(directory)
        .worker_threads(workers)
        .max_journaling_size(64 << 20)
        .open()?;
    let options = || KeyspaceCreateOptions::default().max_memtable_size(limit);
    let keyspaces = ["objects", "entries", "links"]
        .into_iter()
        .map(|name| database.keyspace(name, options))
        .collect::<fjall::Result<Vec<_>>>()?;
    for writer in 0..4 {
        let (database, keyspaces) = (database.clone(), keyspaces.clone());
        std::thread::spawn(move || write_without_pause(&database, &keyspaces, writer << 40));
    }
    let start = Instant::now();
    let mut largest = 0;
    while start.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(2));
        largest = largest.max(database.write_buffer_size());
        for keyspace in &keyspaces {
            if !own && keyspace.tree.active_memtable().size() > MEMTABLE_BYTES {
                keyspace.rotate_memtable()?;
            }
        }
    }
    let name = if own { "own" } else { "ours" };
    figure(
        &format!("rotation_{name}_{workers}_memtables_mib"),
        (largest >> 20) as f64,
    );
    let anonymous = resident()?.anonymous_bytes >> 20;
    figure(
        &format!("rotation_{name}_{workers}_anon_mib"),
        anonymous as f64,
    );
    // A blocked worker would make the database's destructor wait for ever.
    std::process::exit(0)
}

/// Commits batches of one row a keyspace until the process ends.
fn write_without_pause(
    database: &Database,
    keyspaces: &[Keyspace],
    first: u64,
) -> fjall::Result<()> {
    for turn in first.. {
        let mut batch = database.batch();
        for keyspace in keyspaces {
            batch.insert(keyspace, scramble(turn).to_be_bytes(), [7; 100]);
        }
        batch.commit()?;
    }
    Ok(())
}

/// Loses one page in the middle of a copy of a journal, as a power failure may, for many places,
/// and counts how often fjall opens the rest. `rows` is the size of each batch.
pub fn torn_journal(directory: &Path, rows: u64) -> Result<()> {
    const BATCHES: u64 = 400;
    const PAGE_BYTES: u64 = 4096;
    let original = directory.join("original");
    write_journal(&original, rows, BATCHES)?;
    let journal = std::fs::read(original.join("0.jnl"))?;
    let written = journal
        .iter()
        .rposition(|byte| *byte != 0)
        .context("the journal is empty")?;
    let (mut opened, mut refused) = (0, 0);
    let pages = written as u64 / PAGE_BYTES;
    for page in (1..pages).step_by((pages as usize / 20).max(1)) {
        let copy = directory.join("copy");
        copy_tree(&original, &copy)?;
        let file = OpenOptions::new().write(true).open(copy.join("0.jnl"))?;
        file.write_all_at(&[0; PAGE_BYTES as usize], page * PAGE_BYTES)?;
        match Database::builder(&copy).open() {
            Ok(database) => {
                let keyspace = database.keyspace("rows", KeyspaceCreateOptions::default)?;
                let found = keyspace.len()? as u64;
                ensure!(
                    found.is_multiple_of(rows),
                    "a batch is there in part: {found} rows"
                );
                ensure!(found < rows * BATCHES, "the lost page was not noticed");
                opened += 1;
            }
            Err(error) => {
                refused += 1;
                if refused == 1 {
                    println!("first refusal: {error}");
                }
            }
        }
        std::fs::remove_dir_all(&copy)?;
    }
    figure(&format!("torn_{rows}_opened"), f64::from(opened));
    figure(&format!("torn_{rows}_refused"), f64::from(refused));
    Ok(())
}

fn write_journal(directory: &Path, rows: u64, batches: u64) -> Result<()> {
    let database = Database::builder(directory).open()?;
    let keyspace = database.keyspace("rows", KeyspaceCreateOptions::default)?;
    for number in 0..batches {
        let mut batch = database.batch();
        for row in 0..rows {
            batch.insert(&keyspace, (number * rows + row).to_be_bytes(), [7; 100]);
        }
        batch.commit()?;
    }
    Ok(database.persist(PersistMode::SyncAll)?)
}

fn copy_tree(from: &Path, to: &PathBuf) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
