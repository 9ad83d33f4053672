//! Files are moved to other data servers while in use. Whatever interrupts that, every byte is there, and no contents are left behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fixture::{ALONE, GROUP, PAIR, Site, UNIT};
use nfs4_server::{LayoutAccess, LayoutHolder, Layouts, NoLayout};
use pool::{DeviceGroupNumber, Placement, StripeUnit};
use striping::{Moved, NewFiles, Pace};
use vfs::{
    AccessCheck, Credentials, Error, Extent, FileSystem, ObjectId, Result, SetAttributes, Stability,
};

const HOLDER: LayoutHolder = LayoutHolder(1);

fn over(group: DeviceGroupNumber) -> NewFiles {
    NewFiles {
        group,
        unit: StripeUnit::new(UNIT).unwrap(),
    }
}

fn unbounded() -> Arc<Pace> {
    Arc::new(Pace::new(0))
}

async fn moved(site: &Site, file: ObjectId, to: DeviceGroupNumber) -> Moved {
    let once = async || site.striped.move_file(file, over(to), unbounded()).await;
    site.in_time(once).await.unwrap()
}

fn group_of(site: &Site, file: ObjectId) -> DeviceGroupNumber {
    let stored = site.store.placed_rows().placement(file).unwrap();
    Placement::decode(&stored.unwrap()).unwrap().group
}

fn moves_noted(site: &Site) -> usize {
    site.store.facts(b"striping/move/").unwrap().len()
}

/// Bytes that differ by position.
fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ seed | 1).collect()
}

async fn all(site: &Site, file: ObjectId) -> Bytes {
    let read = async || site.read(file, 0, 64 << 20).await;
    let mut bytes = site.in_time(read).await.unwrap().to_vec();
    loop {
        let more = async || site.read(file, bytes.len() as u64, 64 << 20).await;
        let more = site.in_time(more).await.unwrap();
        if more.is_empty() {
            return bytes.into();
        }
        bytes.extend_from_slice(&more);
    }
}

/// Reports the first byte that differs: all of them would be too long to read.
fn assert_same(found: &[u8], expected: &[u8], when: &str) {
    let differ = found.iter().zip(expected).position(|(a, b)| a != b);
    let sizes = (found.len(), expected.len());
    let is_same = differ.is_none() && sizes.0 == sizes.1;
    assert!(is_same, "{when}: byte {differ:?} differs, of {sizes:?}");
}

async fn no_intents(site: &Site) {
    while site.intents() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn filled(site: &Site, name: &str, bytes: &[u8]) -> ObjectId {
    let file = site.make(name).await;
    for (at, piece) in (0..).zip(bytes.chunks(1 << 20)) {
        let write = async || site.write(file, at << 20, piece).await;
        site.in_time(write).await.unwrap();
    }
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_moved_and_nothing_is_left_where_it_was() {
    let mut site = Site::new().await;
    let mut bytes = pattern(1, 9 * UNIT as usize + 77);
    bytes[2 * UNIT as usize..5 * UNIT as usize].fill(0);
    let file = filled(&site, "file", &bytes).await;
    let empty = site.make("empty").await;
    let before = site.store.attributes(file).await.unwrap();
    assert_eq!(
        moved(&site, file, PAIR).await,
        Moved::Done(6 * UNIT + 77),
        "holes are not copied"
    );
    assert_eq!(moved(&site, empty, PAIR).await, Moved::Done(0));
    assert_eq!(all(&site, file).await, bytes);
    let after = site.store.attributes(file).await.unwrap();
    assert_eq!((after.change, after.size), (before.change, before.size));
    no_intents(&site).await;
    assert!(site.objects_at(3).await.is_empty());
    for group in [ALONE, GROUP, GROUP, PAIR] {
        moved(&site, file, group).await;
        assert_eq!(group_of(&site, file), group);
        assert_eq!(all(&site, file).await, bytes);
    }
    // Later writes go there.
    let end = bytes.len() as u64;
    site.in_time(async || site.write(file, end, b"more").await)
        .await
        .unwrap();
    bytes.extend_from_slice(b"more");
    assert_eq!(all(&site, file).await, bytes);
    site.in_time(async || site.resize(file, UNIT).await)
        .await
        .unwrap();
    assert_eq!(all(&site, file).await, bytes[..UNIT as usize]);
    site.remove("file").await.unwrap();
    site.cleared().await;
    no_intents(&site).await;
    let left = BTreeSet::from([empty.as_u64()]);
    for number in 1..=3 {
        assert!(site.objects_at(number).await.is_subset(&left));
    }
    assert_eq!(moved(&site, file, ALONE).await, Moved::Gone);
}

/// Does to a file and to plain bytes what a program might do.
async fn change(
    seen: &dyn FileSystem,
    file: ObjectId,
    plain: &mut Vec<u8>,
    turn: u64,
) -> Result<()> {
    let who = Credentials::root();
    let access = || AccessCheck::Open(&who);
    let at = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12;
    let offset = at % (24 * UNIT);
    match turn % 16 {
        7 => {
            let size = Some(offset);
            let set = SetAttributes {
                size,
                ..SetAttributes::default()
            };
            seen.set_attributes(access(), file, &set).await?;
            plain.resize(offset as usize, 0);
        }
        11 => {
            let length = UNIT + at % UNIT;
            seen.deallocate(access(), file, Extent { offset, length })
                .await?;
            let end = (offset + length).min(plain.len() as u64);
            plain[offset.min(end) as usize..end as usize].fill(0);
        }
        _ => {
            let bytes = pattern(turn as u8, 1 + (at % (2 * UNIT)) as usize);
            let written = seen.write(
                access(),
                file,
                offset,
                Bytes::copy_from_slice(&bytes),
                Stability::Unstable,
            );
            let count = written.await?.count as usize;
            let (start, end) = (offset as usize, offset as usize + count);
            plain.resize(plain.len().max(end), 0);
            plain[start..end].copy_from_slice(&bytes[..count]);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_file_that_is_written_all_the_time_is_moved_with_every_byte() {
    let site = Site::new().await;
    let mut plain = pattern(1, 20 * UNIT as usize);
    let file = filled(&site, "file", &plain).await;
    let seen = site.striped.file_system(site.store.clone());
    let ended = Cell::new(false);
    let moving = async {
        for group in [PAIR, ALONE, GROUP, ALONE, PAIR, GROUP] {
            // Some of them move slowly.
            let pace = match group {
                PAIR => Arc::new(Pace::new(4 << 20)),
                _ => unbounded(),
            };
            let once = async || {
                let to = over(group);
                site.striped.move_file(file, to, pace.clone()).await
            };
            let done = site.in_time(once).await.unwrap();
            assert!(matches!(done, Moved::Done(_)));
            assert_eq!(group_of(&site, file), group);
        }
        ended.set(true);
    };
    let writing = async {
        let mut turn = 0;
        while !ended.get() {
            while let Err(error) = change(&*seen, file, &mut plain, turn).await {
                assert_eq!(error, Error::Delay);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if turn % 20 == 0 {
                assert_same(&all(&site, file).await, &plain, &format!("change {turn}"));
            }
            turn += 1;
        }
    };
    tokio::join!(moving, writing);
    assert_same(&all(&site, file).await, &plain, "the end");
    site.commit(file).await.unwrap();
}

/// The file is cut below what was copied, and grows again after the changes were taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_while_a_file_is_moved_is_not_back_when_the_file_grows() {
    let site = Site::new().await;
    let mut plain = pattern(8, 2 << 20);
    let file = filled(&site, "file", &plain).await;
    let seen = site.striped.file_system(site.store.clone());
    let (who, slow) = (Credentials::root(), Arc::new(Pace::new(1 << 20)));
    let access = || AccessCheck::Open(&who);
    let write = async |offset, bytes: &'static [u8]| {
        let bytes = Bytes::from_static(bytes);
        let written = seen.write(access(), file, offset, bytes, Stability::Unstable);
        written.await.map(|_| ())
    };
    let (striped, pace) = (site.striped.clone(), slow.clone());
    let moving = tokio::spawn(async move { striped.move_file(file, over(PAIR), pace).await });
    // Bytes are counted before they wait for the pace. At the first count half of the file is copied. At the second, all of it is.
    let counted = async |bytes| {
        while slow.copied() < bytes {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    counted(2 << 20).await;
    let size = Some(UNIT);
    let cut = SetAttributes {
        size,
        ..SetAttributes::default()
    };
    site.in_time(async || seen.set_attributes(access(), file, &cut).await)
        .await
        .unwrap();
    site.in_time(async || write(0, b"less").await)
        .await
        .unwrap();
    counted((2 << 20) + 1).await;
    site.in_time(async || write(10 * UNIT, b"more").await)
        .await
        .unwrap();
    assert!(matches!(moving.await.unwrap(), Ok(Moved::Done(_))));
    plain.truncate(UNIT as usize);
    plain[..4].copy_from_slice(b"less");
    plain.resize(10 * UNIT as usize, 0);
    plain.extend_from_slice(b"more");
    assert_same(&all(&site, file).await, &plain, "the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layouts_end_with_the_placement_and_others_lead_to_the_new_one() {
    let site = Site::new().await;
    let file = filled(&site, "file", &pattern(1, 3 * UNIT as usize)).await;
    let layout = async |access| {
        loop {
            match site.striped.layout(file, HOLDER, access).await {
                Ok(layout) => return layout,
                Err(NoLayout::ThroughServer | NoLayout::Recalled) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    let before = layout(LayoutAccess::ReadWrite).await;
    assert_eq!(before.handles.len(), 3);
    moved(&site, file, PAIR).await;
    let after = layout(LayoutAccess::ReadWrite).await;
    assert_eq!(after.handles.len(), 2);
    assert_ne!(before.device, after.device);
    // During a move, no client gets a layout for writing, and a layout for reading does no harm.
    site.striped.lost(file, HOLDER).await.unwrap();
    let slow = Arc::new(Pace::new(UNIT));
    let (striped, pace) = (site.striped.clone(), slow.clone());
    let moving = tokio::spawn(async move { striped.move_file(file, over(GROUP), pace).await });
    while slow.copied() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = site.striped.layout(file, HOLDER, LayoutAccess::ReadWrite);
    assert_eq!(refused.await.unwrap_err(), NoLayout::ThroughServer);
    layout(LayoutAccess::Read).await;
    assert!(matches!(moving.await.unwrap(), Ok(Moved::Done(_))));
    assert_eq!(layout(LayoutAccess::Read).await.handles.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_dies_while_it_copies_leaves_nothing_and_moves_the_file_later() {
    let site = Site::new().await;
    let bytes = pattern(5, 8 * UNIT as usize + 1);
    let file = filled(&site, "file", &bytes).await;
    moved(&site, file, PAIR).await;
    no_intents(&site).await;
    let slow = Arc::new(Pace::new(1 << 20));
    let (striped, pace) = (site.striped.clone(), slow.clone());
    let _moving = tokio::spawn(async move { striped.move_file(file, over(ALONE), pace).await });
    while slow.copied() == 0 || moves_noted(&site) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut site = site.restart_home().await;
    assert_eq!(moves_noted(&site), 0);
    assert_eq!(group_of(&site, file), PAIR);
    assert_eq!(all(&site, file).await, bytes);
    no_intents(&site).await;
    assert!(site.objects_at(3).await.is_empty());
    moved(&site, file, ALONE).await;
    assert_eq!(all(&site, file).await, bytes);
    no_intents(&site).await;
    assert!(site.objects_at(1).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_server_that_dies_while_a_file_is_copied_to_it_costs_one_attempt() {
    let mut site = Site::with_patience(Duration::from_secs(2)).await;
    let bytes = pattern(6, 40 * UNIT as usize);
    let file = filled(&site, "file", &bytes).await;
    moved(&site, file, PAIR).await;
    no_intents(&site).await;
    let slow = Arc::new(Pace::new(2 << 20));
    let (striped, pace) = (site.striped.clone(), slow.clone());
    let moving = tokio::spawn(async move { striped.move_file(file, over(ALONE), pace).await });
    while slow.copied() < 1 << 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    site.stop(3).await;
    assert_eq!(moving.await.unwrap(), Err(Error::Delay));
    assert_eq!(group_of(&site, file), PAIR);
    assert_eq!(all(&site, file).await, bytes);
    site.start(3).await;
    no_intents(&site).await;
    assert!(site.objects_at(3).await.is_empty());
    moved(&site, file, ALONE).await;
    assert_eq!(all(&site, file).await, bytes);
}

/// Unstable bytes are lost with a data server, and the file is moved before the client that wrote them commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_before_a_move_is_told_behind_it() {
    let mut site = Site::new().await;
    let file = filled(&site, "file", &pattern(7, 3 * UNIT as usize)).await;
    let before = site.commit(file).await.unwrap();
    let write = async || site.write(file, 0, b"unstable").await;
    let written = site.in_time(write).await.unwrap();
    assert_eq!(written.verifier, before.verifier);
    for number in 1..=3 {
        site.stop(number).await;
        site.start(number).await;
    }
    moved(&site, file, PAIR).await;
    let after = site
        .in_time(async || site.commit(file).await)
        .await
        .unwrap();
    assert_ne!(
        after.verifier, written.verifier,
        "it is to be written again"
    );
}
