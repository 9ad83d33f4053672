//! Reading a file system of a million objects, and emptying and refilling a large directory.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::population::{
    BIG_DIRECTORY, BIG_DIRECTORY_FILES, big_directory_file, directory_of, random_file, verify,
};
use super::{figure, rate};
use crate::group::with_clients;
use crate::process::resident;
use crate::rows::{Key, ObjectId, Operation, entry_child, entry_cookie, name_hash};
use crate::store::{Durability, Kind, Limits, Store};

/// Entries that one READDIR returns.
const PAGE_ENTRIES: usize = 256;
const SPAN: Duration = Duration::from_secs(1);
const CLIENTS: u64 = 16;

/// Measures reads with a small and a large cache, then the life of the large directory.
pub fn run(kind: Kind, directory: &Path) -> Result<()> {
    {
        let store = kind.open(directory, Durability::Async, Limits::LARGE)?;
        // Reading everything once fills the cache that is meant to hold everything.
        verify(&*store)?;
        getattr(&*store, "getattr_large_cache")?;
    }
    let store = kind.open(directory, Durability::Async, Limits::SMALL)?;
    getattr(&*store, "getattr")?;
    lookup(&*store)?;
    readdir(&*store, "readdir", BIG_DIRECTORY_FILES)?;
    let memory = resident()?;
    figure(
        "serve_anon_mib",
        memory.anonymous_bytes as f64 / f64::from(1 << 20),
    );
    figure(
        "serve_file_mib",
        memory.file_bytes as f64 / f64::from(1 << 20),
    );
    replace_big_directory(&*store)
}

fn repeat(name: &str, mut operation: impl FnMut(ObjectId) -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < SPAN {
        for _ in 0..64 {
            count += 1;
            operation(random_file(count))?;
        }
    }
    rate(name, count as usize, start.elapsed());
    Ok(())
}

fn getattr(store: &dyn Store, name: &str) -> Result<()> {
    repeat(name, |file| {
        let found = store.snapshot()?.read(&Key::object(file), &mut |_| ())?;
        ensure!(found, "file {file:#x} has no object row");
        Ok(())
    })
}

fn lookup(store: &dyn Store) -> Result<()> {
    repeat("lookup", |file| {
        let snapshot = store.snapshot()?;
        let mut child = None;
        let key = Key::entry(directory_of(file), name_hash(file));
        snapshot.read(&key, &mut |row| child = entry_child(row))?;
        ensure!(child == Some(file), "file {file:#x} has no entry");
        ensure!(
            snapshot.read(&Key::object(file), &mut |_| ())?,
            "an entry leads nowhere"
        );
        Ok(())
    })
}

/// Lists the large directory page by page, each page with the attributes of its entries.
fn readdir(store: &dyn Store, name: &str, expected: u64) -> Result<()> {
    let start = Instant::now();
    let (mut cookie, mut total) = (0, 0);
    loop {
        let page = read_page(store, cookie)?;
        let Some((_, last)) = page.last() else { break };
        cookie = *last;
        total += page.len();
    }
    let elapsed = start.elapsed();
    ensure!(
        total as u64 == expected,
        "{total} entries instead of {expected}"
    );
    if expected == 0 {
        figure(&format!("{name}_ms"), elapsed.as_secs_f64() * 1e3);
    } else {
        rate(name, total, elapsed);
    }
    Ok(())
}

/// One READDIR: children and cookies that follow `cookie`, after reading each child's attributes.
fn read_page(store: &dyn Store, cookie: u64) -> Result<Vec<(ObjectId, u64)>> {
    let snapshot = store.snapshot()?;
    let mut page = Vec::with_capacity(PAGE_ENTRIES);
    let after = Key::entry(BIG_DIRECTORY, cookie);
    snapshot.scan(
        &after,
        &Key::entry(BIG_DIRECTORY + 1, 0),
        &mut |key, row| {
            page.extend(entry_child(row).zip(entry_cookie(key)));
            Ok(page.len() < PAGE_ENTRIES)
        },
    )?;
    for (child, _) in &page {
        ensure!(
            snapshot.read(&Key::object(*child), &mut |_| ())?,
            "an entry leads nowhere"
        );
    }
    Ok(page)
}

fn replace_big_directory(store: &dyn Store) -> Result<()> {
    change_big_directory(store, "remove_100k", |file| {
        Operation::remove(BIG_DIRECTORY, file, file)
    })?;
    readdir(store, "readdir_emptied", 0)?;
    change_big_directory(store, "recreate_100k", |file| {
        Operation::create(BIG_DIRECTORY, file, file)
    })?;
    readdir(store, "readdir_refilled", BIG_DIRECTORY_FILES)
}

fn change_big_directory(
    store: &dyn Store,
    name: &str,
    operation: impl Fn(ObjectId) -> Operation + Sync,
) -> Result<()> {
    let start = Instant::now();
    with_clients(
        store,
        Durability::Async,
        store.writing(),
        CLIENTS,
        |client, group| {
            for index in (client..BIG_DIRECTORY_FILES).step_by(CLIENTS as usize) {
                group.execute(operation(big_directory_file(index)))?;
            }
            Ok(())
        },
    )?;
    rate(name, BIG_DIRECTORY_FILES as usize, start.elapsed());
    Ok(())
}
