//! Names of directories that lie in another store, and sealed directories.

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
    // The earlier seal is void.
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

#[tokio::test]
async fn a_file_that_lies_elsewhere_has_names_here() {
    let mut store = Fixture::new();
    let lies_there = ObjectId::new(ReplicaSlot(9), 77).unwrap();
    let own = store.file(ROOT, "own").await;
    let file = vfs::Attributes {
        id: lies_there,
        ..store.attributes(own).await
    };
    let who = root();
    let [one, two, three, taken, proof] = ["one", "two", "three", "own", "proof"].map(name);
    let [other, in_the_way] = ["other", "directory"].map(name);
    let adopt = |to, arrival| store.store().accept_name(&who, (ROOT, to), &file, arrival);
    adopt(&one, None).await.unwrap();
    assert_eq!(adopt(&one, None).await.err(), Some(Error::Exists));
    adopt(&two, None).await.unwrap();
    // The arriving name replaces the existing one, and leaves a proof.
    let source = adopt(&three, None).await.unwrap();
    let arrival = store::Arrival {
        source,
        proof: (ROOT, &proof),
    };
    adopt(&taken, Some(arrival)).await.unwrap();
    assert_eq!(store.store().count_names(lies_there), Ok(5));
    assert_eq!(store.store().count_names(own), Ok(0));
    let there = store.directory(ROOT, "directory").await;
    let arrival = store::Arrival {
        source,
        proof: (ROOT, &other),
    };
    let refused = adopt(&in_the_way, Some(arrival)).await;
    assert_eq!(refused.err(), Some(Error::IsDirectory));
    assert_eq!(store.find(ROOT, "directory").await, Ok(there));
    check(&mut store);
    for found in ["one", "two", "three", "own", "proof"] {
        assert_eq!(store.find(ROOT, found).await, Ok(lies_there));
    }
    assert_eq!(store.remove(ROOT, "one").await, Err(Error::CrossHome));
    store.rename((ROOT, "two"), (ROOT, "four")).await.unwrap();
    for found in ["one", "three", "four", "own", "proof"] {
        let found = name(found);
        let removed = store
            .store()
            .remove_elsewhere(&who, (ROOT, &found), lies_there);
        removed.await.unwrap();
    }
    assert_eq!(store.store().count_names(lies_there), Ok(0));
    check(&mut store);
}
