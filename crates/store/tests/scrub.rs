//! Digests: the same at every copy of the same tree, never of an intermediate state, and sufficient to
//! detect that the disk has changed bytes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::pair::{Pair, apply, update};
use crate::fixture::{Fixture, READ, root, with_mode, with_size};
use bytes::Bytes;
use store::{ContentPiece, ForeignUpdate, MetadataDigest, Store, Verified};
use vfs::{AccessCheck, Error, Extent, FileSystem, ObjectId, XattrMode, XattrName};

const ROOT: ObjectId = ObjectId::ROOT;
const LAST: ObjectId = ObjectId::from_u64(u64::MAX);
const LARGE: usize = 3 << 20;

fn rows(store: &Store) -> MetadataDigest {
    store.digest_metadata(ROOT..=LAST, u64::MAX).unwrap()
}

fn digest(store: &Store, id: ObjectId) -> [u8; 32] {
    match verify(store, id) {
        Verified::Same(found) | Verified::NotKnown(found) => found.hash,
        other => panic!("{other:?}"),
    }
}

fn verify(store: &Store, id: ObjectId) -> Verified {
    store.verify_content(id, &mut |_| true).unwrap()
}

#[tokio::test]
async fn rows_are_the_same_wherever_the_same_updates_were_applied() {
    let pair = Pair::new().await;
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    let folder = pair.leader.directory(ROOT, "d").await;
    let id = pair.leader.file(folder, "f").await;
    pair.leader.write(id, 0, &[1; 5000]).await.unwrap();
    let xattr = XattrName::new(&b"a"[..]).unwrap();
    let tag = |value: &'static [u8]| {
        let (value, xattr) = (Bytes::from_static(value), xattr.clone());
        async move {
            let who = root();
            leader
                .set_xattr(&who, id, &xattr, value, XattrMode::Any)
                .await
                .unwrap();
        }
    };
    tag(b"one").await;
    pair.follow().await;
    let first = rows(leader);
    assert_eq!((first.objects, first.through), (3, LAST));
    // The content is not here, so there is no data file; and only one of the two reads.
    pair.leader.clock.advance(100_000);
    pair.leader.read(id, 0, 10).await.unwrap();
    assert_ne!(
        leader.attributes(id).await.unwrap().accessed,
        follower.attributes(id).await.unwrap().accessed
    );
    assert_eq!(rows(leader), first);
    assert_eq!(rows(follower), first);
    // Each kind of change changes the digest.
    let mut seen = BTreeSet::from([first.hash]);
    tag(b"two").await;
    assert!(seen.insert(rows(leader).hash));
    pair.leader.set(id, &with_mode(0o600)).await.unwrap();
    assert!(seen.insert(rows(leader).hash));
    pair.leader
        .rename((folder, "f"), (ROOT, "g"))
        .await
        .unwrap();
    assert!(seen.insert(rows(leader).hash));
    assert_eq!(rows(follower), first);
    pair.follow().await;
    assert_eq!(rows(follower), rows(leader));
    // Only this copy has a file without a name.
    pair.leader.open(id, "owner", READ).await.unwrap();
    pair.leader.remove(ROOT, "g").await.unwrap();
    pair.follow().await;
    assert_eq!(leader.statistics().orphans, 1);
    assert_eq!(rows(follower), rows(leader));
}

#[tokio::test]
async fn ranges_find_the_object_that_differs() {
    let pair = Pair::new().await;
    let mut ids = Vec::new();
    for number in 0..50 {
        ids.push(pair.leader.directory(ROOT, &format!("d{number}")).await);
        pair.leader.file(ids[number], "f").await;
    }
    pair.follow().await;
    pair.leader.file(ids[30], "more").await;
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    let (mut from, mut covered, mut different) = (ROOT, 0, Vec::new());
    loop {
        let there = leader.digest_metadata(from..=LAST, 1).unwrap();
        let here = follower
            .digest_metadata(from..=there.through, u64::MAX)
            .unwrap();
        covered += there.objects;
        if (here.objects, here.hash) != (there.objects, there.hash) {
            different.push(there.through);
        }
        if there.through == LAST {
            break;
        }
        from = ObjectId::from_u64(there.through.as_u64() + 1);
    }
    assert_eq!(covered, 102);
    let new = leader
        .lookup(&root(), ids[30], &crate::fixture::name("more"))
        .await
        .unwrap()
        .id;
    assert_eq!(different, [ids[30], new]);
}

#[tokio::test]
async fn holes_and_zeros_are_the_same_content_and_all_else_is_not() {
    let fixture = Fixture::new();
    let (one, other) = (
        fixture.file(ROOT, "one").await,
        fixture.file(ROOT, "other").await,
    );
    fixture.write(one, 0, &[0; 100_000]).await.unwrap();
    fixture.write(one, 70_001, b"data").await.unwrap();
    fixture.write(other, 70_001, b"data").await.unwrap();
    fixture.set(other, &with_size(100_000)).await.unwrap();
    let store = fixture.store();
    assert_eq!(digest(store, one), digest(store, other));
    let who = root();
    let extent = Extent {
        offset: 0,
        length: 50_000,
    };
    let access = AccessCheck::Credentials(&who);
    store.deallocate(access, one, extent).await.unwrap();
    assert_eq!(digest(store, one), digest(store, other));
    let mut seen = BTreeSet::from([digest(store, other)]);
    for change in 0..5 {
        match change {
            0 => fixture.write(one, 99_999, b"x").await.unwrap(),
            1 => fixture.write(one, 0, b"x").await.unwrap(),
            2 => drop(fixture.set(one, &with_size(100_001)).await.unwrap()),
            3 => drop(fixture.set(one, &with_size(0)).await.unwrap()),
            _ => drop(fixture.set(one, &with_size(1)).await.unwrap()),
        }
        assert!(seen.insert(digest(store, one)), "after change {change}");
    }
    // A huge hole is cheap.
    fixture.set(one, &with_size(1 << 43)).await.unwrap();
    fixture.write(one, (1 << 43) - 1, b"!").await.unwrap();
    let mut read = 0;
    let verified = store.verify_content(one, &mut |bytes| {
        read += bytes;
        true
    });
    assert!(!matches!(verified.unwrap(), Verified::Busy));
    assert!(read <= 3 << 20, "{read} bytes were read");
    assert_eq!(
        store.verify_content(ROOT, &mut |_| true),
        Err(Error::IsDirectory)
    );
    let unknown = ObjectId::from_u64(99);
    assert_eq!(
        store.verify_content(unknown, &mut |_| true),
        Err(Error::Stale)
    );
}

/// The only data file of a store.
fn data_file(store: &Fixture) -> PathBuf {
    let mut path = store.options.directory.join("data");
    while path.is_dir() {
        path = std::fs::read_dir(&path)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
    }
    path
}

#[tokio::test]
async fn bytes_that_rot_are_seen_and_can_be_mended() {
    let mut pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.write(id, 0, &[8; 50_000]).await.unwrap();
    pair.follow().await;
    pair.ship(id).await;
    // Unstable data gets no note.
    assert!(matches!(
        verify(pair.follower.store(), id),
        Verified::NotKnown(_)
    ));
    assert!(matches!(
        verify(pair.follower.store(), id),
        Verified::NotKnown(_)
    ));
    pair.follower.store().sync().await.unwrap();
    let Verified::NotKnown(known) = verify(pair.follower.store(), id) else {
        panic!("it was noted too soon");
    };
    assert_eq!(known.hash, digest(pair.leader.store(), id));
    assert_eq!(verify(pair.follower.store(), id), Verified::Same(known));
    pair.follower.reopen().await;
    assert_eq!(verify(pair.follower.store(), id), Verified::Same(known));
    let file = std::fs::File::options()
        .write(true)
        .open(data_file(&pair.follower))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\x09", 33_333).unwrap();
    for _ in 0..2 {
        let Verified::Different { noted, found } = verify(pair.follower.store(), id) else {
            panic!("nobody has seen it");
        };
        assert_eq!((noted, found.change), (known.hash, known.change));
        assert_ne!(found.hash, known.hash);
    }
    // Content from a good copy is not compared with the note of damaged content.
    pair.ship(id).await;
    assert_eq!(verify(pair.follower.store(), id), Verified::NotKnown(known));
    pair.follower.store().sync().await.unwrap();
    assert_eq!(verify(pair.follower.store(), id), Verified::NotKnown(known));
    assert_eq!(verify(pair.follower.store(), id), Verified::Same(known));
    // Another version has another content.
    pair.leader.set(id, &with_mode(0o600)).await.unwrap();
    pair.follow().await;
    assert!(matches!(
        verify(pair.follower.store(), id),
        Verified::NotKnown(_)
    ));
    assert!(matches!(
        verify(pair.follower.store(), id),
        Verified::Same(_)
    ));
}

#[tokio::test]
async fn what_is_not_complete_has_no_digest() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    for record in pair.leader.store().updates(0, 10).unwrap() {
        let update = ForeignUpdate {
            incomplete: vec![id],
            ..update(record)
        };
        apply(pair.follower.store(), update, &mut Vec::new())
            .await
            .unwrap();
    }
    assert_eq!(verify(pair.follower.store(), id), Verified::Busy);
}

/// The digests of large files filled with one byte each.
async fn uniform(fixture: &Fixture) -> BTreeSet<[u8; 32]> {
    let id = fixture.file(ROOT, "uniform").await;
    let mut digests = BTreeSet::new();
    for fill in 1..=4 {
        fixture.write(id, 0, &vec![fill; LARGE]).await.unwrap();
        digests.insert(digest(fixture.store(), id));
    }
    digests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_digest_is_of_something_in_between() {
    let fixture = Fixture::new();
    let expected = uniform(&fixture).await;
    let id = fixture.file(ROOT, "f").await;
    fixture.write(id, 0, &vec![1; LARGE]).await.unwrap();
    let fixture = Arc::new(fixture);
    let done = Arc::new(AtomicBool::new(false));
    let reading = tokio::task::spawn_blocking({
        let (fixture, done) = (fixture.clone(), done.clone());
        move || {
            let mut digests = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let found = fixture.store().verify_content(id, &mut |_| true).unwrap();
                digests.extend(match found {
                    Verified::Same(found) | Verified::NotKnown(found) => Some(found.hash),
                    Verified::Busy => None,
                    Verified::Different { .. } => panic!("nothing has rotted"),
                });
            }
            digests
        }
    });
    for round in 0..60_u8 {
        let fill = vec![round % 4 + 1; LARGE];
        // Alternately as a client's write and as another replica's content, which changes no version.
        if round % 2 == 0 {
            fixture.write(id, 0, &fill).await.unwrap();
        } else {
            let piece = ContentPiece::Data {
                offset: 0,
                bytes: fill.into(),
            };
            fixture.store().put_content(id, piece).await.unwrap();
            fixture.store().sync().await.unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(u64::from(round % 7))).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    done.store(true, Ordering::Relaxed);
    let digests = reading.await.unwrap();
    assert!(!digests.is_empty());
    assert!(digests.iter().all(|digest| expected.contains(digest)));
}

/// Data that was written between the examination of a file and the note of its damage was marked as damaged.
#[tokio::test]
async fn damage_is_noted_of_the_version_that_was_looked_at() {
    let fixture = Fixture::new();
    let id = fixture.file(ROOT, "f").await;
    fixture.write(id, 0, &[1; LARGE]).await.unwrap();
    let store = fixture.store();
    let looked_at = store.attributes(id).await.unwrap().change;
    fixture.write(id, 0, &[2; LARGE]).await.unwrap();
    assert!(!store.note_damaged(id, looked_at, true).await.unwrap());
    let written = store.attributes(id).await.unwrap().change;
    assert!(!store.is_at_rest(id), "it was written just now");
    assert!(!store.note_damaged(id, written, true).await.unwrap());
    assert!(!store.is_damaged(id));
    assert_eq!(fixture.read(id, 0, 4).await.unwrap(), [2; 4][..]);
}

/// A damaged file that was emptied and written again stayed damaged, unless it was examined while it was empty.
#[tokio::test]
async fn nothing_is_damaged_of_a_file_that_was_emptied_and_written_anew() {
    let mut fixture = Fixture::new();
    let id = fixture.file(ROOT, "f").await;
    fixture.write(id, 0, b"damaged").await.unwrap();
    // So that the file has no recent writer.
    fixture.reopen().await;
    let store = fixture.store();
    assert!(store.is_at_rest(id));
    let version = store.attributes(id).await.unwrap().change;
    assert!(store.note_damaged(id, version, true).await.unwrap());
    fixture.set(id, &with_size(100)).await.unwrap();
    assert!(store.is_damaged(id));
    fixture.set(id, &with_size(0)).await.unwrap();
    assert!(!store.is_damaged(id));
    fixture.write(id, 0, b"anew").await.unwrap();
    assert_eq!(fixture.read(id, 0, 4).await.unwrap(), b"anew"[..]);
}
