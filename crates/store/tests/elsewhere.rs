//! Names of directories that lie in another store, and directories that get no more names.

use crate::fixture::{Fixture, directory, name, root};
use store::Store;
use vfs::{Error, NewObject, ObjectId, ReplicaSlot};

const ROOT: ObjectId = ObjectId::ROOT;

fn check(store: &mut Fixture) {
    store.crash();
    let path = store.options.directory.clone();
    store.close();
    let report = Store::check(&path, false).unwrap();
    assert!(report.sound, "{report}");
    store.reopen_unsynced();
}

#[tokio::test]
async fn a_directory_that_lies_elsewhere_has_a_name_here_and_nothing_in_it() {
    let mut store = Fixture::new();
    let id = ObjectId::new(ReplicaSlot(9), 77).unwrap();
    let own = ObjectId::new(ReplicaSlot(1), 77).unwrap();
    let new = NewObject::DirectoryElsewhere;
    let made = store.make(ROOT, "there", new(id)).await.unwrap();
    assert!(made.attributes.id == id && made.attributes.is_directory());
    for taken in [id, own] {
        let again = store.make(ROOT, "again", new(taken)).await;
        assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    }
    let file = store.file(ROOT, "file").await;
    store.directory(ROOT, "empty").await;
    check(&mut store);
    assert_eq!(store.find(ROOT, "there").await, Ok(id));
    assert_eq!(store.attributes(ROOT).await.links, 4);
    let refused = Err(Error::CrossHome);
    assert_eq!(store.remove(ROOT, "there").await, refused);
    assert_eq!(
        store.rename((ROOT, "empty"), (ROOT, "there")).await,
        refused
    );
    assert_eq!(store.rename((ROOT, "file"), (id, "file")).await, refused);
    assert_eq!(store.link(file, id, "link").await, refused);
    assert_eq!(
        store.make(id, "more", directory()).await.err(),
        refused.err()
    );
    store
        .rename((ROOT, "there"), (ROOT, "moved"))
        .await
        .unwrap();
    let (who, moved) = (root(), name("moved"));
    for (named, other) in [("file", id), ("moved", own)] {
        let (named, store) = (name(named), store.store());
        let removed = store.remove_elsewhere(&who, (ROOT, &named), other);
        assert_eq!(removed.await.err(), Some(Error::Delay), "it is another one");
    }
    let removed = store.store().remove_elsewhere(&who, (ROOT, &moved), id);
    removed.await.unwrap();
    assert_eq!(store.find(ROOT, "moved").await, Err(Error::NotFound));
    check(&mut store);
}

#[tokio::test]
async fn a_sealed_directory_gets_no_names_until_its_seal_is_broken() {
    let mut store = Fixture::new();
    let sealed = store.directory(ROOT, "sealed").await;
    let file = store.file(ROOT, "file").await;
    store.make(sealed, "in the way", directory()).await.unwrap();
    assert_eq!(store.store().seal(sealed, 1).await, Err(Error::NotEmpty));
    store.remove(sealed, "in the way").await.unwrap();
    assert_eq!(store.store().seal(file, 1).await, Err(Error::NotDirectory));
    store.store().seal(sealed, 1).await.unwrap();
    store.store().seal(sealed, 2).await.unwrap();
    check(&mut store);
    assert_eq!(store.store().seal_of(sealed), Ok(Some(2)));
    let waits = Some(Error::Delay);
    assert_eq!(store.make(sealed, "more", directory()).await.err(), waits);
    assert_eq!(store.link(file, sealed, "link").await.err(), waits);
    let moved = store.rename((ROOT, "file"), (sealed, "file")).await;
    assert_eq!(moved.err(), waits);
    // That of before counts no more.
    store.store().break_seal(sealed, 1).await.unwrap();
    assert_eq!(store.make(sealed, "more", directory()).await.err(), waits);
    store.store().break_seal(sealed, 2).await.unwrap();
    assert_eq!(store.store().seal_of(sealed), Ok(None));
    store
        .rename((ROOT, "file"), (sealed, "file"))
        .await
        .unwrap();
    store.remove(sealed, "file").await.unwrap();
    store.store().seal(sealed, 3).await.unwrap();
    store.remove(ROOT, "sealed").await.unwrap();
    assert_eq!(store.store().seal(sealed, 4).await, Err(Error::Stale));
    check(&mut store);
}
