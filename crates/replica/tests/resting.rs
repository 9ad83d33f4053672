//! Contents that only their writer reads rest while clients keep its server busy (`busy_data_delay`).

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use vfs::{AccessCheck, Extent, ObjectId, Stability};

use crate::fixture::{ROOT, Set, Site, eventually, patiently, root};

/// Longer than any test takes.
const KEPT: Duration = Duration::from_secs(600);

/// As much as rests.
const MUCH: usize = 1 << 20;

/// Two sites, and a directory for the work of the first one.
async fn two() -> (Set, ObjectId) {
    two_with(None).await
}

/// The same, which leave so much space at each other.
async fn two_with(reserve: Option<u64>) -> (Set, ObjectId) {
    let set = Set::failing_with(2, |settings| {
        settings.data_delay = Duration::from_millis(1);
        settings.busy_data_delay = KEPT;
        settings.space_reserve = reserve;
    })
    .await;
    let works = set.sites[0].directory(ROOT, "works").await.unwrap();
    (set, works)
}

/// Writes the same again and again, onto the disk.
async fn write_for_ever(site: &Site, file: ObjectId) {
    let (who, block) = (root(), Bytes::from(vec![7; MUCH]));
    loop {
        let by = AccessCheck::Open(&who);
        let written = site
            .files
            .write(by, file, 0, block.clone(), Stability::File);
        written.await.unwrap();
    }
}

/// Does something while a site is busy, with one file whose contents rest.
async fn while_busy<T>(site: &Site, works: ObjectId, work: impl Future<Output = T>) -> T {
    let file = site.file(works, "busy").await.unwrap();
    let work = async {
        eventually("something rests", || resting(site) == 1).await;
        work.await
    };
    tokio::select! {
        () = write_for_ever(site, file) => unreachable!(),
        () = write_for_ever(site, file) => unreachable!(),
        done = work => done,
    }
}

fn resting(site: &Site) -> u64 {
    site.replica.status().peers[0].resting_files
}

fn lacking(site: &Site) -> u64 {
    site.replica.status().peers[0].lag_files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_its_writer_reads_rests_while_the_server_is_busy() {
    let (set, works) = two().await;
    let (writer, reader) = (&set.sites[0], &set.sites[1]);
    let much = vec![1; MUCH];
    let work = async {
        for name in ["wanted", "left"] {
            writer.save(works, name, &much).await.unwrap();
        }
        writer.save(works, "small", b"little").await.unwrap();
        eventually("the small one has come", || {
            (lacking(writer), resting(writer)) == (3, 3)
        })
        .await;
        assert_eq!(reader.load(works, "wanted").await.unwrap(), much);
        eventually("what is read has come", || {
            (lacking(writer), resting(writer)) == (2, 2)
        })
        .await;
    };
    while_busy(writer, works, work).await;
    eventually("all has come", || lacking(writer) == 0).await;
    set.assert_equal().await;
}

/// Control of a file ends when its contents are everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_site_waits_to_change_does_not_rest() {
    let (set, works) = two().await;
    let (writer, other) = (&set.sites[0], &set.sites[1]);
    let work = async {
        let shared = writer.directory(ROOT, "shared").await.unwrap();
        writer.save(shared, "much", &vec![1; MUCH]).await.unwrap();
        eventually("it rests", || resting(writer) == 2).await;
        let forwarded = || other.replica.status().forwarded;
        let mut before = u64::MAX;
        // The other site decides about the directory from some time on, and not about the file.
        for number in 0.. {
            if forwarded() == before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            before = forwarded();
            other.file(shared, &format!("own {number}")).await.unwrap();
        }
        assert_eq!(resting(writer), 2);
        other.remove(shared, "much").await.unwrap();
        assert_eq!(resting(writer), 1);
    };
    while_busy(writer, works, work).await;
}

/// What each site lets rest towards a disk is not known to the others, and all of it has to be stored there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_rests_towards_a_disk_with_little_space() {
    let disk = rustix::fs::statvfs(std::env::temp_dir()).unwrap();
    let (set, works) = two_with(Some(disk.f_bavail * disk.f_frsize / 8)).await;
    let writer = &set.sites[0];
    let file = writer.file(works, "busy").await.unwrap();
    let work = async {
        // Until the server counts as busy.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let much = vec![1; MUCH];
        for number in 0..4 {
            let name = format!("much {number}");
            writer.save(works, &name, &much).await.unwrap();
        }
        eventually("all but what is being written has come", || {
            assert_eq!(resting(writer), 0);
            lacking(writer) <= 1
        })
        .await;
    };
    tokio::select! {
        () = write_for_ever(writer, file) => unreachable!(),
        () = write_for_ever(writer, file) => unreachable!(),
        () = work => {}
    }
}

/// Control of a file goes to the site that goes on writing when its contents are everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_site_changes_does_not_rest() {
    let (set, works) = two().await;
    let (writer, other) = (&set.sites[0], &set.sites[1]);
    let work = async {
        let by_whom = root();
        let access = || AccessCheck::Open(&by_whom);
        let extent = Extent {
            offset: 0,
            length: 8,
        };
        for change in 0..5 {
            let name = format!("much {change}");
            let file = writer.save(works, &name, &vec![1; MUCH]).await.unwrap();
            eventually("it rests", || resting(writer) == 2).await;
            let before = other.replica.status().forwarded;
            let changed = || async {
                match change {
                    0 => other.write(file, 0, b"changed").await,
                    1 => other.files.commit(file, 0, 0).await.map(|_| ()),
                    2 => other.files.allocate(access(), file, extent).await,
                    3 => other.files.deallocate(access(), file, extent).await,
                    _ => other.truncate(file, 2 * MUCH as u64).await,
                }
            };
            patiently(changed).await.unwrap();
            assert!(other.replica.status().forwarded > before, "{change}");
            eventually("it has come", || resting(writer) == 1).await;
        }
    };
    while_busy(writer, works, work).await;
}
