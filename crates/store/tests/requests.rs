//! The result of a client's request is on record with the change, so that a repeat is answered and not carried out again.

use std::collections::HashSet;

use crate::fixture::pair::Pair;
use crate::fixture::resync::replace_rows;
use crate::fixture::{Fixture, name, root};
use bytes::Bytes;
use store::Store;
use vfs::{
    AccessCheck, Creation, Credentials, DirectoryChange, Error, FileSystem, NewObject, ObjectId,
    ObjectKind, RequestGroup, RequestId, Result, SetAttributes, XattrMode, XattrName,
};

const ROOT: ObjectId = ObjectId::ROOT;

/// The superuser with a request of a series.
fn asking(series: u8, number: u64) -> Credentials {
    root().with_request(Some(RequestId {
        series: [series; RequestId::SERIES_BYTES],
        number,
        part: 0,
        digest: 1,
        repeat_only: false,
    }))
}

/// A pure repeat of the same request.
fn again(who: &Credentials) -> Credentials {
    let request = who.request.map(|request| RequestId {
        repeat_only: true,
        ..request
    });
    who.with_request(request)
}

/// The result of a change, as far as a repeat must get the same.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Made(ObjectId, DirectoryChange, bool),
    Changed(DirectoryChange),
    Renamed(DirectoryChange, DirectoryChange),
    Set(SetAttributes),
}

const CHANGES: [&str; 11] = [
    "mkdir",
    "symlink",
    "create",
    "exclusive",
    "link",
    "rename",
    "remove",
    "set xattr",
    "remove xattr",
    "chmod",
    "truncate",
];

/// Makes one of the changes; each change makes another one possible.
async fn change(store: &Store, who: &Credentials, what: &str, file: ObjectId) -> Result<Told> {
    let (set, xattr) = (SetAttributes::default(), XattrName::new(b"x".to_vec()));
    let xattr = xattr.unwrap();
    let make = async |text: &str, new: NewObject| {
        let made = store.create(who, ROOT, &name(text), new, &set).await?;
        Ok(Told::Made(made.attributes.id, made.directory, made.made))
    };
    let set_to = async |set: SetAttributes| {
        let access = AccessCheck::Credentials(who);
        store.set_attributes(access, file, &set).await?;
        Ok(Told::Set(set))
    };
    match what {
        "mkdir" => make("directory", NewObject::Plain(ObjectKind::Directory)).await,
        "symlink" => make("symlink", NewObject::Symlink(Bytes::from_static(b"to"))).await,
        "create" => make("made", NewObject::File(Creation::Guarded)).await,
        "exclusive" => make("sole", NewObject::File(Creation::Exclusive([3; 8]))).await,
        "link" => {
            let changed = store.link(who, file, ROOT, &name("second")).await;
            changed.map(Told::Changed)
        }
        "rename" => {
            let (old, new) = (name("second"), name("third"));
            let renamed = store.rename(who, (ROOT, &old), (ROOT, &new)).await;
            renamed.map(|(source, target)| Told::Renamed(source, target))
        }
        "remove" => {
            let removed = store.remove(who, ROOT, &name("made")).await;
            removed.map(Told::Changed)
        }
        "set xattr" => {
            let value = Bytes::from_static(b"value");
            let set = store.set_xattr(who, file, &xattr, value, XattrMode::Create);
            set.await.map(Told::Changed)
        }
        "remove xattr" => {
            let removed = store.remove_xattr(who, file, &xattr).await;
            removed.map(Told::Changed)
        }
        "chmod" => {
            set_to(SetAttributes {
                mode: Some(0o640),
                ..set.clone()
            })
            .await
        }
        _ => {
            set_to(SetAttributes {
                size: Some(9),
                ..set.clone()
            })
            .await
        }
    }
}

/// Makes all the changes, each in its own series, and returns the answers.
async fn make_all(store: &Store, file: ObjectId) -> Vec<Told> {
    let mut told = Vec::new();
    for (series, what) in (0..).zip(CHANGES) {
        told.push(change(store, &asking(series, 7), what, file).await.unwrap());
    }
    told
}

/// Checks that every repeat gets the first answer, and that the store makes no change for it.
async fn assert_all_answered(store: &Store, file: ObjectId, told: &[Told]) {
    let version = store.attributes(ROOT).await.unwrap().change;
    for (series, (what, told)) in (0..).zip(CHANGES.iter().zip(told)) {
        // An object that was created and removed is gone, and is not created again.
        let gone = match told {
            Told::Made(object, directory, _) if *what == "create" => Some(Error::Removed {
                object: *object,
                directory: *directory,
            }),
            _ => None,
        };
        let expected = gone.as_ref().map_or(Ok(told), Err);
        for who in [asking(series, 7), again(&asking(series, 7))] {
            let answered = change(store, &who, what, file).await;
            assert_eq!(answered.as_ref(), expected, "{what}");
        }
    }
    assert_eq!(store.attributes(ROOT).await.unwrap().change, version);
}

#[tokio::test]
async fn what_was_asked_twice_is_done_once_also_after_a_crash() {
    let mut fixture = Fixture::new();
    fixture.store().end_reclaim().await.unwrap();
    let file = fixture.file(ROOT, "file").await;
    let told = make_all(fixture.store(), file).await;
    assert_all_answered(fixture.store(), file, &told).await;
    fixture.crash();
    assert_all_answered(fixture.store(), file, &told).await;
}

#[tokio::test]
async fn a_mere_repeat_of_what_was_not_done_is_refused() {
    let fixture = Fixture::new();
    let file = fixture.file(ROOT, "file").await;
    for (series, what) in (0..).zip(CHANGES) {
        let refused = change(fixture.store(), &again(&asking(series, 7)), what, file).await;
        assert_eq!(refused, Err(Error::NotCarriedOut), "{what}");
    }
    // Also when the series has continued, and when another request has the same name.
    let first = asking(1, 7);
    change(fixture.store(), &first, "mkdir", file)
        .await
        .unwrap();
    let second = asking(1, 8);
    change(fixture.store(), &second, "link", file)
        .await
        .unwrap();
    let other = second.request.map(|request| RequestId {
        digest: 2,
        ..request
    });
    for who in [first, second.with_request(other)] {
        let refused = change(fixture.store(), &again(&who), "mkdir", file).await;
        assert_eq!(refused, Err(Error::NotCarriedOut));
    }
}

#[tokio::test]
async fn what_failed_has_done_nothing_and_may_be_tried_again() {
    let fixture = Fixture::new();
    let file = fixture.file(ROOT, "file").await;
    let who = asking(1, 7);
    let failed = change(fixture.store(), &who, "remove", file).await;
    assert_eq!(failed, Err(Error::NotFound));
    fixture.file(ROOT, "made").await;
    let removed = change(fixture.store(), &who, "remove", file).await;
    assert!(removed.is_ok());
}

#[tokio::test]
async fn several_parts_of_one_request_are_each_on_record() {
    let mut fixture = Fixture::new();
    let file = fixture.file(ROOT, "file").await;
    let part = |part| {
        let request = asking(1, 7)
            .request
            .map(|request| RequestId { part, ..request });
        root().with_request(request)
    };
    let parts = ["mkdir", "symlink", "link", "exclusive"];
    let mut told = Vec::new();
    for (number, what) in (0..).zip(parts) {
        let done = change(fixture.store(), &part(number), what, file).await;
        told.push(done.unwrap());
    }
    fixture.crash();
    for ((number, what), told) in (0..).zip(parts).zip(told) {
        let answered = change(fixture.store(), &again(&part(number)), what, file).await;
        assert_eq!(answered, Ok(told), "{what}");
    }
}

#[tokio::test]
async fn whoever_has_applied_a_change_answers_a_repeat() {
    let pair = Pair::new().await;
    let file = pair.leader.file(ROOT, "file").await;
    let told = make_all(pair.leader.store(), file).await;
    pair.follow().await;
    assert_all_answered(pair.follower.store(), file, &told).await;
}

#[tokio::test]
async fn a_copy_of_the_tree_answers_repeats_too() {
    let pair = Pair::new().await;
    let file = pair.leader.file(ROOT, "file").await;
    let told = make_all(pair.leader.store(), file).await;
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    replace_rows(leader, follower, 500).await;
    assert_all_answered(follower, file, &told).await;
}

/// The first request of a slot was carried out elsewhere, the next one here; the record of the first arrives late.
#[tokio::test]
async fn a_late_record_does_not_replace_what_came_after() {
    let pair = Pair::new().await;
    let file = pair.leader.file(ROOT, "file").await;
    pair.follow().await;
    let (first, second) = (asking(1, 7), asking(1, 8));
    let store = pair.leader.store();
    change(store, &first, "mkdir", file).await.unwrap();
    let here = pair.follower.store();
    let told = change(here, &second, "symlink", file).await.unwrap();
    pair.follow().await;
    let answered = change(here, &again(&second), "symlink", file).await;
    assert_eq!(answered, Ok(told));
}

/// The number of series; the store reports the same after it has counted them again.
async fn remembered(fixture: &mut Fixture) -> u64 {
    fixture.store().sync().await.unwrap();
    let before = fixture.store().statistics().requests;
    fixture.crash();
    assert_eq!(fixture.store().statistics().requests, before);
    before
}

fn group(series: u8) -> RequestGroup {
    [series; RequestId::GROUP_BYTES]
}

#[tokio::test]
async fn what_nobody_asks_for_again_goes() {
    let mut fixture = Fixture::new();
    fixture.store().end_reclaim().await.unwrap();
    let file = fixture.file(ROOT, "file").await;
    make_all(fixture.store(), file).await;
    let all = CHANGES.len() as u64;
    assert_eq!(remembered(&mut fixture).await, all);
    let ended = vec![group(0), group(1), group(99)];
    fixture.store().end_requests(ended.clone()).await.unwrap();
    fixture.store().end_requests(ended).await.unwrap();
    assert_eq!(remembered(&mut fixture).await, all - 2);
    for (series, what) in [(0, "mkdir"), (1, "symlink")] {
        let asked = change(fixture.store(), &again(&asking(series, 7)), what, file).await;
        assert_eq!(asked, Err(Error::NotCarriedOut), "{what}");
    }
    let asked = change(fixture.store(), &again(&asking(4, 7)), "link", file).await;
    assert!(asked.is_ok());
}

#[tokio::test]
async fn what_grows_old_goes_unless_it_was_written_again_or_may_be_asked_for() {
    let mut fixture = Fixture::new();
    let file = fixture.file(ROOT, "file").await;
    for (series, what) in (0..).zip(["mkdir", "symlink", "link"]) {
        let made = change(fixture.store(), &asking(series, 7), what, file).await;
        made.unwrap();
    }
    let alive = HashSet::from([group(1)]);
    fixture.store().age_requests(alive.clone()).await.unwrap();
    assert_eq!(fixture.store().statistics().requests, 3);
    let later = change(fixture.store(), &asking(2, 8), "chmod", file).await;
    later.unwrap();
    fixture.store().age_requests(alive).await.unwrap();
    assert_eq!(remembered(&mut fixture).await, 2);
    for (series, number, what) in [(1, 7, "symlink"), (2, 8, "chmod")] {
        let asked = change(fixture.store(), &again(&asking(series, number)), what, file).await;
        assert!(asked.is_ok(), "{what}");
    }
}
