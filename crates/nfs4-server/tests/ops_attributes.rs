//! GETATTR and SETATTR.

use crate::fixture::operations::*;
use crate::fixture::{Client, Fixture, PATHS, Successful, encoded, last, mode};
use nfs4::attributes::{ModeUmask4, Settime4};
use nfs4::{
    Attr, Attributes4, Bitmap4, CreateHow4, CreateType4, Fattr4, NfsStat4, Nfstime4, OpenFlag4,
    Stateid4, Utf8str, share,
};
use xdr::Bytes;

const ANONYMOUS: Stateid4 = Stateid4::ANONYMOUS;

fn with_size(size: u64) -> Fattr4 {
    encoded(&Attributes4 {
        size: Some(size),
        ..Attributes4::default()
    })
}

/// SETATTR at a path: status and what the reply says was set.
async fn set(
    client: &Client,
    path: &str,
    stateid: Stateid4,
    values: Fattr4,
) -> (NfsStat4, Bitmap4) {
    let reply = client.at(path, [setattr(stateid, values)]).await;
    match reply.results.last() {
        Some(nfs4::ResOp4::Setattr(result)) => (result.status, result.attrsset),
        other => panic!("no result of SETATTR: {other:?}"),
    }
}

/// Opens `/export/file` and returns the stateid.
async fn open_file(client: &Client, access: u32) -> Stateid4 {
    let reply = client
        .at(
            "/export",
            [open("owner", access, "file", OpenFlag4::NoCreate)],
        )
        .await;
    last!(reply, Open).stateid
}

#[tokio::test]
async fn getattr_gives_all_that_is_said_to_be_supported() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for minor_version in [1, 2] {
        let client = client.with_minor_version(minor_version);
        for path in PATHS {
            let supported = client.attributes(path, &[Attr::SupportedAttrs]).await;
            let supported = supported.supported_attrs.unwrap();
            let set_only =
                Bitmap4::of(&[Attr::TimeAccessSet, Attr::TimeModifySet, Attr::ModeUmask]);
            let readable = supported - set_only;
            let got = last!(client.at(path, [getattr(readable)]).await, Getattr).obj_attributes;
            assert_eq!(got.attrmask, readable, "{path}");
            Attributes4::decode(&got).unwrap();
        }
    }
}

#[tokio::test]
async fn getattr_supports_what_rfc_8881_requires() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let required = (0..=11).chain([19, 75]).collect::<Bitmap4>();
    for path in PATHS.into_iter().chain(["/"]) {
        let got = last!(client.at(path, [getattr(required)]).await, Getattr).obj_attributes;
        assert_eq!(got.attrmask, required, "{path}");
        let values = Attributes4::decode(&got).unwrap();
        assert_eq!(values.rdattr_error, Some(NfsStat4::Ok));
        assert_eq!(values.filehandle, Some(client.handle(path).await));
        assert_eq!(values.lease_time, Some(90));
    }
}

#[tokio::test]
async fn getattr_leaves_out_what_is_unknown() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let unknown = Bitmap4::from_iter([Attr::Acl as u32, 200]);
    for wanted in [unknown, Bitmap4::EMPTY] {
        let got = last!(client.at("/export/file", [getattr(wanted)]).await, Getattr);
        assert_eq!(got.obj_attributes, Fattr4::default());
    }
}

#[tokio::test]
async fn getattr_refuses_what_can_only_be_set() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for attr in [Attr::TimeAccessSet, Attr::TimeModifySet, Attr::ModeUmask] {
        let wanted = Bitmap4::of(&[Attr::Size, attr]);
        for path in ["/", "/export/file"] {
            assert_eq!(
                client.status_at(path, [getattr(wanted)]).await,
                NfsStat4::Inval
            );
        }
    }
    let nowhere = client.compound(vec![getattr(Bitmap4::EMPTY)]).await;
    assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
}

#[tokio::test]
async fn getattr_tells_the_space_in_the_file_system() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let wanted = [
        Attr::SpaceAvail,
        Attr::SpaceFree,
        Attr::SpaceTotal,
        Attr::FilesTotal,
    ];
    let values = client.attributes("/export", &wanted).await;
    assert!(values.space_avail <= values.space_free);
    assert!(values.space_free <= values.space_total);
    assert!(values.space_total > Some(0));
    assert!(values.files_total > Some(0));
}

#[tokio::test]
async fn minor_version_1_has_no_attributes_of_2() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let wanted = [Attr::XattrSupport, Attr::ChangeAttrType, Attr::Size];
    let values = client.attributes("/export/file", &wanted).await;
    assert_eq!(values.xattr_support, Some(true));
    let values = client
        .with_minor_version(1)
        .attributes("/export/file", &wanted)
        .await;
    assert_eq!(values.present(), Bitmap4::of(&[Attr::Size]));
}

#[tokio::test]
async fn setattr_sets_mode_owner_and_times() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let time = Nfstime4 {
        seconds: 1_000_000_000,
        nseconds: 123_456_789,
    };
    let values = Attributes4 {
        mode: Some(0o4711),
        owner: Some("1000".into()),
        owner_group: Some("100".into()),
        time_access_set: Some(Settime4::ClientTime(time)),
        time_modify_set: Some(Settime4::ClientTime(time)),
        ..Attributes4::default()
    };
    // Owner and mode at once would clear the set-user-id bit.
    let (owners, rest) = (
        Bitmap4::of(&[Attr::Owner, Attr::OwnerGroup]),
        values.present(),
    );
    let rest = rest - owners;
    for path in [
        "/export/file",
        "/export/directory",
        "/export/fifo",
        "/export/device",
    ] {
        assert_eq!(
            set(&client, path, ANONYMOUS, values.encode(&owners))
                .await
                .1,
            owners
        );
        let outcome = set(&client, path, ANONYMOUS, values.encode(&rest)).await;
        assert_eq!(outcome, (NfsStat4::Ok, rest), "{path}");
        let wanted = [
            Attr::Mode,
            Attr::Owner,
            Attr::OwnerGroup,
            Attr::TimeAccess,
            Attr::TimeModify,
        ];
        let now = client.attributes(path, &wanted).await;
        assert_eq!(
            (now.mode, now.owner),
            (Some(0o4711), Some(Utf8str::from("1000")))
        );
        assert_eq!(now.owner_group, Some(Utf8str::from("100")));
        assert_eq!(
            (now.time_access, now.time_modify),
            (Some(time), Some(time)),
            "{path}"
        );
    }
}

#[tokio::test]
async fn setattr_changes_the_change_attribute() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let before = client
        .attributes("/export/file", &[Attr::Change])
        .await
        .change;
    assert_eq!(
        set(&client, "/export/file", ANONYMOUS, mode(0o600)).await.0,
        NfsStat4::Ok
    );
    assert!(
        client
            .attributes("/export/file", &[Attr::Change])
            .await
            .change
            > before
    );
}

/// Clients that clean up set modes on whatever they find (pynfs does), and links have none.
#[tokio::test]
async fn setattr_of_a_symbolic_links_mode_sets_nothing() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let outcome = set(&client, "/export/symlink", ANONYMOUS, mode(0o600)).await;
    assert_eq!(outcome, (NfsStat4::Ok, Bitmap4::EMPTY));
    assert_eq!(
        client
            .attributes("/export/symlink", &[Attr::Mode])
            .await
            .mode,
        Some(0o777)
    );
}

#[tokio::test]
async fn setattr_sets_the_size_with_any_stateid_that_allows_writing() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let size = async || client.attributes("/export/file", &[Attr::Size]).await.size;
    let writable = open_file(&client, share::ACCESS_WRITE).await;
    for (stateid, wanted) in [(ANONYMOUS, 10), (Stateid4::READ_BYPASS, 0), (writable, 20)] {
        let outcome = set(&client, "/export/file", stateid, with_size(wanted)).await;
        assert_eq!(outcome, (NfsStat4::Ok, Bitmap4::of(&[Attr::Size])));
        assert_eq!(size().await, Some(wanted));
    }
}

#[tokio::test]
async fn setattr_takes_the_current_stateid() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let open = open("owner", share::ACCESS_BOTH, "file", OpenFlag4::NoCreate);
    let resize = setattr(Stateid4::CURRENT, with_size(8));
    client.at("/export", [open, getfh(), resize]).await.ok();
    assert_eq!(
        client.attributes("/export/file", &[Attr::Size]).await.size,
        Some(8)
    );
}

#[tokio::test]
async fn setattr_of_the_size_needs_an_open_for_writing_of_the_same_file() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client.make_file("/export", "other").await;
    let readable = open_file(&client, share::ACCESS_READ).await;
    let outcome = set(&client, "/export/file", readable, with_size(1)).await;
    assert_eq!(outcome, (NfsStat4::OpenMode, Bitmap4::EMPTY));
    let outcome = set(&client, "/export/other", readable, with_size(1)).await;
    assert_eq!(outcome.0, NfsStat4::BadStateid);
    // What is not about data needs no stateid, so the wrong one does no harm.
    assert_eq!(
        set(&client, "/export/other", readable, mode(0o600)).await.0,
        NfsStat4::Ok
    );
}

#[tokio::test]
async fn setattr_of_the_size_is_for_files() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let cases = [
        ("/export/directory", NfsStat4::IsDir),
        ("/export/symlink", NfsStat4::Inval),
        ("/export/fifo", NfsStat4::Inval),
        ("/export/socket", NfsStat4::Inval),
        ("/export/device", NfsStat4::Inval),
    ];
    for (path, status) in cases {
        assert_eq!(
            set(&client, path, ANONYMOUS, with_size(0)).await.0,
            status,
            "{path}"
        );
    }
}

#[tokio::test]
async fn setattr_refuses_a_size_that_no_file_has() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let outcome = set(&client, "/export/file", ANONYMOUS, with_size(u64::MAX)).await;
    assert_eq!(outcome.0, NfsStat4::FBig);
}

#[tokio::test]
async fn setattr_is_for_owners_and_sizes_for_writers() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    set(&client, "/export/file", ANONYMOUS, mode(0o646)).await;
    let user = client.as_user(1000, 1000, &[]);
    assert_eq!(
        set(&user, "/export/file", ANONYMOUS, mode(0o777)).await.0,
        NfsStat4::Perm
    );
    assert_eq!(
        set(&user, "/export/file", ANONYMOUS, with_size(3)).await.0,
        NfsStat4::Ok
    );
    set(&client, "/export/file", ANONYMOUS, mode(0o644)).await;
    assert_eq!(
        set(&user, "/export/file", ANONYMOUS, with_size(4)).await.0,
        NfsStat4::Access
    );
}

#[tokio::test]
async fn setattr_tells_wrong_attributes_apart() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let one = |values: Attributes4| encoded(&values);
    let bad_time = Nfstime4 {
        seconds: 0,
        nseconds: 1_000_000_000,
    };
    let mut unsupported = mode(0);
    unsupported.attrmask.insert(Attr::Hidden);
    let surplus = Fattr4 {
        attr_vals: Bytes::from_static(&[0, 0, 1, 0xa4, 0, 0, 0, 0]),
        ..mode(0)
    };
    let default = Attributes4::default;
    let umask = ModeUmask4 {
        mode: 0o777,
        umask: 0o022,
    };
    let cases = [
        (unsupported, NfsStat4::AttrNotSupp),
        (
            one(Attributes4 {
                fileid: Some(1),
                ..default()
            }),
            NfsStat4::Inval,
        ),
        (
            one(Attributes4 {
                mode_umask: Some(umask),
                ..default()
            }),
            NfsStat4::Inval,
        ),
        (mode(0o10_000), NfsStat4::Inval),
        (
            one(Attributes4 {
                time_create: Some(bad_time),
                ..default()
            }),
            NfsStat4::Inval,
        ),
        (
            one(Attributes4 {
                owner: Some("alice".into()),
                ..default()
            }),
            NfsStat4::BadOwner,
        ),
        (
            Fattr4 {
                attr_vals: Bytes::new(),
                ..mode(0)
            },
            NfsStat4::BadXdr,
        ),
        (surplus, NfsStat4::BadXdr),
    ];
    for (values, status) in cases {
        let outcome = set(&client, "/export/file", ANONYMOUS, values.clone()).await;
        assert_eq!(outcome, (status, Bitmap4::EMPTY), "{values:?}");
    }
    let nowhere = client.compound(vec![setattr(ANONYMOUS, mode(0))]).await;
    assert_eq!(nowhere.status, NfsStat4::NoFileHandle);
}

#[tokio::test]
async fn a_umask_counts_when_a_file_is_made() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let umask = ModeUmask4 {
        mode: 0o666,
        umask: 0o027,
    };
    let values = encoded(&Attributes4 {
        mode_umask: Some(umask),
        ..Attributes4::default()
    });
    let how = OpenFlag4::Create(CreateHow4::Guarded(values.clone()));
    let reply = client
        .at("/export", [open("owner", share::ACCESS_BOTH, "new", how)])
        .await;
    assert_eq!(last!(reply, Open).attrset, Bitmap4::of(&[Attr::ModeUmask]));
    client
        .at("/export", [create(CreateType4::Dir, "dir", values)])
        .await
        .ok();
    for path in ["/export/new", "/export/dir"] {
        assert_eq!(
            client.attributes(path, &[Attr::Mode]).await.mode,
            Some(0o640),
            "{path}"
        );
    }
}
