//! OPEN, CLOSE and OPEN_DOWNGRADE: shares and what they deny, claims, stateids and the current stateid
//! (RFC 8881, sections 8.2, 9.7, 9.10, 16.2.3.1.2, 18.2, 18.16, 18.18).

use crate::fixture::operations::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Successful, encoded, go_to, last, mode, statuses};
use nfs4::{
    ArgOp4, Attr, Attributes4, CreateHow4, CreateVerfAttr, NfsStat4, OpenArgs, OpenClaim4,
    OpenDelegation4, OpenDelegationType4, OpenFlag4, OpenNoneDelegation4, StableHow4, Stateid4,
    Verifier4, share,
};
use xdr::Bytes;

fn create(name: &str, how: CreateHow4) -> OpenArgs {
    OpenArgs {
        openhow: OpenFlag4::Create(how),
        ..make_args("opener", name)
    }
}

fn denying(open_owner: &str, access: u32, deny: u32) -> OpenArgs {
    OpenArgs {
        share_deny: deny,
        ..open_args(open_owner, access)
    }
}

async fn opened(client: &Client, path: &str, args: OpenArgs) -> NfsStat4 {
    client.status_at(path, [ArgOp4::Open(args)]).await
}

fn mode_and_size(mode: u32, size: u64) -> nfs4::Fattr4 {
    encoded(&Attributes4 {
        mode: Some(mode),
        size: Some(size),
        ..Attributes4::default()
    })
}

#[tokio::test]
async fn stateids_start_at_one_and_go_up_with_every_open() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (_, first) = client.open_new("file").await;
    let reader = open_args("opener", share::ACCESS_READ);
    let (_, second) = client.open_at("/export/file", reader.clone()).await;
    assert_eq!((first.seqid, second.seqid), (1, 2));
    assert_eq!(first.other, second.other);
    let close_with = |stateid| client.at("/export/file", [close(stateid)]);
    assert_eq!(close_with(first).await.status, NfsStat4::OldStateid);
    let future = Stateid4 { seqid: 3, ..second };
    assert_eq!(close_with(future).await.status, NfsStat4::BadStateid);
    let current = Stateid4 { seqid: 0, ..second };
    close_with(current).await.ok();
    assert_eq!(close_with(second).await.status, NfsStat4::BadStateid);
    for special in [
        Stateid4::ANONYMOUS,
        Stateid4::READ_BYPASS,
        Stateid4::INVALID,
    ] {
        assert_eq!(close_with(special).await.status, NfsStat4::BadStateid);
    }
}

#[tokio::test]
async fn an_unchecked_create_of_what_exists_ignores_all_but_a_size_of_zero() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let make = |mode, size| create("file", CreateHow4::Unchecked(mode_and_size(mode, size)));
    let expect = async |mode, size| {
        let found = client
            .attributes("/export/file", &[Attr::Mode, Attr::Size])
            .await;
        assert_eq!((found.mode, found.size), (Some(mode), Some(size)));
    };
    assert_eq!(
        opened(&client, "/export", make(0o644, 32)).await,
        NfsStat4::Ok
    );
    expect(0o644, 32).await;
    assert_eq!(
        opened(&client, "/export", make(0o600, 16)).await,
        NfsStat4::Ok
    );
    expect(0o644, 32).await;
    assert_eq!(
        opened(&client, "/export", make(0o600, 0)).await,
        NfsStat4::Ok
    );
    expect(0o644, 0).await;
}

#[tokio::test]
async fn exclusive_creates_are_recognised_by_their_verifier() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let with = |verifier| {
        CreateHow4::Exclusive41(CreateVerfAttr {
            verf: Verifier4([verifier; 8]),
            attrs: mode(0o640),
        })
    };
    let reply = client
        .at("/export", [ArgOp4::Open(create("file", with(1)))])
        .await;
    let made = last!(reply, Open);
    assert!(made.attrset.contains(Attr::Mode));
    assert_eq!(
        opened(&client, "/export", create("file", with(1))).await,
        NfsStat4::Ok
    );
    assert_eq!(
        opened(&client, "/export", create("file", with(2))).await,
        NfsStat4::Exist
    );
    let old = |verifier| CreateHow4::Exclusive(Verifier4([verifier; 8]));
    assert_eq!(
        opened(&client, "/export", create("old", old(1))).await,
        NfsStat4::Ok
    );
    assert_eq!(
        opened(&client, "/export", create("old", old(1))).await,
        NfsStat4::Ok
    );
    assert_eq!(
        opened(&client, "/export", create("old", old(2))).await,
        NfsStat4::Exist
    );
    let guarded = create("file", CreateHow4::Guarded(mode(0o600)));
    assert_eq!(opened(&client, "/export", guarded).await, NfsStat4::Exist);
}

/// At one time any client that knew the verifier had the file, whatever its mode, and two clients that said the same
/// had both made it.
#[tokio::test]
async fn a_verifier_is_nobody_elses_and_ends_with_the_first_use() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client
        .at("/export", [setattr(Stateid4::ANONYMOUS, mode(0o777))])
        .await
        .ok();
    let exclusive = |name: &str| {
        let how = CreateHow4::Exclusive41(CreateVerfAttr {
            verf: Verifier4([7; 8]),
            attrs: mode(0o600),
        });
        create(name, how)
    };
    let owner = client.as_user(10, 10, &[]);
    let again = async |by: &Client, name: &str| opened(by, "/export", exclusive(name)).await;
    assert_eq!(again(&owner, "secret").await, NfsStat4::Ok);
    assert_eq!(again(&owner, "secret").await, NfsStat4::Ok);
    let other_client = fixture.client().await.as_user(10, 10, &[]);
    let other_user = client.as_user(11, 11, &[]);
    for stranger in [&other_client, &other_user, &client] {
        assert_eq!(again(stranger, "secret").await, NfsStat4::Exist);
    }
    // Setting attributes is a use, and so is writing.
    let set = [setattr(Stateid4::ANONYMOUS, mode(0o640))];
    owner.at("/export/secret", set).await.ok();
    assert_eq!(again(&owner, "secret").await, NfsStat4::Exist);
    assert_eq!(again(&owner, "written").await, NfsStat4::Ok);
    let data = Bytes::from_static(b"x");
    let write = write(Stateid4::ANONYMOUS, 0, StableHow4::FileSync, data);
    owner.at("/export/written", [write]).await.ok();
    assert_eq!(again(&owner, "written").await, NfsStat4::Exist);
}

/// Once a stateid of a write-only open read what its user could not have opened for reading, and what others denied.
#[tokio::test]
async fn a_write_only_open_reads_only_what_could_be_opened_for_reading() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make_file("/export", "file").await;
    let set = |bits| [setattr(Stateid4::ANONYMOUS, mode(bits))];
    client.at("/export/file", set(0o622)).await.ok();
    let user = client.as_user(11, 11, &[]);
    let (handle, stateid) = user
        .open_at("/export/file", open_args("writer", share::ACCESS_WRITE))
        .await;
    let look = || [read(stateid, 0, 10)];
    assert_eq!(user.status_on(&handle, look()).await, NfsStat4::OpenMode);
    client.at("/export/file", set(0o666)).await.ok();
    assert_eq!(user.status_on(&handle, look()).await, NfsStat4::Ok);
    let denying = OpenArgs {
        share_deny: share::DENY_READ,
        ..open_args("denier", share::ACCESS_WRITE)
    };
    let other = fixture.client().await;
    let (_, denied) = other.open_at("/export/file", denying).await;
    assert_eq!(user.status_on(&handle, look()).await, NfsStat4::Locked);
    other.on(&handle, [close(denied)]).await.ok();
    assert_eq!(user.status_on(&handle, look()).await, NfsStat4::Ok);
}

#[tokio::test]
async fn only_regular_files_are_opened() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for (name, expected) in [
        ("directory", NfsStat4::IsDir),
        ("symlink", NfsStat4::Symlink),
        ("fifo", NfsStat4::WrongType),
        ("socket", NfsStat4::WrongType),
        ("device", NfsStat4::WrongType),
    ] {
        let by_name = OpenArgs {
            claim: OpenClaim4::Null(name.into()),
            ..open_args("o", share::ACCESS_READ)
        };
        assert_eq!(
            opened(&client, "/export", by_name).await,
            expected,
            "{name}"
        );
        let by_handle = open_args("o", share::ACCESS_READ);
        let path = format!("/export/{name}");
        assert_eq!(opened(&client, &path, by_handle).await, expected, "{name}");
        let guarded = create(name, CreateHow4::Guarded(mode(0o600)));
        assert_eq!(opened(&client, "/export", guarded).await, NfsStat4::Exist);
    }
    let below = OpenArgs {
        claim: OpenClaim4::Null("x".into()),
        ..open_args("o", share::ACCESS_READ)
    };
    let not_a_directory = opened(&client, "/export/file", below.clone()).await;
    assert_eq!(not_a_directory, NfsStat4::NotDir);
    let nowhere = client.compound(vec![ArgOp4::Open(below)]).await;
    assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
}

#[tokio::test]
async fn attributes_of_a_create_are_checked() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let read_only = encoded(&Attributes4 {
        link_support: Some(true),
        ..Attributes4::default()
    });
    let mut unsupported = mode(0o600);
    unsupported.attrmask.insert(Attr::Hidden);
    for (attributes, expected) in [
        (read_only, NfsStat4::Inval),
        (unsupported, NfsStat4::AttrNotSupp),
        (mode(0o10000), NfsStat4::Inval),
        (mode_and_size(0o600, u64::MAX), NfsStat4::FBig),
    ] {
        let args = create("file", CreateHow4::Guarded(attributes));
        assert_eq!(opened(&client, "/export", args).await, expected);
    }
    let umask = encoded(&Attributes4 {
        mode_umask: Some(nfs4::attributes::ModeUmask4 {
            mode: 0o666,
            umask: 0o022,
        }),
        ..Attributes4::default()
    });
    let args = create("file", CreateHow4::Guarded(umask));
    let of_4_1 = client.with_minor_version(1);
    let unknown = opened(&of_4_1, "/export", args.clone()).await;
    assert_eq!(unknown, NfsStat4::AttrNotSupp);
    assert_eq!(opened(&client, "/export", args).await, NfsStat4::Ok);
}

#[tokio::test]
async fn access_and_deny_have_known_bits() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make_file("/export", "file").await;
    for (access, deny) in [(0, 0), (4, 0), (1, 4), (0x0601, 0), (0x0800_0001, 0)] {
        let args = denying("o", access, deny);
        let status = opened(&client, "/export/file", args).await;
        assert_eq!(status, NfsStat4::Inval, "{access:#x} {deny:#x}");
    }
    let wishes = [
        0, 0x100, 0x200, 0x300, 0x400, 0x500, 0x1_0300, 0x2_0300, 0x30_0300,
    ];
    for wish in wishes {
        let reply = client
            .at(
                "/export/file",
                [ArgOp4::Open(open_args("o", wish | share::ACCESS_READ))],
            )
            .await;
        let told = last!(reply, Open).delegation;
        let expected = match wish {
            0 => OpenDelegation4::None,
            0x400 => OpenDelegation4::NoneExt(OpenNoneDelegation4::NotWanted),
            0x500 => OpenDelegation4::NoneExt(OpenNoneDelegation4::Cancelled),
            _ => OpenDelegation4::NoneExt(OpenNoneDelegation4::Resource(false)),
        };
        assert_eq!(told, expected, "{wish:#x}");
    }
}

#[tokio::test]
async fn shares_conflict_between_owners_and_within_one() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make_file("/export", "file").await;
    let quiet = denying("first", share::ACCESS_BOTH, share::DENY_READ);
    let (_, held) = client.open_at("/export/file", quiet).await;
    for owner in ["first", "second"] {
        let status = async |access, deny| {
            opened(&client, "/export/file", denying(owner, access, deny)).await
        };
        // The owner's own open makes no exception (RFC 8881, section 18.16.3).
        let reading = status(share::ACCESS_READ, share::DENY_NONE).await;
        assert_eq!(reading, NfsStat4::ShareDenied, "{owner}");
        let denying_writers = status(share::ACCESS_WRITE, share::DENY_WRITE).await;
        assert_eq!(denying_writers, NfsStat4::ShareDenied, "{owner}");
        let writing = status(share::ACCESS_WRITE, share::DENY_NONE).await;
        assert_eq!(writing, NfsStat4::Ok, "{owner}");
    }
    let current = Stateid4 { seqid: 0, ..held };
    client.at("/export/file", [close(current)]).await.ok();
    let reading = denying("third", share::ACCESS_READ, share::DENY_NONE);
    assert_eq!(opened(&client, "/export/file", reading).await, NfsStat4::Ok);
}

/// READ, WRITE and SETATTR of the size without an open have a status of their own for what others deny
/// (RFC 8881, section 15.2).
#[tokio::test]
async fn what_an_open_denies_is_locked_for_those_without_an_open() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (handle, _) = client.open_new("file").await;
    let none = Stateid4::ANONYMOUS;
    let write = write(none, 0, StableHow4::Unstable, Bytes::from_static(b"data"));
    let resize = encoded(&Attributes4 {
        size: Some(9),
        ..Attributes4::default()
    });
    for (deny, reading, writing) in [
        (share::DENY_READ, NfsStat4::Locked, NfsStat4::Ok),
        (share::DENY_WRITE, NfsStat4::Ok, NfsStat4::Locked),
        (share::DENY_BOTH, NfsStat4::Locked, NfsStat4::Locked),
    ] {
        let args = OpenArgs {
            share_deny: deny,
            ..make_args("denier", "denied")
        };
        let (denied, stateid) = client.open_at("/export", args).await;
        assert_eq!(client.status_on(&denied, [read(none, 0, 1)]).await, reading);
        assert_eq!(client.status_on(&denied, [write.clone()]).await, writing);
        let resizing = setattr(none, resize.clone());
        assert_eq!(client.status_on(&denied, [resizing]).await, writing);
        client.on(&denied, [close(stateid)]).await.ok();
    }
    client.on(&handle, [read(none, 0, 1), write]).await.ok();
}

#[tokio::test]
async fn an_open_for_one_use_is_not_one_for_another() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make_file("/export", "file").await;
    let reader = open_args("reader", share::ACCESS_READ);
    let (handle, reading) = client.open_at("/export/file", reader).await;
    let write = |stateid| write(stateid, 0, StableHow4::Unstable, Bytes::from_static(b"x"));
    let resize = |stateid| {
        let size = Attributes4 {
            size: Some(10),
            ..Attributes4::default()
        };
        setattr(stateid, encoded(&size))
    };
    let refused = client.status_on(&handle, [write(reading)]).await;
    assert_eq!(refused, NfsStat4::OpenMode);
    let refused = client.status_on(&handle, [resize(reading)]).await;
    assert_eq!(refused, NfsStat4::OpenMode);
    // Clients that fill pages before they write read through an open for writing.
    let writer = open_args("writer", share::ACCESS_WRITE);
    let (_, writing) = client.open_at("/export/file", writer).await;
    client
        .on(
            &handle,
            [write(writing), resize(writing), read(writing, 0, 9)],
        )
        .await
        .ok();
    // The stateid of another file is none for this one.
    let (other, _) = client.open_new("other").await;
    for op in [write(writing), resize(writing), read(writing, 0, 1)] {
        assert_eq!(client.status_on(&other, [op]).await, NfsStat4::BadStateid);
    }
    // Without a size, the stateid does not matter.
    client
        .on(&other, [setattr(writing, mode(0o600))])
        .await
        .ok();
}

#[tokio::test]
async fn downgrades_go_back_to_what_was_opened() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make_file("/export", "file").await;
    let open = async |access| {
        client
            .open_at("/export/file", open_args("o", access))
            .await
            .1
    };
    let down = async |stateid, access| {
        client
            .at(
                "/export/file",
                [open_downgrade(stateid, access, share::DENY_NONE)],
            )
            .await
    };
    let both = open(share::ACCESS_BOTH).await;
    let never = down(both, share::ACCESS_READ).await;
    assert_eq!(never.status, NfsStat4::Inval);
    open(share::ACCESS_READ).await;
    let third = open(share::ACCESS_WRITE).await;
    // A wish about delegations changes nothing here.
    let reply = down(third, share::ACCESS_READ | share::WANT_NO_DELEG).await;
    let lowered = last!(reply, OpenDowngrade).open_stateid;
    assert_eq!(lowered.seqid, third.seqid + 1);
    assert_eq!(
        down(third, share::ACCESS_READ).await.status,
        NfsStat4::OldStateid
    );
    assert_eq!(
        down(lowered, share::ACCESS_BOTH).await.status,
        NfsStat4::Inval
    );
    assert_eq!(down(lowered, 0).await.status, NfsStat4::Inval);
    let special = down(Stateid4::ANONYMOUS, share::ACCESS_READ).await;
    assert_eq!(special.status, NfsStat4::BadStateid);
    let write = write(lowered, 0, StableHow4::Unstable, Bytes::from_static(b"x"));
    let refused = client.status_at("/export/file", [write]).await;
    assert_eq!(refused, NfsStat4::OpenMode);
}

#[tokio::test]
async fn reclaims_and_delegations_have_their_time() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (handle, _) = client.open_new("file").await;
    let claim = async |claim| {
        let args = OpenArgs {
            claim,
            ..open_args("o", share::ACCESS_READ)
        };
        client.status_on(&handle, [ArgOp4::Open(args)]).await
    };
    let previous = OpenClaim4::Previous(OpenDelegationType4::None);
    assert_eq!(claim(previous).await, NfsStat4::NoGrace);
    let held = OpenClaim4::DelegCurFh(Stateid4::ANONYMOUS);
    assert_eq!(claim(held).await, NfsStat4::BadStateid);
    assert_eq!(claim(OpenClaim4::DelegPrevFh).await, NfsStat4::NotSupp);
    let returned = ArgOp4::Delegreturn(nfs4::DelegreturnArgs {
        stateid: Stateid4::ANONYMOUS,
    });
    let nowhere = client.compound(vec![returned.clone()]).await;
    assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
    assert_eq!(
        client.status_on(&handle, [returned]).await,
        NfsStat4::BadStateid
    );
}

#[tokio::test]
async fn nothing_new_is_opened_before_reclaiming_is_complete() {
    use crate::fixture::sessions::*;
    let fixture = Fixture::new();
    fixture.service.housekeep().await;
    let client = fixture.stranger();
    let known = client.introduce(introduction("early")).await;
    let request = session_request(known.clientid, known.sequenceid);
    let client = client.in_session(client.request_session(request).await.sessionid);
    let open = || opened(&client, "/export", make_args("o", "file"));
    assert_eq!(open().await, NfsStat4::Grace);
    let one_file_system = ArgOp4::ReclaimComplete(nfs4::ReclaimCompleteArgs { one_fs: true });
    let nowhere = client.compound(vec![one_file_system.clone()]).await;
    assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
    client
        .compound(vec![putrootfh(), one_file_system])
        .await
        .ok();
    assert_eq!(open().await, NfsStat4::Grace);
    client.compound(vec![reclaim_complete()]).await.ok();
    assert_eq!(open().await, NfsStat4::Ok);
    let again = client.compound(vec![reclaim_complete()]).await;
    assert_eq!(again.status, NfsStat4::CompleteAlready);
}

#[tokio::test]
async fn the_current_stateid_is_that_of_the_current_file() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let current = Stateid4::CURRENT;
    let data = Bytes::from_static(b"data");
    let open = |name: &str| {
        let mut ops = go_to("/export");
        ops.push(ArgOp4::Open(make_args("o", name)));
        ops
    };
    let size = encoded(&Attributes4 {
        size: Some(8),
        ..Attributes4::default()
    });
    let fine = [
        vec![close(current)],
        vec![
            write(current, 5, StableHow4::FileSync, data),
            close(current),
        ],
        vec![
            getfh(),
            setattr(current, size),
            read(current, 0, 8),
            close(current),
        ],
        vec![savefh(), putrootfh(), restorefh(), close(current)],
        vec![
            open_downgrade(current, share::ACCESS_BOTH, 0),
            close(current),
        ],
    ];
    for ops in fine {
        client.compound([open("file"), ops].concat()).await.ok();
    }
    let lost = [
        [open("file"), go_to("/export/file"), vec![close(current)]].concat(),
        [open("file"), vec![close(current), close(current)]].concat(),
        [go_to("/export/file"), vec![close(current)]].concat(),
        [
            go_to("/export/file"),
            vec![savefh()],
            open("file"),
            vec![restorefh(), close(current)],
        ]
        .concat(),
    ];
    for ops in lost {
        let reply = client.compound(ops).await;
        assert_eq!(reply.status, NfsStat4::BadStateid, "{:?}", statuses(&reply));
    }
}

#[tokio::test]
async fn stateids_are_tested_and_freed() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (handle, held) = client.open_new("file").await;
    let lock = client
        .lock_on(&handle, first_lock(held, "locker", 0, 9))
        .await;
    let relock = ArgOp4::Lock(next_lock(lock, 20, 9));
    client.on(&handle, [relock]).await.ok();
    let latest = Stateid4 { seqid: 2, ..lock };
    let asked = [
        held,
        latest,
        lock,
        Stateid4 { seqid: 3, ..lock },
        Stateid4::ANONYMOUS,
    ];
    let reply = client.compound(vec![test_stateid(&asked)]).await;
    let expected = [
        NfsStat4::Ok,
        NfsStat4::Ok,
        NfsStat4::OldStateid,
        NfsStat4::BadStateid,
        NfsStat4::BadStateid,
    ];
    assert_eq!(last!(reply, TestStateid).status_codes, expected);
    let foreign = fixture
        .client()
        .await
        .compound(vec![test_stateid(&[held])])
        .await;
    assert_eq!(
        last!(foreign, TestStateid).status_codes,
        [NfsStat4::BadStateid]
    );

    let free = async |stateid| client.compound(vec![free_stateid(stateid)]).await.status;
    assert_eq!(free(held).await, NfsStat4::LocksHeld);
    let future = Stateid4 { seqid: 9, ..held };
    assert_eq!(free(future).await, NfsStat4::BadStateid);
    assert_eq!(free(latest).await, NfsStat4::LocksHeld);
    client.on(&handle, [locku(latest, 0, u64::MAX)]).await.ok();
    assert_eq!(free(latest).await, NfsStat4::OldStateid);
    let last = Stateid4 { seqid: 3, ..lock };
    assert_eq!(free(last).await, NfsStat4::Ok);
    assert_eq!(free(last).await, NfsStat4::BadStateid);
    let mut ops = go_to("/export");
    ops.extend([
        ArgOp4::Open(make_args("o", "file")),
        free_stateid(Stateid4::CURRENT),
    ]);
    assert_eq!(client.compound(ops).await.status, NfsStat4::LocksHeld);
}
