//! The power fails at any instant while clients work: what is left on the disk has everything that was answered before, and nothing
//! that had been taken back, whatever part of what the disk had not flushed is lost, torn, or overtaken by later writes.
//!
//! The disk is one of the test's own (`recorder`). Needs FUSE, loop devices and the superuser; for anybody else this says so and proves
//! nothing. `STORE_POWER_LOSSES` says how many losses of each kind of disk are looked at, `STORE_POWER_SEED` chooses other work.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../fixture/mod.rs"]
mod fixture;
mod recorder;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fixture::Approver;
use fixture::disk::SmallDisk;
use fixture::random::Random;
use fixture::{directory, file, name, root, with_size};
use recorder::{Loss, Recorder};
use store::{ContentPiece, NewStore, Store, StoreOptions};
use vfs::{
    AccessCheck, Extent, FileSystem, ObjectId, SetAttributes, Stability, XattrMode, XattrName,
};

const ROOT: ObjectId = ObjectId::ROOT;
const WORKERS: u64 = 4;
const NAMES: u64 = 8;
const MOST_BYTES: u64 = 300_000;
/// Of the disk.
const MEBIBYTES: u64 = 400;

/// What one worker does next to its files.
#[derive(Clone, Debug)]
enum Step {
    Create(String),
    /// Stably, or followed by a COMMIT.
    Write(String, u64, u8, usize, bool),
    Resize(String, u64),
    Punch(String, u64),
    Rename(String, String),
    Remove(String),
    Tag(String, u8),
    Mode(String, u32),
}

impl Step {
    fn names(&self) -> Vec<String> {
        match self {
            Step::Create(one)
            | Step::Write(one, ..)
            | Step::Resize(one, _)
            | Step::Punch(one, _)
            | Step::Remove(one)
            | Step::Tag(one, _)
            | Step::Mode(one, _) => vec![one.clone()],
            Step::Rename(one, other) => vec![one.clone(), other.clone()],
        }
    }
}

/// What is known of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    bytes: Vec<u8>,
    tag: Option<u8>,
    mode: Option<u32>,
}

/// The files of one worker.
type Files = BTreeMap<String, Known>;

fn choose(random: &mut Random, files: &Files) -> Step {
    let one = format!("f{}", random.below(NAMES));
    if !files.contains_key(&one) {
        return Step::Create(one);
    }
    let offset = random.below(MOST_BYTES);
    match random.below(12) {
        0..=4 => {
            let length = [1, 500, 4096, 20_000, 100_000][random.below(5) as usize];
            let byte = 1 + random.below(255) as u8;
            Step::Write(one, offset, byte, length, random.below(2) == 0)
        }
        5 | 6 => Step::Resize(one, offset),
        7 => Step::Punch(one, offset),
        8 => Step::Rename(one, format!("f{}", random.below(NAMES))),
        9 => Step::Remove(one),
        10 => Step::Mode(one, 0o600 + random.below(64) as u32),
        _ => Step::Tag(one, random.below(256) as u8),
    }
}

fn apply(files: &mut Files, step: &Step) {
    let of = |files: &mut Files, one: &str, change: &mut dyn FnMut(&mut Vec<u8>)| {
        change(&mut files.get_mut(one).unwrap().bytes);
    };
    match step.clone() {
        Step::Create(one) => drop(files.insert(one, Known::default())),
        Step::Write(one, offset, byte, length, _) => of(files, &one, &mut |bytes| {
            let end = offset as usize + length;
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset as usize..end].fill(byte);
        }),
        Step::Resize(one, size) => of(files, &one, &mut |bytes| bytes.resize(size as usize, 0)),
        Step::Punch(one, offset) => of(files, &one, &mut |bytes| {
            let end = bytes.len().min(offset as usize + 50_000);
            if let Some(hole) = bytes.get_mut(offset as usize..end) {
                hole.fill(0);
            }
        }),
        Step::Rename(one, other) => {
            let moved = files.remove(&one).unwrap();
            files.insert(other, moved);
        }
        Step::Remove(one) => drop(files.remove(&one)),
        Step::Tag(one, value) => files.get_mut(&one).unwrap().tag = Some(value),
        Step::Mode(one, mode) => files.get_mut(&one).unwrap().mode = Some(mode),
    }
}

fn tag() -> XattrName {
    XattrName::new(b"user.tag".to_vec()).unwrap()
}

async fn carry_out(store: &Store, home: ObjectId, step: &Step) -> vfs::Result<()> {
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let find = |one: String| {
        let who = &who;
        async move {
            store
                .lookup(who, home, &name(&one))
                .await
                .map(|found| found.id)
        }
    };
    match step.clone() {
        Step::Create(one) => {
            let (text, set) = (name(&one), SetAttributes::default());
            store
                .create(&who, home, &text, file(), &set)
                .await
                .map(drop)
        }
        Step::Write(one, offset, byte, length, stable) => {
            let id = find(one).await?;
            let data = Bytes::from(vec![byte; length]);
            if stable {
                let written = store.write(access, id, offset, data, Stability::File);
                return written.await.map(drop);
            }
            let written = store.write(access, id, offset, data, Stability::Unstable);
            written.await?;
            store.commit(id, 0, 0).await.map(drop)
        }
        Step::Resize(one, size) => {
            let id = find(one).await?;
            let set = with_size(size);
            store.set_attributes(access, id, &set).await.map(drop)
        }
        Step::Punch(one, offset) => {
            let length = 50_000;
            let id = find(one).await?;
            store
                .deallocate(access, id, Extent { offset, length })
                .await
        }
        Step::Rename(one, other) => {
            let (one, other) = (name(&one), name(&other));
            store
                .rename(&who, (home, &one), (home, &other))
                .await
                .map(drop)
        }
        Step::Remove(one) => store.remove(&who, home, &name(&one)).await.map(drop),
        Step::Tag(one, value) => {
            let id = find(one).await?;
            let value = Bytes::from(vec![value]);
            let key = tag();
            let set = store.set_xattr(&who, id, &key, value, XattrMode::Any);
            set.await.map(drop)
        }
        Step::Mode(one, mode) => {
            let id = find(one).await?;
            let set = SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            };
            store.set_attributes(access, id, &set).await.map(drop)
        }
    }
}

/// How far a worker is: what was answered, and what it has begun since.
#[derive(Clone, Default)]
struct Progress {
    files: Files,
    under_way: Option<Step>,
    /// The steps answered.
    answered: u64,
}

struct Worker {
    home: ObjectId,
    progress: Mutex<Progress>,
}

async fn work(store: &Store, worker: &Worker, mut random: Random, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let step = {
            let mut progress = worker.progress.lock().unwrap();
            let step = choose(&mut random, &progress.files);
            progress.under_way = Some(step.clone());
            step
        };
        let same = matches!(&step, Step::Rename(one, other) if one == other);
        if !same {
            carry_out(store, worker.home, &step).await.unwrap();
        }
        let mut progress = worker.progress.lock().unwrap();
        if !same {
            apply(&mut progress.files, &step);
        }
        progress.under_way = None;
        progress.answered += 1;
    }
}

/// Compares what a copy holds with what was answered before it was made; what was being done meanwhile may be there or not.
async fn compare(store: &Store, worker: &Worker, before: &Progress, after: &Progress) {
    let mut open: BTreeSet<String> = BTreeSet::new();
    for progress in [before, after] {
        open.extend(progress.under_way.iter().flat_map(Step::names));
    }
    // More than one step may have been answered while the copy was made: their names are those that differ.
    for one in before.files.keys().chain(after.files.keys()) {
        if before.files.get(one) != after.files.get(one) {
            open.insert(one.clone());
        }
    }
    if after.answered > before.answered + 3 {
        // A name may have come back to what it was.
        return;
    }
    let who = root();
    for number in 0..NAMES {
        let one = format!("f{number}");
        let found = store.lookup(&who, worker.home, &name(&one)).await;
        if open.contains(&one) {
            continue;
        }
        let Some(known) = before.files.get(&one) else {
            assert!(found.is_err(), "{one} is back");
            continue;
        };
        let found = found.unwrap_or_else(|error| panic!("{one} is lost: {error}"));
        let access = AccessCheck::Credentials(&who);
        let read = store.read(access, found.id, 0, 1 << 20).await.unwrap();
        assert_same(&one, &read.bytes, &known.bytes);
        // The same is shipped to others.
        let shipped = store.content(found.id, 0, found.size).unwrap();
        assert_same(&one, &joined(shipped, found.size), &known.bytes);
        let value = store.xattr(&who, found.id, &tag()).await.ok();
        assert_eq!(
            value.map(|value| value[0]),
            known.tag,
            "{one} has another tag"
        );
        let mode = known.mode.unwrap_or(found.mode);
        assert_eq!(found.mode, mode, "{one} has another mode");
    }
}

fn assert_same(one: &str, bytes: &[u8], known: &[u8]) {
    let differs = bytes
        .iter()
        .zip(known)
        .position(|(one, other)| one != other);
    assert_eq!(bytes.len(), known.len(), "{one} has another size");
    assert_eq!(differs, None, "{one} has other bytes from there on");
}

fn joined(pieces: Vec<ContentPiece>, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    for piece in pieces {
        if let ContentPiece::Data {
            offset,
            bytes: data,
        } = piece
        {
            bytes[offset as usize..][..data.len()].copy_from_slice(&data);
        }
    }
    bytes
}

fn number_from(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

/// The server of the store: alone, or a member of a set, which records its changes for others.
fn hook(store: &Store, is_member: bool) -> Option<Arc<Approver>> {
    is_member.then(|| Approver::of(store))
}

/// One loss of power after the other of a disk of some kind.
async fn cut_power(outer: &Path, maker: &[&str], is_member: bool, losses: u64, seed: u64) {
    let Some(recorder) = Recorder::begin(outer, MEBIBYTES << 20) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::made_of(place, recorder.path(), MEBIBYTES, maker) else {
        return;
    };
    let options = StoreOptions::new(disk.path().join("store"));
    let store = Arc::new(Store::create(&options, &NewStore::default()).unwrap());
    let _overseer = hook(&store, is_member);
    store.end_reclaim().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut workers, mut tasks) = (Vec::new(), tokio::task::JoinSet::new());
    for number in 0..WORKERS {
        let (who, text) = (root(), name(&format!("d{number}")));
        let set = SetAttributes::default();
        let made = store.create(&who, ROOT, &text, directory(), &set).await;
        let worker = Arc::new(Worker {
            home: made.unwrap().attributes.id,
            progress: Mutex::default(),
        });
        workers.push(Arc::clone(&worker));
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        let random = Random(seed * WORKERS + number);
        tasks.spawn(async move { work(&store, &worker, random, &stop).await });
    }
    let (mut random, mut unflushed) = (Random(seed), 0);
    for loss in 0..losses {
        tokio::time::sleep(Duration::from_millis(300 + loss * 37 % 700)).await;
        let look = || {
            workers
                .iter()
                .map(|worker| worker.progress.lock().unwrap().clone())
        };
        let before: Vec<Progress> = look().collect();
        let copy = outer.join("copy");
        let kind = Loss::ALL[(loss % 4) as usize];
        unflushed += recorder.lose_power(&copy, kind, &mut random);
        let after: Vec<Progress> = look().collect();
        println!("{}, member {is_member}: loss {loss}, {kind:?}", maker[0]);
        let options = match maker[0] {
            "mkfs.xfs" => "loop,nouuid",
            _ => "loop",
        };
        let disk = SmallDisk::mounted(tempfile::tempdir().unwrap(), &copy, options).unwrap();
        let options = StoreOptions::new(disk.path().join("store"));
        let left = Store::open(&options).unwrap();
        let _overseer = hook(&left, is_member);
        for id in left.recovered().unwrap() {
            left.renew(id).await.unwrap();
        }
        left.end_reclaim().await.unwrap();
        for ((worker, before), after) in workers.iter().zip(&before).zip(&after) {
            compare(&left, worker, before, after).await;
        }
        drop(left);
        let report = Store::check(&options.directory, false).unwrap();
        assert!(report.sound, "{report}");
    }
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    let steps: u64 = workers
        .iter()
        .map(|worker| worker.progress.lock().unwrap().answered)
        .sum();
    println!(
        "{}, member {is_member}: {losses} losses of power during {steps} steps and {} flushes, with {unflushed} bytes not flushed",
        maker[0],
        recorder.flushes()
    );
    assert!(steps > 10 * losses, "hardly anything was done");
    assert!(recorder.flushes() > losses, "nothing is ever flushed");
    drop(store);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_the_power_fails_what_was_answered_is_there() {
    let (losses, seed) = (
        number_from("STORE_POWER_LOSSES", 2),
        number_from("STORE_POWER_SEED", 20),
    );
    println!("STORE_POWER_LOSSES={losses} STORE_POWER_SEED={seed}");
    let (ext4, xfs) = (&["mkfs.ext4", "-q"][..], &["mkfs.xfs", "-q"][..]);
    let kinds = [(ext4, false), (xfs, true), (ext4, true), (xfs, false)];
    let kinds = if losses < 4 { &kinds[..2] } else { &kinds };
    for (maker, is_member) in kinds {
        let outer = tempfile::tempdir().unwrap();
        cut_power(outer.path(), maker, *is_member, losses, seed).await;
    }
}
