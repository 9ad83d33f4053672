//! A replica that has left the view, and takes long to end.

use std::sync::atomic::Ordering;

use super::supplied::hold_back;
use super::*;
use crate::replication::degraded::degraded;
use crate::state::arrivals::PUTTING_AT_ONCE;

/// Longer than a replica needs to come back.
const LONG: Duration = Duration::from_secs(4);

/// The third of three replicas changed a file, and no other has its contents. Its disk is full, and it leaves the view to restart, which takes
/// long. Meanwhile it asked to be admitted as the incarnation that had left. The others believed that it had handed over what it had controlled,
/// and answered with what they had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_73_an_incarnation_that_has_left_the_view_does_not_come_back() {
    let mut set = Set::failing(3).await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    let third = set.sites[2].replica.clone();
    let holding_back = tokio::spawn(async move {
        loop {
            for other in [1, 2] {
                hold_back(third.local(), other, PATIENCE);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    set.sites[2].write(file, 0, b"new").await.unwrap();
    let third = set.sites[2].replica.clone();
    degraded(third.local(), &vfs::Error::NoSpace).await;
    let first = set.sites[0].replica.clone();
    let is_out = || {
        let members = first.view_status().members;
        members
            .iter()
            .any(|member| member.slot == 3 && !member.active)
    };
    eventually("it has left the view", is_out).await;
    let read = tokio::time::timeout(LONG, set.sites[0].read(file)).await;
    assert!(read.is_err(), "only the third has the file: {read:?}");
    assert!(is_out(), "it is back as it was");
    assert!(!third.ready());
    holding_back.abort();
    drop((third, first));
    let third = set.crash(2).await;
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"new");
    set.assert_equal().await;
}

/// A replica that has joined and never taken part finds that its copy differs. It takes another one although a member lacks what a second one has
/// changed: the set waited for itself, until that one was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_has_never_taken_part_replaces_its_copy_whatever_a_member_lacks() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let inbox = set.sites[1]
        .replica
        .local()
        .state
        .inboxes
        .get(ReplicaSlot(1));
    let inbox = inbox.unwrap();
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    let file = set.sites[0].save(ROOT, "file", b"text").await.unwrap();
    eventually("the second lacks it", || {
        set.sites[1].store.lacks_data_of(file) == [ReplicaSlot(1)]
    })
    .await;
    set.begin_to_add().await;
    let new = &set.sites[3].replica;
    let needs_copy = &new.local().state.needs_copy;
    needs_copy.store(true, Ordering::Release);
    eventually("it has left, to take another copy", || {
        let left = new.has_left().borrow().is_some();
        assert!(left || !new.ready(), "it was too late");
        left
    })
    .await;
    assert!(!set.sites[1].store.lacks_data_of(file).is_empty());
    set.all_take_part("it takes part").await;
    drop(nothing);
    set.assert_equal().await;
}
