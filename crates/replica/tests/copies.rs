//! New replicas of a tree with many objects.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::time::Duration;

use fixture::{ROOT, Set};
use replica::Stage;

/// Several pages of rows.
const OBJECTS: u64 = 8000;

/// So slow that a page takes a while.
const SLOW: u64 = 256 << 10;

/// How long a slow copy may take until something is seen of it.
const LONG: Duration = Duration::from_secs(120);

/// A set of one, which sends slowly, with a tree.
async fn grown() -> Set {
    let mut settings = Set::noticing_soon();
    settings.return_bytes_per_second = Some(SLOW);
    let set = Set::alone_with(settings).await;
    let mut directory = ROOT;
    for number in 0..OBJECTS {
        match number % 100 {
            0 => {
                directory = set.sites[0]
                    .directory(ROOT, &format!("d{number}"))
                    .await
                    .unwrap()
            }
            _ => drop(
                set.sites[0]
                    .file(directory, &format!("file-{number}"))
                    .await
                    .unwrap(),
            ),
        }
    }
    set
}

/// So many objects have come to the second one, as it was told itself; waits until there are at least so many.
async fn taken(set: &Set, at_least: u64) -> u64 {
    let looking = async {
        loop {
            let view = set.sites[1].replica.status().returning;
            let view = view.filter(|view| view.stage == Stage::Comparing);
            match view.map(|view| view.objects_done) {
                Some(done) if done >= at_least => return done,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let looked = tokio::time::timeout(LONG, looking).await;
    looked.expect("rows of so many objects are sent")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_a_tree_go_on_where_the_new_replica_was_killed() {
    let mut set = grown().await;
    set.begin_to_add().await;
    let before = taken(&set, OBJECTS / 2).await;
    let killed = set.crash(1).await;
    set.revive(1, killed).await;
    let after = taken(&set, 0).await;
    assert!(after >= before / 2, "{after} of {before} were kept");
    // Whoever sends has to begin anew when it was killed itself.
    let crashed = set.crash(0).await;
    let crashed = crashed.with(|settings| settings.return_bytes_per_second = None);
    set.revive(0, crashed).await;
    set.revive_until_ready(1).await;
    set.assert_equal().await;
}
