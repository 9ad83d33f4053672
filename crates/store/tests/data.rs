//! Reading, writing and resizing files.

use crate::fixture::{Fixture, root, user, with_size};
use vfs::{AccessCheck, Error, Extent, FileSystem, ObjectId, SeekTarget, Stability};

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
            .read(AccessCheck::Credentials(&who), id, offset, count)
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
    let opened = AccessCheck::Open(&member);
    store
        .store()
        .write(opened, id, 0, b"y".as_slice().into(), Stability::Data)
        .await
        .unwrap();
    assert_eq!(store.content(id).await, &b"y"[..]);
}

#[tokio::test]
async fn files_end_where_the_file_system_below_does() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    let limit = store.store().properties().max_file_size;
    assert_eq!(store.write(id, limit, b"x").await, Err(Error::TooLarge));
    assert_eq!(store.write(id, u64::MAX, b"x").await, Err(Error::TooLarge));
    store.write(id, limit - 1, b"x").await.unwrap();
    assert_eq!(store.read(id, limit - 2, 10).await.unwrap(), &b"\0x"[..]);
}

#[tokio::test]
async fn only_files_hold_data() {
    let store = Fixture::new();
    let link = store
        .make(ObjectId::ROOT, "s", crate::fixture::symlink("f"))
        .await
        .unwrap();
    let kinds = [
        (ObjectId::ROOT, Error::IsDirectory),
        (link.attributes.id, Error::IsSymlink),
    ];
    for (id, error) in kinds {
        assert_eq!(store.write(id, 0, b"x").await, Err(error.clone()));
        assert_eq!(store.read(id, 0, 1).await, Err(error.clone()));
        assert_eq!(store.store().commit(id, 0, 0).await, Err(error));
    }
    assert_eq!(
        store.store().commit(ObjectId::from_u64(99), 0, 0).await,
        Err(Error::Stale)
    );
}

#[tokio::test]
async fn writes_and_commits_carry_one_verifier_until_the_store_is_opened_again() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let data = bytes::Bytes::from_static(b"x");
    let write = store
        .store()
        .write(access, id, 0, data, Stability::Unstable)
        .await
        .unwrap();
    let commit = store.store().commit(id, 0, 0).await.unwrap();
    assert_eq!(write.verifier, commit.verifier);
    store.reopen_unsynced();
    assert_ne!(
        store.store().commit(id, 0, 0).await.unwrap().verifier,
        write.verifier
    );
}

#[tokio::test]
async fn a_file_with_unstable_data_is_not_trusted_after_a_restart() {
    let mut store = Fixture::new();
    let (dirty, clean) = (
        store.file(ObjectId::ROOT, "dirty").await,
        store.file(ObjectId::ROOT, "clean").await,
    );
    store
        .write_as(&root(), clean, 0, b"stable", Stability::File)
        .await
        .unwrap();
    store.store().sync().await.unwrap();
    store.write(dirty, 0, b"unstable").await.unwrap();
    assert_eq!(store.store().statistics().dirty_files, 1);
    let before = (store.attributes(dirty).await, store.attributes(clean).await);
    store.clock.advance(9);
    store.reopen_unsynced();
    let after = (store.attributes(dirty).await, store.attributes(clean).await);
    assert!(after.0.change > before.0.change);
    assert_eq!(after.0.modified.seconds, before.0.modified.seconds + 9);
    assert_eq!(after.1, before.1);
    assert_eq!(store.store().statistics().dirty_files, 0);
}

#[tokio::test]
async fn a_graceful_stop_leaves_nothing_to_recover() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let before = store.attributes(id).await;
    store.reopen().await;
    assert_eq!(store.attributes(id).await, before);
}

#[tokio::test]
async fn data_and_holes_are_found() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    let megabyte = 1 << 20;
    store.write(id, 2 * megabyte, &[1; 4096]).await.unwrap();
    store.set(id, &with_size(4 * megabyte)).await.unwrap();
    let who = root();
    let seek = |offset, target| {
        store
            .store()
            .seek(AccessCheck::Credentials(&who), id, offset, target)
    };
    let data = seek(0, SeekTarget::Data).await.unwrap().unwrap();
    // File systems without holes may report everything as data, but none may report the data too late.
    assert!(data <= 2 * megabyte);
    let hole = seek(2 * megabyte, SeekTarget::Hole).await.unwrap().unwrap();
    assert!(hole >= 2 * megabyte + 4096 && hole <= 4 * megabyte);
    assert_eq!(seek(3 * megabyte, SeekTarget::Data).await, Ok(None));
    assert_eq!(
        seek(3 * megabyte, SeekTarget::Hole).await,
        Ok(Some(3 * megabyte))
    );
    assert_eq!(
        seek(4 * megabyte, SeekTarget::Hole).await,
        Err(Error::NotFound)
    );
}

#[tokio::test]
async fn a_file_that_was_never_written_is_one_hole() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.set(id, &with_size(100)).await.unwrap();
    let who = root();
    let seek = |target| {
        store
            .store()
            .seek(AccessCheck::Credentials(&who), id, 10, target)
    };
    assert_eq!(seek(SeekTarget::Data).await, Ok(None));
    assert_eq!(seek(SeekTarget::Hole).await, Ok(Some(10)));
}

#[tokio::test]
async fn reserved_storage_is_there_and_reads_as_zeros() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let before = store.attributes(id).await;
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let extent = Extent {
        offset: 2,
        length: 1 << 20,
    };
    store.store().allocate(access, id, extent).await.unwrap();
    let after = store.attributes(id).await;
    assert!(after.space_used >= 1 << 20 && after.change > before.change);
    assert_eq!(after.size, (1 << 20) + 2);
    assert_eq!(store.read(id, 0, 8).await.unwrap(), &b"data\0\0\0\0"[..]);
}

#[tokio::test]
async fn a_punched_hole_reads_as_zeros_and_keeps_the_size() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.write(id, 0, &[7; 20_000]).await.unwrap();
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let extent = Extent {
        offset: 10,
        length: 1 << 40,
    };
    store.store().deallocate(access, id, extent).await.unwrap();
    let content = store.content(id).await;
    assert_eq!(content.len(), 20_000);
    assert!(content[..10].iter().all(|byte| *byte == 7));
    assert!(content[10..].iter().all(|byte| *byte == 0));
    let none = Extent {
        offset: 0,
        length: 0,
    };
    assert!(matches!(
        store.store().deallocate(access, id, none).await,
        Err(Error::Invalid(_))
    ));
    let reader = user(10, 20, &[]);
    let refused = store
        .store()
        .deallocate(AccessCheck::Credentials(&reader), id, extent)
        .await;
    assert_eq!(refused, Err(Error::AccessDenied));
}

#[tokio::test]
async fn writers_side_by_side_do_not_lose_each_others_bytes() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    let writes = (0..32_u64).map(|block| {
        let store = &store;
        async move {
            store
                .write(id, block * 1000, &[block as u8; 1000])
                .await
                .unwrap()
        }
    });
    let mut writes: Vec<_> = writes.map(Box::pin).collect();
    // All have begun before one is awaited to its end.
    let mut pending = true;
    while pending {
        pending = false;
        let mut rest = Vec::new();
        for mut write in writes {
            let done = std::future::poll_fn(|context| {
                std::task::Poll::Ready(write.as_mut().poll(context).is_ready())
            });
            if !done.await {
                pending = true;
                rest.push(write);
            }
        }
        writes = rest;
        tokio::task::yield_now().await;
    }
    let content = store.content(id).await;
    assert_eq!(content.len(), 32_000);
    for (block, bytes) in content.chunks(1000).enumerate() {
        assert!(bytes.iter().all(|byte| usize::from(*byte) == block));
    }
}

#[tokio::test]
async fn a_write_whose_caller_goes_away_is_not_left_half_done() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    {
        let mut write = Box::pin(store.write(id, 0, &[9; 200_000]));
        let begun = std::future::poll_fn(|context| {
            std::task::Poll::Ready(write.as_mut().poll(context).is_pending())
        });
        assert!(begun.await, "the write cannot be over at once");
    }
    // This waits for all writes in progress, because it needs the file exclusively.
    store.set(id, &with_size(200_000)).await.unwrap();
    let content = store.content(id).await;
    let written = content.iter().filter(|byte| **byte == 9).count();
    assert!(written == 0 || written == 200_000, "{written} bytes");
}

#[tokio::test]
async fn more_files_than_can_be_open_are_written_and_read() {
    let store = Fixture::with(|options| options.open_files = 16);
    let mut ids = Vec::new();
    for number in 0..60_u8 {
        let id = store.file(ObjectId::ROOT, &format!("f{number}")).await;
        store.write(id, 0, &[number; 10]).await.unwrap();
        ids.push(id);
    }
    for (number, id) in ids.into_iter().enumerate() {
        assert!(
            store
                .content(id)
                .await
                .iter()
                .all(|byte| usize::from(*byte) == number)
        );
    }
}

/// The row of a file recorded data after a hole was punched into an empty file; the check then found the
/// data lost.
#[tokio::test]
async fn a_hole_in_a_file_without_data_leaves_it_without_data() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    store.set(id, &with_size(100)).await.unwrap();
    let who = root();
    let extent = Extent {
        offset: 10,
        length: 20,
    };
    store
        .store()
        .deallocate(AccessCheck::Credentials(&who), id, extent)
        .await
        .unwrap();
    store.store().sync().await.unwrap();
    store.close();
    let report = store::Store::check(&store.options.directory, false).unwrap();
    assert!(report.sound, "{report}");
}

/// A crash of the machine would restore old bytes: the row first had a small size, then a large one, and
/// the cut of the data file was not stable in between.
#[tokio::test]
async fn a_cut_is_stable_before_the_file_grows_again() {
    let store = Fixture::new();
    let large = vec![7; 100_000];
    let cut = async |text: &str| {
        let id = store.file(ObjectId::ROOT, text).await;
        let who = root();
        store
            .write_as(&who, id, 0, &large, Stability::File)
            .await
            .unwrap();
        store.set(id, &with_size(1000)).await.unwrap();
        (id, store.store().statistics().data_syncs)
    };
    let syncs = || store.store().statistics().data_syncs;
    let (id, before) = cut("resized").await;
    store.set(id, &with_size(5000)).await.unwrap();
    assert_eq!(syncs(), before + 1);
    let (id, before) = cut("written").await;
    store.write(id, 90_000, b"far behind").await.unwrap();
    assert_eq!(syncs(), before + 1);
    let (id, before) = cut("small and stable").await;
    let who = root();
    store
        .write_as(&who, id, 50_000, b"far behind", Stability::File)
        .await
        .unwrap();
    assert_eq!(syncs(), before + 1);
    // Within the remaining part no bytes can come back.
    let (id, before) = cut("within").await;
    store
        .write_as(&who, id, 10, b"inside", Stability::File)
        .await
        .unwrap();
    assert_eq!(syncs(), before);
}

/// The file read as zeros, and a part written later was served among them.
#[tokio::test]
async fn a_data_file_that_is_missing_is_no_hole() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    let who = root();
    store
        .write_as(&who, id, 0, &[7; 100_000], Stability::File)
        .await
        .unwrap();
    store.reopen().await;
    let mut data = vec![store.options.directory.join("data")];
    while !data[0].is_file() {
        let below = std::fs::read_dir(data.remove(0)).unwrap();
        data.extend(below.map(|found| found.unwrap().path()));
    }
    std::fs::remove_file(&data[0]).unwrap();
    let is_refused = |error: Option<Error>| matches!(error, Some(Error::Io(_)));
    assert!(is_refused(store.read(id, 0, 10).await.err()));
    assert!(is_refused(store.write(id, 10, b"part").await.err()));
    let access = AccessCheck::Credentials(&who);
    let found = store.store().seek(access, id, 0, SeekTarget::Hole).await;
    assert!(is_refused(found.err()));
    assert_eq!(store.attributes(id).await.size, 100_000);
    // It can be written again as a whole.
    store.set(id, &with_size(0)).await.unwrap();
    store.write(id, 0, b"anew").await.unwrap();
    assert_eq!(store.content(id).await, &b"anew"[..]);
}
