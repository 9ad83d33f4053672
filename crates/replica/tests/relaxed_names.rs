//! Names of a directory about which another site decides, where they are answered from the own copy (`namespace = "relaxed"`).

use std::time::Duration;

use replica::NameSpace;
use vfs::{Cookie, DirectoryPage, Error, ObjectId};

use crate::fixture::{ROOT, Set, Site, eventually, name, root};

/// Longer than any test takes.
const KEPT: Duration = Duration::from_secs(600);

/// Two sites; what the first one changes it decides about.
async fn two(name_space: NameSpace) -> Set {
    Set::failing_with(2, |settings| {
        settings.name_space = name_space;
        settings.control.deep_control_idle = KEPT;
        settings.control.revoke_grace = KEPT;
    })
    .await
}

/// The names in a directory.
async fn names(site: &Site, directory: ObjectId) -> Vec<String> {
    let who = root();
    let page = site
        .files
        .read_directory(&who, directory, Cookie::START, 1000);
    let entries = page.await.unwrap().entries.into_iter();
    let names = entries.map(|entry| String::from_utf8(entry.name.as_bytes().to_vec()).unwrap());
    names.collect()
}

/// With relaxed names a site lists, and looks up, in its own copy what another one decides about; a name that is not in it is asked for there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relaxed_names_are_listed_in_the_own_copy() {
    for name_space in [NameSpace::Strict, NameSpace::Relaxed] {
        let set = two(name_space).await;
        let (near, far) = (&set.sites[1], &set.sites[0]);
        let shared = far.directory(ROOT, "shared").await.unwrap();
        far.save(shared, "f", b"text").await.unwrap();
        eventually("the own copy has it", || {
            let peers = far.replica.status().peers;
            peers.iter().all(|peer| peer.lag_updates == 0)
        })
        .await;
        let forwarded = || near.replica.status().forwarded;
        let before = forwarded();
        assert_eq!(names(near, shared).await, ["f"]);
        let asked = u64::from(name_space == NameSpace::Strict);
        assert_eq!(forwarded() - before, asked, "{name_space:?}");
        near.find(shared, "f").await.unwrap();
        let before = forwarded();
        assert_eq!(near.find(shared, "g").await, Err(Error::NotFound));
        assert_eq!(forwarded() - before, 1, "{name_space:?}");
    }
}

/// A client that finds older names under a version of the directory that it knows keeps them until the directory is changed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_is_not_older_than_what_its_site_was_told_before() {
    let set = two(NameSpace::Relaxed).await;
    let (near, far) = (&set.sites[1], &set.sites[0]);
    let shared = far.directory(ROOT, "shared").await.unwrap();
    for round in 0..50 {
        let made = format!("made near {round}");
        near.file(shared, &made).await.unwrap();
        assert!(names(near, shared).await.contains(&made), "{round}");
        let moved = format!("moved near {round}");
        near.rename((shared, &made), (shared, &moved))
            .await
            .unwrap();
        let found = near.files.lookup(&root(), shared, &name(&made)).await;
        assert_eq!(found.err(), Some(Error::NotFound), "{round}");
        // What another site has done its clients learn from the version.
        let made = format!("made far {round}");
        far.file(shared, &made).await.unwrap();
        near.files.attributes(shared).await.unwrap();
        assert!(names(near, shared).await.contains(&made), "{round}");
    }
}

/// One page, and whether another site was asked for it.
async fn page(site: &Site, directory: ObjectId, after: Cookie) -> (DirectoryPage, bool) {
    let forwarded = || site.replica.status().forwarded;
    let (who, before) = (root(), forwarded());
    let page = site.files.read_directory(&who, directory, after, 2);
    let page = page.await.unwrap();
    (page, forwarded() > before)
}

/// A page that followed one of the other site's came from an older copy: what was listed had a name that it did not have any more, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_of_a_listing_is_no_older() {
    let set = two(NameSpace::Relaxed).await;
    let (near, far) = (&set.sites[1], &set.sites[0]);
    let shared = far.directory(ROOT, "shared").await.unwrap();
    let mut forwarded = 0;
    for round in 0..200 {
        let (told, made) = (format!("told {round}"), format!("made {round}"));
        near.file(shared, &told).await.unwrap();
        far.file(shared, &made).await.unwrap();
        let (first, asked) = page(near, shared, Cookie::START).await;
        let mut listed = first.entries;
        let mut end = first.end;
        while !end {
            let after = listed.last().unwrap().cookie;
            let (next, _) = page(near, shared, after).await;
            listed.extend(next.entries);
            end = next.end;
        }
        forwarded += usize::from(asked);
        let has = |wanted: &str| listed.iter().any(|entry| entry.name == name(wanted));
        assert!(!asked || has(&made), "{round}: it was there before");
        far.remove(shared, &told).await.unwrap();
        far.remove(shared, &made).await.unwrap();
        far.file(shared, &format!("kept {}", round % 4)).await.ok();
    }
    assert!(forwarded > 0, "nothing was shown");
}

/// A listing tells of the versions of the directories in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_is_not_older_than_what_that_of_its_parent_told() {
    let set = two(NameSpace::Relaxed).await;
    let (near, far) = (&set.sites[1], &set.sites[0]);
    let parent = far.directory(ROOT, "parent").await.unwrap();
    let below = far.directory(parent, "below").await.unwrap();
    let mut forwarded = 0;
    for round in 0..200 {
        let (told, made) = (format!("told {round}"), format!("made {round}"));
        let both = tokio::join!(near.file(parent, &told), far.file(below, &made));
        both.0.unwrap();
        both.1.unwrap();
        let (listed, asked) = page(near, parent, Cookie::START).await;
        let entry = listed
            .entries
            .iter()
            .find(|entry| entry.name == name("below"));
        let version = far.files.attributes(below).await.unwrap().change;
        if asked && entry.is_some_and(|entry| entry.attributes.change == version) {
            forwarded += 1;
            assert!(names(near, below).await.contains(&made), "{round}");
        }
        far.remove(parent, &told).await.unwrap();
    }
    assert!(forwarded > 0, "nothing was shown");
}
