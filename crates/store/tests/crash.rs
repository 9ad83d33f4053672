//! The state after the process is killed in the middle of its work, again and again.
//!
//! A child process works on a store and prints on its standard output what was acknowledged. It is killed
//! without warning; then the parent opens the store and compares. Every acknowledged operation
//! must be there; an operation in progress must be there completely or not at all.
//!
//! Killing a process proves nothing about power failures: its writes are still in the page cache. It
//! proves that batches are atomic, ordered, and written before they are answered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fixture::{Approver, directory, file, name, root, with_size};
use store::{CommitMode, NewStore, Reserve, RowChange, Store, StoreOptions};
use vfs::{AccessCheck, Cookie, FileSystem, ObjectId, ObjectKind, SetAttributes, Stability};

const CHILD: &str = "STORE_CRASH_CHILD";
const ROUNDS: u64 = 6;
const WORKERS: u64 = 3;
/// Operations in one turn of a worker.
const STEPS: u64 = 9;
const OVERWRITTEN_BYTES: usize = 1000;

fn main() {
    if let Ok(path) = std::env::var(CHILD) {
        return child(Path::new(&path));
    }
    for mode in [CommitMode::Sync, CommitMode::Async] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        drop(Store::create(&options(&path, mode), &NewStore::default()).unwrap());
        let mut settled = BTreeMap::new();
        let mut acknowledged = 0;
        for round in 0..ROUNDS {
            acknowledged += crash_once(&path, mode, round, &mut settled);
        }
        let report = Store::check(&path, false).unwrap();
        assert!(report.sound, "{report}");
        println!("{mode:?}: {acknowledged} acknowledged operations survived {ROUNDS} kills");
        assert!(
            acknowledged > ROUNDS * WORKERS,
            "the child hardly did anything"
        );
    }
}

fn options(path: &Path, mode: CommitMode) -> StoreOptions {
    let mut options = StoreOptions::new(path);
    options.commit = mode;
    options.reserve = Reserve::Bytes(0);
    options
}

/// One file as a listing shows it: links, and content if it is a file.
type Seen = BTreeMap<String, (u32, Option<Bytes>)>;

/// Lets a child work and kills it, then opens the store and compares. Returns the number of acknowledged
/// operations.
fn crash_once(
    path: &Path,
    mode: CommitMode,
    round: u64,
    settled: &mut BTreeMap<String, Seen>,
) -> u64 {
    let lines = run_and_kill(path, mode, round);
    let store = Store::open(&options(path, mode)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (store, _) = Approver::of(store);
        for id in store.recovered().unwrap() {
            store.renew(id).await.unwrap();
        }
        for (place, before) in settled.iter() {
            assert_eq!(
                listing(&store, place).await.as_ref(),
                Some(before),
                "{place} has changed"
            );
        }
        let mut acknowledged = 0;
        for worker in 0..WORKERS {
            let prefix = format!("ack {worker} .");
            let done = lines
                .iter()
                .filter(|line| line.starts_with(&prefix))
                .count() as u64;
            let place = place(round, worker);
            let seen = listing(&store, &place).await;
            compare(&place, done, seen.as_ref());
            acknowledged += done;
            if let Some(seen) = seen {
                settled.insert(place, seen);
            }
        }
        check_dirty_file(&store, round, &lines).await;
        check_overwritten(&store, round, &lines).await;
        check_records(&store).await;
        acknowledged
    })
}

fn run_and_kill(path: &Path, mode: CommitMode, round: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD, path)
        .env("STORE_CRASH_MODE", format!("{mode:?}"))
        .env("STORE_CRASH_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || -> Vec<String> {
        // A line that the kill cut in two was never acknowledged.
        output
            .split(b'\n')
            .map_while(Result::ok)
            .filter_map(|line| {
                let line = String::from_utf8(line).ok()?;
                line.ends_with('.').then_some(line)
            })
            .collect()
    });
    // Different rounds are killed at different points of their work; the exact points do not matter.
    std::thread::sleep(Duration::from_millis(150 + 53 * round));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// Compares with the acknowledged operations, or with these and the next one.
fn compare(place: &str, done: u64, seen: Option<&Seen>) {
    let after: Vec<Option<Seen>> = [done, done + 1].into_iter().map(expected).collect();
    let one = after.iter().any(|expected| expected.as_ref() == seen);
    assert!(
        one,
        "{place} after {done} operations is {seen:#?}, and not {after:#?}"
    );
}

fn place(round: u64, worker: u64) -> String {
    format!("round{round}-worker{worker}")
}

/// The content of a worker's directory after this many of its operations; the first one creates it.
fn expected(operations: u64) -> Option<Seen> {
    let mut seen = Seen::new();
    if operations == 0 {
        return None;
    }
    for step in 0..operations - 1 {
        let turn = step / STEPS;
        let body = pattern(turn);
        let (new, linked, moved) = (
            format!("new{turn}"),
            format!("linked{turn}"),
            format!("moved{turn}"),
        );
        match step % STEPS {
            0 => drop(seen.insert(new, (1, Some(Bytes::new())))),
            1 => drop(seen.insert(new, (1, Some(body)))),
            2 => {
                seen.insert(new, (2, Some(body.clone())));
                seen.insert(linked, (2, Some(body)));
            }
            3 => {
                let file = seen.remove(&new).unwrap();
                seen.insert(moved, file);
            }
            4 => {
                let half = body.slice(..body.len() / 2);
                seen.insert(moved, (2, Some(half.clone())));
                seen.insert(linked, (2, Some(half)));
            }
            5 => drop(seen.insert(format!("directory{turn}"), (2, None))),
            6 => {
                seen.remove(&linked);
                seen.get_mut(&moved).unwrap().0 = 1;
            }
            7 => {
                let file = seen.remove(&moved).unwrap();
                seen.insert("latest".into(), file);
            }
            _ => drop(seen.remove(&format!("directory{turn}"))),
        }
    }
    Some(seen)
}

fn pattern(turn: u64) -> Bytes {
    let length = 10 + (turn * 977) % 6000;
    (0..length)
        .map(|at| (at * 7 + turn) as u8)
        .collect::<Vec<u8>>()
        .into()
}

async fn listing(store: &Store, place: &str) -> Option<Seen> {
    let who = root();
    let found = store
        .lookup(&who, ObjectId::ROOT, &name(place))
        .await
        .ok()?;
    let page = store
        .read_directory(&who, found.id, Cookie::START, 4096)
        .await
        .unwrap();
    assert!(page.end);
    let mut seen = Seen::new();
    for entry in page.entries {
        let attributes = entry.attributes;
        let content = match attributes.kind {
            ObjectKind::File => {
                let count = u32::try_from(attributes.size).unwrap();
                let read = store
                    .read(AccessCheck::Open(&who), attributes.id, 0, count)
                    .await;
                Some(read.unwrap().bytes)
            }
            _ => None,
        };
        seen.insert(entry.name.to_string(), (attributes.links, content));
    }
    Some(seen)
}

/// A file with unstable writes shows a newer version than any seen before the kill.
async fn check_dirty_file(store: &Store, round: u64, lines: &[String]) {
    let Some(last) = lines
        .iter()
        .rev()
        .find(|line| line.starts_with("unstable "))
    else {
        return;
    };
    let mut words = last.trim_end_matches(" .").split(' ').skip(1);
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (change, size) = (number(), number());
    let who = root();
    let file = name(&format!("unstable{round}"));
    let found = store.lookup(&who, ObjectId::ROOT, &file).await.unwrap();
    assert!(
        found.change.0 > change,
        "clients could trust what they cached before the kill"
    );
    assert!(
        found.size <= size + 100,
        "the file is longer than anything written to it"
    );
    let count = u32::try_from(found.size).unwrap();
    let read = store
        .read(AccessCheck::Open(&who), found.id, 0, count)
        .await
        .unwrap();
    assert!(
        read.bytes.iter().all(|byte| *byte == 7),
        "bytes that nobody wrote"
    );
}

/// Committed data is not replaced by data that was stable before it.
async fn check_overwritten(store: &Store, round: u64, lines: &[String]) {
    let Some(last) = lines
        .iter()
        .rev()
        .find(|line| line.starts_with("overwrote "))
    else {
        return;
    };
    let last: u64 = last.split(' ').nth(1).unwrap().parse().unwrap();
    let who = root();
    let file = name(&format!("overwritten{round}"));
    let found = store.lookup(&who, ObjectId::ROOT, &file).await.unwrap();
    let read = store
        .read(
            AccessCheck::Open(&who),
            found.id,
            0,
            OVERWRITTEN_BYTES as u32,
        )
        .await;
    let numbers: Vec<u64> = read
        .unwrap()
        .bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_be_bytes(chunk.try_into().unwrap()))
        .collect();
    // The two writes after the last commit may have happened, completely or in part.
    let sound = |number: &u64| (last..=last + 2).contains(number);
    assert!(
        numbers.len() == OVERWRITTEN_BYTES / 8,
        "{} numbers",
        numbers.len()
    );
    assert!(
        numbers.iter().all(sound),
        "{last} was committed, and there is {numbers:?}"
    );
}

/// Rows and records match: the last change of a row in the records is the row.
async fn check_records(store: &Store) {
    let mut latest: BTreeMap<(u8, Bytes), Option<Bytes>> = BTreeMap::new();
    let mut from = 0;
    loop {
        let records = store.updates(from, 1000).unwrap();
        let Some(last) = records.last() else { break };
        from = last.position + 1;
        for RowChange { table, key, value } in records.into_iter().flat_map(|record| record.changes)
        {
            latest.insert((table, key), value);
        }
    }
    assert!(!latest.is_empty());
    let rows = fixture::pair::all_rows(store).await.into_iter();
    let mut rows: BTreeMap<(u8, Bytes), Option<Bytes>> =
        rows.map(|row| ((row.table, row.key), row.value)).collect();
    for ((table, key), value) in latest {
        let row = rows.remove(&(table, key.clone())).flatten();
        // The access time is changed without a record.
        let same = match (&row, &value) {
            (Some(row), Some(value)) if table == 1 => {
                without_access_time(row) == without_access_time(value)
            }
            _ => row == value,
        };
        assert!(
            same,
            "table {table}, key {key:?}: row {row:?}, record {value:?}"
        );
    }
}

/// An object row with its access time blanked, see `docs/disk-format.md`.
fn without_access_time(row: &[u8]) -> Vec<u8> {
    let mut row = row.to_vec();
    row[28..40].fill(0);
    row
}

fn child(path: &Path) {
    let mode = match std::env::var("STORE_CRASH_MODE").as_deref() {
        Ok("Async") => CommitMode::Async,
        _ => CommitMode::Sync,
    };
    let round = std::env::var("STORE_CRASH_ROUND").unwrap().parse().unwrap();
    let store = Store::open(&options(&PathBuf::from(path), mode)).unwrap();
    let store = Arc::new(Approver::of(store).0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        store.end_reclaim().await.unwrap();
        let mut tasks: Vec<_> = (0..WORKERS)
            .map(|worker| tokio::spawn(work(Arc::clone(&store), round, worker)))
            .collect();
        tasks.push(tokio::spawn(write_unstably(Arc::clone(&store), round)));
        tasks.push(tokio::spawn(overwrite(Arc::clone(&store), round)));
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Prints a line in one piece. A closed pipe means that the parent is gone.
fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    if writeln!(output, "{line} .")
        .and_then(|()| output.flush())
        .is_err()
    {
        std::process::exit(1);
    }
}

/// Runs the operations that [`expected`] describes, without end.
async fn work(store: Arc<Store>, round: u64, worker: u64) {
    let who = root();
    let set = SetAttributes::default();
    let home = name(&place(round, worker));
    let made = store
        .create(&who, ObjectId::ROOT, &home, directory(), &set)
        .await;
    let home = made.unwrap().attributes.id;
    say(&format!("ack {worker}"));
    let mut current = ObjectId::ROOT;
    for step in 0.. {
        let turn = step / STEPS;
        let (new, linked, moved) = (
            name(&format!("new{turn}")),
            name(&format!("linked{turn}")),
            name(&format!("moved{turn}")),
        );
        let subdirectory = name(&format!("directory{turn}"));
        match step % STEPS {
            0 => {
                current = store
                    .create(&who, home, &new, file(), &set)
                    .await
                    .unwrap()
                    .attributes
                    .id
            }
            1 => {
                let access = AccessCheck::Credentials(&who);
                let body = pattern(turn);
                store
                    .write(access, current, 0, body, Stability::File)
                    .await
                    .unwrap();
            }
            2 => drop(store.link(&who, current, home, &linked).await.unwrap()),
            3 => drop(
                store
                    .rename(&who, (home, &new), (home, &moved))
                    .await
                    .unwrap(),
            ),
            4 => {
                let half = with_size(pattern(turn).len() as u64 / 2);
                let access = AccessCheck::Credentials(&who);
                store.set_attributes(access, current, &half).await.unwrap();
            }
            5 => drop(
                store
                    .create(&who, home, &subdirectory, directory(), &set)
                    .await
                    .unwrap(),
            ),
            6 => drop(store.remove(&who, home, &linked).await.unwrap()),
            7 => drop(
                store
                    .rename(&who, (home, &moved), (home, &name("latest")))
                    .await
                    .unwrap(),
            ),
            _ => drop(store.remove(&who, home, &subdirectory).await.unwrap()),
        }
        say(&format!("ack {worker}"));
    }
}

async fn write_unstably(store: Arc<Store>, round: u64) {
    let who = root();
    let file_name = name(&format!("unstable{round}"));
    let set = SetAttributes::default();
    let made = store
        .create(&who, ObjectId::ROOT, &file_name, file(), &set)
        .await;
    let id = made.unwrap().attributes.id;
    for turn in 0_u64.. {
        let data = Bytes::from_static(&[7; 100]);
        let access = AccessCheck::Credentials(&who);
        store
            .write(access, id, turn * 100, data, Stability::Unstable)
            .await
            .unwrap();
        let attributes = store.attributes(id).await.unwrap();
        say(&format!(
            "unstable {} {}",
            attributes.change.0, attributes.size
        ));
        // Leave the other workers some of the time.
        if turn % 20 == 19 {
            store.commit(id, 0, 0).await.unwrap();
        }
    }
}

/// Writes the same range stably, then unstably, and commits; each time with other bytes.
async fn overwrite(store: Arc<Store>, round: u64) {
    let who = root();
    let file_name = name(&format!("overwritten{round}"));
    let set = SetAttributes::default();
    let made = store
        .create(&who, ObjectId::ROOT, &file_name, file(), &set)
        .await;
    let id = made.unwrap().attributes.id;
    let access = AccessCheck::Credentials(&who);
    for number in (1_u64..).step_by(2) {
        let filled = |number: u64| Bytes::from(number.to_be_bytes().repeat(OVERWRITTEN_BYTES / 8));
        store
            .write(access, id, 0, filled(number), Stability::File)
            .await
            .unwrap();
        let later = filled(number + 1);
        store
            .write(access, id, 0, later, Stability::Unstable)
            .await
            .unwrap();
        store.commit(id, 0, 0).await.unwrap();
        say(&format!("overwrote {}", number + 1));
    }
}
