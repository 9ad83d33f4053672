//! Locks across sites, majorities, and what is not shipped.

use crate::fixture::{READ, ROOT, Set, WRITE, eventually};
use replica::Durability;
use vfs::{Error, Share};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_taken_at_one_site_stands_against_the_others_until_it_is_given_back() {
    let set = Set::of(3).await;
    let file = set.sites[0].save(ROOT, "f", b"text").await.unwrap();
    set.sites[0].lock(file, "first").await.unwrap();
    for site in &set.sites[1..] {
        assert!(matches!(
            site.lock(file, "second").await,
            Err(Error::Locked(_))
        ));
    }
    set.sites[0].unlock(file, "first").await.unwrap();
    set.sites[2].lock(file, "second").await.unwrap();
    assert!(matches!(
        set.sites[0].lock(file, "first").await,
        Err(Error::Locked(_))
    ));
    // The table goes with the control, which nobody holds any more by then.
    set.rest().await;
    assert!(matches!(
        set.sites[1].lock(file, "third").await,
        Err(Error::Locked(_))
    ));
    set.sites[2].unlock(file, "second").await.unwrap();
    set.sites[1].lock(file, "third").await.unwrap();
    set.sites[1].unlock(file, "third").await.unwrap();
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_many_has_a_lock_at_a_time() {
    let set = Set::of(3).await;
    let file = set.sites[0].save(ROOT, "count", b"0").await.unwrap();
    let count = |at: usize| {
        let site = &set.sites[at];
        async move {
            let me = format!("site {at}");
            for _ in 0..15 {
                while let Err(error) = site.lock(file, &me).await {
                    assert!(matches!(error, Error::Locked(_)), "{error:?}");
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
                site.open(file, &me, WRITE).await.unwrap();
                let read = site.read(file).await.unwrap();
                let number: u32 = String::from_utf8(read).unwrap().parse().unwrap();
                let next = (number + 1).to_string();
                site.write(file, 0, next.as_bytes()).await.unwrap();
                site.unlock(file, &me).await.unwrap();
                site.close(file, &me).await.unwrap();
            }
        }
    };
    tokio::join!(count(0), count(1), count(2));
    assert_eq!(set.sites[1].load(ROOT, "count").await.unwrap(), b"45");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_that_denies_writing_denies_it_at_every_site() {
    let set = Set::of(2).await;
    let (here, there) = (&set.sites[0], &set.sites[1]);
    let file = here.save(ROOT, "f", b"text").await.unwrap();
    let alone = Share {
        deny_write: true,
        ..READ
    };
    here.open(file, "alone", alone).await.unwrap();
    set.rest().await;
    assert_eq!(
        there.open(file, "writer", WRITE).await.map(|_| ()),
        Err(Error::ShareDenied)
    );
    there.open(file, "reader", READ).await.unwrap();
    here.close(file, "alone").await.unwrap();
    set.rest().await;
    there.open(file, "writer", WRITE).await.unwrap();
    there.close(file, "writer").await.unwrap();
    there.close(file, "reader").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_majority_an_answered_update_is_at_a_second_replica() {
    let set = Set::of(3).await;
    let site = &set.sites[0];
    let top = site.directory(ROOT, "ledger").await.unwrap();
    let below = site.directory(top, "below").await.unwrap();
    let set_to = site.replica.set_durability(top, Some(Durability::Majority));
    set_to.await.unwrap();
    let durability = site.replica.durability(below).await;
    assert_eq!(durability, (Durability::Majority, Some(top)));
    for number in 0..10 {
        let made = site.file(below, &format!("f{number}")).await.unwrap();
        let holders = set.sites.iter();
        let mut count = 0;
        for holder in holders {
            let found = vfs::FileSystem::attributes(&*holder.store, made).await;
            count += u32::from(found.is_ok());
        }
        assert!(count >= 2, "only {count} have it");
    }
    set.rest().await;
    let elsewhere = set.sites[2].replica.durability(below).await;
    assert_eq!(elsewhere.0, Durability::Majority);
    site.replica.set_durability(top, None).await.unwrap();
    let durability = site.replica.durability(below).await;
    assert_eq!(durability, (Durability::Relaxed, None));
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_removed_before_it_is_shipped_costs_no_content() {
    let set = Set::of(2).await;
    let site = &set.sites[0];
    let before = site.replica.status().shipped_content_bytes;
    // Nothing is shipped to a peer that cannot take it; so the contents are still here when they go.
    let large = vec![1; 100_000];
    for number in 0..20 {
        let file = format!("t{number}");
        let made = site.file(ROOT, &file).await.unwrap();
        site.open(made, "w", WRITE).await.unwrap();
        site.write(made, 0, &large).await.unwrap();
        site.remove(ROOT, &file).await.unwrap();
        site.close(made, "w").await.unwrap();
    }
    set.rest().await;
    let shipped = site.replica.status().shipped_content_bytes - before;
    assert!(
        shipped <= 400_000,
        "{shipped} of 2,000,000 bytes were shipped"
    );
    eventually("the bytes are counted", || {
        site.replica.status().written_bytes >= 2_000_000
    })
    .await;
}
