//! Checksums of contents: bytes that the disk has changed are never shown, and nothing else is reported as changed.
//!
//! `STORE_SUMS_SEED` chooses other changes, `STORE_SUMS_STEPS` how many.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::pair::Pair;
use crate::fixture::random::Random;
use crate::fixture::{Fixture, root, with_size};
use bytes::Bytes;
use store::{StoreOptions, Verified};
use vfs::{AccessCheck, Error, Extent, FileSystem, ObjectId, Stability};

const ROOT: ObjectId = ObjectId::ROOT;
const BLOCK: u64 = 4096;

fn data_file(options: &StoreOptions, id: ObjectId) -> PathBuf {
    let number = id.as_u64();
    let (outer, inner) = ((number >> 16) & 0xff, (number >> 8) & 0xff);
    let folder = options
        .directory
        .join(format!("data/{outer:02x}/{inner:02x}"));
    folder.join(format!("{number:016x}"))
}

/// A possible change of a byte by a disk.
fn flip(options: &StoreOptions, id: ObjectId, at: u64) {
    let file = File::options()
        .read(true)
        .write(true)
        .open(data_file(options, id))
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 8], at).unwrap();
}

fn is_refused<T: std::fmt::Debug>(outcome: vfs::Result<T>) {
    assert!(matches!(outcome, Err(Error::Io(_))), "{outcome:?}");
}

/// A file larger than the range of one row of sums; it ends in the middle of a block.
async fn large(fixture: &Fixture) -> (ObjectId, Vec<u8>) {
    let id = fixture.file(ROOT, "f").await;
    let bytes: Vec<u8> = (0..500_000_u32).map(|at| (at / 7 + at) as u8).collect();
    for (number, part) in bytes.chunks(70_000).enumerate() {
        fixture
            .write(id, number as u64 * 70_000, part)
            .await
            .unwrap();
    }
    fixture.store().sync().await.unwrap();
    (id, bytes)
}

/// Every reader got a changed byte until the block was verified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_byte_is_never_shown() {
    let fixture = Fixture::new();
    let (id, bytes) = large(&fixture).await;
    for at in [0, 69_999, 96 * BLOCK, 499_999] {
        flip(&fixture.options, id, at);
        is_refused(fixture.read(id, at, 1).await);
        is_refused(fixture.read(id, 0, 1 << 20).await);
        // Code that sends or compares it does not accept it either.
        is_refused(fixture.store().content(id, 0, 1 << 20));
        is_refused(fixture.store().verify_content(id, &mut |_| true));
        let beside = if at < BLOCK { BLOCK } else { 0 };
        let read = fixture.read(id, beside, 4096).await.unwrap();
        assert_eq!(read, bytes[beside as usize..][..4096]);
        flip(&fixture.options, id, at);
    }
    assert_eq!(fixture.read(id, 0, 1 << 20).await.unwrap(), bytes);
    assert!(matches!(
        fixture.store().verify_content(id, &mut |_| true).unwrap(),
        Verified::NotKnown(_)
    ));
}

/// After a write of one byte, the rest of the block got a new sum from the bytes on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_byte_does_not_become_right_by_writing_beside_it() {
    let fixture = Fixture::new();
    let (id, bytes) = large(&fixture).await;
    flip(&fixture.options, id, 10);
    is_refused(fixture.write(id, 100, b"x").await);
    is_refused(fixture.read(id, 0, 100).await);
    // A write of the whole block makes it right.
    fixture.write(id, 0, &bytes[..4096]).await.unwrap();
    assert_eq!(fixture.read(id, 0, 4096).await.unwrap(), bytes[..4096]);
    fixture.store().sync().await.unwrap();
    assert_eq!(fixture.read(id, 0, 1 << 20).await.unwrap(), bytes);
    flip(&fixture.options, id, 10);
    is_refused(fixture.read(id, 0, 100).await);
}

/// After a cut within a changed block, or a hole in a part of one, the rest got a new sum from the bytes on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_byte_does_not_become_right_by_taking_away_what_lies_beside_it() {
    let fixture = Fixture::new();
    let (id, bytes) = large(&fixture).await;
    let store = fixture.store();
    flip(&fixture.options, id, BLOCK + 10);
    let who = root();
    let punch = async |offset, length| {
        let access = AccessCheck::Credentials(&who);
        store
            .deallocate(access, id, Extent { offset, length })
            .await
    };
    is_refused(fixture.set(id, &with_size(BLOCK + 100)).await);
    is_refused(punch(BLOCK + 100, 10 * BLOCK).await);
    is_refused(punch(0, BLOCK + 5).await);
    is_refused(punch(BLOCK + 100, 5).await);
    assert_eq!(store.attributes(id).await.unwrap().size, 500_000);
    is_refused(fixture.read(id, BLOCK, 100).await);
    let beside = fixture.read(id, 2 * BLOCK, 10_000).await.unwrap();
    assert_eq!(beside, bytes[2 * BLOCK as usize..][..10_000]);
    // The whole block may be removed.
    punch(0, 2 * BLOCK).await.unwrap();
    store.sync().await.unwrap();
    assert_eq!(fixture.read(id, 0, 8192).await.unwrap(), vec![0; 8192]);
    flip(&fixture.options, id, 3 * BLOCK);
    fixture.set(id, &with_size(3 * BLOCK)).await.unwrap();
    fixture.set(id, &with_size(4 * BLOCK)).await.unwrap();
    let read = fixture.read(id, 3 * BLOCK, 4096).await.unwrap();
    assert_eq!(read, vec![0; 4096]);
}

/// The same at a replica that follows: it cannot refuse changes of other replicas, so it marks the content to be fetched again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_cuts_within_a_changed_block_knows_that_it_is_damaged() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "file").await;
    pair.leader.write(id, 0, &[7; 20_000]).await.unwrap();
    pair.follow().await;
    pair.ship(id).await;
    pair.follower.store().sync().await.unwrap();
    flip(&pair.follower.options, id, BLOCK + 10);
    pair.leader.set(id, &with_size(BLOCK + 100)).await.unwrap();
    pair.follow().await;
    let follower = pair.follower.store();
    assert!(follower.is_damaged(id));
    assert!(follower.content(id, 0, 100).is_err());
    assert_eq!(pair.follower.attributes(id).await.size, BLOCK + 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_is_cut_off_or_another_files_is_not_shown() {
    let fixture = Fixture::new();
    let (id, _) = large(&fixture).await;
    let other = fixture.file(ROOT, "other").await;
    fixture.write(other, 0, &[9; 500_000]).await.unwrap();
    fixture.store().sync().await.unwrap();
    let (one, two) = (
        data_file(&fixture.options, id),
        data_file(&fixture.options, other),
    );
    let (first, second) = (fs::read(&one).unwrap(), fs::read(&two).unwrap());
    fs::write(&one, &second).unwrap();
    fs::write(&two, &first).unwrap();
    is_refused(fixture.read(id, 0, 10).await);
    is_refused(fixture.read(other, 0, 10).await);
    fs::write(&one, &first[..8192]).unwrap();
    is_refused(fixture.read(id, 8192, 10).await);
    assert_eq!(fixture.read(id, 0, 8192).await.unwrap(), first[..8192]);
}

/// A crash tears a block that is being written. That is not damage, and blocks written before are still verified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_has_torn_is_not_taken_for_damage() {
    let mut fixture = Fixture::new();
    let (id, _) = large(&fixture).await;
    let quiet = fixture.file(ROOT, "quiet").await;
    fixture.write(quiet, 0, &[5; 9000]).await.unwrap();
    fixture.store().sync().await.unwrap();
    fixture.write(id, 4096, &[1; 8192]).await.unwrap();
    fixture.crash();
    flip(&fixture.options, id, 5000);
    fixture.reopen_unsynced();
    fixture.store().end_reclaim().await.unwrap();
    fixture.read(id, 0, 1 << 20).await.unwrap();
    flip(&fixture.options, quiet, 5000);
    is_refused(fixture.read(quiet, 0, 9000).await);
    // Its sums are computed again after the start. Earlier changes by the disk count as correct.
    refused_at_last(&fixture, id).await;
}

/// Waits until a file has sums again. Earlier changes by the disk count as correct.
async fn refused_at_last(fixture: &Fixture, id: ObjectId) {
    for block in 20..110 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        flip(&fixture.options, id, block * BLOCK);
        if fixture.read(id, block * BLOCK, 10).await.is_err() {
            return;
        }
    }
    panic!("no sums are made");
}

/// Data written while checksums were off still had the old sums.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_can_be_given_up_and_had_again() {
    let mut fixture = Fixture::new();
    let (id, mut bytes) = large(&fixture).await;
    fixture.options.checksums = false;
    fixture.reopen().await;
    flip(&fixture.options, id, 10);
    let read = fixture.read(id, 10, 1).await.unwrap();
    assert_eq!(read[..], [bytes[10] ^ 8]);
    flip(&fixture.options, id, 10);
    fixture.write(id, 4000, &[1; 8192]).await.unwrap();
    bytes[4000..12_192].fill(1);
    fixture.set(id, &with_size(450_000)).await.unwrap();
    bytes.truncate(450_000);
    fixture.reopen().await;
    assert_eq!(fixture.read(id, 0, 1 << 20).await.unwrap(), bytes);
    fixture.options.checksums = true;
    fixture.reopen().await;
    assert_eq!(fixture.read(id, 0, 1 << 20).await.unwrap(), bytes);
    refused_at_last(&fixture, id).await;
}

/// Changes the file and its model in the same way.
async fn step(fixture: &Fixture, id: ObjectId, model: &mut Vec<u8>, random: &mut Random) {
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let (store, offset) = (fixture.store(), random.below(900_000));
    let length = [1, 100, 4096, 5000, 70_000][random.below(5) as usize];
    let offset = if random.below(2) == 0 {
        offset
    } else {
        offset / BLOCK * BLOCK
    };
    let end = (offset + length) as usize;
    match random.below(8) {
        0..=3 => {
            let byte = random.below(256) as u8;
            let stability = if random.below(3) == 0 {
                Stability::File
            } else {
                Stability::Unstable
            };
            let data = Bytes::from(vec![byte; length as usize]);
            store
                .write(access, id, offset, data, stability)
                .await
                .unwrap();
            model.resize(model.len().max(end), 0);
            model[offset as usize..end].fill(byte);
        }
        4 => {
            fixture.set(id, &with_size(offset)).await.unwrap();
            model.resize(offset as usize, 0);
        }
        5 => {
            let extent = Extent {
                offset,
                length: length * 10,
            };
            store.deallocate(access, id, extent).await.unwrap();
            let end = model.len().min((offset + length * 10) as usize);
            if (offset as usize) < end {
                model[offset as usize..end].fill(0);
            }
        }
        6 => {
            let extent = Extent { offset, length };
            store.allocate(access, id, extent).await.unwrap();
            model.resize(model.len().max(end), 0);
        }
        _ => store.sync().await.unwrap(),
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

/// Ends the process in some way and starts it again. After a kill uncommitted data may be there or not, but is readable.
async fn end_somehow(
    fixture: &mut Fixture,
    id: ObjectId,
    model: &mut Vec<u8>,
    random: &mut Random,
) {
    let committed = random.below(2) == 0;
    if committed {
        fixture.store().commit(id, 0, 0).await.unwrap();
    }
    match random.below(3) {
        0 => return fixture.reopen().await,
        1 => fixture.reopen_unsynced(),
        _ => fixture.crash(),
    }
    fixture.store().end_reclaim().await.unwrap();
    let read = fixture.read(id, 0, 2 << 20).await.unwrap();
    if committed {
        assert!(read == *model, "what was committed is another");
    }
    *model = read.to_vec();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_done_to_a_file_nothing_right_is_taken_for_changed() {
    let seed = number_from("STORE_SUMS_SEED", 20);
    println!("STORE_SUMS_SEED={seed}");
    let (mut fixture, mut random) = (Fixture::new(), Random(seed));
    let id = fixture.file(ROOT, "f").await;
    let mut model = Vec::new();
    for number in 0..number_from("STORE_SUMS_STEPS", 400) {
        step(&fixture, id, &mut model, &mut random).await;
        if number % 10 == 9 {
            let read = fixture.read(id, 0, 2 << 20).await;
            assert!(read.unwrap() == model, "after step {number}");
        }
        if random.below(40) == 0 {
            end_somehow(&mut fixture, id, &mut model, &mut random).await;
        }
    }
    fixture.store().sync().await.unwrap();
    assert!(fixture.read(id, 0, 2 << 20).await.unwrap() == model);
    let verified = fixture.store().verify_content(id, &mut |_| true).unwrap();
    assert!(matches!(verified, Verified::NotKnown(_)), "{verified:?}");
    if !model.is_empty() {
        fixture.write(id, 0, &[3; 4096]).await.unwrap();
        fixture.store().sync().await.unwrap();
        flip(&fixture.options, id, 1);
        is_refused(fixture.read(id, 0, 4096).await);
    }
}

/// Two writers of one block end in another order than they wrote, and marks are removed meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_of_the_same_blocks_do_not_disturb_each_other() {
    let fixture = Fixture::new();
    let id = fixture.file(ROOT, "f").await;
    let store = fixture.store();
    let who = root();
    let write = |byte: u8| {
        let who = &who;
        async move {
            for round in 0..60_u64 {
                let data = Bytes::from(vec![byte; 20_000 + usize::from(byte)]);
                let access = AccessCheck::Credentials(who);
                let offset = (round % 3) * 5000;
                store
                    .write(access, id, offset, data, Stability::Unstable)
                    .await
                    .unwrap();
            }
        }
    };
    let read = async {
        for _ in 0..200 {
            fixture.read(id, 0, 1 << 20).await.unwrap();
        }
    };
    let close = async {
        for _ in 0..20 {
            store.sync().await.unwrap();
        }
    };
    tokio::join!(write(1), write(2), write(3), read, close);
    store.sync().await.unwrap();
    fixture.read(id, 0, 1 << 20).await.unwrap();
}

/// Another task closed blocks, with their old bytes, between the announcement of a hole and its creation.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn holes_and_cuts_while_blocks_are_closed_are_not_taken_for_changes() {
    let (fixture, who) = (Fixture::new(), root());
    let (id, seed) = (
        fixture.file(ROOT, "f").await,
        number_from("STORE_SUMS_SEED", 20),
    );
    let (store, access) = (fixture.store(), AccessCheck::Credentials(&who));
    let done = AtomicBool::new(false);
    let change = |number: u64| {
        let mut random = Random(seed * 3 + number);
        let fixture = &fixture;
        async move {
            for _ in 0..150 {
                let offset = random.below(20_000);
                match random.below(4) {
                    0 => drop(fixture.set(id, &with_size(offset)).await.unwrap()),
                    1 => {
                        let length = 1 + random.below(20_000);
                        let extent = Extent { offset, length };
                        store.deallocate(access, id, extent).await.unwrap();
                    }
                    _ => {
                        let bytes = vec![random.below(256) as u8; 1 + random.below(9000) as usize];
                        fixture.write(id, offset, &bytes).await.unwrap();
                    }
                }
                fixture.read(id, 0, 1 << 20).await.unwrap();
            }
        }
    };
    let close = async {
        while !done.load(Ordering::Relaxed) {
            store.sync().await.unwrap();
        }
    };
    let changes = async {
        tokio::join!(change(0), change(1), change(2));
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(changes, close);
    store.sync().await.unwrap();
    fixture.read(id, 0, 1 << 20).await.unwrap();
}
