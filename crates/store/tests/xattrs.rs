//! Extended attributes.

use std::collections::BTreeSet;

use crate::fixture::{Fixture, root, symlink, user};
use bytes::Bytes;
use store::Store;
use vfs::{DirectoryChange, Error, FileSystem, ObjectId, Result, XattrMode, XattrName};

const ROOT: ObjectId = ObjectId::ROOT;

fn xattr(text: &str) -> XattrName {
    XattrName::new(text.as_bytes().to_vec()).unwrap()
}

async fn set(store: &Fixture, id: ObjectId, text: &str, value: &[u8]) -> Result<DirectoryChange> {
    let value = Bytes::copy_from_slice(value);
    store
        .store()
        .set_xattr(&root(), id, &xattr(text), value, XattrMode::Any)
        .await
}

#[tokio::test]
async fn values_are_set_replaced_and_removed() {
    let mut store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let before = store.attributes(id).await;
    let change = set(&store, id, "colour", b"red").await.unwrap();
    assert_eq!(change.before, before.change);
    assert_eq!(change.after, store.attributes(id).await.change);
    set(&store, id, "colour", b"a longer value").await.unwrap();
    set(&store, id, "empty", b"").await.unwrap();
    store.reopen().await;
    let files = store.store();
    assert_eq!(
        files.xattr(&root(), id, &xattr("colour")).await.unwrap(),
        "a longer value"
    );
    assert_eq!(files.xattr(&root(), id, &xattr("empty")).await.unwrap(), "");
    files
        .remove_xattr(&root(), id, &xattr("colour"))
        .await
        .unwrap();
    assert_eq!(
        files.xattr(&root(), id, &xattr("colour")).await,
        Err(Error::NoXattr)
    );
    let again = files.remove_xattr(&root(), id, &xattr("colour")).await;
    assert_eq!(again, Err(Error::NoXattr));
}

#[tokio::test]
async fn modes_say_whether_it_may_exist() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let set = |mode| {
        let files = store.store();
        async move {
            let value = Bytes::from_static(b"v");
            files
                .set_xattr(&root(), id, &xattr("x"), value, mode)
                .await
                .map(|_| ())
        }
    };
    assert_eq!(set(XattrMode::Replace).await, Err(Error::NoXattr));
    set(XattrMode::Create).await.unwrap();
    assert_eq!(set(XattrMode::Create).await, Err(Error::Exists));
    set(XattrMode::Replace).await.unwrap();
}

#[tokio::test]
async fn names_are_listed_page_by_page() {
    let store = Fixture::new();
    let id = store.directory(ROOT, "d").await;
    let expected: BTreeSet<XattrName> = (0..40)
        .map(|number| xattr(&format!("name{number:02}")))
        .collect();
    for name in &expected {
        let value = Bytes::from_static(b"v");
        let files = store.store();
        files
            .set_xattr(&root(), id, name, value, XattrMode::Any)
            .await
            .unwrap();
    }
    let mut listed = Vec::new();
    let mut cookie = 0;
    loop {
        // Space for three names of six bytes and four more each.
        let page = store.store().xattrs(&root(), id, cookie, 35).await.unwrap();
        assert!(page.names.len() <= 3);
        listed.extend(page.names);
        cookie = page.cookie;
        if page.end {
            break;
        }
    }
    assert_eq!(listed.len(), 40);
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
    let tight = store.store().xattrs(&root(), id, 0, 9).await;
    assert_eq!(tight, Err(Error::XattrTooLarge));
    let bad = store.store().xattrs(&root(), id, 1 << 63, 100).await;
    assert_eq!(bad, Err(Error::BadCookie));
}

#[tokio::test]
async fn nothing_is_listed_where_nothing_is() {
    let store = Fixture::new();
    let page = store.store().xattrs(&root(), ROOT, 0, 0).await.unwrap();
    assert!(page.end && page.names.is_empty());
}

#[tokio::test]
async fn size_is_limited_alone_and_together() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    let large = vec![1; 64 << 10];
    set(&store, id, "one", &large).await.unwrap();
    assert_eq!(
        set(&store, id, "two", &large).await,
        Err(Error::XattrTooLarge)
    );
    set(&store, id, "one", b"small").await.unwrap();
    set(&store, id, "two", &large).await.unwrap();
    let too_large = vec![1; (64 << 10) + 1];
    assert_eq!(
        set(&store, id, "three", &too_large).await,
        Err(Error::XattrTooLarge)
    );
}

#[tokio::test]
async fn permission_follows_the_mode_bits() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o640).await;
    set(&store, id, "x", b"v").await.unwrap();
    let files = store.store();
    let (member, stranger) = (user(11, 20, &[]), user(12, 21, &[]));
    assert_eq!(files.xattr(&member, id, &xattr("x")).await.unwrap(), "v");
    let write = files
        .set_xattr(&member, id, &xattr("x"), Bytes::new(), XattrMode::Any)
        .await;
    assert_eq!(write, Err(Error::AccessDenied));
    let remove = files.remove_xattr(&member, id, &xattr("x")).await;
    assert_eq!(remove, Err(Error::AccessDenied));
    assert_eq!(
        files.xattr(&stranger, id, &xattr("x")).await,
        Err(Error::AccessDenied)
    );
    assert_eq!(
        files.xattrs(&stranger, id, 0, 100).await,
        Err(Error::AccessDenied)
    );
    let tmp = store.owned_directory("tmp", 0, 0, 0o1777).await;
    let sticky = files
        .set_xattr(&member, tmp, &xattr("x"), Bytes::new(), XattrMode::Any)
        .await;
    assert_eq!(sticky, Err(Error::NotPermitted));
}

#[tokio::test]
async fn only_files_and_directories_have_them() {
    let store = Fixture::new();
    let id = store
        .make(ROOT, "s", symlink("f"))
        .await
        .unwrap()
        .attributes
        .id;
    assert_eq!(set(&store, id, "x", b"v").await, Err(Error::WrongKind));
    assert_eq!(
        set(&store, ObjectId::from_u64(99), "x", b"v").await,
        Err(Error::Stale)
    );
}

#[tokio::test]
async fn they_go_with_their_object() {
    let mut store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let id = store.directory(ROOT, "d").await;
    for number in 0..200 {
        set(&store, id, &format!("name{number}"), b"value")
            .await
            .unwrap();
    }
    store.remove(ROOT, "d").await.unwrap();
    assert_eq!(
        store.store().xattr(&root(), id, &xattr("name1")).await,
        Err(Error::Stale)
    );
    // Consistent both before and after the remains have been cleared away.
    for _ in 0..2 {
        store.close();
        let report = Store::check(&store.options.directory, false).unwrap();
        assert!(report.sound, "{report}");
        store.reopen_unsynced();
    }
}
