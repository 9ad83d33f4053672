//! Files of which a lost replica had sent only a part, when an administrator decides to go on without it.

use std::time::Duration;

use crate::fixture::{PATIENCE, ROOT, Set, Site, eventually};
use store::ContentPiece;
use vfs::{Error, ObjectId};

const MIB: usize = 1 << 20;

/// So long that it takes many pieces.
const LENGTH: usize = 64 * MIB;

/// The bytes of a file as they lie in one copy.
fn bytes_in(site: &Site, file: ObjectId) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in site.store.content(file, 0, u64::MAX).unwrap() {
        match piece {
            ContentPiece::Data { bytes: more, .. } => bytes.extend_from_slice(&more),
            ContentPiece::Hole(hole) => bytes.resize(bytes.len() + hole.length as usize, 0),
        }
    }
    bytes
}

fn first_byte(site: &Site, file: ObjectId) -> Option<u8> {
    match site.store.content(file, 0, 1).ok()?.first()? {
        ContentPiece::Data { bytes, .. } => bytes.first().copied(),
        ContentPiece::Hole(_) => Some(0),
    }
}

/// A set of which the first replica was lost when the others had got a part of a file's contents, and not all. On a machine
/// where all arrives at once it is tried again.
async fn lost_amid_contents() -> (Set, crate::fixture::Crashed, ObjectId) {
    let (set, _, lost, file) = lost_amid_contents_of(3, false).await;
    (set, lost, file)
}

/// The same with this many replicas, of which the last was perhaps away since before.
async fn lost_amid_contents_of(
    count: usize,
    one_away: bool,
) -> (
    Set,
    Option<crate::fixture::Crashed>,
    crate::fixture::Crashed,
    ObjectId,
) {
    for _ in 0..8 {
        let mut set = Set::failing_with(count, |settings| {
            settings.peer.data_window_bytes = 2 << 20;
            settings.kept_updates = 10;
        })
        .await;
        let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
        let file = set.sites[0].file(directory, "file").await.unwrap();
        set.sites[0].truncate(file, LENGTH as u64).await.unwrap();
        set.rest().await;
        // One that has noted it while others have not holds more of the first one's contents than they do, as far as it knows, and keeps its copy.
        let sites = &set.sites;
        eventually("all have noted that they have all of it", || {
            sites.iter().all(|site| !site.store.is_incomplete(file))
        })
        .await;
        let away = match one_away {
            true => Some(set.crash(count - 1).await),
            false => None,
        };
        for at in 0..LENGTH / MIB {
            let bytes = vec![b'n'; MIB];
            set.sites[0]
                .write(file, (at * MIB) as u64, &bytes)
                .await
                .unwrap();
        }
        let sites = &set.sites;
        eventually("some of it arrives", || {
            sites[1..]
                .iter()
                .all(|site| first_byte(site, file) == Some(b'n'))
        })
        .await;
        let lost = set.crash(0).await;
        let torn =
            |site: &Site| site.store.is_incomplete(file) && bytes_in(site, file).contains(&0);
        if set.sites.iter().all(torn) {
            return (set, away, lost, file);
        }
    }
    panic!("all contents arrive before a replica can be stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixture_of_versions_is_kept_aside_and_not_shown_until_it_is_overwritten() {
    let (mut set, lost, file) = lost_amid_contents().await;
    let at = set.sites[0].replica.clone();
    eventually("it is known what a thaw would lose", || {
        let (frozen, _) = at.frozen();
        let mut about = frozen.iter().map(|control| &control.open_questions);
        about.any(|what| what.contains("/theirs/file: only parts"))
    })
    .await;
    set.sites[0].give_up(1).await;
    let sites = &set.sites;
    eventually("everybody knows that it is torn", || {
        sites.iter().all(|site| {
            let status = site.replica.status();
            status.torn_files == 1 && status.torn_paths == ["/theirs/file"]
        })
    })
    .await;
    for site in sites {
        let read = async {
            loop {
                match site.try_read(file, Duration::from_secs(5)).await {
                    Err(Error::Delay) => {}
                    read => return read,
                }
            }
        };
        let read = tokio::time::timeout(PATIENCE, read).await.unwrap();
        assert!(matches!(read, Err(Error::Io(_))), "{read:?}");
    }
    eventually("all have the same of it", || {
        bytes_in(&sites[0], file) == bytes_in(&sites[1], file)
    })
    .await;
    let aside: Vec<_> = set.sites.iter().flat_map(Site::recovered).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert!(aside[0].label.starts_with("torn-"), "{aside:?}");
    // A part that is written does not make the rest right; nothing at all is a version.
    set.sites[1].write(file, 0, b"new").await.unwrap();
    let read = set.sites[1].try_read(file, Duration::from_secs(5)).await;
    assert!(matches!(read, Err(Error::Io(_))), "{read:?}");
    set.sites[1].truncate(file, 0).await.unwrap();
    set.sites[1].write(file, 0, b"new").await.unwrap();
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"new");
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"new");
    assert_eq!(
        set.sites[0].recovered().len(),
        1,
        "what it alone had is kept there"
    );
    set.assert_equal().await;
    assert!(
        set.sites
            .iter()
            .all(|site| site.replica.status().torn_files == 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_which_nothing_had_come_leaves_the_one_before_it() {
    let delay = Duration::from_secs(6);
    let mut set = Set::failing_with(3, |settings| settings.data_delay = delay).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    set.sites[0]
        .write(file, 0, b"the version before")
        .await
        .unwrap();
    set.rest().await;
    set.sites[0]
        .write(file, 4, b"NEWER AND LONGER THAN THAT")
        .await
        .unwrap();
    let sites = &set.sites;
    eventually("the others hear of it", || {
        sites[1..].iter().all(|site| site.store.is_incomplete(file))
    })
    .await;
    let lost = set.crash(0).await;
    set.sites[1].give_up(1).await;
    for site in &set.sites {
        assert_eq!(site.read(file).await.unwrap(), b"the version before");
        assert_eq!(site.replica.status().torn_files, 0);
    }
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    assert_eq!(
        set.sites[0].read(file).await.unwrap(),
        b"the version before"
    );
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_torn_is_whole_again_when_the_lost_replica_is_back() {
    let (mut set, lost, file) = lost_amid_contents().await;
    let replica = set.sites[0].replica.clone();
    eventually("the others have the same of it", || {
        let losses = replica.view_status().losses;
        losses
            .iter()
            .any(|loss| loss.slot == 1 && loss.ready_to_settle)
    })
    .await;
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    let read = set.sites[2].read(file).await.unwrap();
    assert!(read.iter().all(|byte| *byte == b'n'));
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_taken_of_a_part_knows_that_it_is_one() {
    let (mut set, away, lost, file) = lost_amid_contents_of(5, true).await;
    // More than is kept for the one that is away; the writes before are fewer than ten times that, which a member may lack.
    for number in 0..20 {
        let name = format!("meanwhile {number}");
        set.sites[0].directory(ROOT, &name).await.unwrap();
    }
    let replica = set.sites[0].replica.clone();
    eventually("those who are left have the same of it", || {
        let losses = replica.view_status().losses;
        losses
            .iter()
            .any(|loss| loss.slot == 1 && loss.ready_to_settle)
    })
    .await;
    set.revive(3, away.unwrap()).await;
    set.revive_until_ready(3).await;
    assert!(set.sites[3].store.is_incomplete(file));
    set.sites[0].give_up(1).await;
    let sites = &set.sites;
    eventually("everybody knows that it is torn", || {
        sites
            .iter()
            .all(|site| site.replica.status().torn_files == 1)
    })
    .await;
    set.sites[3].truncate(file, 0).await.unwrap();
    set.sites[3].write(file, 0, b"new").await.unwrap();
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"new");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_taken_of_a_part_is_whole_when_the_lost_replica_is_back() {
    let (mut set, away, lost, file) = lost_amid_contents_of(5, true).await;
    for number in 0..20 {
        let name = format!("meanwhile {number}");
        set.sites[0].directory(ROOT, &name).await.unwrap();
    }
    set.revive(3, away.unwrap()).await;
    set.revive_until_ready(3).await;
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    for (number, site) in (1..).zip(&set.sites) {
        let read = site.read(file).await.unwrap();
        let wrong = read.iter().position(|byte| *byte != b'n');
        assert_eq!(wrong, None, "what replica {number} shows");
    }
    set.assert_equal().await;
}
