//! The way from the root to the exports: the pseudo file system, hidden and read-only exports, and an
//! export that is the root.

use crate::fixture::operations::*;
use crate::fixture::{
    CLIENT_ADDRESS, Client, Fixture, Plan, Successful, go_to, last, mode, rule, statuses, text,
};
use nfs4::access::{DELETE, EXTEND, LOOKUP, MODIFY, READ};
use nfs4::{
    AccessResOk, ArgOp4, Attr, Attributes4, Bitmap4, CreateHow4, CreateType4, Entry4, Fattr4,
    Fsid4, NfsFtype4, NfsStat4, OpenFlag4, ReaddirArgs, SetxattrOption4, Stateid4, Verifier4,
    share,
};
use nfs4_server::AccessMode;

const ELSEWHERE: &str = "198.51.100.1";

/// Exports below one directory and beside it; one of them is for nobody here.
fn several() -> Fixture {
    let hidden = Plan {
        path: "/hidden/deep",
        rules: vec![rule(ELSEWHERE, AccessMode::ReadWrite)],
    };
    Fixture::with(vec![
        Plan::open("/a/one"),
        Plan::open("/a/two"),
        Plan::open("/b"),
        hidden,
    ])
}

fn list(attr_request: Bitmap4, cookie: u64) -> ArgOp4 {
    readdir(ReaddirArgs {
        cookie,
        cookieverf: Verifier4::default(),
        dircount: 8192,
        maxcount: 8192,
        attr_request,
    })
}

async fn entries(client: &Client, path: &str, attr_request: Bitmap4) -> Vec<Entry4> {
    let listed = last!(client.at(path, [list(attr_request, 0)]).await, Readdir);
    assert!(listed.reply.eof);
    listed.reply.entries
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let entries = entries(client, path, Bitmap4::EMPTY).await;
    let mut names: Vec<String> = entries.iter().map(|entry| text(&entry.name)).collect();
    names.sort();
    names
}

#[tokio::test]
async fn directories_lead_to_the_exports() {
    let fixture = several();
    let client = fixture.client().await;
    assert_eq!(names(&client, "/").await, ["a", "b"]);
    assert_eq!(names(&client, "/a").await, ["one", "two"]);
    assert_eq!(names(&client, "/a/one").await, [""; 0]);
    for path in ["/", "/a"] {
        assert_eq!(
            client.status_at(path, [lookup("vapor")]).await,
            NfsStat4::NoEnt
        );
        assert_eq!(client.status_at(path, [lookup("")]).await, NfsStat4::Inval);
        assert_eq!(
            client.status_at(path, [lookup("..")]).await,
            NfsStat4::BadName
        );
    }
}

#[tokio::test]
async fn exports_for_others_are_not_to_be_seen() {
    let fixture = several();
    let client = fixture.client().await;
    assert_eq!(
        client.status_at("/", [lookup("hidden")]).await,
        NfsStat4::NoEnt
    );
    assert_eq!(
        client.status_at("/", [secinfo("hidden")]).await,
        NfsStat4::NoEnt
    );
    let other = fixture.client_from(ELSEWHERE).await;
    assert_eq!(names(&other, "/").await, ["a", "b", "hidden"]);
    let handle = other.handle("/hidden/deep").await;
    // A client that already has a filehandle finds that access to it is revoked.
    assert_eq!(
        client.compound(vec![putfh(&handle)]).await.status,
        NfsStat4::Stale
    );
    other.compound(vec![putfh(&handle)]).await.ok();
}

#[tokio::test]
async fn lookupp_leads_out_of_an_export_and_ends_at_the_root() {
    let fixture = several();
    let client = fixture.client().await;
    let above = client.handle("/a").await;
    let reply = client.at("/a/one", [lookupp(), getfh()]).await;
    assert_eq!(last!(reply, Getfh).object, above);
    let reply = client.at("/a", [lookupp(), getfh()]).await;
    assert_eq!(last!(reply, Getfh).object, client.handle("/").await);
    assert_eq!(client.status_at("/", [lookupp()]).await, NfsStat4::NoEnt);
}

#[tokio::test]
async fn pseudo_directories_have_attributes_of_their_own() {
    let fixture = several();
    let client = fixture.client().await;
    let wanted = [
        Attr::Type,
        Attr::Fsid,
        Attr::Mode,
        Attr::Numlinks,
        Attr::XattrSupport,
    ];
    let root = client.attributes("/", &wanted).await;
    assert_eq!(root.type_, Some(NfsFtype4::Dir));
    assert_eq!(root.fsid, Some(Fsid4 { major: 0, minor: 0 }));
    assert_eq!((root.mode, root.numlinks), (Some(0o555), Some(5)));
    assert_eq!(root.xattr_support, Some(false));
    let ids = [Attr::Fileid, Attr::MountedOnFileid];
    let (root, a) = (
        client.attributes("/", &ids).await,
        client.attributes("/a", &ids).await,
    );
    assert_ne!(root.fileid, a.fileid);
    assert_eq!(root.fileid, root.mounted_on_fileid);
}

/// RFC 8881, sections 5.8.1.9 and 5.8.2.23: a client tells from fsid and mounted_on_fileid that it crosses
/// into another file system, by LOOKUP and by READDIR alike.
#[tokio::test]
async fn an_entry_that_an_export_covers_shows_the_exports_root() {
    let fixture = several();
    let client = fixture.client().await;
    let wanted = [
        Attr::Fsid,
        Attr::Fileid,
        Attr::MountedOnFileid,
        Attr::Filehandle,
        Attr::Mode,
    ];
    let listed = entries(&client, "/a", Bitmap4::of(&wanted)).await;
    let mut covered = Vec::new();
    for entry in &listed {
        let path = format!("/a/{}", text(&entry.name));
        let values = Attributes4::decode(&entry.attrs).unwrap();
        assert_eq!(values, client.attributes(&path, &wanted).await, "{path}");
        assert_eq!(values.fileid, Some(1));
        assert_ne!(values.fsid, Some(Fsid4::default()));
        covered.push(values.mounted_on_fileid.unwrap());
    }
    covered.sort_unstable();
    covered.dedup();
    assert_eq!(covered.len(), 2);
    assert!(!covered.contains(&1));
}

#[tokio::test]
async fn listings_go_on_behind_a_cookie() {
    let fixture = several();
    let client = fixture.client().await;
    let all = entries(&client, "/", Bitmap4::EMPTY).await;
    for (index, entry) in all.iter().enumerate() {
        assert!(entry.cookie > 2);
        let rest = client.at("/", [list(Bitmap4::EMPTY, entry.cookie)]).await;
        assert_eq!(last!(rest, Readdir).reply.entries, all[index + 1..]);
    }
    let tight = ReaddirArgs {
        cookie: 0,
        cookieverf: Verifier4::default(),
        dircount: 0,
        maxcount: 16 + 32,
        attr_request: Bitmap4::EMPTY,
    };
    let listed = last!(client.at("/", [readdir(tight)]).await, Readdir).reply;
    assert_eq!((listed.entries.len(), listed.eof), (1, false));
    let refused = readdir(ReaddirArgs {
        maxcount: 20,
        ..tight
    });
    assert_eq!(client.status_at("/", [refused]).await, NfsStat4::TooSmall);
}

#[tokio::test]
async fn everybody_may_look_around_and_nobody_change() {
    let fixture = several();
    let client = fixture.client().await;
    let asked = READ | LOOKUP | MODIFY | EXTEND | DELETE;
    let answer = last!(client.at("/a", [access(asked)]).await, Access);
    assert_eq!(
        answer,
        AccessResOk {
            supported: asked,
            access: READ | LOOKUP
        }
    );
}

/// Operations that would change the current directory or something in it.
fn changes() -> Vec<ArgOp4> {
    let how = OpenFlag4::Create(CreateHow4::Unchecked(Fattr4::default()));
    vec![
        create(CreateType4::Dir, "new", mode(0o755)),
        remove("one"),
        setattr(Stateid4::ANONYMOUS, mode(0o777)),
        setxattr(SetxattrOption4::Either, "name", b"value"),
        removexattr("name"),
        open("owner", share::ACCESS_BOTH, "new", how),
    ]
}

#[tokio::test]
async fn the_pseudo_file_system_cannot_be_changed() {
    let fixture = several();
    let client = fixture.client().await;
    for operation in changes() {
        let status = client.status_at("/a", [operation.clone()]).await;
        assert_eq!(status, NfsStat4::RoFs, "{operation:?}");
    }
    for operation in [rename("one", "two"), link("three")] {
        let status = client.status_at("/a", [savefh(), operation.clone()]).await;
        assert_ne!(status, NfsStat4::Ok, "{operation:?}");
        let mut ops = go_to("/b");
        ops.push(savefh());
        ops.extend(go_to("/a"));
        ops.push(operation.clone());
        assert_eq!(
            client.compound(ops).await.status,
            NfsStat4::RoFs,
            "{operation:?}"
        );
    }
    for operation in [getxattr("name"), listxattrs(0, 4096)] {
        assert_eq!(client.status_at("/a", [operation]).await, NfsStat4::NotSupp);
    }
}

#[tokio::test]
async fn read_only_exports_cannot_be_changed_either() {
    let rules = vec![
        rule(ELSEWHERE, AccessMode::ReadWrite),
        rule(CLIENT_ADDRESS, AccessMode::ReadOnly),
    ];
    let fixture = Fixture::with(vec![Plan {
        path: "/export",
        rules,
    }]);
    let writer = fixture.client_from(ELSEWHERE).await;
    writer.make_directories("/export", &["one"]).await;
    let reader = fixture.client().await;
    assert_eq!(names(&reader, "/export").await, ["one"]);
    for operation in changes() {
        let status = reader.status_at("/export", [operation.clone()]).await;
        assert_eq!(status, NfsStat4::RoFs, "{operation:?}");
    }
    for operation in [rename("one", "two"), link("three")] {
        let status = reader
            .status_at("/export", [savefh(), operation.clone()])
            .await;
        assert_eq!(status, NfsStat4::RoFs, "{operation:?}");
    }
    let answer = last!(reader.at("/export", [access(READ | MODIFY)]).await, Access);
    assert_eq!(
        answer,
        AccessResOk {
            supported: READ | MODIFY,
            access: READ
        }
    );
}

#[tokio::test]
async fn an_export_can_be_the_root() {
    let fixture = Fixture::with(vec![Plan::open("/")]);
    let client = fixture.client().await;
    client.make_directories("/", &["directory", "below"]).await;
    assert_eq!(names(&client, "/").await, ["directory"]);
    let reply = client.at("/directory", [lookupp(), getfh()]).await;
    assert_eq!(last!(reply, Getfh).object, client.handle("/").await);
    assert_eq!(client.status_at("/", [lookupp()]).await, NfsStat4::NoEnt);
    let root = client
        .attributes("/", &[Attr::Fsid, Attr::Fileid, Attr::MountedOnFileid])
        .await;
    assert_ne!(root.fsid, Some(Fsid4::default()));
    assert_eq!(root.mounted_on_fileid, root.fileid);
}

/// Without AUTH_SYS, one can look around, find out that AUTH_SYS is needed, and no more
/// (RFC 8881, section 2.6.3.1).
#[tokio::test]
async fn the_flavor_counts_when_an_export_is_entered() {
    let fixture = several();
    let client = fixture.client().await.as_nobody();
    let reply = client.at("/", [lookup("b")]).await;
    assert_eq!(statuses(&reply), [NfsStat4::Ok, NfsStat4::WrongSec]);
    client.at("/", [secinfo("b")]).await.ok();
    let wanted = Bitmap4::of(&[Attr::RdattrError, Attr::MountedOnFileid, Attr::Type]);
    for entry in entries(&client, "/a", wanted).await {
        let values = Attributes4::decode(&entry.attrs).unwrap();
        assert_eq!(values.rdattr_error, Some(NfsStat4::WrongSec));
        assert_eq!(
            (values.type_, values.mounted_on_fileid.is_some()),
            (None, true)
        );
    }
    let refused = list(Bitmap4::of(&[Attr::Type]), 0);
    assert_eq!(client.status_at("/a", [refused]).await, NfsStat4::Access);
}
