//! Reading and changing attributes.

use crate::fixture::{Fixture, name, root, symlink, user, with_mode, with_size};
use vfs::{
    AccessCheck, Error, FileSystem, NewObject, ObjectId, ObjectKind, SetAttributes, SetTime,
    Stability, Timestamp,
};

const ROOT: ObjectId = ObjectId::ROOT;

fn at(seconds: i64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: 1,
    }
}

#[tokio::test]
async fn a_change_of_attributes_makes_a_new_version_and_moves_the_time_of_change() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let before = store.attributes(id).await;
    store.clock.advance(7);
    let after = store.set(id, &with_mode(0o4755)).await.unwrap();
    assert_eq!((after.mode, after.modified), (0o4755, before.modified));
    assert!(after.change > before.change);
    assert_eq!(after.changed.seconds, before.changed.seconds + 7);
    assert_eq!(store.attributes(id).await, after);
}

#[tokio::test]
async fn setting_nothing_changes_nothing() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let before = store.attributes(id).await;
    assert_eq!(
        store.set(id, &SetAttributes::default()).await.unwrap(),
        before
    );
    let gone = store
        .set(ObjectId::from_u64(9), &SetAttributes::default())
        .await;
    assert_eq!(gone, Err(Error::Stale));
}

#[tokio::test]
async fn all_attributes_change_or_none() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o644).await;
    let before = store.attributes(id).await;
    let set = SetAttributes {
        size: Some(5),
        owner: Some(11),
        ..SetAttributes::default()
    };
    let owner = user(10, 20, &[]);
    assert_eq!(
        store.set_as(&owner, id, &set).await,
        Err(Error::NotPermitted)
    );
    assert_eq!(store.attributes(id).await, before);
}

#[tokio::test]
async fn times_are_set_to_now_or_to_what_is_given() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    store.clock.advance(100);
    let set = SetAttributes {
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::To(at(-5))),
        created: Some(at(3)),
        ..SetAttributes::default()
    };
    let after = store.set(id, &set).await.unwrap();
    assert_eq!(after.accessed.seconds, 1_000_100);
    assert_eq!((after.modified, after.created), (at(-5), at(3)));
    let bad = Timestamp {
        seconds: 0,
        nanoseconds: 1_000_000_000,
    };
    let set = SetAttributes {
        created: Some(bad),
        ..SetAttributes::default()
    };
    assert!(matches!(store.set(id, &set).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_size_is_set_with_permission_to_write_or_an_open() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o644).await;
    let stranger = user(11, 20, &[]);
    let refused = store.set_as(&stranger, id, &with_size(5)).await;
    assert_eq!(refused, Err(Error::AccessDenied));
    let opened = AccessCheck::Open(&stranger);
    let after = store
        .store()
        .set_attributes(opened, id, &with_size(5))
        .await
        .unwrap();
    assert_eq!(after.size, 5);
    // The open is for the size only.
    let set = SetAttributes {
        size: Some(6),
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    let refused = store.store().set_attributes(opened, id, &set).await;
    assert_eq!(refused, Err(Error::NotPermitted));
}

#[tokio::test]
async fn only_files_have_a_size_to_set() {
    let store = Fixture::new();
    let fifo = store
        .make(ROOT, "p", NewObject::Plain(ObjectKind::Fifo))
        .await
        .unwrap();
    let refused = store.set(fifo.attributes.id, &with_size(1)).await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
    assert_eq!(
        store.set(ROOT, &with_size(1)).await,
        Err(Error::IsDirectory)
    );
    let id = store.file(ROOT, "f").await;
    let limit = store.store().properties().max_file_size;
    assert_eq!(
        store.set(id, &with_size(limit + 1)).await,
        Err(Error::TooLarge)
    );
    assert_eq!(store.set(id, &with_size(limit)).await.unwrap().size, limit);
}

#[tokio::test]
async fn cutting_a_file_short_counts_as_writing() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o6777).await;
    store.write(id, 0, &[1; 10_000]).await.unwrap();
    store.clock.advance(3);
    let before = store.attributes(id).await;
    let after = store
        .set_as(&user(11, 21, &[]), id, &with_size(10))
        .await
        .unwrap();
    assert_eq!(after.mode, 0o777);
    assert_eq!(after.modified.seconds, before.modified.seconds + 3);
    assert!(after.change > before.change && after.space_used <= 4096);
}

#[tokio::test]
async fn writing_clears_set_id_bits_unless_the_superuser_writes() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o6777).await;
    store
        .write_as(&root(), id, 0, b"x", Stability::Unstable)
        .await
        .unwrap();
    assert_eq!(store.attributes(id).await.mode, 0o6777);
    store
        .write_as(&user(11, 20, &[]), id, 0, b"x", Stability::Unstable)
        .await
        .unwrap();
    assert_eq!(store.attributes(id).await.mode, 0o777);
}

#[tokio::test]
async fn symbolic_links_have_no_mode_to_set_but_an_owner() {
    let store = Fixture::new();
    let id = store
        .make(ROOT, "s", symlink("f"))
        .await
        .unwrap()
        .attributes
        .id;
    assert_eq!(
        store.set(id, &with_mode(0o600)).await,
        Err(Error::NotSupported)
    );
    let set = SetAttributes {
        owner: Some(7),
        group: Some(8),
        ..SetAttributes::default()
    };
    let after = store.set(id, &set).await.unwrap();
    assert_eq!((after.owner, after.group, after.mode), (7, 8, 0o777));
}

#[tokio::test]
async fn reading_moves_the_access_time_about_as_relatime_does() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let before = store.attributes(id).await;
    store.clock.advance(10);
    store.content(id).await;
    let read = store.attributes(id).await;
    assert_eq!(read.accessed.seconds, before.accessed.seconds + 10);
    // A read makes no new version; otherwise every reader would invalidate every cache.
    assert_eq!((read.change, read.changed), (before.change, before.changed));
    store.clock.advance(10);
    store.content(id).await;
    assert_eq!(store.attributes(id).await.accessed, read.accessed);
    store.clock.advance(24 * 60 * 60);
    store.content(id).await;
    assert!(store.attributes(id).await.accessed > read.accessed);
}

#[tokio::test]
async fn listing_a_directory_moves_its_access_time() {
    let store = Fixture::new();
    store.clock.advance(10);
    store.list(ROOT, 10).await;
    assert_eq!(store.attributes(ROOT).await.accessed.seconds, 1_000_010);
}

#[tokio::test]
async fn versions_only_grow_even_over_a_restart() {
    let mut store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let mut last = store.attributes(id).await.change;
    for round in 0..6 {
        match round % 3 {
            0 => drop(store.set(id, &with_mode(0o600)).await.unwrap()),
            1 => store.write(id, 0, b"x").await.unwrap(),
            _ => store.reopen_unsynced(),
        }
        let now = store.attributes(id).await.change;
        assert!(now > last || round % 3 == 2, "round {round}");
        assert!(now >= last, "round {round}");
        last = now;
    }
}

#[tokio::test]
async fn the_root_is_as_wanted_and_the_identity_stays() {
    let mut store = Fixture::new();
    let root_directory = store.attributes(ROOT).await;
    assert_eq!(
        (
            root_directory.mode,
            root_directory.owner,
            root_directory.links
        ),
        (0o777, 0, 2)
    );
    let properties = store.store().properties().clone();
    store.reopen().await;
    assert_eq!(*store.store().properties(), properties);
    assert_eq!(store.find(ROOT, "x").await, Err(Error::NotFound));
    assert!(
        store
            .store()
            .lookup(&root(), ROOT, &name("x"))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn space_is_told() {
    let store = Fixture::new();
    store.file(ROOT, "f").await;
    let space = store.store().space().await.unwrap();
    assert!(space.available_bytes <= space.free_bytes && space.free_bytes <= space.total_bytes);
    assert!(space.total_objects >= space.free_objects + 2);
}
