//! Where trees are: the root of a domain, junctions as referrals, and what clients are told of other servers
//! (RFC 8881, section 11; RFC 6641, section 5).

use crate::fixture::operations::*;
use crate::fixture::{Client, Fixture, Plan, last, text};
use nfs4::attributes::fsli;
use nfs4::{ArgOp4, Attr, Attributes4, Bitmap4, Entry4, NfsStat4, ReaddirArgs, Verifier4};
use nfs4_server::{Junction, JunctionTarget, Location, Namespace, NamespaceError};
use vfs::Name;

const DOMAIN: &str = "example.org";
const ROOT: &str = "/.domainroot/example.org";

/// What Linux asks for when it has met a referral (`nfs4_proc_fs_locations`).
const OF_REFERRAL: Bitmap4 = Bitmap4::of(&[Attr::Fsid, Attr::FsLocations, Attr::MountedOnFileid]);

fn fixture() -> Fixture {
    Fixture::in_domain(vec![Plan::open("/physics"), Plan::open("/a/b")], DOMAIN)
}

fn junction(name: &str, to: &[(&str, &str)]) -> Junction {
    let to = to.iter().map(|(server, path)| JunctionTarget {
        server: (*server).to_owned(),
        path: path.parse().unwrap(),
    });
    Junction {
        name: Name::new(name.as_bytes().to_vec()).unwrap(),
        to: to.collect(),
    }
}

fn list(attr_request: Bitmap4) -> ArgOp4 {
    readdir(ReaddirArgs {
        cookie: 0,
        cookieverf: Verifier4::default(),
        dircount: 8192,
        maxcount: 8192,
        attr_request,
    })
}

async fn entries(client: &Client, path: &str, wanted: Bitmap4) -> Vec<Entry4> {
    last!(client.at(path, [list(wanted)]).await, Readdir)
        .reply
        .entries
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let entries = entries(client, path, Bitmap4::EMPTY).await;
    let mut names: Vec<String> = entries.iter().map(|entry| text(&entry.name)).collect();
    names.sort();
    names
}

async fn attributes(client: &Client, path: &str, wanted: Bitmap4) -> Attributes4 {
    let got = last!(client.at(path, [getattr(wanted)]).await, Getattr);
    Attributes4::decode(&got.obj_attributes).unwrap()
}

fn shown(names: &[nfs4::Component4]) -> Vec<String> {
    names.iter().map(text).collect()
}

#[tokio::test]
async fn the_root_of_the_domain_shows_the_exports_once_more() {
    let fixture = fixture();
    let client = fixture.client().await;
    assert_eq!(names(&client, "/").await, [".domainroot", "a", "physics"]);
    assert_eq!(names(&client, "/.domainroot").await, [DOMAIN]);
    assert_eq!(names(&client, ROOT).await, ["a", "physics"]);
    let handle = Bitmap4::of(&[Attr::Filehandle, Attr::Fsid]);
    for path in ["/physics", "/a/b"] {
        let below = format!("{ROOT}{path}");
        let (one, other) = (
            attributes(&client, path, handle).await,
            attributes(&client, &below, handle).await,
        );
        assert_eq!(one, other, "{path}");
    }
}

#[test]
fn what_lies_where_the_domain_is_shown_is_refused() {
    assert!(matches!(
        Namespace::in_domain(Vec::new(), "a/b"),
        Err(NamespaceError::Domain(..))
    ));
    let alone = Namespace::in_domain(Vec::new(), DOMAIN).unwrap();
    assert_eq!(alone.domain().map(<[Name]>::len), Some(2));
}

#[tokio::test]
async fn a_junction_is_found_and_is_not_here() {
    let fixture = fixture();
    let client = fixture.client().await;
    let to = [("192.0.2.7", "/export"), ("files.example.net", "/")];
    let before = attributes(&client, ROOT, Bitmap4::of(&[Attr::Change])).await;
    fixture.service.set_junctions(vec![junction("soft", &to)]);
    let after = attributes(&client, ROOT, Bitmap4::of(&[Attr::Change])).await;
    assert_ne!(before, after, "clients look again");

    let soft = format!("{ROOT}/soft");
    client.at(&soft, []).await;
    let size = Bitmap4::of(&[Attr::Size, Attr::Type]);
    for operation in [
        getfh(),
        getattr(size),
        list(Bitmap4::EMPTY),
        lookup("x"),
        lookupp(),
    ] {
        let refused = client.status_at(&soft, [operation.clone()]).await;
        assert_eq!(refused, NfsStat4::Moved, "{operation:?}");
    }

    let told = attributes(&client, &soft, OF_REFERRAL).await;
    let above = attributes(&client, ROOT, Bitmap4::of(&[Attr::Fsid])).await;
    assert_ne!(told.fsid, above.fsid, "it is a referral, no migration");
    assert!(told.mounted_on_fileid.is_some());
    let told = told.fs_locations.unwrap();
    assert_eq!(shown(&told.fs_root.0), [".domainroot", DOMAIN, "soft"]);
    let places: Vec<_> = told
        .locations
        .iter()
        .map(|place| (place.server.clone(), shown(&place.rootpath.0)))
        .collect();
    assert_eq!(
        places,
        [
            (vec!["192.0.2.7".into()], vec!["export".to_owned()]),
            (vec!["files.example.net".into()], Vec::new()),
        ]
    );

    fixture.service.set_junctions(Vec::new());
    assert_eq!(client.status_at(&soft, []).await, NfsStat4::NoEnt);
}

#[tokio::test]
async fn a_listing_shows_a_junction_as_far_as_it_can() {
    let fixture = fixture();
    let client = fixture.client().await;
    let to = [("192.0.2.7", "/export")];
    let (soft, physics) = (junction("soft", &to), junction("physics", &to));
    fixture.service.set_junctions(vec![soft, physics]);
    assert_eq!(names(&client, ROOT).await, ["a", "physics", "soft"]);
    assert_eq!(names(&client, "/").await, [".domainroot", "a", "physics"]);

    let wanted = Bitmap4::of(&[
        Attr::Type,
        Attr::Fsid,
        Attr::RdattrError,
        Attr::MountedOnFileid,
    ]);
    let listed = entries(&client, ROOT, wanted).await;
    let soft = listed.iter().find(|entry| text(&entry.name) == "soft");
    let soft = Attributes4::decode(&soft.unwrap().attrs).unwrap();
    assert_eq!(soft.rdattr_error, Some(NfsStat4::Moved));
    assert!(soft.fsid.is_some() && soft.mounted_on_fileid.is_some() && soft.type_.is_none());
    let physics = listed.iter().find(|entry| text(&entry.name) == "physics");
    let physics = Attributes4::decode(&physics.unwrap().attrs).unwrap();
    assert_eq!(
        physics.rdattr_error,
        Some(NfsStat4::Ok),
        "an export goes before a junction"
    );

    let without = list(Bitmap4::of(&[Attr::Type]));
    assert_eq!(client.status_at(ROOT, [without]).await, NfsStat4::Moved);
}

#[tokio::test]
async fn clients_are_told_where_a_replicated_tree_is_in_the_order_given() {
    let fixture = fixture();
    let client = fixture.client().await;
    let tree = fixture.service.namespace().exports()[0]
        .file_system
        .properties()
        .fs_id;
    let location = |addresses: &[&str]| Location {
        addresses: addresses.iter().map(ToString::to_string).collect(),
    };
    let locations = vec![
        location(&["192.0.2.1", "alpha.example.net"]),
        location(&["192.0.2.2"]),
    ];
    fixture.service.set_locations(tree, locations);
    let wanted = Bitmap4::of(&[Attr::FsLocations, Attr::FsLocationsInfo]);
    let told = attributes(&client, "/physics", wanted).await;
    let (short, long) = (told.fs_locations.unwrap(), told.fs_locations_info.unwrap());
    assert_eq!(shown(&short.fs_root.0), [".domainroot", DOMAIN, "physics"]);
    assert_eq!(short.locations.len(), 2);
    for place in &short.locations {
        assert_eq!(place.rootpath, short.fs_root);
    }
    assert_eq!(long.fs_root, short.fs_root);
    for (rank, (item, place)) in (0..).zip(long.items.iter().zip(&short.locations)) {
        let servers: Vec<_> = item.entries.iter().map(|one| one.server.clone()).collect();
        assert_eq!(servers, place.server);
        for entry in &item.entries {
            assert_eq!(entry.info.len(), fsli::BYTES);
            assert_eq!(entry.info[fsli::READ_RANK], rank);
            assert_eq!(entry.info[fsli::GENERAL_FLAGS], fsli::WRITABLE);
        }
    }
    let other = attributes(&client, "/a/b", wanted).await;
    assert!(other.fs_locations.unwrap().locations.is_empty());
}

/// Linux reads one page, and ten servers of a location.
#[tokio::test]
async fn what_clients_are_told_fits_into_what_they_read() {
    const PAGE: usize = 4096;
    let fixture = fixture();
    let client = fixture.client().await;
    let long = format!("/{}", "x".repeat(250));
    let to: Vec<_> = (0..10)
        .map(|_| ("files.example.net", long.as_str()))
        .collect();
    let deep = [
        ("192.0.2.1", long.repeat(20)),
        ("192.0.2.2", "/short".to_owned()),
    ];
    let deep = deep
        .each_ref()
        .map(|(server, path)| (*server, path.as_str()));
    fixture
        .service
        .set_junctions(vec![junction("many", &to), junction("deep", &deep)]);
    for attribute in [Attr::FsLocations, Attr::FsLocationsInfo] {
        for (name, told) in [("many", 10), ("deep", 1)] {
            let path = format!("{ROOT}/{name}");
            let wanted = Bitmap4::of(&[attribute, Attr::Fsid, Attr::MountedOnFileid]);
            let got = last!(client.at(&path, [getattr(wanted)]).await, Getattr);
            assert!(got.obj_attributes.attr_vals.len() < PAGE, "{name}");
            let got = Attributes4::decode(&got.obj_attributes).unwrap();
            let short = got.fs_locations.map(|places| places.locations.len());
            let long = got.fs_locations_info.map(|places| places.items.len());
            assert_eq!(short.or(long), Some(told), "{name}");
        }
    }
    let tree = fixture.service.namespace().exports()[0]
        .file_system
        .properties()
        .fs_id;
    let addresses = (0..30).map(|at| format!("192.0.2.{at}")).collect();
    fixture
        .service
        .set_locations(tree, vec![Location { addresses }]);
    let told = attributes(&client, "/physics", OF_REFERRAL).await;
    assert_eq!(told.fs_locations.unwrap().locations[0].server.len(), 10);
}
