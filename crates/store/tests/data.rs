//! Reading, writing and resizing files.

mod fixture;

use fixture::{Fixture, root, user, with_size};
use vfs::{Authority, Error, FileSystem, ObjectId, Stability};

#[tokio::test]
async fn written_bytes_are_read_back() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.write(id, 3, b"hello").await.unwrap();
    assert_eq!(store.content(id).await, &b"\0\0\0hello"[..]);
    assert_eq!(store.attributes(id).await.size, 8);
    assert!(store.attributes(id).await.space_used > 0);
}

#[tokio::test]
async fn the_end_of_a_file_is_told() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.write(id, 0, b"abcdef").await.unwrap();
    let who = root();
    let read = |offset, count| {
        store
            .store()
            .read(Authority::Credentials(&who), id, offset, count)
    };
    let part = read(0, 5).await.unwrap();
    assert_eq!((&part.bytes[..], part.end_of_file), (&b"abcde"[..], false));
    let rest = read(5, 5).await.unwrap();
    assert_eq!((&rest.bytes[..], rest.end_of_file), (&b"f"[..], true));
    let behind = read(99, 5).await.unwrap();
    assert!(behind.bytes.is_empty() && behind.end_of_file);
}

#[tokio::test]
async fn bytes_cut_off_do_not_come_back_when_the_file_grows() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.write(id, 0, b"secret").await.unwrap();
    store.set(id, &with_size(2)).await.unwrap();
    store.set(id, &with_size(6)).await.unwrap();
    assert_eq!(store.content(id).await, &b"se\0\0\0\0"[..]);
}

#[tokio::test]
async fn data_survives_reopening() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    let large: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
    store
        .write_as(&root(), id, 0, &large, Stability::File)
        .await
        .unwrap();
    store.reopen().await;
    assert_eq!(store.content(id).await, large);
    assert_eq!(store.find(ObjectId::ROOT, "f").await, Ok(id));
}

#[tokio::test]
async fn permission_to_write_is_asked_for() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o640).await;
    let (member, owner) = (user(11, 20, &[]), user(10, 99, &[]));
    let denied = store
        .write_as(&member, id, 0, b"x", Stability::Unstable)
        .await;
    assert_eq!(denied, Err(Error::AccessDenied));
    store
        .write_as(&owner, id, 0, b"x", Stability::Unstable)
        .await
        .unwrap();
    let opened = Authority::Open(&member);
    store
        .store()
        .write(opened, id, 0, b"y".as_slice().into(), Stability::Data)
        .await
        .unwrap();
    assert_eq!(store.content(id).await, &b"y"[..]);
}
