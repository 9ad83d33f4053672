//! A data server as clients use it: over TCP, with handles that a home has sealed.

use nfs4::{ArgOp4, NfsStat4, PutfhArgs, StableHow4, exchgid};
use std::sync::atomic::Ordering;
use std::time::Duration;

use data_server::Shelf;
use nfs4_server::{DataServer, NotServed, Shown};
use pool::{
    Access, Act, DataServerNumber, Generation, HomeNumber, Intent, IntentNumber, IssueNumber,
    KeyNumber,
};
use store::{Reserve, StoreOptions};
use vfs::{Error, Extent, Stability};
use xdr::Bytes;

use crate::fixture::{Fixture, HOME, contents, handle_of, keys, put, read, write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_read_as_they_were_written_by_any_holder_of_a_handle() {
    let fixture = Fixture::new().await;
    let client = fixture.client().await;
    let handle = fixture.handle(7, Access::ReadWrite);
    let reads = fixture.handle(7, Access::Read);
    assert_eq!(
        read(&client, &reads, 0, 10).await,
        Err(NfsStat4::PnfsIoHole)
    );
    // Sparse packing: the bytes before belong to another data server.
    write(&client, &handle, 65_536, b"stripe", StableHow4::Unstable)
        .await
        .unwrap();
    let stranger = client.as_user(4711, 4711, &[]);
    let bytes = read(&stranger, &reads, 65_530, 100).await.unwrap();
    assert_eq!(bytes, b"\0\0\0\0\0\0stripe".as_slice());
    assert_eq!(
        read(&client, &reads, 65_542, 1).await,
        Err(NfsStat4::PnfsIoHole)
    );
    let first = crate::fixture::commit(&client, &handle).await.unwrap();
    let written = write(&client, &handle, 0, b"x", StableHow4::FileSync)
        .await
        .unwrap();
    assert_eq!(
        (written.writeverf, written.committed),
        (first, StableHow4::FileSync)
    );
    assert_eq!(crate::fixture::size(&client, &reads).await, Ok(65_542));
    client.leave().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_was_not_sealed_for_just_this_reads_and_writes_nothing() {
    let mut fixture = Fixture::new().await;
    let client = fixture.client().await;
    let good = fixture.handle(7, Access::ReadWrite);
    write(&client, &good, 0, b"secret", StableHow4::FileSync)
        .await
        .unwrap();
    for bit in 0..good.len() * 8 {
        let mut changed = good.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(put(&client, &changed).await, NfsStat4::Stale, "bit {bit}");
    }
    for other in [
        &good[..good.len() - 1],
        &[],
        &[0; 128],
        &[&good[..], &[0]].concat(),
    ] {
        assert_eq!(put(&client, other).await, NfsStat4::Stale);
    }
    let (access, first) = (Access::ReadWrite, Generation(1));
    let for_another = handle_of(
        &keys(1),
        DataServerNumber(4),
        (7, IssueNumber(5), first, access),
    );
    let of_another_key = handle_of(
        &keys(2),
        crate::fixture::NUMBER,
        (7, IssueNumber(5), first, access),
    );
    let before_the_fence = handle_of(
        &keys(1),
        crate::fixture::NUMBER,
        (7, IssueNumber(4), first, access),
    );
    let too_new = handle_of(
        &keys(1),
        crate::fixture::NUMBER,
        (7, IssueNumber(5), Generation(2), access),
    );
    for handle in [for_another, of_another_key, before_the_fence, too_new] {
        assert_eq!(put(&client, &handle).await, NfsStat4::Stale);
        assert_eq!(read(&client, &handle, 0, 6).await, Err(NfsStat4::Stale));
    }
    let reads = fixture.handle(7, Access::Read);
    let refused = write(&client, &reads, 0, b"public", StableHow4::FileSync).await;
    assert_eq!(refused.map(|_| ()), Err(NfsStat4::Stale));
    assert_eq!(
        read(&client, &reads, 0, 6).await.unwrap(),
        b"secret".as_slice()
    );

    fixture.lease(IssueNumber(5), 2).await;
    let before = put(&client, &good).await;
    assert_eq!(before, NfsStat4::Ok, "the key before still counts");
    fixture.lease(IssueNumber(5), 3).await;
    assert_eq!(put(&client, &good).await, NfsStat4::Stale);
    fixture.lease(IssueNumber(6), 1).await;
    assert_eq!(put(&client, &good).await, NfsStat4::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_served_without_a_lease_of_the_home() {
    let mut fixture = Fixture::without_a_lease(Duration::from_secs(1)).await;
    let client = fixture.client().await;
    let handle = fixture.handle(7, Access::ReadWrite);
    assert_eq!(put(&client, &handle).await, NfsStat4::Stale);
    // On a slow machine the lease may expire before the first request.
    for _ in 0..100 {
        fixture.lease(IssueNumber(5), 1).await;
        if put(&client, &handle).await == NfsStat4::Ok {
            break;
        }
    }
    while put(&client, &handle).await == NfsStat4::Ok {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(read(&client, &handle, 0, 1).await, Err(NfsStat4::Stale));
}

/// A laptop's lid was closed, and a home has long fenced the layouts that its clients continue to use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_suspended_does_not_take_an_old_lease_for_its_own() {
    let fixture = Fixture::new().await;
    let client = fixture.client().await;
    let handle = fixture.handle(7, Access::ReadWrite);
    assert_eq!(put(&client, &handle).await, NfsStat4::Ok);
    fixture.suspended.store(600_000_000, Ordering::SeqCst);
    assert_eq!(put(&client, &handle).await, NfsStat4::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_fenced_or_removed_stays_so_through_restarts_and_what_was_written_too() {
    let mut fixture = Fixture::new().await;
    let client = fixture.client().await;
    let (old, gone) = (
        fixture.handle(7, Access::ReadWrite),
        fixture.handle(8, Access::ReadWrite),
    );
    let other = fixture.handle(9, Access::ReadWrite);
    let data = vec![5; 200_000];
    for handle in [&old, &gone, &other] {
        write(&client, handle, 0, &data, StableHow4::Unstable)
            .await
            .unwrap();
    }
    let verifier = crate::fixture::commit(&client, &other).await.unwrap();
    let two = Generation(2);
    let report = fixture.take(1, 7, Act::Truncate(70_000)).await;
    assert_eq!(report.end, 70_000);
    fixture.take(2, 8, Act::Remove).await;
    let hole = Extent {
        offset: 4096,
        length: 8192,
    };
    fixture.take(3, 9, Act::Punch(hole)).await;
    let before = fixture.shelf.identity(HOME, true).await.unwrap();

    let mut fixture = fixture.restart().await;
    let after = fixture.shelf.identity(HOME, true).await.unwrap();
    assert_eq!(after.store, before.store);
    assert!(after.counter > before.counter);
    let client = fixture.client().await;
    for handle in [&old, &gone, &other] {
        assert_eq!(put(&client, handle).await, NfsStat4::Stale);
    }
    let removed = fixture.handle_in(8, two, Access::ReadWrite);
    assert_eq!(put(&client, &removed).await, NfsStat4::Stale);
    let now = fixture.handle_in(7, two, Access::ReadWrite);
    let bytes = read(&client, &now, 0, 100_000).await.unwrap();
    assert_eq!(bytes, vec![5; 70_000]);
    let punched = fixture.handle_in(9, two, Access::ReadWrite);
    let bytes = read(&client, &punched, 0, 16_384).await.unwrap();
    let expected = [[5; 4096], [0; 4096], [0; 4096], [5; 4096]].concat();
    assert_eq!(bytes, expected);
    assert_ne!(
        crate::fixture::commit(&client, &punched).await.unwrap(),
        verifier
    );

    // A repeat of the intent does not cut the contents again.
    write(&client, &now, 70_000, &data, StableHow4::FileSync)
        .await
        .unwrap();
    let again = fixture.take(1, 7, Act::Truncate(70_000)).await;
    assert_eq!(again.end, 270_000);
    let never = fixture.handle_in(8, Generation(3), Access::ReadWrite);
    assert_eq!(put(&client, &never).await, NfsStat4::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_server_says_that_it_is_one_and_has_no_names() {
    let fixture = Fixture::new().await;
    let client = fixture.client().await;
    let handle = fixture.handle(7, Access::ReadWrite);
    write(&client, &handle, 0, b"x", StableHow4::FileSync)
        .await
        .unwrap();
    let exchanged = crate::fixture::exchange(&fixture).await;
    assert_eq!(exchanged.flags & exchgid::MASK_PNFS, exchgid::USE_PNFS_DS);
    assert_eq!(
        exchanged.server_owner.major_id,
        crate::fixture::MAJOR_ID.as_bytes()
    );
    for refused in crate::fixture::unsupported() {
        let number = refused.opnum();
        let putfh = ArgOp4::Putfh(PutfhArgs {
            object: nfs4::NfsFh4(handle.clone()),
        });
        let reply = client.compound(vec![putfh, refused]).await.unwrap();
        let last = reply.results.last().unwrap();
        assert_eq!((last.opnum(), last.status()), (number, NfsStat4::NotSupp));
    }
    let reply = client
        .compound(vec![crate::fixture::read_of(0, 1)])
        .await
        .unwrap();
    assert_eq!(reply.status, NfsStat4::NoFileHandle);
}

/// Removed contents are known as removed while any key is valid that may have sealed a handle of them, even over a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tombstone_goes_with_the_keys_of_its_time() {
    let mut fixture = Fixture::new().await;
    let handle = fixture.handle(7, Access::ReadWrite);
    let client = fixture.client().await;
    write(&client, &handle, 0, b"bytes", StableHow4::FileSync)
        .await
        .unwrap();
    fixture.take(1, 7, Act::Remove).await;
    drop(client);
    let mut fixture = fixture.restart().await;
    let client = fixture.client().await;
    assert_eq!(put(&client, &handle).await, NfsStat4::Stale);
    let shelf = fixture.shelf.clone();
    let is_known = || shelf.fenced(contents(7)).unwrap().is_some();
    // The intent stated that key 2 may have sealed a handle.
    assert_eq!(shelf.forget(HOME, KeyNumber(2)).await.unwrap(), 0);
    assert_eq!(shelf.forget(HomeNumber(9), KeyNumber(9)).await.unwrap(), 0);
    assert!(is_known());
    fixture.lease(IssueNumber(5), 3).await;
    assert_eq!(put(&client, &handle).await, NfsStat4::Stale);
    fixture.lease(IssueNumber(5), 4).await;
    while is_known() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(put(&client, &handle).await, NfsStat4::Stale);
    let written = write(&client, &handle, 0, b"late", StableHow4::FileSync).await;
    assert_eq!(written.map(|_| ()), Err(NfsStat4::Stale));
    assert_eq!(shelf.contents_kept(), 0);
    client.leave().await.unwrap();
}

/// After a TRUNCATE, clients may write directly, and then the home relies on the end that data servers report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_data_server_knows_where_contents_end_that_it_has_no_space_for() {
    let directory = tempfile::TempDir::new().unwrap();
    let open = async |reserve| {
        let options = StoreOptions {
            reserve,
            ..StoreOptions::new(directory.path().join("shelf"))
        };
        Shelf::open(&options).await.unwrap()
    };
    let close = async |shelf: Shelf| {
        // Closing a store waits for its threads.
        let closing = tokio::task::spawn_blocking(move || drop(shelf));
        closing.await.unwrap();
    };
    let mut number = 0;
    let mut intend = |act| {
        number += 1;
        let intent = Intent {
            number: IntentNumber(number),
            contents: contents(7),
            generation: Generation(1 + number),
            act,
        };
        (intent, (HOME, KeyNumber(2)))
    };
    let shelf = open(Reserve::Automatic).await;
    let bytes = Bytes::from_static(b"bytes");
    let written = shelf.write(contents(7), 0, bytes.clone(), Stability::File);
    written.await.unwrap();
    close(shelf).await;

    let shelf = open(Reserve::Bytes(1 << 60)).await;
    let refused = shelf.write(contents(7), 5, bytes, Stability::File).await;
    assert_eq!(refused.map(|_| ()), Err(Error::NoSpace));
    let (intent, keys) = intend(Act::Truncate(1 << 20));
    shelf.carry_out(intent, keys).await.unwrap();
    assert_eq!(shelf.report(contents(7)).await.unwrap().end, 1 << 20);
    close(shelf).await;

    let shelf = open(Reserve::Automatic).await;
    assert_eq!(shelf.report(contents(7)).await.unwrap().end, 1 << 20);
    for (act, end) in [
        (Act::Fence, 1 << 20),
        (Act::Truncate(3), 3),
        (Act::Truncate(9), 9),
        (Act::Remove, 0),
    ] {
        let (intent, keys) = intend(act);
        shelf.carry_out(intent, keys).await.unwrap();
        assert_eq!(shelf.report(contents(7)).await.unwrap().end, end, "{act:?}");
    }
    close(shelf).await;
}

/// Closing connections takes a moment. A request from before the gap is not admitted on such a connection, either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_over_a_connection_of_before_a_gap_is_refused_whether_it_is_closed_or_not() {
    let mut fixture = Fixture::new().await;
    let handle = fixture.handle(7, Access::ReadWrite);
    let over = |connected| Shown {
        handle: &handle,
        connected,
    };
    let bytes = Bytes::from_static(b"bytes");
    let server = fixture.server.clone();
    let before = server.connected();
    let written = server.write(over(before), 0, bytes.clone(), Stability::File);
    written.await.unwrap();
    // Longer than the lease.
    let asleep = Duration::from_secs(1000).as_micros() as u64;
    fixture.suspended.fetch_add(asleep, Ordering::SeqCst);
    assert_eq!(server.check(over(before)).await, Err(NotServed::Stale));
    fixture.lease(IssueNumber(5), 1).await;
    assert_eq!(server.check(over(before)).await, Err(NotServed::Stale));
    let late = server.write(over(before), 0, bytes, Stability::File).await;
    assert_eq!(late.map(|_| ()), Err(NotServed::Stale));
    assert_eq!(server.check(over(server.connected())).await, Ok(()));
}
