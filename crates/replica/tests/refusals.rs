//! What a site refuses while another one decides: its own copy, which may be old, must not judge.

use std::time::Duration;

use control::Contention;
use vfs::{Error, FileSystem, Share};

use crate::fixture::{PATIENCE, ROOT, Set, eventually, name, root};
use crate::slow_link::{BYTES_PER_SECOND, ONE_WAY, change_much, lag};

/// A directory that another site had just emptied was not removed: control of its parent came here, and the store judged by its copy
/// while the other site still controlled the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_114_the_local_copy_does_not_refuse_what_another_site_controls() {
    let set = Set::failing_with(2, |settings| {
        settings.site_lease = Duration::from_secs(3);
        settings.suspicion = 2 * PATIENCE;
        // A directory and its parent have controls of their own, and these move.
        settings.control.strategies.deep_control = false;
        settings.control.directory_contention = Contention::Wait;
        settings.control.directory_control_idle = Duration::from_secs(4);
    })
    .await;
    let (other, here) = (&set.sites[0], &set.sites[1]);
    let parent = other.directory(ROOT, "parent").await.unwrap();
    let elsewhere = other.directory(ROOT, "elsewhere").await.unwrap();
    set.rest().await;
    let emptied = other.directory(parent, "emptied").await.unwrap();
    other.file(emptied, "file").await.unwrap();
    eventually("all is here", || lag(other, 2) == 0).await;
    set.cable.slow(BYTES_PER_SECOND, ONE_WAY);
    change_much(other, elsewhere).await;
    other.remove(emptied, "file").await.unwrap();
    let (who, file) = (root(), name("file"));
    let old = here.store.lookup(&who, emptied, &file);
    old.await.expect("the update has come too soon");
    here.remove(parent, "emptied").await.unwrap();
    set.assert_equal().await;
}

/// Another site's client had just closed a file that it had kept others from reading. Who opened it here was refused although the
/// other site allowed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_that_ended_at_another_site_denies_nothing_here() {
    let set = Set::failing_with(2, |settings| {
        settings.site_lease = Duration::from_secs(3);
        settings.suspicion = 2 * PATIENCE;
    })
    .await;
    let (other, here) = (&set.sites[0], &set.sites[1]);
    let elsewhere = other.directory(ROOT, "elsewhere").await.unwrap();
    let file = other.save(ROOT, "file", b"text").await.unwrap();
    let read = Share {
        read: true,
        ..Share::default()
    };
    let alone = Share {
        deny_read: true,
        ..read
    };
    other.open(file, "alone", alone).await.unwrap();
    eventually("all is here", || lag(other, 2) == 0).await;
    set.cable.slow(BYTES_PER_SECOND, ONE_WAY);
    change_much(other, elsewhere).await;
    other.close(file, "alone").await.unwrap();
    here.open(file, "reader", read).await.unwrap();
    set.rest().await;
}

/// Nobody had asked for the other directory, and the client got no answer for as long as the other site worked there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_name_is_told_while_another_site_works_where_it_would_go() {
    let set = Set::of(2).await;
    let (other, here) = (&set.sites[0], &set.sites[1]);
    let from = here.directory(ROOT, "from").await.unwrap();
    let to = here.directory(ROOT, "to").await.unwrap();
    set.rest().await;
    let working = async {
        for number in 0.. {
            other.file(to, &format!("f{number}")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let moving = async {
        eventually("the other one decides", || {
            other.replica.status().controls_total > 0
        })
        .await;
        here.file(from, "kept").await.unwrap();
        here.rename((from, "missing"), (to, "new")).await
    };
    tokio::select! {
        () = working => {}
        moved = tokio::time::timeout(PATIENCE, moving) => {
            assert_eq!(moved.expect("it waits for ever"), Err(Error::NotFound));
        }
    }
}
