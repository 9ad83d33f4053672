//! VERIFY and NVERIFY.

use crate::fixture::operations::*;
use crate::fixture::{Fixture, PATHS, Successful, encoded, last, mode};
use nfs4::attributes::Settime4;
use nfs4::{Attr, Attributes4, Bitmap4, Fattr4, NfsStat4};
use xdr::Bytes;

fn with_size(size: u64) -> Fattr4 {
    encoded(&Attributes4 {
        size: Some(size),
        ..Attributes4::default()
    })
}

#[tokio::test]
async fn verify_and_nverify_compare_all_that_can_be_read() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let readable = Bitmap4::from_iter(0..=82)
        - Bitmap4::of(&[
            Attr::TimeAccessSet,
            Attr::TimeModifySet,
            Attr::ModeUmask,
            Attr::RdattrError,
            // The space in the file system may change meanwhile.
            Attr::FilesAvail,
            Attr::FilesFree,
            Attr::FilesTotal,
            Attr::SpaceAvail,
            Attr::SpaceFree,
        ]);
    for path in PATHS.into_iter().chain(["/"]) {
        let now = last!(client.at(path, [getattr(readable)]).await, Getattr).obj_attributes;
        client.at(path, [verify(now.clone()), getfh()]).await.ok();
        assert_eq!(
            client.status_at(path, [nverify(now)]).await,
            NfsStat4::Same,
            "{path}"
        );
    }
}

#[tokio::test]
async fn verify_and_nverify_see_a_difference() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let wrong = with_size(77);
    for path in PATHS {
        assert_eq!(
            client.status_at(path, [verify(wrong.clone())]).await,
            NfsStat4::NotSame
        );
        client
            .at(path, [nverify(wrong.clone()), getfh()])
            .await
            .ok();
    }
}

#[tokio::test]
async fn verify_and_nverify_refuse_what_cannot_be_compared() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let default = Attributes4::default;
    let error = Attributes4 {
        rdattr_error: Some(NfsStat4::Ok),
        ..default()
    };
    let set_only = Attributes4 {
        time_access_set: Some(Settime4::ServerTime),
        ..default()
    };
    let acl = Fattr4 {
        attrmask: Bitmap4::of(&[Attr::Acl]),
        attr_vals: Bytes::from_static(&[0; 4]),
    };
    let cases = [
        (encoded(&error), NfsStat4::Inval),
        (encoded(&set_only), NfsStat4::Inval),
        (mode(0o10_000), NfsStat4::Inval),
        (acl, NfsStat4::AttrNotSupp),
        (
            Fattr4 {
                attr_vals: Bytes::new(),
                ..mode(0)
            },
            NfsStat4::BadXdr,
        ),
    ];
    for (values, status) in cases {
        for operation in [verify(values.clone()), nverify(values.clone())] {
            assert_eq!(
                client.status_at("/export/file", [operation]).await,
                status,
                "{values:?}"
            );
        }
    }
    for operation in [verify(with_size(0)), nverify(with_size(0))] {
        assert_eq!(
            client.compound(vec![operation]).await.status,
            NfsStat4::NoFileHandle
        );
    }
}
