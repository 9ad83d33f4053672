//! Controls of previous starts, with real replicas, which the simulation found wrong.

use std::time::Duration;

use crate::fixture::{PATIENCE, ROOT, Set, eventually};

/// Controls last so long that one can be seen before it ends.
const IDLE: Duration = Duration::from_secs(2);

/// The third has granted a control of the first, and is started anew within the view while that ends. It remembers the grant, and nobody
/// told it of the end: closes waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_52_an_end_is_told_again_to_a_member_that_was_started_anew() {
    let mut set = Set::failing_with(3, |settings| {
        // It stays in the view.
        settings.suspicion = 2 * PATIENCE;
        settings.control.deep_control_idle = IDLE;
        settings.control.file_control_idle = IDLE;
        settings.control.directory_control_idle = IDLE;
    })
    .await;
    set.rest().await;
    set.sites[0].save(ROOT, "file", b"first").await.unwrap();
    eventually("the third has granted it and lacks nothing", || {
        let granted = set.sites[2].replica.status().controls;
        let peers = set.sites[0].replica.status().peers;
        granted.iter().any(|control| control.holder == 1)
            && peers
                .iter()
                .all(|peer| peer.lag_updates == 0 && peer.lag_files == 0)
    })
    .await;
    let third = set.crash(2).await;
    eventually("it has ended for those who are there", || {
        let mut sites = set.sites.iter();
        sites.all(|site| site.replica.status().controls_total == 0)
    })
    .await;
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    set.rest().await;
    set.sites[1].save(ROOT, "file", b"second").await.unwrap();
    assert_eq!(set.sites[2].load(ROOT, "file").await.unwrap(), b"second");
    set.assert_equal().await;
}

/// The first of five has changed a file, which the third, away and still in the view, lacks. Started anew, the first admits nothing under what it
/// controlled before, and neither may anybody else until the third has the change, or it would show what was there before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn previous_controls_stand_until_every_member_has_what_was_made_under_them() {
    let mut set = Set::failing_with(5, |settings| {
        // Nobody leaves the view.
        settings.suspicion = 2 * PATIENCE;
        settings.control.deep_control_idle = IDLE;
        settings.control.file_control_idle = IDLE;
        settings.control.directory_control_idle = IDLE;
    })
    .await;
    let file = set.sites[0].save(ROOT, "file", b"before").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    set.sites[0].write(file, 0, b"second").await.unwrap();
    eventually("the others have it", || {
        let peers = set.sites[0].replica.status().peers;
        let mut there = peers.iter().filter(|peer| peer.slot != 3);
        there.all(|peer| peer.lag_updates == 0 && peer.lag_files == 0)
    })
    .await;
    let first = set.crash(0).await;
    set.revive(0, first).await;
    eventually("all who are there are in contact", || {
        let mut sites = set.sites.iter();
        sites.all(|site| {
            let peers = site.replica.status().peers;
            peers.iter().filter(|peer| peer.connected).count() == 3
        })
    })
    .await;
    let second = &set.sites[1];
    let other = second.file(ROOT, "other").await.unwrap();
    second.write(other, 0, b"text").await.unwrap();
    assert_eq!(
        second.read(other).await.unwrap(),
        b"text",
        "three of five go on"
    );
    let early = second
        .try_write(file, b"third!", Duration::from_secs(4))
        .await;
    assert_eq!(early, Err(vfs::Error::Delay));
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    set.revive_until_ready(0).await;
    set.sites[1].write(file, 0, b"third!").await.unwrap();
    set.assert_equal().await;
    assert_eq!(set.sites[2].load(ROOT, "file").await.unwrap(), b"third!");
}
