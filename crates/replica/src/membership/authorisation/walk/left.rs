//! A replica that has left the view, and takes long to end.

use super::supplied::hold_back;
use super::*;
use crate::replication::degraded::degraded;

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
