//! LOCK, LOCKT and LOCKU: ranges to the last byte, owners, splitting and merging (RFC 8881, sections 9.1 to
//! 9.3, 18.10 to 18.12).

use crate::fixture::operations::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Successful};
use nfs4::{
    ArgOp4, Lock4Denied, LockArgs, LockRes, LocktRes, NfsFh4, NfsLockType4, NfsStat4, ResOp4,
    Stateid4, share,
};

/// A file that a client has open, and a lock of the whole of it or less.
struct Scene {
    fixture: Fixture,
    client: Client,
    handle: NfsFh4,
    open: Stateid4,
}

impl Scene {
    async fn new() -> Scene {
        let fixture = Fixture::new();
        let client = fixture.client().await;
        let (handle, open) = client.open_new("file").await;
        Scene {
            fixture,
            client,
            handle,
            open,
        }
    }

    async fn lock(&self, owner: &str, offset: u64, length: u64) -> Stateid4 {
        let args = first_lock(self.open, owner, offset, length);
        self.client.lock_on(&self.handle, args).await
    }

    async fn try_lock(&self, args: LockArgs) -> NfsStat4 {
        self.client
            .status_on(&self.handle, [ArgOp4::Lock(args)])
            .await
    }

    async fn unlock(&self, lock: Stateid4, offset: u64, length: u64) -> Stateid4 {
        let reply = self
            .client
            .on(&self.handle, [locku(lock, offset, length)])
            .await;
        crate::fixture::last!(reply, Locku).lock_stateid
    }

    /// What stands in another owner's way.
    async fn in_the_way(&self, offset: u64, length: u64) -> Option<Lock4Denied> {
        let test = lockt("tester", NfsLockType4::Write, offset, length);
        match self.client.on(&self.handle, [test]).await.results.pop() {
            Some(ResOp4::Lockt(LocktRes::Denied(denied))) => Some(denied),
            Some(ResOp4::Lockt(LocktRes::Ok)) => None,
            other => panic!("{other:?}"),
        }
    }

    async fn range_in_the_way(&self) -> Option<(u64, u64)> {
        let denied = self.in_the_way(0, u64::MAX).await;
        denied.map(|denied| (denied.offset, denied.length))
    }
}

#[tokio::test]
async fn ranges_have_a_length_and_do_not_wrap() {
    let scene = Scene::new().await;
    let lock = scene.lock("held", 1 << 40, 1).await;
    for (offset, length) in [(25, 0), (100, u64::MAX - 1), (u64::MAX, 2)] {
        let new = first_lock(scene.open, "owner", offset, length);
        assert_eq!(
            scene.try_lock(new).await,
            NfsStat4::Inval,
            "{offset} {length}"
        );
        let next = next_lock(lock, offset, length);
        assert_eq!(
            scene.try_lock(next).await,
            NfsStat4::Inval,
            "{offset} {length}"
        );
        for operation in [
            lockt("tester", NfsLockType4::Read, offset, length),
            locku(lock, offset, length),
        ] {
            let status = scene.client.status_on(&scene.handle, [operation]).await;
            assert_eq!(status, NfsStat4::Inval, "{offset} {length}");
        }
    }
    scene.unlock(lock, 0, u64::MAX).await;
    for (offset, length) in [(u64::MAX, 1), (u64::MAX, u64::MAX), (100, u64::MAX - 100)] {
        let lock = scene.lock("edge", offset, length).await;
        let free = scene.unlock(lock, 0, u64::MAX).await;
        scene.client.compound(vec![free_stateid(free)]).await.ok();
    }
}

#[tokio::test]
async fn overlapping_and_touching_locks_of_an_owner_become_one() {
    let scene = Scene::new().await;
    let lock = scene.lock("owner", 25, 75).await;
    assert_eq!(scene.try_lock(next_lock(lock, 50, 75)).await, NfsStat4::Ok);
    assert_eq!(scene.range_in_the_way().await, Some((25, 100)));
    let lock = Stateid4 { seqid: 2, ..lock };
    let lock = scene.unlock(lock, 60, 10).await;
    assert_eq!(scene.range_in_the_way().await, Some((25, 35)));
    let behind = scene.in_the_way(60, u64::MAX).await.unwrap();
    assert_eq!((behind.offset, behind.length), (70, 55));
    // What is not locked can be unlocked.
    let lock = scene.unlock(lock, 0, 20).await;
    scene.unlock(lock, 0, 1 << 48).await;
    assert_eq!(scene.range_in_the_way().await, None);
}

#[tokio::test]
async fn a_lock_changes_between_reading_and_writing() {
    let scene = Scene::new().await;
    let lock = scene.lock("owner", 25, 75).await;
    for (number, kind) in [(1, NfsLockType4::Read), (2, NfsLockType4::Write)] {
        let args = LockArgs {
            locktype: kind,
            ..next_lock(
                Stateid4 {
                    seqid: number,
                    ..lock
                },
                25,
                75,
            )
        };
        assert_eq!(scene.try_lock(args).await, NfsStat4::Ok);
        let denied = scene.in_the_way(30, 1).await.unwrap();
        assert_eq!(denied.locktype, kind);
    }
}

#[tokio::test]
async fn who_is_refused_learns_by_whom() {
    let scene = Scene::new().await;
    scene.lock("owner", 10, 10).await;
    let mut reply = scene
        .client
        .on(
            &scene.handle,
            [ArgOp4::Lock(first_lock(scene.open, "other", 0, 11))],
        )
        .await;
    assert_eq!(reply.status, NfsStat4::Denied);
    let Some(ResOp4::Lock(LockRes::Denied(denied))) = reply.results.pop() else {
        panic!("{reply:?}");
    };
    assert_eq!((denied.offset, denied.length), (10, 10));
    assert_eq!(
        (denied.owner.clientid, &denied.owner.owner[..]),
        (scene.client.id, &b"owner"[..])
    );
    // An owner is not in its own way, and two readers are not in each other's.
    let own = lockt("owner", NfsLockType4::Write, 0, u64::MAX);
    scene.client.on(&scene.handle, [own]).await.ok();
    let beside = lockt("other", NfsLockType4::Write, 20, u64::MAX);
    scene.client.on(&scene.handle, [beside]).await.ok();
}

/// A client that was refused a lock learned the clientid of the holder, and could make sessions in his name: renew his lease for ever, use
/// his opens by their owners, give his locks back.
#[tokio::test]
async fn who_is_refused_does_not_learn_how_to_speak_for_the_holder() {
    let scene = Scene::new().await;
    scene.lock("owner", 10, 10).await;
    let other = scene.fixture.client().await;
    let (_, open) = other
        .open_at("/export/file", open_args("other", share::ACCESS_BOTH))
        .await;
    let lock = ArgOp4::Lock(first_lock(open, "other", 0, 11));
    let test = lockt("other", NfsLockType4::Write, 0, 11);
    for asked in [lock, test] {
        let denied = match other.on(&scene.handle, [asked]).await.results.pop() {
            Some(ResOp4::Lock(LockRes::Denied(denied))) => denied,
            Some(ResOp4::Lockt(LocktRes::Denied(denied))) => denied,
            told => panic!("{told:?}"),
        };
        let told = (denied.owner.clientid, &denied.owner.owner[..]);
        assert_eq!(told, (0, &b"owner"[..]));
    }
}

#[tokio::test]
async fn locks_need_an_open_of_their_kind() {
    let scene = Scene::new().await;
    let reader = open_args("reader", share::ACCESS_READ);
    let (_, reading) = scene.client.open_at("/export/file", reader).await;
    let wish = |locktype, stateid| LockArgs {
        locktype,
        ..first_lock(stateid, "owner", 0, 1)
    };
    let (read, write) = (NfsLockType4::Read, NfsLockType4::Write);
    assert_eq!(
        scene.try_lock(wish(write, reading)).await,
        NfsStat4::OpenMode
    );
    assert_eq!(scene.try_lock(wish(read, reading)).await, NfsStat4::Ok);
    let writer = open_args("writer", share::ACCESS_WRITE);
    let (_, writing) = scene.client.open_at("/export/file", writer).await;
    let other_owner = LockArgs {
        locktype: read,
        ..first_lock(writing, "second", 9, 1)
    };
    assert_eq!(scene.try_lock(other_owner).await, NfsStat4::OpenMode);
}

#[tokio::test]
async fn stateids_of_locks_are_checked() {
    let scene = Scene::new().await;
    let lock = scene.lock("owner", 0, 25).await;
    assert_eq!(lock.seqid, 1);
    assert_eq!(scene.try_lock(next_lock(lock, 50, 25)).await, NfsStat4::Ok);
    assert_eq!(
        scene.try_lock(next_lock(lock, 90, 1)).await,
        NfsStat4::OldStateid
    );
    let future = Stateid4 { seqid: 3, ..lock };
    assert_eq!(
        scene.try_lock(next_lock(future, 90, 1)).await,
        NfsStat4::BadStateid
    );
    // Zero stands for the current one (RFC 8881, section 8.2.2).
    let current = Stateid4 { seqid: 0, ..lock };
    assert_eq!(
        scene.try_lock(next_lock(current, 90, 1)).await,
        NfsStat4::Ok
    );
    for wrong in [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS, scene.open] {
        assert_eq!(
            scene.try_lock(next_lock(wrong, 99, 1)).await,
            NfsStat4::BadStateid
        );
    }
    for wrong in [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS, current] {
        let new = first_lock(wrong, "new", 99, 1);
        assert_eq!(scene.try_lock(new).await, NfsStat4::BadStateid);
    }
    let (other, _) = scene.client.open_new("other").await;
    let elsewhere = ArgOp4::Lock(next_lock(current, 0, 1));
    let status = scene.client.status_on(&other, [elsewhere]).await;
    assert_eq!(status, NfsStat4::BadStateid);
    let nowhere = scene.client.compound(vec![locku(current, 0, 1)]).await;
    assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
}

#[tokio::test]
async fn locks_follow_their_owner_into_the_current_stateid_and_end_with_the_open() {
    let scene = Scene::new().await;
    let data = xdr::Bytes::from_static(b"data");
    let first = ArgOp4::Lock(first_lock(scene.open, "owner", 0, u64::MAX));
    let ops = [
        first.clone(),
        write(Stateid4::CURRENT, 5, nfs4::StableHow4::FileSync, data),
        locku(Stateid4::CURRENT, 0, u64::MAX),
    ];
    scene.client.on(&scene.handle, ops).await.ok();
    assert_eq!(scene.range_in_the_way().await, None);
    scene.client.on(&scene.handle, [first]).await.ok();
    assert_eq!(scene.range_in_the_way().await, Some((0, u64::MAX)));
    scene
        .client
        .on(&scene.handle, [close(scene.open)])
        .await
        .ok();
    assert_eq!(scene.range_in_the_way().await, None);
}

#[tokio::test]
async fn only_regular_files_are_locked() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for (path, expected) in [
        ("/export/file", NfsStat4::Ok),
        ("/export/directory", NfsStat4::IsDir),
        ("/", NfsStat4::IsDir),
        ("/export/symlink", NfsStat4::Symlink),
        ("/export/fifo", NfsStat4::WrongType),
        ("/export/socket", NfsStat4::WrongType),
        ("/export/device", NfsStat4::WrongType),
    ] {
        let test = lockt("tester", NfsLockType4::Write, 0, 1);
        assert_eq!(client.status_at(path, [test]).await, expected, "{path}");
    }
    let nowhere = vec![lockt("tester", NfsLockType4::Write, 0, 1)];
    assert_eq!(
        client.compound(nowhere).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn reclaims_of_locks_have_their_time() {
    let scene = Scene::new().await;
    let reclaim = LockArgs {
        reclaim: true,
        ..first_lock(scene.open, "owner", 0, 1)
    };
    assert_eq!(scene.try_lock(reclaim).await, NfsStat4::NoGrace);
}

/// One lock in as many pieces as a client may have of a file: a client that wanted one more was told to wait, for what it
/// held itself.
#[tokio::test]
async fn who_has_too_many_ranges_locked_gets_an_error_and_need_not_wait() {
    const PIECES: u64 = 16_384;
    let scene = Scene::new().await;
    let mut lock = scene.lock("owner", 0, u64::MAX).await;
    for piece in 1..PIECES {
        lock = scene.unlock(lock, 2 * piece, 1).await;
    }
    let one_more = locku(lock, 2 * PIECES, 1);
    let refused = scene.client.status_on(&scene.handle, [one_more]).await;
    assert_eq!(refused, NfsStat4::ServerFault);
    let refused = scene.try_lock(next_lock(lock, 2, 1)).await;
    assert_eq!(refused, NfsStat4::ServerFault);
    // What makes less of them is done.
    lock = scene.unlock(lock, 0, 100).await;
    let granted = next_lock(lock, 2, 1);
    lock = scene.client.lock_on(&scene.handle, granted).await;
    scene.unlock(lock, 0, u64::MAX).await;
    assert_eq!(scene.range_in_the_way().await, None);
}
