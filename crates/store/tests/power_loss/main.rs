//! The power fails at any instant while clients work. Then the disk has everything that was answered before, and nothing
//! that had been undone, whichever unflushed writes are lost, torn, or overtaken by later writes. A member of a set
//! that follows another one has what it reported to have, and nothing else is treated as such.
//!
//! The disk belongs to the test (`recorder`). Needs FUSE, loop devices and the superuser; otherwise this reports that and proves
//! nothing. `STORE_POWER_LOSSES` is the number of losses for each kind of disk, `STORE_POWER_SEED` chooses other work.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../fixture/mod.rs"]
mod fixture;
mod follower;
mod model;
mod recorder;
mod removals;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::Approver;
use fixture::disk::SmallDisk;
use fixture::random::Random;
use model::{Hand, Progress, compare, homes};
use recorder::{Loss, Recorder};
use store::{NewStore, Store, StoreOptions};
use vfs::{FileSystem, ObjectId};

/// Several workers run concurrently and share flushes; a worker that is alone flushes by itself.
const MANY_WORKERS: u64 = 4;
/// The size of the disk.
const MEBIBYTES: u64 = 400;

struct Worker {
    homes: [ObjectId; 2],
    progress: Mutex<Progress>,
}

async fn work(store: &Store, worker: &Worker, mut random: Random, stop: &AtomicBool) {
    let hand = Hand {
        store,
        homes: worker.homes,
    };
    while !stop.load(Ordering::Relaxed) {
        let step = {
            let mut progress = worker.progress.lock().unwrap();
            let step = progress.files.choose(&mut random);
            progress.under_way = Some(step.clone());
            step
        };
        let done = hand.carry_out(&step).await;
        done.unwrap_or_else(|error| panic!("{step:?}: {error}"));
        let mut progress = worker.progress.lock().unwrap();
        progress.files.apply(&step);
        progress.under_way = None;
        progress.answered += 1;
    }
}

const EXT4: &[&str] = &["mkfs.ext4", "-q"];
const XFS: &[&str] = &["mkfs.xfs", "-q"];

/// How often the power fails, and the seed of the work and of what is lost.
fn losses_and_seed() -> (u64, u64) {
    let losses = number_from("STORE_POWER_LOSSES", 2);
    let seed = number_from("STORE_POWER_SEED", 20);
    println!("STORE_POWER_LOSSES={losses} STORE_POWER_SEED={seed}");
    (losses, seed)
}

fn number_from(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

/// The server of the store: alone, or a member of a set, which records its changes for other members.
fn hooked(store: Store, is_member: bool) -> Store {
    match is_member {
        true => Approver::of(store).0,
        false => store,
    }
}

/// Mounts the state after a power loss.
fn mount_copy(copy: &Path, maker: &[&str]) -> SmallDisk {
    let options = match maker[0] {
        "mkfs.xfs" => "loop,nouuid",
        _ => "loop",
    };
    SmallDisk::mounted(tempfile::tempdir().unwrap(), copy, options).unwrap()
}

/// Repeated power losses of a disk of some kind.
async fn cut_power(
    outer: &Path,
    (maker, is_member, count): (&[&str], bool, u64),
    losses: u64,
    seed: u64,
) {
    let Some(recorder) = Recorder::begin(outer, MEBIBYTES << 20) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::made_of(place, recorder.path(), MEBIBYTES, maker) else {
        return;
    };
    let options = StoreOptions::new(disk.path().join("store"));
    let store = Store::create(&options, &NewStore::default()).unwrap();
    let store = Arc::new(hooked(store, is_member));
    store.end_reclaim().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut workers, mut tasks) = (Vec::new(), tokio::task::JoinSet::new());
    for number in 0..count {
        let worker = Arc::new(Worker {
            homes: homes(&store, number).await,
            progress: Mutex::default(),
        });
        workers.push(Arc::clone(&worker));
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        let random = Random(seed * MANY_WORKERS + number);
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
        let disk = mount_copy(&copy, maker);
        let options = StoreOptions::new(disk.path().join("store"));
        let left = hooked(Store::open(&options).unwrap(), is_member);
        for id in left.recovered().unwrap() {
            left.renew(id).await.unwrap();
        }
        left.end_reclaim().await.unwrap();
        for ((worker, before), after) in workers.iter().zip(&before).zip(&after) {
            let hand = Hand {
                store: &left,
                homes: worker.homes,
            };
            compare(&hand, before, after).await;
        }
        drop(left);
        // Other members have followed meanwhile: records that they have are not kept for them.
        let followed = *store.stable_position().borrow();
        store.trim_updates(followed).await.unwrap();
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
        "{}, member {is_member}, {count} at work: {losses} losses of power during {steps} steps and {} flushes, with {unflushed} bytes not flushed",
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
    let (losses, seed) = losses_and_seed();
    let kinds = [
        (EXT4, false, MANY_WORKERS),
        (XFS, true, MANY_WORKERS),
        (EXT4, false, 1),
        (EXT4, true, MANY_WORKERS),
        (XFS, true, 1),
        (XFS, false, MANY_WORKERS),
    ];
    let kinds = if losses < 4 { &kinds[..3] } else { &kinds };
    for kind in kinds {
        let outer = tempfile::tempdir().unwrap();
        cut_power(outer.path(), *kind, losses, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_85_a_follower_has_what_it_said_whenever_the_power_fails() {
    let (losses, seed) = losses_and_seed();
    let kinds = if losses < 4 {
        &[EXT4][..]
    } else {
        &[EXT4, XFS]
    };
    for maker in kinds {
        let outer = tempfile::tempdir().unwrap();
        follower::cut_power(outer.path(), maker, losses, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cleared_away_does_not_come_back() {
    let losses = number_from("STORE_POWER_LOSSES", 2);
    for maker in [EXT4, XFS] {
        let outer = tempfile::tempdir().unwrap();
        removals::cut_power(outer.path(), maker, losses).await;
    }
}
