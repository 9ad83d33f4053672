//! Contents at data servers that belong to nothing are removed, and no others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fixture::{SWEEP_AFTER, Site, UNIT};
use pool::{ContentsId, DataServerNumber, Listing, PlacementNumber};
use striping::NewFiles;
use vfs::{ObjectId, ReplicaSlot, Stability};

const SERVER: DataServerNumber = DataServerNumber(1);

impl Site {
    /// The whole list of the first data server.
    async fn list(&self) -> Listing {
        let shelf = self.shelf(SERVER.0);
        let (listing, next) = shelf.list(vfs::Cookie::START, Listing::MOST).await.unwrap();
        assert_eq!(next, None);
        listing
    }

    /// Has the home check that list. Returns the number of contents to remove.
    async fn sweep(&self) -> usize {
        let listing = self.list().await;
        let striped = self.striped.clone();
        let swept = tokio::task::spawn_blocking(move || striped.sweep(SERVER, &listing));
        swept.await.unwrap().unwrap()
    }

    /// Puts contents there that no file has.
    async fn leave(&self, object: ObjectId, placement: u32) {
        let contents = ContentsId {
            object,
            placement: PlacementNumber(placement),
        };
        let bytes = vec![7; 1000].into();
        let written = self
            .shelf(SERVER.0)
            .write(contents, 0, bytes, Stability::File);
        written.await.unwrap();
    }

    async fn sweep_twice(&self) -> usize {
        let first = self.sweep().await;
        tokio::time::sleep(2 * SWEEP_AFTER).await;
        first + self.sweep().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_nothing_for_long_enough_goes() {
    let mut site = Site::new().await;
    let file = site.make("file").await;
    let bytes = vec![3; 3 * UNIT as usize];
    site.in_time(async || site.write(file, 0, &bytes).await)
        .await
        .unwrap();
    let stranger = ObjectId::new(ReplicaSlot(1), 100_000).unwrap();
    site.leave(stranger, 1).await;
    site.leave(file, 77).await;
    // Not at once: another look decides.
    assert_eq!(site.sweep().await, 0);
    tokio::time::sleep(2 * SWEEP_AFTER).await;
    assert_eq!(site.sweep().await, 2);
    while site.list().await.0.len() > 1 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = site.objects_at(1).await;
    assert_eq!(left, BTreeSet::from([file.as_u64()]));
    let read = site.in_time(async || site.read(file, 0, bytes.len() as u32).await);
    assert!(read.await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_row_or_an_intent_names_or_is_under_way_stays() {
    let mut site = Site::new().await;
    let [kept, removed] = [site.make("kept").await, site.make("removed").await];
    let bytes = vec![3; 3 * UNIT as usize];
    for file in [kept, removed] {
        site.in_time(async || site.write(file, 0, &bytes).await)
            .await
            .unwrap();
    }
    // One data server owes the removal, and another has carried it out.
    site.stop(3).await;
    site.remove("removed").await.unwrap();
    site.cleared().await;
    assert!(site.intents() > 0);
    site.leave(removed, 1).await;
    assert_eq!(site.sweep_twice().await, 0);
    site.start(3).await;
    while site.intents() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // No row names the target contents of a move yet.
    let (striped, sweeping) = (site.striped.clone(), async {
        let mut swept = 0;
        for _ in 0..20 {
            swept += site.sweep().await;
            tokio::time::sleep(SWEEP_AFTER / 2).await;
        }
        swept
    });
    let to = NewFiles {
        group: fixture::PAIR,
        unit: pool::StripeUnit::new(UNIT).unwrap(),
    };
    let pace = std::sync::Arc::new(striping::Pace::new(UNIT));
    let moving = striped.move_file(kept, to, pace);
    let (moved, swept) = tokio::join!(moving, sweeping);
    assert!(matches!(moved, Ok(striping::Moved::Done(_))), "{moved:?}");
    // Contents that were left of the other file.
    assert_eq!(swept, 1);
    let read = site.in_time(async || site.read(kept, 0, bytes.len() as u32).await);
    assert!(read.await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_made_or_removed_is_left_alone_by_every_look() {
    let site = Site::new().await;
    let bytes = vec![5; UNIT as usize];
    let working = async {
        let mut kept = Vec::new();
        for number in 0..60 {
            let file = site.make(&format!("file {number}")).await;
            site.in_time(async || site.write(file, 0, &bytes).await)
                .await
                .unwrap();
            match number % 3 {
                0 => site.remove(&format!("file {number}")).await.unwrap(),
                _ => kept.push(file),
            }
            tokio::time::sleep(SWEEP_AFTER / 20).await;
        }
        kept
    };
    let mut swept = 0;
    let kept = {
        tokio::pin!(working);
        loop {
            tokio::select! {
                kept = &mut working => break kept,
                looked = site.sweep() => swept += looked,
            }
        }
    };
    site.cleared().await;
    swept += site.sweep_twice().await;
    assert_eq!(swept, 0);
    for file in kept {
        let read = site.in_time(async || site.read(file, 0, bytes.len() as u32).await);
        assert!(read.await.unwrap() == bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sweep_has_decided_is_done_after_a_crash_of_the_home_and_of_the_data_server() {
    let mut site = Site::new().await;
    let stranger = ObjectId::new(ReplicaSlot(1), 100_000).unwrap();
    site.leave(stranger, 1).await;
    assert_eq!(site.sweep().await, 0);
    tokio::time::sleep(2 * SWEEP_AFTER).await;
    site.network.loses_intents.store(true, Ordering::SeqCst);
    assert_eq!(site.sweep().await, 1);
    while site.intents() == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // It is decided only once, although the contents are listed again.
    assert_eq!(site.sweep_twice().await, 0);
    assert_eq!(site.list().await.0.len(), 1);
    site.stop(SERVER.0).await;
    site.start(SERVER.0).await;
    let site = site.restart_home().await;
    while site.intents() > 0 || !site.list().await.0.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
