//! LOOKUP, LOOKUPP, CREATE, REMOVE, RENAME, LINK and READLINK, each with the outcomes that clients see.

use crate::fixture::operations::*;
use crate::fixture::{Client, Fixture, Plan, Successful, TARGET, encoded, go_to, last, mode};
use nfs4::{
    ArgOp4, Attr, Attributes4, Bitmap4, Component4, CreateType4, Fattr4, NfsFtype4, NfsStat4,
    Specdata4, Utf8str,
};
use xdr::Bytes;

fn symlink(target: &'static str) -> CreateType4 {
    CreateType4::Lnk(Bytes::from_static(target.as_bytes()))
}

/// Names that no operation accepts, and why.
fn bad_names() -> [(Component4, NfsStat4); 6] {
    [
        ("".into(), NfsStat4::Inval),
        (".".into(), NfsStat4::BadName),
        ("..".into(), NfsStat4::BadName),
        ("a/b".into(), NfsStat4::BadChar),
        ("a\0b".into(), NfsStat4::BadChar),
        ("x".repeat(256).as_str().into(), NfsStat4::NameTooLong),
    ]
}

/// Operations that make two paths the saved and the current filehandle.
fn save_and_go_to(saved: &str, current: &str) -> Vec<ArgOp4> {
    go_to(saved)
        .into_iter()
        .chain([savefh()])
        .chain(go_to(current))
        .collect()
}

async fn rename_between(client: &Client, from: (&str, &str), to: (&str, &str)) -> NfsStat4 {
    let mut ops = save_and_go_to(from.0, to.0);
    ops.push(rename(from.1, to.1));
    client.compound(ops).await.status
}

#[tokio::test]
async fn lookup_goes_to_the_object() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let found = client.attributes("/export/fifo", &[Attr::Type]).await;
    assert_eq!(found.type_, Some(NfsFtype4::Fifo));
}

#[tokio::test]
async fn lookup_of_nothing_and_of_bad_names_fails() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    assert_eq!(
        client.status_at("/export", [lookup("vapor")]).await,
        NfsStat4::NoEnt
    );
    for (name, status) in bad_names() {
        assert_eq!(
            client.status_at("/export", [lookup(name.clone())]).await,
            status,
            "{name:?}"
        );
    }
    assert_eq!(
        client.compound(vec![lookup("file")]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn lookup_tells_symbolic_links_from_other_things_that_are_no_directory() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    assert_eq!(
        client.status_at("/export/file", [lookup("x")]).await,
        NfsStat4::NotDir
    );
    assert_eq!(
        client.status_at("/export/fifo", [lookup("x")]).await,
        NfsStat4::NotDir
    );
    assert_eq!(
        client.status_at("/export/symlink", [lookup("x")]).await,
        NfsStat4::Symlink
    );
}

#[tokio::test]
async fn lookup_needs_permission_to_search() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client
        .at("/export", [create(CreateType4::Dir, "closed", mode(0o700))])
        .await
        .ok();
    let user = client.as_user(1000, 1000, &[]);
    assert_eq!(
        user.status_at("/export/closed", [lookup("x")]).await,
        NfsStat4::Access
    );
}

#[tokio::test]
async fn lookup_in_a_removed_directory_finds_it_stale() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let handle = client.handle("/export/directory").await;
    client.at("/export", [remove("directory")]).await.ok();
    let reply = client.compound(vec![putfh(&handle), lookup("x")]).await;
    assert_eq!(reply.status, NfsStat4::Stale);
}

#[tokio::test]
async fn lookupp_goes_up() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client
        .make("/export/directory", "below", CreateType4::Dir)
        .await;
    let parent = client.handle("/export/directory").await;
    let reply = client
        .at("/export/directory/below", [lookupp(), getfh()])
        .await;
    assert_eq!(last!(reply, Getfh).object, parent);
}

#[tokio::test]
async fn lookupp_needs_a_directory() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    assert_eq!(
        client.status_at("/export/file", [lookupp()]).await,
        NfsStat4::NotDir
    );
    assert_eq!(
        client.status_at("/export/symlink", [lookupp()]).await,
        NfsStat4::Symlink
    );
    assert_eq!(
        client.compound(vec![lookupp()]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn create_makes_every_kind_but_files_and_goes_there() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let device = Specdata4 {
        specdata1: 8,
        specdata2: 1,
    };
    let kinds = [
        (CreateType4::Dir, NfsFtype4::Dir),
        (CreateType4::Fifo, NfsFtype4::Fifo),
        (CreateType4::Sock, NfsFtype4::Sock),
        (CreateType4::Blk(device), NfsFtype4::Blk),
        (CreateType4::Chr(device), NfsFtype4::Chr),
    ];
    let wanted = Bitmap4::of(&[Attr::Type, Attr::Mode]);
    for (index, (kind, type_)) in kinds.into_iter().enumerate() {
        let make = create(kind, index.to_string().as_str(), mode(0o2751));
        let reply = client.at("/export", [make, getattr(wanted)]).await;
        let encoded = last!(reply, Getattr).obj_attributes;
        let values = Attributes4::decode(&encoded).unwrap();
        assert_eq!((values.type_, values.mode), (Some(type_), Some(0o2751)));
    }
}

#[tokio::test]
async fn create_tells_how_the_directory_changed_and_what_was_set() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let before = client
        .attributes("/export", &[Attr::Change])
        .await
        .change
        .unwrap();
    let reply = client
        .at("/export", [create(CreateType4::Dir, "new", mode(0o755))])
        .await;
    let created = last!(reply, Create);
    let after = client
        .attributes("/export", &[Attr::Change])
        .await
        .change
        .unwrap();
    assert!(created.cinfo.atomic);
    assert_eq!((created.cinfo.before, created.cinfo.after), (before, after));
    assert!(after > before);
    assert_eq!(created.attrset, Bitmap4::of(&[Attr::Mode]));
}

#[tokio::test]
async fn create_does_not_claim_to_have_set_what_the_kind_cannot_have() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let values = Attributes4 {
        size: Some(7),
        mode: Some(0o600),
        ..Attributes4::default()
    };
    let reply = client
        .at("/export", [create(symlink("x"), "link", encoded(&values))])
        .await;
    assert_eq!(last!(reply, Create).attrset, Bitmap4::EMPTY);
    let reply = client
        .at(
            "/export",
            [create(CreateType4::Dir, "dir", encoded(&values))],
        )
        .await;
    assert_eq!(last!(reply, Create).attrset, Bitmap4::of(&[Attr::Mode]));
}

#[tokio::test]
async fn create_gives_new_objects_to_the_caller() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client
        .at("/export", [create(CreateType4::Dir, "shared", mode(0o777))])
        .await
        .ok();
    let user = client.as_user(1000, 100, &[]);
    user.make("/export/shared", "own", CreateType4::Dir).await;
    let path = "/export/shared/own";
    let values = client
        .attributes(path, &[Attr::Owner, Attr::OwnerGroup])
        .await;
    let text = |text: &str| Some(Utf8str::from(text));
    assert_eq!(
        (values.owner, values.owner_group),
        (text("1000"), text("100"))
    );
}

#[tokio::test]
async fn create_refuses_kinds_that_are_made_otherwise() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for kind in [
        CreateType4::Reg,
        CreateType4::AttrDir,
        CreateType4::NamedAttr,
    ] {
        let make = create(kind, "new", mode(0o755));
        assert_eq!(client.status_at("/export", [make]).await, NfsStat4::BadType);
    }
}

#[tokio::test]
async fn create_refuses_names_that_exist_or_are_bad() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let make = |name: Component4| create(CreateType4::Dir, name, mode(0o755));
    assert_eq!(
        client.status_at("/export", [make("file".into())]).await,
        NfsStat4::Exist
    );
    for (name, status) in bad_names() {
        assert_eq!(
            client.status_at("/export", [make(name.clone())]).await,
            status,
            "{name:?}"
        );
    }
}

#[tokio::test]
async fn create_needs_a_directory_and_permission() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let make = || create(CreateType4::Dir, "new", mode(0o755));
    for path in ["/export/file", "/export/symlink", "/export/fifo"] {
        assert_eq!(
            client.status_at(path, [make()]).await,
            NfsStat4::NotDir,
            "{path}"
        );
    }
    assert_eq!(
        client.compound(vec![make()]).await.status,
        NfsStat4::NoFileHandle
    );
    let user = client.as_user(1000, 1000, &[]);
    assert_eq!(user.status_at("/export", [make()]).await, NfsStat4::Access);
}

#[tokio::test]
async fn create_refuses_attributes_as_setattr_does() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let make = |attributes: Fattr4| create(CreateType4::Dir, "new", attributes);
    let read_only = Attributes4 {
        link_support: Some(true),
        ..Attributes4::default()
    };
    let refused = client
        .status_at("/export", [make(encoded(&read_only))])
        .await;
    assert_eq!(refused, NfsStat4::Inval);
    let mut unsupported = mode(0o755);
    unsupported.attrmask.insert(Attr::Archive);
    let refused = client.status_at("/export", [make(unsupported)]).await;
    assert_eq!(refused, NfsStat4::AttrNotSupp);
    let foreign = Attributes4 {
        owner: Some("alice@x".into()),
        ..Attributes4::default()
    };
    let refused = client.status_at("/export", [make(encoded(&foreign))]).await;
    assert_eq!(refused, NfsStat4::BadOwner);
}

#[tokio::test]
async fn only_the_superuser_makes_devices() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client
        .at("/export", [create(CreateType4::Dir, "shared", mode(0o777))])
        .await
        .ok();
    let user = client.as_user(1000, 1000, &[]);
    let make = create(
        CreateType4::Blk(Specdata4::default()),
        "device",
        mode(0o600),
    );
    assert_eq!(
        user.status_at("/export/shared", [make]).await,
        NfsStat4::Perm
    );
}

#[tokio::test]
async fn readlink_gives_the_target() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let reply = client.at("/export/symlink", [readlink()]).await;
    assert_eq!(&last!(reply, Readlink).link[..], TARGET.as_bytes());
}

#[tokio::test]
async fn readlink_of_anything_else_has_the_wrong_type() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for path in ["/", "/export", "/export/file", "/export/fifo"] {
        assert_eq!(
            client.status_at(path, [readlink()]).await,
            NfsStat4::WrongType,
            "{path}"
        );
    }
    assert_eq!(
        client.compound(vec![readlink()]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn symbolic_links_need_a_target_of_bounded_length() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let make = |target: Vec<u8>| create(CreateType4::Lnk(target.into()), "new", Fattr4::default());
    assert_eq!(
        client.status_at("/export", [make(Vec::new())]).await,
        NfsStat4::Inval
    );
    assert_eq!(
        client.status_at("/export", [make(b"a\0".to_vec())]).await,
        NfsStat4::Inval
    );
    let refused = client.status_at("/export", [make(vec![b'x'; 4096])]).await;
    assert_eq!(refused, NfsStat4::NameTooLong);
    assert_eq!(
        client.status_at("/export", [make(vec![b'x'; 4095])]).await,
        NfsStat4::Ok
    );
}

#[tokio::test]
async fn remove_removes_files_and_empty_directories() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for name in ["file", "symlink", "fifo", "directory"] {
        let before = client
            .attributes("/export", &[Attr::Change])
            .await
            .change
            .unwrap();
        let cinfo = last!(client.at("/export", [remove(name)]).await, Remove).cinfo;
        assert_eq!(cinfo.before, before);
        assert!(cinfo.after > before);
        assert_eq!(
            client.status_at("/export", [lookup(name)]).await,
            NfsStat4::NoEnt
        );
    }
}

#[tokio::test]
async fn remove_leaves_full_directories_alone() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client.make_file("/export/directory", "inside").await;
    assert_eq!(
        client.status_at("/export", [remove("directory")]).await,
        NfsStat4::NotEmpty
    );
}

#[tokio::test]
async fn remove_of_nothing_and_of_bad_names_fails() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    assert_eq!(
        client.status_at("/export", [remove("vapor")]).await,
        NfsStat4::NoEnt
    );
    for (name, status) in bad_names() {
        assert_eq!(
            client.status_at("/export", [remove(name.clone())]).await,
            status,
            "{name:?}"
        );
    }
    for path in ["/export/file", "/export/symlink"] {
        assert_eq!(
            client.status_at(path, [remove("x")]).await,
            NfsStat4::NotDir,
            "{path}"
        );
    }
    assert_eq!(
        client.compound(vec![remove("x")]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn rename_moves_between_directories() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let handle = client.handle("/export/file").await;
    let mut ops = save_and_go_to("/export", "/export/directory");
    ops.push(rename("file", "moved"));
    let renamed = last!(client.compound(ops).await, Rename);
    assert!(renamed.source_cinfo.atomic && renamed.target_cinfo.atomic);
    assert!(renamed.source_cinfo.after > renamed.source_cinfo.before);
    assert!(renamed.target_cinfo.after > renamed.target_cinfo.before);
    assert_eq!(client.handle("/export/directory/moved").await, handle);
    assert_eq!(
        client.status_at("/export", [lookup("file")]).await,
        NfsStat4::NoEnt
    );
}

#[tokio::test]
async fn rename_replaces_what_is_compatible() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    client
        .make_directories("/export", &["full", "inside"])
        .await;
    let here = |name: &'static str| ("/export", name);
    let refused = rename_between(&client, here("file"), here("directory")).await;
    assert_eq!(refused, NfsStat4::Exist);
    let refused = rename_between(&client, here("directory"), here("file")).await;
    assert_eq!(refused, NfsStat4::NotDir);
    let refused = rename_between(&client, here("directory"), here("full")).await;
    assert_eq!(refused, NfsStat4::NotEmpty);
    assert_eq!(
        rename_between(&client, here("file"), here("fifo")).await,
        NfsStat4::Ok
    );
    assert_eq!(
        rename_between(&client, here("full"), here("directory")).await,
        NfsStat4::Ok
    );
}

#[tokio::test]
async fn rename_of_two_names_of_one_object_changes_nothing() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let mut ops = save_and_go_to("/export/file", "/export");
    ops.push(link("other"));
    client.compound(ops).await.ok();
    let mut ops = save_and_go_to("/export", "/export");
    ops.push(rename("file", "other"));
    let renamed = last!(client.compound(ops).await, Rename);
    assert_eq!(renamed.source_cinfo.before, renamed.source_cinfo.after);
    assert_eq!(renamed.target_cinfo.before, renamed.target_cinfo.after);
    assert_eq!(
        client.handle("/export/file").await,
        client.handle("/export/other").await
    );
}

#[tokio::test]
async fn rename_cannot_move_a_directory_below_itself() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let refused = rename_between(
        &client,
        ("/export", "directory"),
        ("/export/directory", "below"),
    )
    .await;
    assert_eq!(refused, NfsStat4::Inval);
}

#[tokio::test]
async fn rename_of_nothing_and_of_bad_names_fails() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let here = |name: &'static str| ("/export", name);
    assert_eq!(
        rename_between(&client, here("vapor"), here("x")).await,
        NfsStat4::NoEnt
    );
    for (name, status) in bad_names() {
        let mut ops = save_and_go_to("/export", "/export");
        ops.push(rename(name.clone(), "x"));
        assert_eq!(client.compound(ops).await.status, status, "from {name:?}");
        let mut ops = save_and_go_to("/export", "/export");
        ops.push(rename("file", name.clone()));
        assert_eq!(client.compound(ops).await.status, status, "to {name:?}");
    }
}

#[tokio::test]
async fn rename_needs_two_directories() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for path in ["/export/file", "/export/symlink", "/export/fifo"] {
        let refused = rename_between(&client, (path, "x"), ("/export", "y")).await;
        assert_eq!(refused, NfsStat4::NotDir, "from {path}");
        let refused = rename_between(&client, ("/export", "directory"), (path, "y")).await;
        assert_eq!(refused, NfsStat4::NotDir, "to {path}");
    }
    let refused = client.status_at("/export", [rename("file", "x")]).await;
    assert_eq!(refused, NfsStat4::NoFileHandle);
}

#[tokio::test]
async fn link_gives_one_more_name() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    for source in ["/export/file", "/export/symlink", "/export/fifo"] {
        let mut ops = save_and_go_to(source, "/export/directory");
        let name = source.rsplit('/').next().unwrap();
        ops.extend([link(name), getfh()]);
        let reply = client.compound(ops).await;
        // The directory stays current.
        assert_eq!(
            last!(reply, Getfh).object,
            client.handle("/export/directory").await
        );
        assert_eq!(
            client.attributes(source, &[Attr::Numlinks]).await.numlinks,
            Some(2)
        );
        let linked = format!("/export/directory/{name}");
        assert_eq!(client.handle(&linked).await, client.handle(source).await);
    }
}

#[tokio::test]
async fn link_refuses_directories_and_names_in_use() {
    let (_fixture, client) = Fixture::with_every_kind().await;
    let try_link = async |source: &str, directory: &str, name: Component4| {
        let mut ops = save_and_go_to(source, directory);
        ops.push(link(name));
        client.compound(ops).await.status
    };
    let refused = try_link("/export/directory", "/export", "x".into()).await;
    assert_eq!(refused, NfsStat4::IsDir);
    assert_eq!(
        try_link("/export/file", "/export", "fifo".into()).await,
        NfsStat4::Exist
    );
    for path in ["/export/file", "/export/symlink"] {
        assert_eq!(
            try_link("/export/file", path, "x".into()).await,
            NfsStat4::NotDir,
            "{path}"
        );
    }
    for (name, status) in bad_names() {
        let refused = try_link("/export/file", "/export", name.clone()).await;
        assert_eq!(refused, status, "{name:?}");
    }
    assert_eq!(
        client.status_at("/export", [link("x")]).await,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn names_do_not_lead_from_one_export_to_another() {
    let fixture = Fixture::with(vec![Plan::open("/one"), Plan::open("/two")]);
    let client = fixture.client().await;
    client.make_file("/one", "file").await;
    let refused = rename_between(&client, ("/one", "file"), ("/two", "file")).await;
    assert_eq!(refused, NfsStat4::XDev);
    let mut ops = save_and_go_to("/one/file", "/two");
    ops.push(link("file"));
    assert_eq!(client.compound(ops).await.status, NfsStat4::XDev);
}
