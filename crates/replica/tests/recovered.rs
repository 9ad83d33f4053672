//! A majority is gone for ever, and those who are left are the whole set from then on.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fixture::{Crashed, ROOT, Set, eventually};
use replica::recovering_set::go_on_with;
use vfs::ReplicaSlot;

/// What `meridian set recover` does at a server that stands still.
async fn recover(crashed: &Crashed, survivors: &[u16]) {
    let store = Arc::new(crashed.store());
    let survivors: BTreeSet<u16> = survivors.iter().copied().collect();
    go_on_with(&store, &survivors).await.unwrap();
    let closing = tokio::task::spawn_blocking(move || drop(store));
    closing.await.unwrap();
}

/// Of three the third is away. The others show clients versions of which it never hears, and are gone for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_55_who_is_left_shows_no_version_that_those_given_up_have_shown() {
    let mut set = Set::failing(3).await;
    let file = set.sites[0].save(ROOT, "file", b"older").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let replica = set.sites[0].replica.clone();
    eventually("the others go on without it", || {
        let members = replica.view_status().members;
        let gone = |member: &replica::MemberView| member.slot == 3 && !member.active;
        replica.ready() && members.iter().any(gone)
    })
    .await;
    drop(replica);
    // As when it goes on without somebody who is lost.
    let first = &set.sites[0];
    first.store.abandon(ReplicaSlot(9), 1).await.unwrap();
    first.write(file, 0, b"shown").await.unwrap();
    let shown = first.files.attributes(file).await.unwrap().change;
    drop(set.crash(1).await);
    drop(set.crash(0).await);
    recover(&third, &[3]).await;
    set.revive(0, third).await;
    set.revive_until_ready(0).await;
    let alone = &set.sites[0];
    assert_eq!(alone.read(file).await.unwrap(), b"older");
    alone.write(file, 0, b"other").await.unwrap();
    let now = alone.files.attributes(file).await.unwrap().change;
    assert!(
        now > shown,
        "{now:?} is made once more, or is older than {shown:?}"
    );
}
