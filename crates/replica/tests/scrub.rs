//! The scrub: what a disk has changed is found, got back from a good copy, and shown to nobody meanwhile.

use crate::fixture::{ROOT, Set, eventually, root};
use store::ContentPiece;
use vfs::{AccessCheck, Error, FileSystem, ObjectId, SetAttributes};

/// More than a message, with holes' worth of zeros in between.
fn content() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..900_000_u32).map(|at| (at % 251) as u8).collect();
    bytes[100_000..300_000].fill(0);
    bytes
}

/// A set of this many replicas with a file that everybody has.
async fn with_file(count: usize) -> (Set, ObjectId) {
    let set = Set::of(count).await;
    let file = make_file(&set).await;
    (set, file)
}

/// Makes the file, stably, since nothing is compared before.
async fn make_file(set: &Set) -> ObjectId {
    let file = set.sites[0].save(ROOT, "file", &content()).await.unwrap();
    set.sites[0].files.commit(file, 0, 0).await.unwrap();
    set.rest().await;
    eventually("it is stable everywhere", || {
        set.sites.iter().all(|site| site.store.is_at_rest(file))
    })
    .await;
    file
}

/// What the own disk of a site holds.
async fn own_bytes(set: &Set, at: usize, file: ObjectId) -> Result<Vec<u8>, Error> {
    let (who, store) = (root(), &set.sites[at].store);
    let read = store.read(AccessCheck::Open(&who), file, 0, 1 << 20).await;
    read.map(|read| read.bytes.to_vec())
}

async fn until_mended(set: &Set, at: usize) {
    let replica = &set.sites[at].replica;
    eventually("the content is mended", || {
        let status = replica.scrub_status();
        status.mended == 1 && status.damaged == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_disk_changes_of_a_known_content_is_got_back() {
    let (set, file) = with_file(2).await;
    for site in &set.sites {
        let status = site.scrub().await;
        assert_eq!((status.found, status.undecided), (0, 0));
    }
    set.sites[1].rot(file);
    set.sites[1].scrub().await;
    until_mended(&set, 1).await;
    assert_eq!(own_bytes(&set, 1, file).await.unwrap(), content());
    assert_eq!(set.sites[1].scrub().await.found, 1);
    set.assert_equal().await;
    // It is a file like any other.
    set.sites[1].write(file, 5, b"and goes on").await.unwrap();
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_while_a_replica_is_away_is_found_when_it_is_back() {
    let (mut set, file) = with_file(2).await;
    set.sites[1].scrub().await;
    let stopped = set.crash(1).await;
    stopped.rot(file);
    set.revive(1, stopped).await;
    set.revive_until_ready(1).await;
    set.sites[1].scrub().await;
    until_mended(&set, 1).await;
    assert_eq!(own_bytes(&set, 1, file).await.unwrap(), content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_copies_that_nobody_has_looked_at_two_decide() {
    let (set, file) = with_file(3).await;
    set.sites[1].rot(file);
    // The first copy meets the second one, and has it look for itself.
    set.sites[0].scrub().await;
    until_mended(&set, 1).await;
    assert_eq!(own_bytes(&set, 1, file).await.unwrap(), content());
    for site in [&set.sites[0], &set.sites[2]] {
        let status = site.scrub().await;
        assert_eq!((status.found, status.damaged, status.undecided), (0, 0, 0));
    }
}

/// Nobody had looked at either of two copies, so nobody could tell which was right; a reader of the wrong one was shown it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_copies_the_one_that_its_disk_has_changed_is_found_by_its_first_reader() {
    let (set, file) = with_file(2).await;
    set.sites[1].rot(file);
    assert!(matches!(own_bytes(&set, 1, file).await, Err(Error::Io(_))));
    assert_eq!(set.sites[1].load(ROOT, "file").await.unwrap(), content());
    until_mended(&set, 1).await;
    assert_eq!(own_bytes(&set, 1, file).await.unwrap(), content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_copies_that_differ_without_a_witness_are_reported_and_left_alone() {
    let (set, file) = with_file(2).await;
    // No disk has done it, so the checksums are right.
    let piece = ContentPiece::Data {
        offset: 4096,
        bytes: bytes::Bytes::from_static(b"something else"),
    };
    set.sites[1].store.put_content(file, piece).await.unwrap();
    eventually("the file is at rest", || {
        set.sites[1].store.is_at_rest(file)
    })
    .await;
    let wrong = own_bytes(&set, 1, file).await.unwrap();
    assert_ne!(wrong, content());
    let status = set.sites[0].scrub().await;
    assert_eq!((status.undecided, status.damaged), (1, 0));
    assert!(status.findings[0].what.contains("/file"), "{status:?}");
    assert_eq!(own_bytes(&set, 0, file).await.unwrap(), content());
    assert_eq!(own_bytes(&set, 1, file).await.unwrap(), wrong);
    // A client that knows better writes the file anew.
    let saved = set.sites[1].save(ROOT, "file", b"written anew").await;
    assert_eq!(saved.unwrap(), file);
    set.sites[1].files.commit(file, 0, 0).await.unwrap();
    set.rest().await;
    assert_eq!(set.sites[0].scrub().await.undecided, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_a_damaged_content() {
    let (mut set, file) = with_file(2).await;
    set.sites[1].scrub().await;
    set.sites[1].rot(file);
    // Behind the replica's back, so that it stays damaged until a restart.
    let store = set.sites[1].store.clone();
    let version = store.attributes(file).await.unwrap().change;
    assert!(store.note_damaged(file, version, true).await.unwrap());
    assert!(matches!(own_bytes(&set, 1, file).await, Err(Error::Io(_))));
    assert_eq!(set.sites[1].load(ROOT, "file").await.unwrap(), content());
    drop(store);
    set.restart(1).await;
    set.revive_until_ready(1).await;
    until_mended(&set, 1).await;
    assert_eq!(own_bytes(&set, 1, file).await.unwrap(), content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_rows_are_outvoted_is_replaced() {
    let mut set = Set::failing(3).await;
    let file = make_file(&set).await;
    set.sites[2].scrub().await;
    let stopped = set.crash(2).await;
    let store = stopped.store();
    let (who, set_mode) = (
        root(),
        SetAttributes {
            mode: Some(0o4777),
            ..SetAttributes::default()
        },
    );
    let by = AccessCheck::Credentials(&who);
    store.set_attributes(by, file, &set_mode).await.unwrap();
    tokio::task::spawn_blocking(move || drop(store))
        .await
        .unwrap();
    set.revive(2, stopped).await;
    set.revive_until_ready(2).await;
    let replica = set.sites[2].replica.clone();
    replica.scrub();
    eventually("it leaves to get a whole copy", || {
        replica.has_left().borrow().is_some()
    })
    .await;
    assert_eq!(replica.scrub_status().found, 1);
    drop(replica);
    set.revive_until_ready(2).await;
    set.assert_equal().await;
    let mode = set.sites[2].store.attributes(file).await.unwrap().mode;
    assert_ne!(mode, 0o4777);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_good_copy_reading_fails_until_the_file_is_written_anew() {
    let (set, file) = with_file(1).await;
    set.sites[0].scrub().await;
    set.sites[0].rot(file);
    set.sites[0].replica.scrub();
    let replica = &set.sites[0].replica;
    eventually("the damage is found", || {
        replica.scrub_status().damaged == 1
    })
    .await;
    let read = set.sites[0].load(ROOT, "file").await;
    assert!(matches!(read, Err(Error::Io(_))), "{read:?}");
    set.sites[0]
        .save(ROOT, "file", b"from a backup")
        .await
        .unwrap();
    let read = set.sites[0].load(ROOT, "file").await.unwrap();
    assert_eq!(read, b"from a backup");
    assert_eq!(replica.scrub_status().damaged, 0);
}

/// A content that the disk had changed was written anew between the look and the note of the damage; what had been written was taken
/// for damaged then, and nobody had another copy of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_while_a_scrub_looks_is_not_taken_for_damaged() {
    let (set, file) = with_file(1).await;
    let (site, replica) = (&set.sites[0], &set.sites[0].replica);
    for round in 0..4_u8 {
        site.scrub().await;
        site.rot(file);
        replica.scrub();
        // Each time the scrub is a little further.
        tokio::time::sleep(std::time::Duration::from_micros(2_000) * round.into()).await;
        let bytes = vec![round + 1; 900_000];
        site.save(ROOT, "file", &bytes).await.unwrap();
        site.files.commit(file, 0, 0).await.unwrap();
        eventually("what was written can be read", || {
            !site.store.is_damaged(file) && site.store.is_at_rest(file)
        })
        .await;
        assert_eq!(site.load(ROOT, "file").await.unwrap(), bytes);
    }
    set.assert_equal().await;
}
