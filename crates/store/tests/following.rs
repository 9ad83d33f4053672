//! A store that follows another: applied updates, received content, crashes in between.

use crate::fixture::pair::{LEADER, Pair, apply, update};
use crate::fixture::{READ, REFUSED, name, open_owner, root, with_size};
use bytes::Bytes;
use store::{ContentPiece, LinkChange, RowChange, Store};
use vfs::{Error, Extent, FileSystem, ObjectId, XattrMode, XattrName};

const ROOT: ObjectId = ObjectId::ROOT;
#[tokio::test]
async fn names_and_their_ways_up_follow() {
    let pair = Pair::new().await;
    let folder = pair.leader.directory(ROOT, "d").await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader
        .rename((ROOT, "f"), (folder, "g"))
        .await
        .unwrap();
    let link = |object, parent, added| LinkChange {
        object,
        parent,
        added,
    };
    let expected = [
        link(folder, ROOT, true),
        link(id, ROOT, true),
        link(id, folder, true),
        link(id, ROOT, false),
    ];
    assert_eq!(pair.follow().await, expected);
    assert_eq!(pair.follower.find(folder, "g").await, Ok(id));
    assert_eq!(pair.follower.store().parents(id).unwrap(), [folder]);
    assert_eq!(pair.follower.list(ROOT, 10).await.len(), 1);
    assert_eq!(pair.follower.store().statistics().objects, 3);
    assert!(pair.follower.store().updates(0, 10).unwrap().is_empty());
}

#[tokio::test]
async fn a_position_counts_once_and_a_refusal_changes_nothing() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    let record = pair.leader.store().updates(0, 1).unwrap().remove(0);
    let mut refuse = |_: &[LinkChange], _: &mut dyn FnMut() -> vfs::Result<()>| Err(REFUSED);
    let refused = pair
        .follower
        .store()
        .apply(update(record.clone()), &mut refuse);
    assert_eq!(refused.await, Err(REFUSED));
    assert_eq!(pair.follower.store().applied(LEADER), Ok(0));
    assert!(pair.follower.find(ROOT, "f").await.is_err());
    assert_eq!(pair.follower.store().statistics().objects, 1);
    pair.follow().await;
    pair.follower.store().sync().await.unwrap();
    let before = pair.follower.store().statistics().batches;
    let mut links = Vec::new();
    let again = apply(pair.follower.store(), update(record.clone()), &mut links).await;
    pair.follower
        .store()
        .wait_stable(again.unwrap())
        .await
        .unwrap();
    assert!(links.is_empty());
    assert_eq!(pair.follower.store().statistics().batches, before);
    assert_eq!(pair.follower.store().applied(LEADER), Ok(record.position));
    assert_eq!(pair.follower.find(ROOT, "f").await, Ok(id));
}

#[tokio::test]
async fn rows_that_cannot_be_are_refused_before_anything_changes() {
    let pair = Pair::new().await;
    pair.leader.file(ROOT, "f").await;
    let good = pair.leader.store().updates(0, 1).unwrap().remove(0);
    let row = |table: u8, key: &[u8], value: Option<&[u8]>| RowChange {
        table,
        key: Bytes::copy_from_slice(key),
        value: value.map(Bytes::copy_from_slice),
    };
    let bad = [
        row(1, &[0; 8], Some(&[1, 2, 3])),
        row(1, &ROOT.as_u64().to_be_bytes(), None),
        row(2, &[0; 3], None),
        row(3, &[0; 24], Some(b"x")),
        row(4, &[0; 16], Some(b"x")),
        row(9, b"reserved", None),
        row(200, b"", None),
    ];
    for bad in bad {
        let mut spoilt = update(good.clone());
        spoilt.changes.push(bad);
        let outcome = apply(pair.follower.store(), spoilt, &mut Vec::new()).await;
        assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
        assert_eq!(pair.follower.store().applied(LEADER), Ok(0));
    }
    assert!(pair.follower.list(ROOT, 10).await.is_empty());
}

#[tokio::test]
async fn content_follows_with_its_holes_and_ends_at_the_size() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.write(id, 0, &[1; 20_000]).await.unwrap();
    pair.leader.write(id, 200_000, b"end").await.unwrap();
    let pieces = pair.leader.store().content(id, 0, u64::MAX).unwrap();
    assert!(
        pieces
            .iter()
            .any(|piece| matches!(piece, ContentPiece::Hole(_)))
    );
    pair.follow().await;
    let before = pair.follower.attributes(id).await;
    pair.ship(id).await;
    assert_eq!(pair.follower.attributes(id).await, before);
    assert_eq!(
        pair.follower.content(id).await,
        pair.leader.content(id).await
    );
    // An older piece of the file ends at its present end.
    pair.leader.set(id, &with_size(5)).await.unwrap();
    pair.follow().await;
    let late = ContentPiece::Data {
        offset: 3,
        bytes: Bytes::from_static(b"too late"),
    };
    pair.follower
        .store()
        .put_content(id, late.clone())
        .await
        .unwrap();
    pair.leader.set(id, &with_size(100)).await.unwrap();
    pair.follow().await;
    assert!(
        pair.follower.content(id).await[5..]
            .iter()
            .all(|byte| *byte == 0)
    );
    let unknown = ObjectId::from_u64(99);
    assert_eq!(
        pair.follower.store().put_content(unknown, late).await,
        Err(Error::Stale)
    );
    let hole = ContentPiece::Hole(Extent {
        offset: 0,
        length: u64::MAX,
    });
    pair.follower.store().put_content(id, hole).await.unwrap();
    assert_eq!(pair.follower.content(id).await, vec![0; 100]);
}

#[tokio::test]
async fn nothing_of_a_cut_file_comes_back_when_it_grows() {
    for bytes in [1_000, 100_000] {
        let mut pair = Pair::new().await;
        let id = pair.leader.file(ROOT, "f").await;
        pair.leader.write(id, 0, &vec![7; bytes]).await.unwrap();
        pair.follow().await;
        pair.ship(id).await;
        pair.leader.set(id, &with_size(10)).await.unwrap();
        pair.leader.set(id, &with_size(500)).await.unwrap();
        pair.follow().await;
        let expected = [vec![7; 10], vec![0; 490]].concat();
        assert_eq!(pair.follower.content(id).await, expected);
        pair.follower.crash();
        assert_eq!(pair.follower.content(id).await, expected);
    }
}

#[tokio::test]
async fn a_removed_file_lives_on_where_it_is_open() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "open").await;
    let shut = pair.leader.file(ROOT, "shut").await;
    for id in [id, shut] {
        pair.leader.write(id, 0, b"content").await.unwrap();
    }
    pair.follow().await;
    pair.ship(id).await;
    pair.ship(shut).await;
    pair.follower.open(id, "owner", READ).await.unwrap();
    pair.leader.remove(ROOT, "open").await.unwrap();
    pair.leader.remove(ROOT, "shut").await.unwrap();
    pair.follow().await;
    assert_eq!(pair.follower.content(id).await, &b"content"[..]);
    assert_eq!(pair.follower.attributes(id).await.links, 0);
    assert_eq!(
        pair.follower.store().attributes(shut).await,
        Err(Error::Stale)
    );
    let late = ContentPiece::Data {
        offset: 0,
        bytes: Bytes::from_static(b"late"),
    };
    assert_eq!(
        pair.follower.store().put_content(id, late).await,
        Err(Error::Stale)
    );
    let statistics = pair.follower.store().statistics();
    assert_eq!((statistics.objects, statistics.orphans), (2, 1));
    pair.follower
        .store()
        .close(id, &open_owner("owner"))
        .await
        .unwrap();
    assert_eq!(pair.follower.store().statistics().objects, 1);
}

#[tokio::test]
async fn versions_made_after_following_are_newer_even_after_a_crash() {
    let mut pair = Pair::new().await;
    for number in 0..50 {
        pair.leader.file(ROOT, &format!("f{number}")).await;
    }
    pair.follow().await;
    let followed = pair.follower.attributes(ROOT).await.change;
    let crashed = pair.follower.crashed_copy();
    pair.follower.file(ROOT, "mine").await;
    let shown = pair.follower.attributes(ROOT).await.change;
    assert!(shown > followed);
    pair.follower.close();
    let after = Store::open(&crashed).unwrap();
    let (who, new) = (root(), name("other"));
    let set = vfs::SetAttributes::default();
    after
        .create(&who, ROOT, &new, crate::fixture::file(), &set)
        .await
        .unwrap();
    assert!(after.attributes(ROOT).await.unwrap().change > shown);
}

#[tokio::test]
async fn many_small_pieces_share_their_trips_to_the_disk() {
    const FILES: u64 = 64;
    let pair = Pair::new().await;
    let mut ids = Vec::new();
    for number in 0..FILES {
        let id = pair.leader.file(ROOT, &format!("f{number}")).await;
        pair.leader.write(id, 0, &[1; 3000]).await.unwrap();
        ids.push(id);
    }
    pair.follow().await;
    pair.follower.store().sync().await.unwrap();
    let before = pair.follower.store().statistics();
    let puts = ids.iter().map(|id| async {
        let piece = pair.leader.store().content(*id, 0, 3000).unwrap().remove(0);
        pair.follower.store().put_content(*id, piece).await.unwrap();
    });
    let mut set = Vec::new();
    puts.for_each(|put| set.push(Box::pin(put)));
    join_all(set).await;
    let after = pair.follower.store().statistics();
    let trips = after.group_commits - before.group_commits;
    // How many operations share a flush depends on the disk; that none needs an additional one depends on the store.
    assert!(trips <= FILES, "{trips} trips for {FILES} files");
    assert_eq!(after.data_syncs, before.data_syncs);
    for id in ids {
        assert_eq!(pair.follower.content(id).await, vec![1; 3000]);
    }
}

/// Runs all of them concurrently.
async fn join_all(mut running: Vec<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    std::future::poll_fn(|context| {
        running.retain_mut(|one| one.as_mut().poll(context).is_pending());
        match running.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_taken_over_survives_a_crash_without_a_new_version() {
    let mut pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.write(id, 0, &[5; 3000]).await.unwrap();
    pair.follow().await;
    pair.ship(id).await;
    let before = pair.follower.attributes(id).await;
    pair.follower.crash();
    assert_eq!(pair.follower.attributes(id).await, before);
    assert_eq!(pair.follower.content(id).await, vec![5; 3000]);
    assert_eq!(pair.follower.store().recovered().unwrap(), []);
    assert!(pair.follower.store().applied(LEADER).unwrap() > 0);
    // There are holes between the rows and the content.
    pair.leader.write(id, 0, &[6; 6000]).await.unwrap();
    pair.follow().await;
    pair.follower.crash();
    assert_eq!(
        pair.follower.attributes(id).await,
        pair.leader.attributes(id).await
    );
    pair.ship(id).await;
    assert_eq!(pair.follower.content(id).await, vec![6; 6000]);
}

#[tokio::test]
async fn updates_made_one_still_cut_what_the_follower_has() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.write(id, 0, &[7; 100]).await.unwrap();
    pair.follow().await;
    pair.ship(id).await;
    // The file is cut and extended in one update; none of the rows alone shows that.
    pair.leader.set(id, &with_size(10)).await.unwrap();
    pair.leader.set(id, &with_size(100)).await.unwrap();
    assert_eq!(pair.follow_at_once().await, 2);
    let content = pair.follower.content(id).await;
    assert_eq!(content, pair.leader.content(id).await);
    assert_eq!((content[9], content[10]), (7, 0));
}

#[tokio::test]
async fn what_is_made_and_changed_meanwhile_is_one_update() {
    let pair = Pair::new().await;
    let gone = pair.leader.file(ROOT, "gone").await;
    pair.leader.write(gone, 0, &[7; 100]).await.unwrap();
    pair.leader.set(gone, &with_size(10)).await.unwrap();
    pair.leader.remove(ROOT, "gone").await.unwrap();
    let folder = pair.leader.directory(ROOT, "d").await;
    let kept = pair.leader.file(folder, "kept").await;
    pair.leader.write(kept, 0, &[7; 100]).await.unwrap();
    pair.leader
        .rename((folder, "kept"), (ROOT, "k"))
        .await
        .unwrap();
    assert_eq!(pair.follow_at_once().await, 1);
    assert_eq!(pair.follower.find(ROOT, "k").await, Ok(kept));
    assert!(pair.follower.find(ROOT, "gone").await.is_err());
    pair.ship(kept).await;
    pair.same_rows().await;
}

/// The follower knows one of the files, and has never heard of the other.
#[tokio::test]
async fn an_attribute_of_what_is_removed_by_the_same_update_leaves_nothing() {
    let mut pair = Pair::new().await;
    let known = pair.leader.file(ROOT, "known").await;
    pair.follow().await;
    let unknown = pair.leader.file(ROOT, "unknown").await;
    let (who, name) = (root(), XattrName::new(b"a".to_vec()).unwrap());
    for (file, of) in [(known, "known"), (unknown, "unknown")] {
        let value = Bytes::from_static(&[7; 100]);
        let set = pair.leader.store();
        let set = set.set_xattr(&who, file, &name, value, XattrMode::Any);
        set.await.unwrap();
        pair.leader.remove(ROOT, of).await.unwrap();
    }
    assert_eq!(pair.follow_at_once().await, 1);
    pair.same_rows().await;
    pair.follower.store().sync().await.unwrap();
    let directory = pair.follower.options.directory.clone();
    pair.follower.close();
    let report = Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}
