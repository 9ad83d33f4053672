//! READ, WRITE, COMMIT, SETATTR, ALLOCATE and SEEK at the ends of what a file and a number can be
//! (RFC 8881, sections 18.3, 18.22, 18.30, 18.32; RFC 7862, sections 15.1, 15.4, 15.11).

use crate::fixture::operations::*;
use crate::fixture::{Fixture, Successful, encoded, last, mode};
use nfs4::attributes::Settime4;
use nfs4::{
    AllocateArgs, ArgOp4, Attr, Attributes4, Bitmap4, DataContent4, DeallocateArgs, NfsStat4,
    Nfstime4, SeekArgs, StableHow4, Stateid4,
};
use xdr::Bytes;

/// What every kind of object but a regular file says to operations on data.
const NO_FILES: [(&str, NfsStat4); 6] = [
    ("/", NfsStat4::IsDir),
    ("/export/directory", NfsStat4::IsDir),
    ("/export/symlink", NfsStat4::Symlink),
    ("/export/fifo", NfsStat4::WrongType),
    ("/export/socket", NfsStat4::WrongType),
    ("/export/device", NfsStat4::WrongType),
];

fn put(offset: u64, data: &'static [u8]) -> ArgOp4 {
    let none = Stateid4::ANONYMOUS;
    write(none, offset, StableHow4::FileSync, Bytes::from_static(data))
}

fn size(size: u64) -> nfs4::Fattr4 {
    encoded(&Attributes4 {
        size: Some(size),
        ..Attributes4::default()
    })
}

#[tokio::test]
async fn only_regular_files_have_data() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let none = Stateid4::ANONYMOUS;
    for (path, expected) in NO_FILES {
        for operation in [read(none, 0, 1), put(0, b"x"), commit(0, 0)] {
            let status = client.status_at(path, [operation.clone()]).await;
            assert_eq!(status, expected, "{path}: {operation:?}");
        }
    }
    for operation in [read(none, 0, 1), put(0, b"x"), commit(0, 0)] {
        let nowhere = client.compound(vec![operation]).await;
        assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
    }
}

#[tokio::test]
async fn reads_end_where_the_file_ends() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client.at("/export/file", [put(5, b"data")]).await.ok();
    for stateid in [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS] {
        for (offset, count, expected, eof) in [
            (0, 1000, &b"\0\0\0\0\0data"[..], true),
            (0, 9, b"\0\0\0\0\0data", true),
            (4, 3, b"\0da", false),
            (5, 0, b"", false),
            (9, 0, b"", true),
            (9, 1, b"", true),
            (1000, 10, b"", true),
            (u64::MAX, 1, b"", true),
            (u64::MAX, u32::MAX, b"", true),
        ] {
            let reply = client
                .at("/export/file", [read(stateid, offset, count)])
                .await;
            let got = last!(reply, Read);
            assert_eq!(
                (&got.data[..], got.eof),
                (expected, eof),
                "{offset} {count}"
            );
        }
    }
}

#[tokio::test]
async fn files_end_before_the_largest_number() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let found = client
        .attributes("/export/file", &[Attr::Maxfilesize])
        .await;
    let largest = found.maxfilesize.unwrap();
    let at = async |operation| client.status_at("/export/file", [operation]).await;
    for offset in [largest, u64::MAX - 1, u64::MAX] {
        assert_eq!(at(put(offset, b"x")).await, NfsStat4::FBig, "{offset}");
        let too_large = setattr(Stateid4::ANONYMOUS, size(offset.saturating_add(1)));
        assert_eq!(at(too_large).await, NfsStat4::FBig, "{offset}");
    }
    assert_eq!(
        at(setattr(Stateid4::ANONYMOUS, size(largest))).await,
        NfsStat4::Ok
    );
    assert_eq!(
        at(setattr(Stateid4::ANONYMOUS, size(0))).await,
        NfsStat4::Ok
    );
    assert_eq!(at(commit(u64::MAX - 15, 64)).await, NfsStat4::Inval);
    for (offset, count) in [(0, 0), (1, 1), (0, u32::MAX), (u64::MAX - 1, 1)] {
        assert_eq!(
            at(commit(offset, count)).await,
            NfsStat4::Ok,
            "{offset} {count}"
        );
    }
}

#[tokio::test]
async fn writing_nothing_changes_nothing() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let asked = [Attr::Size, Attr::Change, Attr::TimeModify];
    let before = client.attributes("/export/file", &asked).await;
    let reply = client.at("/export/file", [put(5, b"")]).await;
    assert_eq!(last!(reply, Write).count, 0);
    assert_eq!(client.attributes("/export/file", &asked).await, before);
}

#[tokio::test]
async fn writes_are_at_least_as_stable_as_asked_for() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for (stable, least) in [
        (StableHow4::Unstable, 0),
        (StableHow4::DataSync, 1),
        (StableHow4::FileSync, 2),
    ] {
        let data = Bytes::from_static(b"x");
        let operation = write(Stateid4::READ_BYPASS, 0, stable, data);
        let written = last!(client.at("/export/file", [operation]).await, Write);
        assert_eq!(written.count, 1);
        assert!(written.committed as u32 >= least);
        let kept = last!(client.at("/export/file", [commit(0, 0)]).await, Commit);
        assert_eq!(kept.writeverf, written.writeverf);
    }
}

/// A client by others set size and time in one request and found the time of the request instead.
#[tokio::test]
async fn what_is_set_together_with_the_size_stays_as_it_was_set() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let time = Nfstime4 {
        seconds: 1_000_000_007,
        nseconds: 999_999_999,
    };
    let owned = encoded(&Attributes4 {
        owner: Some("1000".into()),
        ..Attributes4::default()
    });
    client
        .at("/export/file", [setattr(Stateid4::ANONYMOUS, owned)])
        .await
        .ok();
    let owner = client.as_user(1000, 1000, &[]);
    for new_size in [7, 0] {
        let together = encoded(&Attributes4 {
            size: Some(new_size),
            mode: Some(0o4755),
            time_modify_set: Some(Settime4::ClientTime(time)),
            ..Attributes4::default()
        });
        let set = setattr(Stateid4::ANONYMOUS, together);
        owner.at("/export/file", [set]).await.ok();
        let asked = [Attr::Size, Attr::Mode, Attr::TimeModify];
        let found = client.attributes("/export/file", &asked).await;
        assert_eq!((found.size, found.mode), (Some(new_size), Some(0o4755)));
        assert_eq!(found.time_modify, Some(time));
    }
}

/// A mask may be longer than all that has a meaning today.
#[tokio::test]
async fn attributes_that_nobody_knows_are_left_out_and_cannot_be_set() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let unknown: Bitmap4 = [4, 200, Bitmap4::BITS - 1].into_iter().collect();
    let reply = client.at("/export/file", [getattr(unknown)]).await;
    let shown = last!(reply, Getattr).obj_attributes;
    assert_eq!(shown.attrmask, Bitmap4::of(&[Attr::Size]));
    let mut wrong = mode(0o600);
    wrong.attrmask.insert(Bitmap4::BITS - 1);
    let set = setattr(Stateid4::ANONYMOUS, wrong);
    let refused = client.status_at("/export/file", [set]).await;
    assert_eq!(refused, NfsStat4::AttrNotSupp);
}

#[tokio::test]
async fn extents_are_not_empty_and_end_within_a_file() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (handle, open) = client.open_new("file").await;
    let allocate = |stateid, offset, length| {
        ArgOp4::Allocate(AllocateArgs {
            stateid,
            offset,
            length,
        })
    };
    let deallocate = |offset, length| {
        ArgOp4::Deallocate(DeallocateArgs {
            stateid: open,
            offset,
            length,
        })
    };
    let on = async |operation| client.status_on(&handle, [operation]).await;
    for (offset, length, expected) in [
        (0, 0, NfsStat4::Inval),
        (u64::MAX, 2, NfsStat4::Inval),
        (1 << 63, 1, NfsStat4::FBig),
    ] {
        assert_eq!(on(allocate(open, offset, length)).await, expected);
        assert_eq!(on(deallocate(offset, length)).await, expected);
    }
    for stateid in [open, Stateid4::ANONYMOUS, Stateid4::READ_BYPASS] {
        assert_eq!(on(allocate(stateid, 0, 1)).await, NfsStat4::Ok);
    }
    assert_eq!(on(deallocate(0, 4096)).await, NfsStat4::Ok);
    let seek = |offset, what| {
        ArgOp4::Seek(SeekArgs {
            stateid: open,
            offset,
            what,
        })
    };
    for offset in [1, u64::MAX] {
        assert_eq!(on(seek(offset, DataContent4::Data)).await, NfsStat4::Nxio);
        assert_eq!(on(seek(offset, DataContent4::Hole)).await, NfsStat4::Nxio);
    }
}
