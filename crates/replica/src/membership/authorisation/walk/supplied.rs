//! Who has the best of what a lost replica made of a file supplies those who are left.

use store::ContentPiece;

use super::*;
use crate::state::arrivals::PUTTING_AT_ONCE;

/// Has nothing sent of contents from one to another for a while.
fn hold_back(site: &Site, to: u16, time: Duration) {
    let peers = &site.replica.local().state.peers;
    peers.with(ReplicaSlot(to), |peer| {
        peer.shipments.hold_back(Instant::now() + time);
    });
}

/// Of three the first has written a file, and the second is off before it has the contents. The third changes the file, and is lost before
/// anybody has its contents. The first has the best of it, and the second takes that though it lacks data of one that is in contact: of
/// the first itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_64_who_lacks_data_of_the_supplier_takes_what_that_has() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let inbox_of = |set: &Set, at: usize, of: u16| {
        let inboxes = &set.sites[at].replica.local().state.inboxes;
        inboxes.get(ReplicaSlot(of)).unwrap()
    };
    let inbox = inbox_of(&set, 1, 1);
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    let file = set.sites[0].save(ROOT, "file", b"old").await.unwrap();
    let lacks = |set: &Set, at: usize, of: u16| {
        let missing = set.sites[at].store.lacks_data_of(file);
        missing == [ReplicaSlot(of)]
    };
    eventually("the second knows of it", || lacks(&set, 1, 1)).await;
    let second = set.crash(1).await;
    drop(nothing);
    drop(inbox);
    eventually("the others go on without the second", || {
        let mut sites = set.sites.iter();
        let is_quiet = |site: &Site| site.replica.status().controls_total == 0;
        sites.all(|site| site.replica.view_status().losses.len() == 1 && is_quiet(site))
    })
    .await;
    let inbox = inbox_of(&set, 0, 3);
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    set.sites[1].write(file, 0, b"new").await.unwrap();
    eventually("the first knows of it", || lacks(&set, 0, 3)).await;
    drop(set.crash(1).await);
    drop(nothing);
    drop(inbox);
    // Nothing of it goes to the second before it takes part.
    hold_back(&set.sites[0], 2, PATIENCE / 6);
    set.revive(1, second).await;
    set.revive_until_ready(1).await;
    for site in &set.sites {
        until_level(site).await;
    }
    while let Err(why) = set.sites[0].replica.thaw(3, "its disk is gone").await {
        assert!(why.starts_with("not yet"), "{why}");
    }
    for site in &set.sites {
        assert_eq!(site.load(ROOT, "file").await.unwrap(), b"old");
    }
}

/// Of four the fourth writes a file while the third is away, and is lost. The first has all of it and supplies the third, which is back; meanwhile the
/// second changes another part of the file. What the first sends counts although the second decides by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_65_what_is_supplied_is_not_dropped_because_another_one_writes() {
    let mut set = Set::failing(4).await;
    set.rest().await;
    let third = set.crash(2).await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    let has_all = |site: &Site| {
        site.store.file_size(file) == Ok(3) && site.store.lacks_data_of(file).is_empty()
    };
    eventually("the others have it", || {
        let quiet = |site: &Site| site.replica.status().controls_total == 0;
        set.sites.iter().all(|site| has_all(site) && quiet(site))
    })
    .await;
    drop(set.crash(2).await);
    hold_back(&set.sites[0], 3, PATIENCE / 6);
    set.revive(2, third).await;
    eventually("the third is in the view again", || {
        let members = set.sites[1].replica.view_status().members;
        members.iter().any(|one| one.slot == 3 && one.active)
    })
    .await;
    let missing = set.sites[2].store.lacks_data_of(file);
    assert_eq!(missing, [ReplicaSlot(4)], "it has got it another way");
    // The second goes on deciding for as long as the first lacks what it has written.
    hold_back(&set.sites[1], 1, PATIENCE / 3);
    set.sites[1].write(file, 3, b" and new").await.unwrap();
    eventually("all have all", || {
        set.sites.iter().all(|site| {
            site.store.lacks_data_of(file).is_empty() && site.store.file_size(file) == Ok(11)
        })
    })
    .await;
    for site in &set.sites {
        let pieces = site.store.content(file, 0, 11).unwrap();
        let bytes = pieces.into_iter().map(|piece| match piece {
            ContentPiece::Data { bytes, .. } => bytes.to_vec(),
            ContentPiece::Hole(hole) => vec![0; hole.length as usize],
        });
        assert_eq!(bytes.collect::<Vec<_>>().concat(), b"old and new");
    }
}
