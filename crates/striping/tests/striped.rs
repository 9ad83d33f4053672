//! A store whose files are striped over real data servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fixture::{HOME, Site, UNIT};
use nfs4::NfsStat4;
use nfs4_client::{Client, Options, ops};
use pool::{Access, Capability, DataServerNumber, Generation, HandleKey, IssueNumber, Placement};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use store::{Store, StoreError, StoreOptions};
use vfs::{AccessCheck, Credentials, Error, Extent, FileSystem, ObjectId, SeekTarget, Stability};

/// Bytes that differ by position.
fn pattern(seed: u8, offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64)
        .map(|at| (at % 251) as u8 ^ seed | 1)
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, Stability),
    Read(u64, u32),
    Resize(u64),
    Punch(u64, u64),
    Commit,
}

/// Offsets near the borders of stripes, over two rounds of stripes.
fn offsets() -> impl Strategy<Value = u64> {
    (0..=6_u64, 0..=10_u64).prop_map(|(unit, by)| (unit * UNIT + by).saturating_sub(5))
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        1..20_usize,
        (0..5_usize).prop_map(|by| UNIT as usize - 2 + by),
        Just(200_000)
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stability = prop_oneof![
        3 => Just(Stability::Unstable), 1 => Just(Stability::Data), 1 => Just(Stability::File)
    ];
    let step = prop_oneof![
        6 => (offsets(), lengths(), stability).prop_map(|(at, length, stable)| Step::Write(at, length, stable)),
        4 => (offsets(), lengths()).prop_map(|(at, length)| Step::Read(at, length as u32)),
        2 => offsets().prop_map(Step::Resize),
        2 => (offsets(), lengths()).prop_map(|(at, length)| Step::Punch(at, length as u64)),
        1 => Just(Step::Commit),
    ];
    prop::collection::vec(step, 1..20)
}

/// Does the same to a striped file and to plain bytes.
async fn play(site: &Site, file: ObjectId, steps: &[Step]) {
    let mut plain: Vec<u8> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Write(offset, length, stability) => {
                let bytes = pattern(number as u8, offset, length);
                let written =
                    site.in_time(async || site.write_as(file, offset, &bytes, stability).await);
                assert_eq!(written.await.unwrap().count as usize, length);
                let end = offset as usize + length;
                plain.resize(plain.len().max(end), 0);
                plain[offset as usize..end].copy_from_slice(&bytes);
            }
            Step::Read(offset, count) => {
                let read = site.in_time(async || site.read(file, offset, count).await);
                let from = plain.len().min(offset as usize);
                let to = plain.len().min(from + count as usize);
                assert!(read.await.unwrap()[..] == plain[from..to], "{number}");
            }
            Step::Resize(size) => {
                site.in_time(async || site.resize(file, size).await)
                    .await
                    .unwrap();
                plain.resize(size as usize, 0);
            }
            Step::Punch(offset, length) => {
                let who = Credentials::root();
                let hole = Extent { offset, length };
                let punched = site.in_time(async || {
                    let access = AccessCheck::Open(&who);
                    site.store.deallocate(access, file, hole).await
                });
                punched.await.unwrap();
                let from = plain.len().min(offset as usize);
                let to = plain.len().min((offset + length) as usize);
                plain[from..to].fill(0);
            }
            Step::Commit => {
                site.in_time(async || site.commit(file).await)
                    .await
                    .unwrap();
            }
        }
    }
    let whole = site.in_time(async || site.read(file, 0, 1 << 20).await);
    assert!(whole.await.unwrap()[..] == plain[..]);
}

#[test]
fn a_striped_file_is_a_plain_one_around_every_border() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let site = runtime.block_on(Site::new());
    let made = std::cell::Cell::new(0);
    let config = Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    };
    let played = TestRunner::new(config).run(&steps(), |steps| {
        made.set(made.get() + 1);
        runtime.block_on(async {
            let file = site.make(&format!("file {}", made.get())).await;
            play(&site, file, &steps).await;
        });
        Ok(())
    });
    played.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_lies_on_all_data_servers_and_leaves_nothing_behind() {
    let mut site = Site::new().await;
    let (file, other) = (site.make("file").await, site.make("other").await);
    let bytes = pattern(0, 0, 5 * UNIT as usize);
    site.write(file, 0, &bytes).await.unwrap();
    site.commit(file).await.unwrap();
    site.write_as(other, 3 * UNIT, b"one stripe", Stability::File)
        .await
        .unwrap();
    let attributes = site.store.attributes(file).await.unwrap();
    assert_eq!(
        (attributes.size, attributes.space_used),
        (5 * UNIT, 5 * UNIT)
    );
    let who = Credentials::root();
    let next = site
        .store
        .seek(AccessCheck::Open(&who), file, 7, SeekTarget::Hole);
    assert_eq!(next.await, Ok(Some(5 * UNIT)));
    let mut with_other = 0;
    for number in 1..=3 {
        let there = site.objects_at(number).await;
        assert!(there.contains(&file.as_u64()), "data server {number}");
        with_other += usize::from(there.contains(&other.as_u64()));
    }
    assert_eq!(with_other, 1);
    // The store's own files have none of its bytes.
    let reserve = Extent {
        offset: 0,
        length: 10,
    };
    let reserved = site
        .store
        .allocate(AccessCheck::Open(&who), file, reserve)
        .await;
    assert_eq!(reserved, Err(Error::NotSupported));

    let whole = site.in_time(async || site.read(file, 0, 1 << 20).await);
    assert!(
        whole.await.unwrap()[..] == bytes[..],
        "after all were started anew"
    );
    site.remove("file").await.unwrap();
    site.cleared().await;
    let one = BTreeSet::from([other.as_u64()]);
    for number in 1..=3 {
        let there = site.objects_at(number).await;
        assert!(there.is_subset(&one), "{there:?} at data server {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unstable_bytes_of_a_data_server_that_was_started_anew_are_to_be_written_again() {
    let mut site = Site::new().await;
    let file = site.make("file").await;
    let stable = pattern(1, 0, 2 * UNIT as usize);
    site.write_as(file, 0, &stable, Stability::File)
        .await
        .unwrap();
    let written = site.write(file, 0, &stable).await.unwrap();
    let before = site.commit(file).await.unwrap();
    assert_eq!(written.verifier, before.verifier);
    let change = site.store.attributes(file).await.unwrap().change;
    let written = site.write(file, 0, &stable).await.unwrap();
    for number in 1..=3 {
        site.stop(number).await;
        site.start(number).await;
    }
    let after = site
        .in_time(async || site.commit(file).await)
        .await
        .unwrap();
    assert_ne!(
        written.verifier, after.verifier,
        "the client has to write again"
    );
    assert!(site.store.attributes(file).await.unwrap().change > change);
    let again = site.write(file, 0, &stable).await.unwrap();
    let committed = site.commit(file).await.unwrap();
    assert_eq!(again.verifier, committed.verifier);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_under_writes_lose_and_repeat_nothing() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let length = 6 * UNIT as usize;
    let write = async |round: u8| {
        let bytes = pattern(round, 0, length);
        let written = site.in_time(async || site.write(file, 0, &bytes).await);
        written.await.unwrap();
        let read = site.in_time(async || site.read(file, 0, length as u32).await);
        assert!(read.await.unwrap()[..] == bytes[..], "round {round}");
    };
    let writing = async {
        for round in 0..30 {
            write(round).await;
        }
    };
    let breaking = async {
        loop {
            tokio::time::sleep(Duration::from_millis(30)).await;
            site.break_connections();
        }
    };
    tokio::select! {
        () = writing => {}
        () = breaking => {}
    }
    site.in_time(async || site.commit(file).await)
        .await
        .unwrap();
}

/// The connection breaks during a write that a data server handles late, after later writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_comes_late_overwrites_nothing_that_was_answered_since() {
    let site = Site::with_patience(Duration::from_secs(2)).await;
    let file = site.make("file").await;
    let write = async |bytes: &[u8]| {
        let written = site.in_time(async || site.write(file, 0, bytes).await);
        written.await.unwrap();
    };
    write(b"before").await;
    let late = site.network.late.clone();
    late.hold_next();
    let writing = async {
        write(b"first.").await;
        write(b"second").await;
    };
    let breaking = async {
        while !late.holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        site.break_connections();
    };
    tokio::join!(writing, breaking);
    assert!(late.holds(), "it is still to come");
    late.let_go();
    while late.holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let read = site.in_time(async || site.read(file, 0, 6).await).await;
    assert_eq!(read.unwrap()[..], b"second"[..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_data_server_is_away_the_others_serve_and_files_are_cut_and_removed() {
    let mut site = Site::with_patience(Duration::from_millis(500)).await;
    let bytes = pattern(2, 0, 6 * UNIT as usize);
    let names = ["cut", "removed", "kept"];
    let mut files = Vec::new();
    for name in names {
        let file = site.make(name).await;
        let written = site.in_time(async || site.write_as(file, 0, &bytes, Stability::File).await);
        written.await.unwrap();
        files.push(file);
    }
    let [cut, removed, kept] = files[..] else {
        panic!("three files")
    };
    site.stop(2).await;
    // Each file has two stripes there, and two on each of the others.
    let (mut served, mut put_off) = (0, 0);
    for unit in 0..6 {
        match site.read(kept, unit * UNIT, 100).await {
            Ok(read) => {
                assert!(read[..] == bytes[(unit * UNIT) as usize..][..100]);
                served += 1;
            }
            Err(Error::Delay) => put_off += 1,
            Err(error) => panic!("{error}"),
        }
    }
    // On a slow machine, leases of the others may expire for a moment.
    assert!(put_off >= 2 && served <= 4, "{served} served");
    let cut_short = site.in_time(async || site.resize(cut, UNIT + 10).await);
    cut_short.await.unwrap();
    site.remove("removed").await.unwrap();
    site.cleared().await;
    assert!(site.intents() > 0, "the one that is away owes them");

    site.start(2).await;
    while site.intents() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    site.in_time(async || site.resize(cut, 6 * UNIT).await)
        .await
        .unwrap();
    let read = site.in_time(async || site.read(cut, 0, 1 << 20).await);
    let mut expected = bytes.clone();
    expected[UNIT as usize + 10..].fill(0);
    assert!(read.await.unwrap()[..] == expected[..]);
    let there = site.objects_at(2).await;
    assert!(!there.contains(&removed.as_u64()), "{there:?}");
    assert!(there.contains(&kept.as_u64()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_home_had_intended_when_it_was_stopped_is_done_when_it_is_started() {
    let site = Site::new().await;
    let bytes = pattern(3, 0, 6 * UNIT as usize);
    let (cut, removed) = (site.make("cut").await, site.make("removed").await);
    for file in [cut, removed] {
        site.write_as(file, 0, &bytes, Stability::File)
            .await
            .unwrap();
    }
    site.network.loses_intents.store(true, Ordering::SeqCst);
    let store = site.store.clone();
    let cutting = tokio::spawn(async move {
        let who = Credentials::root();
        let set = vfs::SetAttributes {
            size: Some(10),
            ..vfs::SetAttributes::default()
        };
        store
            .set_attributes(AccessCheck::Open(&who), cut, &set)
            .await
    });
    site.remove("removed").await.unwrap();
    while site.intents() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cutting.abort();
    let mut site = site.restart_home().await;
    site.cleared().await;
    site.in_time(async || site.resize(cut, 6 * UNIT).await)
        .await
        .unwrap();
    let read = site.in_time(async || site.read(cut, 0, 1 << 20).await);
    let mut expected = vec![0; 6 * UNIT as usize];
    expected[..10].copy_from_slice(&bytes[..10]);
    assert!(read.await.unwrap()[..] == expected[..]);
    while site.intents() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let all = BTreeSet::from([cut.as_u64()]);
    for number in 1..=3 {
        let there = site.objects_at(number).await;
        assert!(there.is_subset(&all), "{there:?} at data server {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_a_crash_has_cut_off_from_their_row_never_show() {
    let site = Site::new().await;
    let file = site.make("file").await;
    site.write_as(file, 0, b"row", Stability::File)
        .await
        .unwrap();
    site.write(file, 3, &pattern(4, 3, 100)).await.unwrap();
    let written = site.write(file, 0, b"old").await.unwrap();
    let change = site.store.attributes(file).await.unwrap().change;
    let site = site.restart_home().await;
    let committed = site
        .in_time(async || site.commit(file).await)
        .await
        .unwrap();
    assert_ne!(committed.verifier, written.verifier);
    let attributes = site.store.attributes(file).await.unwrap();
    assert!(attributes.change > change);
    let size = attributes.size;
    site.in_time(async || site.resize(file, size + 1000).await)
        .await
        .unwrap();
    let read = site.in_time(async || site.read(file, size, 1000).await);
    assert!(read.await.unwrap().iter().all(|byte| *byte == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_striped_files_is_sound_and_is_not_opened_without_their_pool() {
    let site = Site::new().await;
    let file = site.make("file").await;
    site.write_as(file, 0, &pattern(7, 0, 100), Stability::File)
        .await
        .unwrap();
    site.store.sync().await.unwrap();
    let (home, _directory) = site.close_home().await;
    let closed = tokio::task::spawn_blocking(move || {
        let report = Store::check(&home, false).unwrap();
        let refused = Store::open(&StoreOptions::new(&home)).err().unwrap();
        (report, refused)
    });
    let (report, refused) = closed.await.unwrap();
    assert!(report.sound, "{report}");
    assert!(matches!(refused, StoreError::Elsewhere(_)), "{refused}");
}

/// A file system in memory that ends with the test. Only the superuser can mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mounted() -> Option<SmallDisk> {
        let path = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"])
            .arg(path.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(path));
        }
        eprintln!("NOT TESTED: only the superuser can mount the small disk that this test needs");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(status.is_ok_and(|status| status.success()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_data_server_is_a_full_disk_and_still_cuts_and_removes() {
    let Some(disk) = SmallDisk::mounted() else {
        return;
    };
    let shelves = BTreeMap::from([(1, disk.0.path().join("shelf"))]);
    let site = Site::with_shelves(Duration::from_secs(60), shelves).await;
    let (file, other) = (site.make("file").await, site.make("other").await);
    let bytes = pattern(5, 0, 16 * UNIT as usize);
    let mut end = 0;
    let refused = loop {
        match site
            .in_time(async || site.write(file, end, &bytes).await)
            .await
        {
            Ok(_) => end += 16 * UNIT,
            Err(error) => break error,
        }
        assert!(end < 1 << 30, "a disk of 64 MiB takes more");
    };
    assert_eq!(refused, Error::NoSpace);
    let refused = site
        .in_time(async || site.write(other, 0, &bytes).await)
        .await;
    assert_eq!(refused.map(|_| ()), Err(Error::NoSpace));
    site.in_time(async || site.resize(file, 16 * UNIT).await)
        .await
        .unwrap();
    let read = site.in_time(async || site.read(file, 0, 1 << 20).await);
    assert!(read.await.unwrap()[..] == bytes[..]);
    site.remove("other").await.unwrap();
    site.cleared().await;
    site.in_time(async || site.write(file, 16 * UNIT, &bytes).await)
        .await
        .unwrap();
    drop(site);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_handles_and_those_of_before_a_cut_read_and_write_nothing() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let bytes = pattern(6, 0, 3 * UNIT as usize);
    site.write_as(file, 0, &bytes, Stability::File)
        .await
        .unwrap();
    let (issue, key) = site.network.lease.lock().unwrap().clone().unwrap();
    let server = DataServerNumber(1);
    let address = striping::Control::address(&*site.network, server).unwrap();
    let client = Client::connect(Options::at(address)).await.unwrap();
    let stored = site.store.placed_rows().placement(file).unwrap().unwrap();
    let before = Placement::decode(&stored).unwrap();
    let sealed = |issue: IssueNumber, key: &HandleKey, generation: Generation| {
        let capability = Capability {
            home: HOME,
            issue,
            object: file,
            placement: before.number,
            generation,
            access: Access::ReadWrite,
        };
        let handle = key.seal(&capability, server);
        nfs4::NfsFh4(xdr::Bytes::copy_from_slice(handle.as_bytes()))
    };
    let put = async |handle: &nfs4::NfsFh4| {
        let reply = client.compound(vec![ops::putfh(handle)]).await.unwrap();
        reply.status
    };
    let good = sealed(issue, &key, before.generation);
    // The lease may expire for a moment.
    while put(&good).await != NfsStat4::Ok {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let forged = HandleKey::new(key.number(), [7; 32]);
    let older = IssueNumber(issue.0 - 1);
    assert_eq!(
        put(&sealed(issue, &forged, before.generation)).await,
        NfsStat4::Stale
    );
    assert_eq!(
        put(&sealed(older, &key, before.generation)).await,
        NfsStat4::Stale
    );

    site.in_time(async || site.resize(file, UNIT).await)
        .await
        .unwrap();
    assert_eq!(put(&good).await, NfsStat4::Stale);
    let stored = site.store.placed_rows().placement(file).unwrap().unwrap();
    let after = Placement::decode(&stored).unwrap();
    assert!(after.generation > before.generation);
    let now = sealed(issue, &key, after.generation);
    while put(&now).await != NfsStat4::Ok {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let site = site.restart_home().await;
    site.in_time(async || site.read(file, 0, 10).await)
        .await
        .unwrap();
    // The lease that was read may be old: this data server may not know the new home yet.
    loop {
        let lease = site.network.lease.lock().unwrap().clone();
        if let Some((renewed, newer)) = lease
            && renewed > issue
            && put(&sealed(renewed, &newer, after.generation)).await == NfsStat4::Ok
        {
            assert!(newer.number() > key.number(), "its number was used before");
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        put(&now).await,
        NfsStat4::Stale,
        "a restarted home has another issue number"
    );
}
