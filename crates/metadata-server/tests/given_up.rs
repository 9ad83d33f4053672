//! A home that is lost for good: what becomes of its names at the first server, and of the first server's files with names there.

use std::collections::BTreeSet;

use metadata_server::Question;
use vfs::{Credentials, Error, FileSystem, NewObject, ObjectId, ObjectKind};

use crate::fixture::both::{Both, FIRST, Fate, SECOND, mode, slot};
use crate::fixture::{ROOT, called};
use crate::moves::{link, two_homes};

async fn paths_at_second(both: &Both) -> Vec<String> {
    let mut paths = Vec::new();
    let shown = (both.at(FIRST)).show_paths_at(slot(SECOND), |path| paths.push(path));
    shown.await.unwrap();
    paths.sort();
    paths
}

/// The paths reported as lost.
async fn give_up_second(both: &Both) -> Vec<String> {
    let mut paths = Vec::new();
    let given_up = (both.at(FIRST)).give_up_home(slot(SECOND), |path| paths.push(path));
    given_up.await.unwrap();
    paths.sort();
    paths
}

/// The second server is away for good.
async fn lose_second(both: &mut Both) {
    both.kill(SECOND);
    give_up_second(both).await;
    both.remove_second();
    both.at(FIRST).settle_over_homes().await;
}

/// Checks that a file's only name is in this directory.
async fn expect_only_in(both: &Both, directory: ObjectId, file: ObjectId) {
    let names = both.names(FIRST, directory).await.into_iter();
    assert_eq!(names.map(|(_, id)| id).collect::<Vec<_>>(), [file]);
    assert_eq!(both.at(FIRST).attributes(file).await.unwrap().links, 1);
}

async fn found_in(both: &Both, name: &str) -> ObjectId {
    both.find(FIRST, ROOT, name).await.unwrap()
}

/// A home is lost for good. Files of the first server whose only names were there are recovered, and everything else of the home is gone.
#[tokio::test]
async fn what_lived_at_a_lost_home_is_given_up_and_files_of_others_are_kept() {
    for restarted in [false, true] {
        let (mut both, [near, far]) = two_homes().await;
        let mut files = Vec::new();
        for name in ["moved", "linked", "both"] {
            files.push(both.file(FIRST, near, name).await);
        }
        let [moved, linked, named] = files[..] else {
            unreachable!()
        };
        both.rename(FIRST, (near, "moved"), (far, "moved"))
            .await
            .unwrap();
        link(&both, FIRST, moved, (far, "again")).await.unwrap();
        link(&both, FIRST, linked, (far, "linked")).await.unwrap();
        both.remove(FIRST, near, "linked").await.unwrap();
        link(&both, FIRST, named, (far, "both")).await.unwrap();
        let theirs = both.file(SECOND, far, "theirs").await;
        both.rename(SECOND, (far, "theirs"), (near, "theirs"))
            .await
            .unwrap();
        both.directory(SECOND, (near, "below"), 3).await;
        both.kill(SECOND);
        let lost = ["/far", "/near/below", "/near/theirs"];
        assert_eq!(paths_at_second(&both).await, lost);
        assert_eq!(give_up_second(&both).await, lost);
        // The call is repeated after an interruption.
        assert!(give_up_second(&both).await.is_empty());
        both.remove_second();
        if restarted {
            both.kill(FIRST);
            both.start(FIRST).await;
        }
        both.at(FIRST).settle_over_homes().await;
        let gone = both.at(FIRST).attributes(theirs).await;
        assert_eq!(gone.err(), Some(Error::Stale));
        let found = both.find(FIRST, ROOT, "lost+found.2").await.unwrap();
        assert_eq!(both.find(FIRST, ROOT, "far").await, Err(Error::NotFound));
        for (directory, wanted) in [(near, vec![named]), (found, vec![moved, linked])] {
            let names = both.names(FIRST, directory).await.into_iter();
            let ids: BTreeSet<_> = names.map(|(_, id)| id).collect();
            assert_eq!(ids, wanted.into_iter().collect());
            for id in ids {
                assert_eq!(both.at(FIRST).attributes(id).await.unwrap().links, 1);
            }
        }
        assert!(paths_at_second(&both).await.is_empty());
    }
}

/// Another home was lost before, and the file is still kept for its name there.
#[tokio::test]
async fn a_file_with_names_at_two_lost_homes_alone_is_found_again() {
    let (mut both, [near, far]) = two_homes().await;
    let file = both.file(FIRST, near, "file").await;
    both.rename(FIRST, (near, "file"), (far, "file"))
        .await
        .unwrap();
    let (store, who) = (both.store(FIRST), Credentials::root());
    let name = called(".meridian-pool");
    let hidden = store.lookup(&who, ROOT, &name);
    let hidden = hidden.await.unwrap().id;
    let kept = called(&format!("out-3-{:x}-0", file.as_u64()));
    store.link(&who, file, hidden, &kept).await.unwrap();
    drop(store);
    lose_second(&mut both).await;
    both.kill(FIRST);
    both.start(FIRST).await;
    both.at(FIRST).settle_over_homes().await;
    let found = found_in(&both, "lost+found.2").await;
    expect_only_in(&both, found, file).await;
}

/// The first server has removed the old name, and was killed before it kept the file for the new one.
#[tokio::test]
async fn a_file_that_was_just_moving_to_a_lost_home_is_found_again() {
    for has_followed in [false, true] {
        for restarted in [false, true] {
            let (mut both, [near, far]) = two_homes().await;
            let file = both.file(FIRST, near, "old").await;
            let finished = |question: &Question| matches!(question, Question::FinishMove(..));
            both.fail_next(finished, Fate::Lost);
            both.rename(SECOND, (near, "old"), (far, "new"))
                .await
                .unwrap();
            both.kill(SECOND);
            if has_followed {
                let (who, old) = (Credentials::root(), called("old"));
                let removed = both.store(FIRST).remove(&who, near, &old).await;
                removed.unwrap();
            }
            if restarted {
                both.kill(FIRST);
                both.start(FIRST).await;
            }
            lose_second(&mut both).await;
            let directory = match has_followed {
                true => found_in(&both, "lost+found.2").await,
                false => near,
            };
            expect_only_in(&both, directory, file).await;
        }
    }
}

/// Only root sees recovered files, even if the name of their directory is taken.
#[tokio::test]
async fn a_directory_of_somebody_else_gets_no_file_that_is_found_again() {
    let (mut both, [near, far]) = two_homes().await;
    let user = Credentials {
        user: 1000,
        group: 1000,
        ..Credentials::root()
    };
    let plain = || NewObject::Plain(ObjectKind::Directory);
    for (name, who, bits) in [
        ("lost+found.2", &user, 0o700),
        ("lost+found.2.1", &both.who, 0o755),
    ] {
        let (tree, name) = (both.at(FIRST), called(name));
        let made = tree.create(who, ROOT, &name, plain(), &mode(bits)).await;
        made.unwrap();
    }
    both.file(FIRST, ROOT, "lost+found.2.2").await;
    both.directory(SECOND, (ROOT, "lost+found.2.3"), 7).await;
    let mut files = Vec::new();
    for name in ["one", "other"] {
        files.push(both.file(FIRST, near, name).await);
        both.rename(FIRST, (near, name), (far, name)).await.unwrap();
    }
    lose_second(&mut both).await;
    let name = called("lost+found.2.4");
    let found = both.at(FIRST).lookup(&both.who, ROOT, &name);
    let found = found.await.unwrap();
    assert_eq!((found.owner, found.mode & 0o777), (0, 0o700));
    let names = both.names(FIRST, found.id).await.into_iter();
    let ids: BTreeSet<_> = names.map(|(_, id)| id).collect();
    assert_eq!(ids, files.into_iter().collect());
    for name in ["lost+found.2", "lost+found.2.1"] {
        let other = found_in(&both, name).await;
        assert_eq!(both.names(FIRST, other).await, []);
    }
}
