//! Creating, finding, removing, renaming and linking, one test per operation and outcome.

use crate::fixture::{Fixture, directory, file, name, root, symlink, user, with_mode, with_size};
use bytes::Bytes;
use vfs::{Creation, Error, FileSystem, NameError, NewObject, ObjectId, ObjectKind, SetAttributes};

const ROOT: ObjectId = ObjectId::ROOT;

#[tokio::test]
async fn a_new_file_is_empty_and_belongs_to_its_maker() {
    let store = Fixture::new();
    let maker = user(10, 20, &[30]);
    let made = store
        .make_as(&maker, ROOT, "f", file(), &with_mode(0o640))
        .await
        .unwrap();
    let attributes = made.attributes;
    assert!(made.made && made.directory.before < made.directory.after);
    assert_eq!(
        (attributes.kind, attributes.mode),
        (ObjectKind::File, 0o640)
    );
    assert_eq!((attributes.owner, attributes.group), (10, 20));
    assert_eq!(
        (attributes.links, attributes.size, attributes.space_used),
        (1, 0, 0)
    );
    assert_eq!(store.attributes(attributes.id).await, attributes);
    assert_eq!(store.attributes(ROOT).await.change, made.directory.after);
}

#[tokio::test]
async fn a_new_file_can_have_a_size_at_once() {
    let store = Fixture::new();
    let made = store
        .make_as(&root(), ROOT, "f", file(), &with_size(10))
        .await
        .unwrap();
    assert_eq!(
        store.content(made.attributes.id).await,
        Bytes::from(vec![0; 10])
    );
    let refused = store
        .make_as(&root(), ROOT, "d", directory(), &with_size(10))
        .await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn every_kind_can_be_made_and_found() {
    let store = Fixture::new();
    let device = ObjectKind::CharacterDevice { major: 1, minor: 3 };
    let block = ObjectKind::BlockDevice { major: 8, minor: 1 };
    let kinds = [
        ObjectKind::Directory,
        ObjectKind::Fifo,
        ObjectKind::Socket,
        device,
        block,
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        let text = format!("n{at}");
        store
            .make(ROOT, &text, NewObject::Plain(kind))
            .await
            .unwrap();
        let found = store
            .store()
            .lookup(&root(), ROOT, &name(&text))
            .await
            .unwrap();
        assert_eq!(found.kind, kind);
    }
    for kind in [ObjectKind::File, ObjectKind::Symlink] {
        let refused = store.make(ROOT, "x", NewObject::Plain(kind)).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn only_the_superuser_makes_devices() {
    let store = Fixture::new();
    let device = NewObject::Plain(ObjectKind::CharacterDevice { major: 1, minor: 3 });
    let set = SetAttributes::default();
    let refused = store
        .make_as(&user(10, 20, &[]), ROOT, "null", device, &set)
        .await;
    assert_eq!(refused.unwrap_err(), Error::NotPermitted);
}

#[tokio::test]
async fn symbolic_links_keep_their_target() {
    let store = Fixture::new();
    let made = store
        .make(ROOT, "s", symlink("../some/where"))
        .await
        .unwrap();
    assert_eq!((made.attributes.mode, made.attributes.size), (0o777, 13));
    let id = made.attributes.id;
    assert_eq!(
        store.store().read_link(&root(), id).await.unwrap(),
        "../some/where"
    );
    for target in [Bytes::new(), Bytes::from_static(b"a\0b")] {
        let refused = store.make(ROOT, "x", NewObject::Symlink(target)).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    let long = NewObject::Symlink(vec![b'x'; 4096].into());
    assert_eq!(
        store.make(ROOT, "x", long).await.unwrap_err(),
        Error::Name(NameError::TooLong)
    );
    let file = store.file(ROOT, "f").await;
    assert_eq!(
        store.store().read_link(&root(), file).await,
        Err(Error::WrongKind)
    );
    assert_eq!(
        store.store().read_link(&root(), ROOT).await,
        Err(Error::IsDirectory)
    );
}

#[tokio::test]
async fn an_existing_file_is_taken_unchecked_and_refused_guarded() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let taken = store
        .make(ROOT, "f", NewObject::File(Creation::Unchecked))
        .await
        .unwrap();
    assert!(!taken.made && taken.attributes.id == id);
    assert_eq!(taken.directory.before, taken.directory.after);
    assert_eq!(
        store.make(ROOT, "f", file()).await.unwrap_err(),
        Error::Exists
    );
    assert_eq!(
        store.make(ROOT, "f", directory()).await.unwrap_err(),
        Error::Exists
    );
}

#[tokio::test]
async fn taking_a_file_needs_a_file() {
    let store = Fixture::new();
    store.directory(ROOT, "d").await;
    store.make(ROOT, "s", symlink("f")).await.unwrap();
    store
        .make(ROOT, "p", NewObject::Plain(ObjectKind::Fifo))
        .await
        .unwrap();
    let expected = [
        ("d", Error::IsDirectory),
        ("s", Error::IsSymlink),
        ("p", Error::WrongKind),
    ];
    for (text, error) in expected {
        let refused = store
            .make(ROOT, text, NewObject::File(Creation::Unchecked))
            .await;
        assert_eq!(refused.unwrap_err(), error);
    }
}

#[tokio::test]
async fn an_exclusive_creation_can_be_repeated_even_after_a_restart() {
    let mut store = Fixture::new();
    let exclusive = |verifier| NewObject::File(Creation::Exclusive(verifier));
    let first = store
        .make(ROOT, "f", exclusive(*b"verifier"))
        .await
        .unwrap();
    store.reopen().await;
    let again = store
        .make(ROOT, "f", exclusive(*b"verifier"))
        .await
        .unwrap();
    assert!(!again.made && again.attributes.id == first.attributes.id);
    let other = store.make(ROOT, "f", exclusive(*b"VERIFIER")).await;
    assert_eq!(other.unwrap_err(), Error::Exists);
    store.file(ROOT, "plain").await;
    let plain = store.make(ROOT, "plain", exclusive([0; 8])).await;
    assert_eq!(plain.unwrap_err(), Error::Exists);
}

#[tokio::test]
async fn making_needs_permission_to_change_the_directory() {
    let store = Fixture::new();
    let home = store.owned_directory("home", 10, 20, 0o755).await;
    let set = SetAttributes::default();
    let stranger = store
        .make_as(&user(11, 20, &[]), home, "f", file(), &set)
        .await;
    assert_eq!(stranger.unwrap_err(), Error::AccessDenied);
    store
        .make_as(&user(10, 99, &[]), home, "f", file(), &set)
        .await
        .unwrap();
}

#[tokio::test]
async fn only_the_superuser_makes_objects_for_others() {
    let store = Fixture::new();
    let for_other = SetAttributes {
        owner: Some(11),
        ..SetAttributes::default()
    };
    let refused = store
        .make_as(&user(10, 20, &[]), ROOT, "f", file(), &for_other)
        .await;
    assert_eq!(refused.unwrap_err(), Error::NotPermitted);
    let for_group = |group| SetAttributes {
        group: Some(group),
        ..SetAttributes::default()
    };
    let own = store
        .make_as(&user(10, 20, &[30]), ROOT, "g", file(), &for_group(30))
        .await;
    assert_eq!(own.unwrap().attributes.group, 30);
    let foreign = store
        .make_as(&user(10, 20, &[30]), ROOT, "h", file(), &for_group(31))
        .await;
    assert_eq!(foreign.unwrap_err(), Error::NotPermitted);
}

#[tokio::test]
async fn a_set_group_id_directory_hands_down_its_group() {
    let store = Fixture::new();
    let shared = store.owned_directory("shared", 10, 50, 0o2777).await;
    let maker = user(11, 20, &[]);
    let made = store
        .make_as(&maker, shared, "f", file(), &with_mode(0o2775))
        .await
        .unwrap();
    // The group is the directory's, and the creator is not a member: it gets no set-group-id program of that group.
    assert_eq!((made.attributes.group, made.attributes.mode), (50, 0o775));
    let sub = store
        .make_as(&maker, shared, "d", directory(), &with_mode(0o755))
        .await
        .unwrap();
    assert_eq!((sub.attributes.group, sub.attributes.mode), (50, 0o2755));
}

#[tokio::test]
async fn names_are_found_with_search_permission_only() {
    let store = Fixture::new();
    let home = store.owned_directory("home", 10, 20, 0o711).await;
    let id = store.file(home, "f").await;
    let stranger = user(11, 21, &[]);
    assert_eq!(
        store
            .store()
            .lookup(&stranger, home, &name("f"))
            .await
            .unwrap()
            .id,
        id
    );
    store.set(home, &with_mode(0o766)).await.unwrap();
    let denied = store.store().lookup(&stranger, home, &name("f")).await;
    assert_eq!(denied, Err(Error::AccessDenied));
    assert_eq!(store.find(home, "g").await, Err(Error::NotFound));
    assert_eq!(store.find(id, "g").await, Err(Error::NotDirectory));
    assert_eq!(
        store.find(ObjectId::from_u64(99), "g").await,
        Err(Error::Stale)
    );
}

#[tokio::test]
async fn a_directory_knows_its_parent() {
    let store = Fixture::new();
    let (a, b) = (
        store.directory(ROOT, "a").await,
        store.directory(ROOT, "b").await,
    );
    let child = store.directory(a, "child").await;
    let parent = || store.store();
    assert_eq!(parent().parent(&root(), child).await.unwrap().id, a);
    store.rename((a, "child"), (b, "child")).await.unwrap();
    assert_eq!(parent().parent(&root(), child).await.unwrap().id, b);
    assert_eq!(parent().parent(&root(), ROOT).await, Err(Error::NotFound));
    let file = store.file(ROOT, "f").await;
    assert_eq!(
        parent().parent(&root(), file).await,
        Err(Error::NotDirectory)
    );
    store.set(child, &with_mode(0o600)).await.unwrap();
    let denied = parent().parent(&user(10, 20, &[]), child).await;
    assert_eq!(denied, Err(Error::AccessDenied));
}

#[tokio::test]
async fn directories_count_their_subdirectories() {
    let store = Fixture::new();
    let a = store.directory(ROOT, "a").await;
    assert_eq!(
        (
            store.attributes(a).await.links,
            store.attributes(ROOT).await.links
        ),
        (2, 3)
    );
    store.directory(a, "b").await;
    store.file(a, "f").await;
    assert_eq!(store.attributes(a).await.links, 3);
    store.rename((a, "b"), (ROOT, "b")).await.unwrap();
    assert_eq!(
        (
            store.attributes(a).await.links,
            store.attributes(ROOT).await.links
        ),
        (2, 4)
    );
    store.remove(ROOT, "b").await.unwrap();
    assert_eq!(store.attributes(ROOT).await.links, 3);
}

#[tokio::test]
async fn a_removed_name_is_gone_and_so_is_its_object() {
    let store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let before = store.attributes(ROOT).await;
    store.clock.advance(5);
    let change = store
        .store()
        .remove(&root(), ROOT, &name("f"))
        .await
        .unwrap();
    let after = store.attributes(ROOT).await;
    assert_eq!((change.before, change.after), (before.change, after.change));
    assert_eq!(after.modified.seconds, before.modified.seconds + 5);
    assert_eq!(store.find(ROOT, "f").await, Err(Error::NotFound));
    assert_eq!(store.store().attributes(id).await, Err(Error::Stale));
    assert_eq!(store.read(id, 0, 1).await, Err(Error::Stale));
    assert_eq!(store.write(id, 0, b"x").await, Err(Error::Stale));
    assert_eq!(store.remove(ROOT, "f").await, Err(Error::NotFound));
}

#[tokio::test]
async fn directories_are_removed_when_they_are_empty() {
    let store = Fixture::new();
    let home = store.directory(ROOT, "d").await;
    store.file(home, "f").await;
    assert_eq!(store.remove(ROOT, "d").await, Err(Error::NotEmpty));
    store.remove(home, "f").await.unwrap();
    store.remove(ROOT, "d").await.unwrap();
    assert_eq!(store.store().attributes(home).await, Err(Error::Stale));
    assert_eq!(
        store.make(home, "f", file()).await.unwrap_err(),
        Error::Stale
    );
}

#[tokio::test]
async fn sticky_directories_protect_names_from_others() {
    let store = Fixture::new();
    let tmp = store.owned_directory("tmp", 0, 0, 0o1777).await;
    let (mine, theirs) = (user(10, 20, &[]), user(11, 20, &[]));
    let set = SetAttributes::default();
    store.make_as(&mine, tmp, "f", file(), &set).await.unwrap();
    store
        .make_as(&theirs, tmp, "g", file(), &set)
        .await
        .unwrap();
    let file_name = name("f");
    let removed = store.store().remove(&theirs, tmp, &file_name).await;
    assert_eq!(removed, Err(Error::NotPermitted));
    let moved = store
        .store()
        .rename(&theirs, (tmp, &file_name), (tmp, &name("h")))
        .await;
    assert_eq!(moved, Err(Error::NotPermitted));
    let replaced = store
        .store()
        .rename(&theirs, (tmp, &name("g")), (tmp, &file_name))
        .await;
    assert_eq!(replaced, Err(Error::NotPermitted));
    store.store().remove(&mine, tmp, &file_name).await.unwrap();
}

#[tokio::test]
async fn removing_needs_permission_to_change_the_directory() {
    let store = Fixture::new();
    let home = store.owned_directory("home", 10, 20, 0o755).await;
    store.file(home, "f").await;
    let refused = store
        .store()
        .remove(&user(11, 20, &[]), home, &name("f"))
        .await;
    assert_eq!(refused, Err(Error::AccessDenied));
    let search_only = store
        .store()
        .remove(&user(10, 20, &[]), home, &name("f"))
        .await;
    search_only.unwrap();
}

#[tokio::test]
async fn a_hard_link_is_one_more_name() {
    let store = Fixture::new();
    let home = store.directory(ROOT, "d").await;
    let id = store.file(ROOT, "f").await;
    let before = store.attributes(id).await;
    store.link(id, home, "g").await.unwrap();
    let after = store.attributes(id).await;
    assert!(after.links == 2 && after.change > before.change);
    assert_eq!(store.find(home, "g").await, Ok(id));
    store.remove(ROOT, "f").await.unwrap();
    assert_eq!(store.attributes(id).await.links, 1);
    assert_eq!(store.link(id, home, "g").await, Err(Error::Exists));
    assert_eq!(store.link(home, ROOT, "h").await, Err(Error::IsDirectory));
    assert_eq!(
        store.link(ObjectId::from_u64(9), ROOT, "h").await,
        Err(Error::Stale)
    );
}

#[tokio::test]
async fn links_need_no_ownership_but_permission_on_the_directory() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o600).await;
    let stranger = user(11, 21, &[]);
    store
        .store()
        .link(&stranger, id, ROOT, &name("g"))
        .await
        .unwrap();
    let home = store.owned_directory("home", 10, 20, 0o755).await;
    let refused = store.store().link(&stranger, id, home, &name("g")).await;
    assert_eq!(refused, Err(Error::AccessDenied));
}

#[tokio::test]
async fn the_number_of_links_is_limited() {
    let store = Fixture::with(|options| options.max_links = 3);
    let id = store.file(ROOT, "f").await;
    store.link(id, ROOT, "g").await.unwrap();
    store.link(id, ROOT, "h").await.unwrap();
    assert_eq!(store.link(id, ROOT, "i").await, Err(Error::TooManyLinks));
    store.rename((ROOT, "h"), (ROOT, "i")).await.unwrap();
    assert_eq!(store.attributes(id).await.links, 3);
}

#[tokio::test]
async fn renaming_moves_a_name_and_touches_what_it_should() {
    let store = Fixture::new();
    let (a, b) = (
        store.directory(ROOT, "a").await,
        store.directory(ROOT, "b").await,
    );
    let id = store.file(a, "f").await;
    let before = store.attributes(id).await;
    let (from, to) = (name("f"), name("g"));
    let (source, target) = store
        .store()
        .rename(&root(), (a, &from), (b, &to))
        .await
        .unwrap();
    assert_eq!(source.after, store.attributes(a).await.change);
    assert_eq!(target.after, store.attributes(b).await.change);
    assert!(store.attributes(id).await.change > before.change);
    assert_eq!(store.find(a, "f").await, Err(Error::NotFound));
    assert_eq!(store.find(b, "g").await, Ok(id));
    let (source, target) = store
        .store()
        .rename(&root(), (b, &to), (b, &from))
        .await
        .unwrap();
    assert_eq!(source, target);
}

#[tokio::test]
async fn renaming_replaces_what_it_may() {
    let store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let (old, new) = (store.file(ROOT, "old").await, store.file(ROOT, "new").await);
    store.rename((ROOT, "new"), (ROOT, "old")).await.unwrap();
    assert_eq!(store.find(ROOT, "old").await, Ok(new));
    assert_eq!(store.store().attributes(old).await, Err(Error::Stale));
    let (a, b) = (
        store.directory(ROOT, "a").await,
        store.directory(ROOT, "b").await,
    );
    store.rename((ROOT, "a"), (ROOT, "b")).await.unwrap();
    assert_eq!(store.find(ROOT, "b").await, Ok(a));
    assert_eq!(store.store().attributes(b).await, Err(Error::Stale));
    assert_eq!(
        store.rename((ROOT, "old"), (ROOT, "b")).await,
        Err(Error::IsDirectory)
    );
    assert_eq!(
        store.rename((ROOT, "b"), (ROOT, "old")).await,
        Err(Error::NotDirectory)
    );
    store.directory(ROOT, "c").await;
    store.file(a, "inside").await;
    assert_eq!(
        store.rename((ROOT, "c"), (ROOT, "b")).await,
        Err(Error::NotEmpty)
    );
    assert_eq!(
        store.rename((ROOT, "none"), (ROOT, "b")).await,
        Err(Error::NotFound)
    );
}

#[tokio::test]
async fn renaming_between_names_of_one_object_leaves_both() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    store.link(id, ROOT, "g").await.unwrap();
    let before = store.attributes(ROOT).await.change;
    store.rename((ROOT, "f"), (ROOT, "g")).await.unwrap();
    store.rename((ROOT, "f"), (ROOT, "f")).await.unwrap();
    assert_eq!(store.attributes(ROOT).await.change, before);
    assert_eq!(
        (store.find(ROOT, "f").await, store.find(ROOT, "g").await),
        (Ok(id), Ok(id))
    );
}

#[tokio::test]
async fn a_directory_cannot_move_below_itself() {
    let store = Fixture::new();
    let a = store.directory(ROOT, "a").await;
    let b = store.directory(a, "b").await;
    let c = store.directory(b, "c").await;
    for target in [a, b, c] {
        let refused = store.rename((ROOT, "a"), (target, "x")).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(
        store.rename((b, "c"), (ROOT, "a")).await,
        Err(Error::NotEmpty)
    );
}

#[tokio::test]
async fn a_directory_that_changes_its_parent_must_be_writable() {
    let store = Fixture::new();
    let (a, b) = (
        store.owned_directory("a", 10, 20, 0o777).await,
        store.owned_directory("b", 10, 20, 0o777).await,
    );
    let moved = store.directory(a, "theirs").await;
    let set = SetAttributes {
        owner: Some(11),
        mode: Some(0o755),
        ..SetAttributes::default()
    };
    store.set(moved, &set).await.unwrap();
    let mover = user(10, 20, &[]);
    let (from, to) = (name("theirs"), name("mine"));
    let refused = store.store().rename(&mover, (a, &from), (b, &to)).await;
    assert_eq!(refused, Err(Error::AccessDenied));
    store
        .store()
        .rename(&mover, (a, &from), (a, &to))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_file_with_other_names_survives_being_replaced() {
    let store = Fixture::new();
    let id = store.file(ROOT, "kept").await;
    store.link(id, ROOT, "replaced").await.unwrap();
    store.file(ROOT, "new").await;
    store
        .rename((ROOT, "new"), (ROOT, "replaced"))
        .await
        .unwrap();
    assert_eq!(store.attributes(id).await.links, 1);
    assert_eq!(store.find(ROOT, "kept").await, Ok(id));
}

#[tokio::test]
async fn identifiers_are_never_used_twice_and_carry_the_slot() {
    let mut store = Fixture::new();
    let first = store.file(ROOT, "a").await;
    store.remove(ROOT, "a").await.unwrap();
    let second = store.file(ROOT, "a").await;
    store.reopen_unsynced();
    let third = store.file(ROOT, "b").await;
    assert!(first < second && second < third);
    assert_eq!(third.as_u64() >> 48, 1);
}
