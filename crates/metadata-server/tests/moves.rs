//! Names of files at another home than their own. Both servers show one tree, and a name that moves between them is in exactly one place,
//! even if a message is lost or a server is killed.

use std::sync::Arc;

use metadata_server::Question;
use vfs::{
    Creation, Credentials, DirectoryChange, Error, FileSystem, NewObject, ObjectId, RequestId,
    SetAttributes,
};

use crate::fixture::both::{Both, FIRST, Fate, SECOND, mode, slot};
use crate::fixture::{READS, ROOT, called, owned};

/// A directory at each home.
pub async fn two_homes() -> (Both, [ObjectId; 2]) {
    let both = Both::new().await;
    let near = both.directory(FIRST, (ROOT, "near"), 1).await;
    let far = both.directory(SECOND, (ROOT, "far"), 2).await;
    assert_eq!([near.slot(), far.slot()], [slot(0), slot(SECOND)]);
    (both, [near, far])
}

pub async fn settle(both: &Both) {
    for at in [FIRST, SECOND, FIRST] {
        both.at(at).settle_over_homes().await;
    }
}

pub async fn links(both: &Both, file: ObjectId) -> u32 {
    let [one, other] = [FIRST, SECOND].map(|at| both.at(at).attributes(file));
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    assert_eq!(one.links, other.links);
    one.links
}

pub async fn link(both: &Both, at: usize, file: ObjectId, to: (ObjectId, &str)) -> vfs::Result<()> {
    let name = called(to.1);
    let linked = both.at(at).link(&both.who, file, to.0, &name);
    linked.await.map(drop)
}

async fn expect_gone(both: &Both, file: ObjectId) {
    for at in [FIRST, SECOND] {
        let found = both.at(at).attributes(file).await;
        assert_eq!(found.err(), Some(Error::Stale));
    }
}

#[tokio::test]
async fn a_file_has_names_at_both_homes_and_goes_with_the_last() {
    for maker in [FIRST, SECOND] {
        for at in [FIRST, SECOND] {
            let (both, homes) = two_homes().await;
            let (own, other) = (homes[maker], homes[1 - maker]);
            let file = both.file(at, own, "file").await;
            for name in ["one", "two"] {
                link(&both, at, file, (other, name)).await.unwrap();
            }
            let again = link(&both, at, file, (other, "one")).await;
            assert_eq!(again, Err(Error::Exists));
            assert_eq!(links(&both, file).await, 3);
            let two = [("one", file), ("two", file)];
            both.expect_names(other, &two).await;
            both.remove(at, own, "file").await.unwrap();
            both.remove(at, other, "one").await.unwrap();
            both.expect_names(other, &two[1..]).await;
            assert_eq!(links(&both, file).await, 1);
            // It is the same file.
            let new = NewObject::File(Creation::Unchecked);
            let (who, name) = (&both.who, called("two"));
            let set = mode(0o600);
            let found = both.at(at).create(who, other, &name, new, &set);
            let found = found.await.unwrap();
            assert!(found.attributes.id == file && !found.made);
            both.remove(at, other, "two").await.unwrap();
            expect_gone(&both, file).await;
            both.expect_names(other, &[]).await;
            both.remove(FIRST, ROOT, "far").await.unwrap();
            both.expect_hidden(&[]).await;
        }
    }
}

#[tokio::test]
async fn names_move_over_homes_and_back_and_replace_others() {
    for maker in [FIRST, SECOND] {
        for at in [FIRST, SECOND] {
            let (both, homes) = two_homes().await;
            let (own, other) = (homes[maker], homes[1 - maker]);
            let file = both.file(at, own, "file").await;
            let replaced = both.file(at, other, "taken").await;
            both.rename(at, (own, "file"), (other, "taken"))
                .await
                .unwrap();
            both.expect_names(own, &[]).await;
            both.expect_names(other, &[("taken", file)]).await;
            assert_eq!(links(&both, file).await, 1);
            expect_gone(&both, replaced).await;
            // Within the other home, over a file of that home and over one of the file's home.
            let third = both.file(at, own, "third").await;
            both.rename(at, (own, "third"), (other, "third"))
                .await
                .unwrap();
            both.file(at, other, "plain").await;
            both.rename(at, (other, "plain"), (other, "third"))
                .await
                .unwrap();
            settle(&both).await;
            expect_gone(&both, third).await;
            both.rename(at, (other, "taken"), (other, "third"))
                .await
                .unwrap();
            both.expect_names(other, &[("third", file)]).await;
            both.rename(at, (other, "third"), (own, "back"))
                .await
                .unwrap();
            both.expect_names(own, &[("back", file)]).await;
            both.expect_names(other, &[]).await;
            assert_eq!(links(&both, file).await, 1);
            // Two names of one file: nothing must be done.
            link(&both, at, file, (other, "same")).await.unwrap();
            both.rename(at, (other, "same"), (own, "back"))
                .await
                .unwrap();
            both.expect_names(own, &[("back", file)]).await;
            both.expect_names(other, &[("same", file)]).await;
            both.remove(at, own, "back").await.unwrap();
            both.remove(at, other, "same").await.unwrap();
            expect_gone(&both, file).await;
        }
    }
}

#[tokio::test]
async fn what_may_not_be_moved_stays_as_it_was() {
    let (both, [near, far]) = two_homes().await;
    both.directory(FIRST, (near, "directory"), 3).await;
    both.directory(SECOND, (far, "directory"), 4).await;
    let file = both.file(FIRST, near, "file").await;
    let refused = Err(Error::CrossHome);
    let user = Credentials {
        user: 1000,
        group: 1000,
        ..Credentials::root()
    };
    for at in [FIRST, SECOND] {
        let moved = both.rename(at, (near, "directory"), (far, "new"));
        assert_eq!(moved.await, refused);
        let moved = both.rename(at, (far, "directory"), (near, "new"));
        assert_eq!(moved.await, refused);
        let moved = both.rename(at, (near, "file"), (far, "directory"));
        assert_eq!(moved.await, Err(Error::IsDirectory));
        let moved = both.rename(at, (near, "missing"), (far, "new"));
        assert_eq!(moved.await, Err(Error::NotFound));
        let (old, new) = (called("file"), called("new"));
        let tree = both.at(at);
        let moved = tree.rename(&user, (near, &old), (far, &new)).await;
        assert_eq!(moved.err(), Some(Error::AccessDenied));
        both.expect_names(
            far,
            &[("directory", both.find(at, far, "directory").await.unwrap())],
        )
        .await;
        assert_eq!(both.find(at, near, "file").await, Ok(file));
        assert_eq!(links(&both, file).await, 1);
        // Reserved names of the pool.
        let name = called(".meridian-pool");
        let found = tree.lookup(&both.who, ROOT, &name).await;
        assert_eq!(found.err(), Some(Error::NotFound));
        let new = NewObject::Plain(vfs::ObjectKind::Directory);
        let made = tree.create(&both.who, ROOT, &name, new, &mode(0o700)).await;
        assert_eq!(made.err(), Some(Error::AccessDenied));
    }
    both.expect_names(ROOT, &[("near", near), ("far", far)])
        .await;
}

#[tokio::test]
async fn a_name_that_moves_is_at_one_place_whatever_is_lost_or_killed() {
    let steps: [fn(&Question) -> bool; 2] = [
        |question| matches!(question, Question::PrepareMove(..)),
        |question| matches!(question, Question::FinishMove(..)),
    ];
    for source in [FIRST, SECOND] {
        for step in 0..2 {
            for fate in [Fate::Lost, Fate::Unanswered] {
                for killed in [None, Some(FIRST), Some(SECOND)] {
                    let (mut both, homes) = two_homes().await;
                    let (from, to) = (homes[source], homes[1 - source]);
                    let file = both.file(FIRST, from, "old").await;
                    both.file(SECOND, to, "new").await;
                    both.fail_next(steps[step], fate);
                    let moved = both.rename(SECOND, (from, "old"), (to, "new")).await;
                    assert_eq!(moved.is_ok(), step == 1, "{moved:?}");
                    let is_open =
                        step == 0 && fate == Fate::Unanswered || step == 1 && fate == Fate::Lost;
                    if is_open {
                        // No client sees both names, or neither.
                        let waits = both.find(FIRST, from, "old").await;
                        assert_eq!(waits, Err(Error::Delay));
                    }
                    if let Some(killed) = killed {
                        both.restart(killed).await;
                    }
                    settle(&both).await;
                    if step == 1 {
                        both.expect_names(from, &[]).await;
                        both.expect_names(to, &[("new", file)]).await;
                    } else {
                        both.expect_names(from, &[("old", file)]).await;
                    }
                    assert_eq!(links(&both, file).await, 1);
                    both.rename(FIRST, (to, "new"), (to, "other"))
                        .await
                        .unwrap();
                    settle(&both).await;
                    let (at, name) = [(from, "old"), (to, "other")][step];
                    both.remove(FIRST, at, name).await.unwrap();
                    settle(&both).await;
                    expect_gone(&both, file).await;
                }
            }
        }
    }
}

/// The target's home has lost its directory and was removed before the source's home asked for the outcome.
#[tokio::test]
async fn a_name_on_its_way_to_a_home_that_is_removed_stays() {
    for restarted in [false, true] {
        let (mut both, [near, far]) = two_homes().await;
        let file = both.file(FIRST, near, "old").await;
        both.fail_next(
            |question| matches!(question, Question::PrepareMove(..)),
            Fate::Unanswered,
        );
        let moved = both.rename(SECOND, (near, "old"), (far, "new")).await;
        assert!(moved.is_err());
        let waits = both.find(FIRST, near, "old").await;
        assert_eq!(waits, Err(Error::Delay));
        both.remove_second();
        if restarted {
            both.kill(FIRST);
            both.start(FIRST).await;
        }
        both.at(FIRST).settle_over_homes().await;
        assert_eq!(both.find(FIRST, near, "old").await, Ok(file));
        both.remove(FIRST, near, "old").await.unwrap();
        assert_eq!(both.names(FIRST, near).await, []);
    }
}

/// Operations that were under way with a removed home block nothing and keep nothing.
#[tokio::test]
async fn nothing_waits_for_a_home_that_is_removed() {
    for restarted in [false, true] {
        let (mut both, [near, far]) = two_homes().await;
        let file = both.file(FIRST, near, "file").await;
        link(&both, SECOND, file, (far, "link")).await.unwrap();
        let lost = |question: &Question| matches!(question, Question::HoldNames(..));
        both.fail_next(lost, Fate::Lost);
        both.remove(SECOND, far, "link").await.unwrap();
        let moved = both.file(FIRST, near, "moved").await;
        both.rename(SECOND, (near, "moved"), (far, "moved"))
            .await
            .unwrap();
        let unanswered = |question: &Question| matches!(question, Question::FinishMove(..));
        both.fail_next(unanswered, Fate::Unanswered);
        both.rename(SECOND, (far, "moved"), (near, "back"))
            .await
            .unwrap();
        both.remove_second();
        if restarted {
            both.kill(FIRST);
            both.start(FIRST).await;
        }
        both.at(FIRST).settle_over_homes().await;
        assert_eq!(both.at(FIRST).attributes(file).await.unwrap().links, 1);
        assert_eq!(both.at(FIRST).attributes(moved).await.unwrap().links, 1);
        link(&both, FIRST, moved, (near, "again")).await.unwrap();
        both.rename(FIRST, (near, "back"), (near, "file"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_home_that_was_not_told_asks_how_many_names_there_are() {
    for fate in [Fate::Lost, Fate::Unanswered] {
        for killed in [FIRST, SECOND] {
            let (mut both, [near, far]) = two_homes().await;
            let file = both.file(FIRST, near, "file").await;
            link(&both, SECOND, file, (far, "link")).await.unwrap();
            both.fail_next(|question| matches!(question, Question::HoldNames(..)), fate);
            both.remove(SECOND, far, "link").await.unwrap();
            both.fail_next(|question| matches!(question, Question::HoldNames(..)), fate);
            let linked = link(&both, SECOND, file, (far, "more")).await;
            assert_eq!(linked, Err(Error::Delay));
            both.restart(killed).await;
            settle(&both).await;
            assert_eq!(links(&both, file).await, 1);
            both.expect_names(far, &[]).await;
            both.remove(SECOND, near, "file").await.unwrap();
            expect_gone(&both, file).await;
        }
    }
}

/// The answer to a count of names arrives after a name was made.
#[tokio::test]
async fn a_count_of_names_that_is_old_when_it_arrives_does_not_count() {
    let (mut both, [near, far]) = two_homes().await;
    let file = both.file(FIRST, near, "file").await;
    link(&both, SECOND, file, (far, "link")).await.unwrap();
    let told = |question: &Question| matches!(question, Question::HoldNames(..));
    both.fail_next(told, Fate::Lost);
    both.remove(SECOND, far, "link").await.unwrap();
    both.restart(SECOND).await;
    let stop = both.stop_next(|question| matches!(question, Question::NamesOf(_)));
    let first = both.at(FIRST).clone();
    let asking = tokio::spawn(async move { first.settle_over_homes().await });
    stop.is_reached.notified().await;
    link(&both, SECOND, file, (far, "new")).await.unwrap();
    stop.goes_on.notify_one();
    asking.await.unwrap();
    both.remove(FIRST, near, "file").await.unwrap();
    assert_eq!(links(&both, file).await, 1);
    both.expect_names(far, &[("new", file)]).await;
    settle(&both).await;
    assert_eq!(links(&both, file).await, 1);
    both.remove(FIRST, far, "new").await.unwrap();
    expect_gone(&both, file).await;
}

#[tokio::test]
async fn a_repeated_request_has_moved_once() {
    let (mut both, [near, far]) = two_homes().await;
    let file = both.file(FIRST, near, "old").await;
    let request = RequestId {
        series: [9; RequestId::SERIES_BYTES],
        number: 7,
        part: 0,
        digest: 7,
        repeat_only: false,
    };
    let who = Credentials {
        request: Some(request),
        ..both.who.clone()
    };
    let (old, new) = (called("old"), called("new"));
    let mut changes: Vec<(DirectoryChange, DirectoryChange)> = Vec::new();
    for restart in [None, Some(SECOND), Some(FIRST)] {
        if let Some(at) = restart {
            both.restart(at).await;
        }
        let tree: Arc<_> = both.at(FIRST).clone();
        let moved = tree.rename(&who, (near, &old), (far, &new)).await;
        changes.push(moved.unwrap());
        drop(tree);
        // Another client makes the name again.
        if restart.is_none() {
            both.file(FIRST, near, "old").await;
        }
    }
    assert!(changes.iter().all(|change| *change == changes[0]));
    both.expect_names(far, &[("new", file)]).await;
    assert_ne!(both.find(SECOND, near, "old").await, Ok(file));
}

#[tokio::test]
async fn what_is_open_at_its_home_stays_open_without_a_name_anywhere() {
    let (both, [near, far]) = two_homes().await;
    let file = both.file(FIRST, near, "file").await;
    let access = vfs::AccessCheck::Credentials(&both.who);
    let tree = both.at(SECOND);
    tree.open(access, file, &owned("one"), READS).await.unwrap();
    both.rename(SECOND, (near, "file"), (far, "file"))
        .await
        .unwrap();
    both.remove(SECOND, far, "file").await.unwrap();
    let set = SetAttributes {
        size: Some(7),
        ..SetAttributes::default()
    };
    tree.set_attributes(access, file, &set).await.unwrap();
    assert_eq!(tree.attributes(file).await.unwrap().size, 7);
    tree.close(file, &owned("one")).await.unwrap();
    expect_gone(&both, file).await;
}
