//! Controls of previous starts, with real replicas, which the simulation found wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::time::Duration;

use fixture::{PATIENCE, ROOT, Set, eventually};

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
