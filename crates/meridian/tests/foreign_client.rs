//! A client that nobody here has written, the crate `nfs-rs`, does its work against the running program.
//!
//! Where it and the server read the RFCs differently, this fails although all of our own parts agree.

use std::collections::BTreeSet;

use crate::fixture::{Place, Running};
use bytes::Bytes;
use nfs_rs::{Mount, Nfs4ErrorCode, NfsError, OPEN_BOTH, OPEN_READ, SeekContent, XattrSetMode};

const VERSIONS: [&str; 2] = ["4.1", "4.2"];

/// Lock types as the client's API has them.
const READ_LOCK: u32 = 1;
const WRITE_LOCK: u32 = 2;

async fn mount(server: &Running, version: &str) -> Box<dyn Mount> {
    let (address, port) = (server.address.ip(), server.address.port());
    let url = format!(
        "nfs://{address}/export?version={version}&nfsport={port}&noresvport=true&uid=1000&gid=100"
    );
    nfs_rs::parse_url_and_mount(&url).await.unwrap()
}

/// Bytes that differ from place to place, so that a piece at the wrong offset is noticed.
fn pattern(length: usize) -> Bytes {
    (0..length).map(|index| (index / 7 % 251) as u8).collect()
}

fn is_denied<T>(outcome: &Result<T, NfsError>) -> bool {
    matches!(
        outcome,
        Err(NfsError::LockDenied { .. } | NfsError::Nfs4(Nfs4ErrorCode::NFS4ERR_DENIED))
    )
}

async fn read_whole(client: &dyn Mount, path: &str, length: usize) -> Vec<u8> {
    let opened = client.open_path(path, OPEN_READ).await.unwrap();
    let mut content = Vec::new();
    while content.len() < length {
        let left = u32::try_from(length - content.len()).unwrap();
        let offset = content.len() as u64;
        let piece = client.read(opened.fh.clone(), offset, left).await.unwrap();
        assert!(!piece.is_empty(), "the file ends at {offset}");
        content.extend_from_slice(&piece);
    }
    client.close(opened.fh).await.unwrap();
    content
}

async fn names(client: &dyn Mount, path: &str) -> BTreeSet<String> {
    let directory = client.lookup_path(path).await.unwrap().fh;
    let mut names = BTreeSet::new();
    let mut position = nfs_rs::DirectoryCookie::default();
    loop {
        let page = client
            .readdirplus_page(directory.clone(), position)
            .await
            .unwrap();
        for entry in &page.entries {
            assert!(names.insert(entry.file_name.clone()), "listed twice");
            assert!(entry.attr.is_some());
        }
        if page.eof {
            return names;
        }
        position = page.next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_written_by_one_mount_are_read_by_another() {
    let place = Place::new("");
    let server = place.start();
    for version in VERSIONS {
        let (writer, reader) = (mount(&server, version).await, mount(&server, version).await);
        let path = format!("data {version}");
        let content = pattern((3 << 20) + 17);
        let made = writer.create_path(&path, Some(0o640)).await.unwrap();
        let written = nfs_rs::write_all(&*writer, made.fh.clone(), 0, content.clone()).await;
        assert_eq!(written.unwrap(), content.len() as u64);
        writer.close(made.fh).await.unwrap();
        assert_eq!(read_whole(&*reader, &path, content.len()).await, content);

        let attributes = reader.getattr_path(&path).await.unwrap();
        assert_eq!(attributes.filesize, content.len() as u64);
        assert_eq!(attributes.file_mode & 0o7777, 0o640);
        assert_eq!((attributes.uid, attributes.gid), (1000, 100));
        for client in [writer, reader] {
            client.umount().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_made_moved_listed_and_removed() {
    let place = Place::new("");
    let server = place.start();
    for version in VERSIONS {
        let client = mount(&server, version).await;
        client.mkdir_path("one", 0o755).await.unwrap();
        client.mkdir_path("two", 0o755).await.unwrap();
        let expected: BTreeSet<String> = (0..300).map(|number| format!("file {number}")).collect();
        for name in &expected {
            let path = format!("one/{name}");
            let made = client.create_path(&path, Some(0o600)).await.unwrap();
            client.close(made.fh).await.unwrap();
        }
        assert_eq!(names(&*client, "one").await, expected);

        client.rename_path("one/file 0", "two/moved").await.unwrap();
        client.link_path("two/moved", "two/linked").await.unwrap();
        assert_eq!(client.getattr_path("two/linked").await.unwrap().nlink, 2);
        client.symlink_path("two/moved", "pointer").await.unwrap();
        assert_eq!(client.readlink_path("pointer").await.unwrap(), "two/moved");
        let missing = client.lookup_path("one/file 0").await.unwrap_err();
        assert!(missing.is_not_found(), "{missing}");
        let full = client.rmdir_path("one").await;
        assert!(full.is_err(), "a directory with files in it was removed");

        for name in &names(&*client, "one").await {
            client.remove_path(&format!("one/{name}")).await.unwrap();
        }
        for name in ["two/moved", "two/linked", "pointer"] {
            client.remove_path(name).await.unwrap();
        }
        for name in ["one", "two"] {
            client.rmdir_path(name).await.unwrap();
        }
        assert!(names(&*client, "/").await.is_empty());
        client.umount().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_changed() {
    let place = Place::new("");
    let server = place.start();
    let client = mount(&server, "4.1").await;
    let made = client.create_path("file", Some(0o600)).await.unwrap();
    let time = nfs_rs::Time {
        seconds: 1_000_000_007,
        nseconds: 999_999_999,
    };
    let (mode, size) = (Some(0o4751), Some(12_345));
    client
        .setattr_path("file", false, mode, None, None, size, None, Some(time))
        .await
        .unwrap();
    let changed = client.getattr_path("file").await.unwrap();
    assert_eq!(changed.filesize, 12_345);
    assert_eq!(changed.file_mode & 0o777, 0o751);
    assert_eq!(
        (changed.mtime.seconds, changed.mtime.nseconds),
        (1_000_000_007, 999_999_999)
    );
    client.close(made.fh).await.unwrap();
    assert!(client.fsstat().await.unwrap().tbytes > 0);
    let largest_write = client.fsinfo().await.unwrap().wtmax;
    assert!((1..=1 << 20).contains(&largest_write), "{largest_write}");
    client.umount().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_keep_another_mount_out() {
    let place = Place::new("");
    let server = place.start();
    for version in VERSIONS {
        let (first, second) = (mount(&server, version).await, mount(&server, version).await);
        let path = format!("locked {version}");
        let mine = first.create_path(&path, Some(0o600)).await.unwrap().fh;
        let theirs = second.open_path(&path, OPEN_BOTH).await.unwrap().fh;

        let lock = first.lock_stateful(mine.clone(), WRITE_LOCK, 100, 50).await;
        let lock = lock.unwrap();
        let refused = second.lock_test(theirs.clone(), READ_LOCK, 0, 101).await;
        assert!(is_denied(&refused), "{refused:?}");
        let refused = second.lock(theirs.clone(), READ_LOCK, 149, 1).await;
        assert!(is_denied(&refused), "{refused:?}");
        let beside = second.lock_stateful(theirs.clone(), WRITE_LOCK, 150, u64::MAX);
        second.unlock_stateful(beside.await.unwrap()).await.unwrap();
        first.unlock_stateful(lock).await.unwrap();
        let free = second.lock_stateful(theirs.clone(), WRITE_LOCK, 100, 50);
        second.unlock_stateful(free.await.unwrap()).await.unwrap();

        first.close(mine).await.unwrap();
        second.close(theirs).await.unwrap();
        for client in [first, second] {
            client.umount().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn minor_version_2_has_holes_and_extended_attributes() {
    let place = Place::new("");
    let server = place.start();
    let client = mount(&server, "4.2").await;
    let file = client.create_path("sparse", Some(0o600)).await.unwrap().fh;
    let piece = pattern(64 << 10);
    nfs_rs::write_all(&*client, file.clone(), 1 << 20, piece.clone())
        .await
        .unwrap();
    let seek = |offset, what| client.seek_content(file.clone(), offset, what);
    assert_eq!(seek(0, SeekContent::Data).await.unwrap().offset, 1 << 20);
    assert_eq!(seek(0, SeekContent::Hole).await.unwrap().offset, 0);
    client.allocate(file.clone(), 0, 4096).await.unwrap();
    client
        .deallocate(file.clone(), 1 << 20, 64 << 10)
        .await
        .unwrap();
    let hole = client.read(file.clone(), 1 << 20, 64 << 10).await.unwrap();
    assert!(hole.iter().all(|byte| *byte == 0));

    let value = Bytes::from_static(b"blue");
    client
        .setxattr_with_mode(file.clone(), "colour", value.clone(), XattrSetMode::Create)
        .await
        .unwrap();
    let again = client
        .setxattr_with_mode(file.clone(), "colour", value.clone(), XattrSetMode::Create)
        .await;
    assert!(again.is_err_and(|error| error.is_exist()));
    assert_eq!(
        client.getxattr(file.clone(), "colour").await.unwrap(),
        value
    );
    assert_eq!(client.listxattr(file.clone()).await.unwrap(), ["colour"]);
    client.removexattr(file.clone(), "colour").await.unwrap();
    assert!(client.listxattr(file.clone()).await.unwrap().is_empty());
    client.close(file).await.unwrap();
    client.umount().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_its_leave_leaves_nothing_behind() {
    let place = Place::new("");
    let server = place.start();
    let client = mount(&server, "4.1").await;
    let made = client.create_path("file", Some(0o600)).await.unwrap();
    let during = place.status();
    assert_eq!((during.clients, during.sessions, during.opens), (1, 1, 1));
    client.close(made.fh).await.unwrap();
    client.umount().await.unwrap();
    let after = place.status();
    assert_eq!((after.clients, after.sessions, after.opens), (0, 0, 0));
}
