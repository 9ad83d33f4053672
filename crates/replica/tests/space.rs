//! Disks that fill up: what the smallest has no space for is refused everywhere, and a replica that cannot store what
//! others have changed leaves the view until it can.

use std::time::Duration;

use crate::fixture::{ROOT, Set, eventually};
use replica::ShortView;
use tokio::time::Instant;
use vfs::Error;

const MEBIBYTE: u64 = 1 << 20;
const SMALL_DISK: u64 = 256;
const FILE_BYTES: usize = 8 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_smallest_disk_has_no_space_for_is_refused_everywhere() {
    let mut set = Set::filling(1).await;
    let Some(disk) = set.add_on_small_disk(SMALL_DISK).await else {
        return;
    };
    let bytes = vec![7; FILE_BYTES];
    let mut made = Vec::new();
    let refused = loop {
        assert!(
            (made.len() * FILE_BYTES) as u64 <= SMALL_DISK * MEBIBYTE,
            "more was accepted than the smallest disk can hold"
        );
        let name = format!("file {}", made.len());
        match set.sites[0].save(ROOT, &name, &bytes).await {
            Ok(_) => made.push(name),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::NoSpace);
    assert!(!made.is_empty());
    // The replica that refuses names the member, and so does that one.
    let small = set.sites[1].store.slot().0;
    let (by, of) = (set.sites[0].store.slot().0, small);
    let status = set.sites[0].replica.status();
    assert_eq!(status.short, [ShortView { by, of }]);
    assert!(status.space_refusals > 0);
    let named = set.sites[1].replica.clone();
    eventually("it hears of it", || {
        named.status().short == [ShortView { by, of }]
    })
    .await;
    drop(named);
    let space = set.sites[0].files.space().await.unwrap();
    assert!(space.available_bytes < SMALL_DISK * MEBIBYTE, "{space:?}");
    assert!(space.total_bytes > SMALL_DISK * MEBIBYTE);
    // Everybody has what was answered, and takes part.
    set.assert_equal().await;
    for site in &set.sites {
        assert!(site.replica.view_status().takes_part);
        assert!(site.replica.has_left().borrow().is_none());
    }
    for name in made {
        set.sites[0].remove(ROOT, &name).await.unwrap();
    }
    let files = set.sites[0].files.clone();
    let space = async {
        while files.space().await.unwrap().available_bytes < 2 * FILE_BYTES as u64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let space = tokio::time::timeout(crate::fixture::PATIENCE, space).await;
    space.expect("what was removed makes space");
    set.sites[0].save(ROOT, "again", &bytes).await.unwrap();
    set.assert_equal().await;
    drop(disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_whose_disk_is_full_leaves_and_comes_back_when_there_is_space() {
    let mut set = Set::filling_unsuspected(2).await;
    let Some(disk) = set.add_on_small_disk(SMALL_DISK).await else {
        return;
    };
    let slot = set.sites[2].store.slot().0;
    let file = set.sites[0].save(ROOT, "file", b"before").await.unwrap();
    set.rest().await;
    let replica = set.sites[0].replica.clone();
    let is_away = || {
        let view = replica.view_status();
        let mut members = view.members.iter();
        members.any(|member| member.slot == slot && !member.active)
    };
    // Somebody else fills its disk. What the others admit before they hear of that has to be stored all the same.
    loop {
        disk.fill(FILE_BYTES as u64 / 2);
        match set.sites[0]
            .save(ROOT, "too much", &vec![7; FILE_BYTES])
            .await
        {
            Err(Error::NoSpace) => disk.empty(),
            saved => {
                saved.unwrap();
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    set.sites[0].truncate(file, 0).await.unwrap();
    let left = set.sites[2].replica.clone();
    eventually("it starts anew", || left.has_left().borrow().is_some()).await;
    drop(left);
    let stopped = set.crash(2).await;
    set.revive(2, stopped).await;
    // If nothing could be decided when it found that out, it does now.
    eventually("it leaves the view", is_away).await;
    let view = replica.view_status();
    let member = view.members.iter().find(|member| member.slot == slot);
    let reason = member.unwrap().reason.clone().unwrap();
    assert!(reason.contains("no space left"), "{reason}");
    // Nobody waits for it, and its disk does not count once the others have gone on without it.
    let saved = async {
        loop {
            match set.sites[1].save(ROOT, "meanwhile", b"made").await {
                Err(Error::NoSpace) => tokio::time::sleep(Duration::from_millis(20)).await,
                saved => break saved,
            }
        }
    };
    let saved = tokio::time::timeout(crate::fixture::PATIENCE, saved).await;
    saved.expect("the others go on").unwrap();
    let kept_out = set.sites[2].replica.clone();
    eventually("it says why it stays outside", || {
        let obstacle = kept_out.view_status().obstacle;
        obstacle.is_some_and(|why| why.contains("disk is full") || why.contains("no space left"))
    })
    .await;
    // It is not sent again and again what it has no space for. Nobody else lacks anything.
    let sender = set.sites[1].replica.clone();
    let (shipped, begun) = (sender.status().shipped_content_bytes, Instant::now());
    set.sites[1]
        .save(ROOT, "large", &vec![7; FILE_BYTES])
        .await
        .unwrap();
    eventually("contents are held back", || {
        let status = sender.status();
        let mut peers = status.peers.iter();
        status.shipped_content_bytes >= shipped + FILE_BYTES as u64
            && peers.any(|peer| peer.slot == slot && peer.awaits_space)
    })
    .await;
    // Long enough for a file to be sent several times.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let shipped = sender.status().shipped_content_bytes - shipped;
    // One file to the other replica; to this one what it has no space for again and again, each time after twice as long.
    let attempts = 2 + begun.elapsed().as_secs().max(1).ilog2();
    let most = FILE_BYTES as u64 * u64::from(1 + attempts);
    assert!(shipped <= most, "{shipped} of {most}");
    drop((sender, kept_out));
    disk.empty();
    set.revive_until_ready(2).await;
    set.assert_equal().await;
    let read = set.sites[2].load(ROOT, "meanwhile").await.unwrap();
    assert_eq!(read, b"made");
    drop(set);
    drop(disk);
}

/// It was started anew while it was in the view, and its disk was full by then: it stayed, never had what was owed to it, and all
/// waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_started_anew_without_space_leaves_the_view() {
    let mut set = Set::filling_unsuspected(2).await;
    let Some(disk) = set.add_on_small_disk(SMALL_DISK).await else {
        return;
    };
    let slot = set.sites[2].store.slot().0;
    set.rest().await;
    let third = set.crash(2).await;
    // Enough for rows, and not for contents.
    disk.fill(20 * MEBIBYTE);
    // The two others are enough to say who is primary. What they know of its disk is from before.
    let file = set.sites[0].file(ROOT, "large").await.unwrap();
    let bytes = vec![7; FILE_BYTES];
    set.sites[0].write(file, 0, &bytes).await.unwrap();
    set.revive(2, third).await;
    let replica = set.sites[0].replica.clone();
    let reason = || {
        let members = replica.view_status().members.into_iter();
        let mut away = members.filter(|member| member.slot == slot && !member.active);
        away.next().and_then(|member| member.reason)
    };
    eventually("it leaves the view", || reason().is_some()).await;
    assert!(reason().unwrap().contains("no space left"));
    disk.empty();
    set.revive_until_ready(2).await;
    drop(replica);
    set.assert_equal().await;
    drop(set);
    drop(disk);
}

/// What the others went on without is kept, or the replica waits until it can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_given_up_comes_back_when_there_is_space_for_what_is_put_aside() {
    let mut set = Set::filling(2).await;
    let Some(disk) = set.add_on_small_disk(SMALL_DISK).await else {
        return;
    };
    let slot = set.sites[2].store.slot().0;
    let file = set.sites[2].save(ROOT, "file", b"before").await.unwrap();
    set.rest().await;
    set.sites[2].write(file, 0, b"unsent").await.unwrap();
    let lost = set.crash(2).await;
    disk.fill(MEBIBYTE);
    set.give_up(slot).await;
    set.revive(2, lost).await;
    let kept_out = set.sites[2].replica.clone();
    eventually("it says why it stays outside", || {
        let obstacle = kept_out.view_status().obstacle;
        obstacle.is_some_and(|why| why.contains("cannot be put aside"))
    })
    .await;
    assert!(set.sites[2].recovered().is_empty());
    let left = kept_out.has_left();
    disk.empty();
    eventually("it starts anew", || left.borrow().is_some()).await;
    drop((kept_out, left));
    let anew = set.crash(2).await;
    set.revive(2, anew).await;
    set.revive_until_ready(2).await;
    assert_eq!(set.sites[2].recovered().len(), 1);
    set.assert_equal().await;
    drop(set);
    drop(disk);
}
