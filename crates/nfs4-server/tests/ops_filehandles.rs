//! Filehandles: PUTFH and its relatives, SAVEFH and RESTOREFH, and SECINFO, which consumes one.

use crate::fixture::operations::*;
use crate::fixture::{Fixture, Successful, go_to, last, mode, statuses};
use nfs4::{Attr, Bitmap4, CreateType4, NfsFh4, NfsStat4, Secinfo4, SecinfoStyle4, Stateid4};
use xdr::Bytes;

const AUTH_SYS: Secinfo4 = Secinfo4::Flavor(1);

#[tokio::test]
async fn getfh_gives_what_putfh_took() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for path in [
        "/",
        "/export",
        "/export/directory",
        "/export/file",
        "/export/symlink",
    ] {
        let handle = client.handle(path).await;
        let reply = client.compound(vec![putfh(&handle), getfh()]).await;
        assert_eq!(last!(reply, Getfh).object, handle, "{path}");
    }
    assert_eq!(
        client.compound(vec![getfh()]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn putfh_refuses_bytes_that_are_no_handle() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let mut other_version = client.handle("/export").await.0.to_vec();
    other_version[0] = 0xff;
    for bytes in [Vec::new(), b"abc".to_vec(), vec![0; 128], other_version] {
        let handle = NfsFh4(Bytes::from(bytes));
        let status = client.compound(vec![putfh(&handle)]).await.status;
        assert_eq!(status, NfsStat4::BadHandle, "{handle:?}");
    }
}

#[tokio::test]
async fn putfh_of_a_tree_that_is_not_exported_is_stale() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let mut foreign = client.handle("/export").await.0.to_vec();
    foreign[2] ^= 0xff;
    let handle = NfsFh4(Bytes::from(foreign));
    assert_eq!(
        client.compound(vec![putfh(&handle)]).await.status,
        NfsStat4::Stale
    );
}

#[tokio::test]
async fn a_removed_object_is_stale_when_it_is_used() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let handle = client.handle("/export/file").await;
    client.at("/export", [remove("file")]).await.ok();
    let reply = client
        .compound(vec![putfh(&handle), getattr(Bitmap4::of(&[Attr::Size]))])
        .await;
    assert_eq!(reply.status, NfsStat4::Stale);
}

#[tokio::test]
async fn the_public_filehandle_is_the_root() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let reply = client.compound(vec![nfs4::ArgOp4::Putpubfh, getfh()]).await;
    assert_eq!(last!(reply, Getfh).object, client.handle("/").await);
}

#[tokio::test]
async fn restorefh_goes_back_to_what_savefh_saved() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let saved = client.handle("/export/directory").await;
    let mut ops = go_to("/export/directory");
    ops.push(savefh());
    ops.extend(go_to("/"));
    ops.extend([restorefh(), getfh()]);
    assert_eq!(last!(client.compound(ops).await, Getfh).object, saved);
}

#[tokio::test]
async fn there_must_be_something_to_save_and_to_restore() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    assert_eq!(
        client.compound(vec![savefh()]).await.status,
        NfsStat4::NoFileHandle
    );
    assert_eq!(
        client.status_at("/", [restorefh()]).await,
        NfsStat4::NoFileHandle
    );
}

/// RFC 8881, section 16.2.3.1.2: the stateid is saved and restored with the filehandle.
#[tokio::test]
async fn the_stateid_goes_with_the_filehandle() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let file = open(
        "owner",
        nfs4::share::ACCESS_READ,
        "file",
        nfs4::OpenFlag4::NoCreate,
    );
    let current = Stateid4::CURRENT;
    let mut ops = go_to("/export");
    ops.extend([
        file.clone(),
        savefh(),
        putrootfh(),
        restorefh(),
        close(current),
    ]);
    client.compound(ops).await.ok();

    let mut ops = go_to("/export");
    ops.extend([file, putrootfh(), close(current)]);
    let reply = client.compound(ops).await;
    assert_eq!(statuses(&reply).last(), Some(&NfsStat4::BadStateid));
}

#[tokio::test]
async fn secinfo_names_the_flavor_and_consumes_the_filehandle() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for (path, name) in [
        ("/", "export"),
        ("/export", "file"),
        ("/export", "directory"),
    ] {
        let reply = client.at(path, [secinfo(name)]).await;
        assert_eq!(last!(reply, Secinfo).flavors, [AUTH_SYS]);
        let reply = client.at(path, [secinfo(name), getfh()]).await;
        assert_eq!(reply.status, NfsStat4::NoFileHandle);
    }
}

#[tokio::test]
async fn secinfo_looks_the_name_up() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let cases = [
        ("/", "vapor", NfsStat4::NoEnt),
        ("/export", "vapor", NfsStat4::NoEnt),
        ("/export", "", NfsStat4::Inval),
        ("/export", "..", NfsStat4::BadName),
        ("/export/file", "x", NfsStat4::NotDir),
        ("/export/symlink", "x", NfsStat4::NotDir),
    ];
    for (path, name, status) in cases {
        assert_eq!(
            client.status_at(path, [secinfo(name)]).await,
            status,
            "{path} {name:?}"
        );
    }
    client
        .at("/export", [create(CreateType4::Dir, "closed", mode(0o700))])
        .await
        .ok();
    let user = client.as_user(1000, 1000, &[]);
    assert_eq!(
        user.status_at("/export/closed", [secinfo("x")]).await,
        NfsStat4::Access
    );
    assert_eq!(
        client.compound(vec![secinfo("x")]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn secinfo_no_name_tells_of_the_current_object_or_the_one_above() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for path in ["/", "/export", "/export/file"] {
        let ask = secinfo_no_name(SecinfoStyle4::CurrentFh);
        let reply = client.at(path, [ask.clone()]).await;
        assert_eq!(last!(reply, SecinfoNoName).flavors, [AUTH_SYS], "{path}");
        let reply = client.at(path, [ask, getfh()]).await;
        assert_eq!(reply.status, NfsStat4::NoFileHandle, "{path}");
    }
    let ask = || secinfo_no_name(SecinfoStyle4::Parent);
    let reply = client.at("/export/directory", [ask()]).await;
    assert_eq!(last!(reply, SecinfoNoName).flavors, [AUTH_SYS]);
    client.at("/export", [ask()]).await.ok();
    assert_eq!(client.status_at("/", [ask()]).await, NfsStat4::NoEnt);
    for path in ["/export/file", "/export/symlink"] {
        assert_eq!(
            client.status_at(path, [ask()]).await,
            NfsStat4::NotDir,
            "{path}"
        );
    }
    assert_eq!(
        client.compound(vec![ask()]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn there_are_no_named_attributes() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for path in ["/", "/export/file"] {
        assert_eq!(
            client.status_at(path, [openattr()]).await,
            NfsStat4::NotSupp,
            "{path}"
        );
    }
    assert_eq!(
        client.compound(vec![openattr()]).await.status,
        NfsStat4::NoFileHandle
    );
}
