//! READDIR: whole listings, pages of any size, and what keeps a directory from being listed.

use std::collections::BTreeSet;

use crate::fixture::operations::*;
use crate::fixture::{Client, Fixture, Successful, last, mode, text};
use nfs4::{
    Attr, Attributes4, Bitmap4, CreateType4, Entry4, NfsStat4, ReaddirArgs, ReaddirResOk, Verifier4,
};
use xdr::Writer;

/// What Linux asks for with `ls -l`, more or less.
const COMMON: Bitmap4 = Bitmap4::of(&[
    Attr::Type,
    Attr::Change,
    Attr::Size,
    Attr::Fsid,
    Attr::RdattrError,
    Attr::Filehandle,
    Attr::Fileid,
    Attr::Mode,
    Attr::Numlinks,
    Attr::Owner,
    Attr::OwnerGroup,
    Attr::Rawdev,
    Attr::SpaceUsed,
    Attr::TimeAccess,
    Attr::TimeMetadata,
    Attr::TimeModify,
    Attr::MountedOnFileid,
]);

fn args(maxcount: u32, attr_request: Bitmap4) -> ReaddirArgs {
    ReaddirArgs {
        cookie: 0,
        cookieverf: Verifier4::default(),
        dircount: maxcount,
        maxcount,
        attr_request,
    }
}

/// A directory `/export/many` with this many entries, and their names.
async fn many(count: usize) -> (Fixture, Client, BTreeSet<String>) {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make("/export", "many", CreateType4::Dir).await;
    let names: BTreeSet<String> = (0..count).map(|number| format!("entry {number}")).collect();
    for name in &names {
        client.make("/export/many", name, CreateType4::Fifo).await;
    }
    (fixture, client, names)
}

async fn page(client: &Client, path: &str, args: ReaddirArgs) -> ReaddirResOk {
    last!(client.at(path, [readdir(args)]).await, Readdir)
}

/// Reads a directory to its end. Returns the entries of each page.
async fn read_all(client: &Client, path: &str, mut args: ReaddirArgs) -> Vec<Vec<Entry4>> {
    let mut pages = Vec::new();
    loop {
        let page = page(client, path, args).await;
        let mut w = Writer::new();
        w.write(&page);
        assert!(
            w.position() <= args.maxcount as usize,
            "{} bytes",
            w.position()
        );
        if let Some(last) = page.reply.entries.last() {
            (args.cookie, args.cookieverf) = (last.cookie, page.cookieverf);
        } else {
            assert!(page.reply.eof, "an empty page before the end");
        }
        pages.push(page.reply.entries);
        if page.reply.eof {
            return pages;
        }
    }
}

fn names_of(pages: &[Vec<Entry4>]) -> Vec<String> {
    let names = pages.iter().flatten().map(|entry| text(&entry.name));
    names.collect()
}

#[tokio::test]
async fn an_empty_directory_needs_sixteen_bytes() {
    let (_fixture, client, _) = many(0).await;
    let listed = page(&client, "/export/many", args(16, Bitmap4::EMPTY)).await;
    assert!(listed.reply.entries.is_empty() && listed.reply.eof);
    for maxcount in [0, 15] {
        let refused = readdir(args(maxcount, Bitmap4::EMPTY));
        assert_eq!(
            client.status_at("/export/many", [refused]).await,
            NfsStat4::TooSmall
        );
    }
}

#[tokio::test]
async fn every_entry_is_listed_once_whatever_the_size_of_the_pages() {
    let (_fixture, client, names) = many(60).await;
    for attributes in [Bitmap4::EMPTY, COMMON] {
        for maxcount in [300, 350, 400, 1000, 4096, 1 << 20] {
            let pages = read_all(&client, "/export/many", args(maxcount, attributes)).await;
            let listed = names_of(&pages);
            assert_eq!(listed.len(), names.len(), "with {maxcount} bytes");
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
            match maxcount {
                ..=1000 => assert!(pages.len() > 1, "with {maxcount} bytes"),
                4096 => {}
                _ => assert_eq!(pages.len(), 1),
            }
        }
    }
}

#[tokio::test]
async fn entries_carry_what_getattr_shows() {
    let (_fixture, client, _) = many(5).await;
    client.make_file("/export/many", "file").await;
    for entry in page(&client, "/export/many", args(8192, COMMON))
        .await
        .reply
        .entries
    {
        let path = format!("/export/many/{}", text(&entry.name));
        let shown = last!(client.at(&path, [getattr(COMMON)]).await, Getattr);
        assert_eq!(entry.attrs, shown.obj_attributes, "{path}");
        let values = Attributes4::decode(&entry.attrs).unwrap();
        assert_eq!(values.filehandle, Some(client.handle(&path).await));
        assert_eq!(values.rdattr_error, Some(NfsStat4::Ok));
    }
}

#[tokio::test]
async fn cookies_are_never_reserved_ones_and_go_up() {
    let (_fixture, client, _) = many(40).await;
    let pages = read_all(&client, "/export/many", args(1 << 20, Bitmap4::EMPTY)).await;
    let cookies: Vec<u64> = pages.iter().flatten().map(|entry| entry.cookie).collect();
    assert!(cookies.iter().all(|cookie| *cookie > 2));
    assert!(cookies.is_sorted_by(|earlier, later| earlier < later));
}

/// A reader that removes what it has read must not lose its place.
#[tokio::test]
async fn removing_what_was_read_does_not_disturb_reading_on() {
    let (_fixture, client, names) = many(30).await;
    let mut place = args(400, Bitmap4::EMPTY);
    let mut seen = BTreeSet::new();
    loop {
        let listed = page(&client, "/export/many", place).await;
        for entry in &listed.reply.entries {
            assert!(seen.insert(text(&entry.name)));
            client
                .at("/export/many", [remove(entry.name.clone())])
                .await
                .ok();
            place.cookie = entry.cookie;
        }
        if listed.reply.eof {
            break;
        }
    }
    assert_eq!(seen, names);
}

#[tokio::test]
async fn one_entry_must_fit() {
    let (_fixture, client, _) = many(1).await;
    let listed = page(&client, "/export/many", args(4096, COMMON)).await;
    let exact = {
        let mut w = Writer::new();
        w.write(&listed);
        w.position() as u32
    };
    let fits = ReaddirArgs {
        dircount: 0,
        ..args(exact, COMMON)
    };
    assert_eq!(page(&client, "/export/many", fits).await, listed);
    let refused = readdir(ReaddirArgs {
        maxcount: exact - 1,
        ..fits
    });
    assert_eq!(
        client.status_at("/export/many", [refused]).await,
        NfsStat4::TooSmall
    );
}

#[tokio::test]
async fn the_hint_about_names_is_taken() {
    let (_fixture, client, names) = many(60).await;
    let hinted = ReaddirArgs {
        dircount: 200,
        ..args(1 << 20, Bitmap4::EMPTY)
    };
    let pages = read_all(&client, "/export/many", hinted).await;
    assert!(pages.len() > 5);
    assert_eq!(names_of(&pages).len(), names.len());
}

/// The session's limit counts as well as the client's: a page fits into the reply.
#[tokio::test]
async fn pages_fit_into_the_replies_of_the_session() {
    let (_fixture, client, names) = many(60).await;
    let narrow = client.with_session(2, 2048).await;
    let pages = read_all(&narrow, "/export/many", args(1 << 20, COMMON)).await;
    assert!(pages.len() > 5);
    assert_eq!(names_of(&pages).len(), names.len());
}

#[tokio::test]
async fn reserved_cookies_and_foreign_verifiers_are_refused() {
    let (_fixture, client, _) = many(1).await;
    for cookie in [1, 2] {
        let refused = readdir(ReaddirArgs {
            cookie,
            ..args(4096, Bitmap4::EMPTY)
        });
        assert_eq!(
            client.status_at("/export/many", [refused]).await,
            NfsStat4::BadCookie
        );
    }
    let cookieverf = Verifier4(*b"foreign!");
    let refused = readdir(ReaddirArgs {
        cookie: 5,
        cookieverf,
        ..args(4096, Bitmap4::EMPTY)
    });
    assert_eq!(
        client.status_at("/export/many", [refused]).await,
        NfsStat4::NotSame
    );
    let never = readdir(ReaddirArgs {
        cookie: u64::MAX,
        ..args(4096, Bitmap4::EMPTY)
    });
    assert_eq!(
        client.status_at("/export/many", [never]).await,
        NfsStat4::BadCookie
    );
}

#[tokio::test]
async fn only_directories_are_listed() {
    let (_fixture, client, _) = many(1).await;
    client.make_file("/export", "file").await;
    let target = xdr::Bytes::from_static(b"many");
    client
        .make("/export", "symlink", CreateType4::Lnk(target))
        .await;
    let list = || readdir(args(4096, Bitmap4::EMPTY));
    for path in ["/export/file", "/export/symlink", "/export/many/entry 0"] {
        assert_eq!(
            client.status_at(path, [list()]).await,
            NfsStat4::NotDir,
            "{path}"
        );
    }
    assert_eq!(
        client.compound(vec![list()]).await.status,
        NfsStat4::NoFileHandle
    );
}

#[tokio::test]
async fn listing_needs_permission_to_read() {
    let (_fixture, client, _) = many(1).await;
    client
        .at("/export", [create(CreateType4::Dir, "closed", mode(0o711))])
        .await
        .ok();
    let user = client.as_user(1000, 1000, &[]);
    for attributes in [Bitmap4::EMPTY, COMMON] {
        let list = readdir(args(4096, attributes));
        assert_eq!(
            user.status_at("/export/closed", [list]).await,
            NfsStat4::Access
        );
    }
}

#[tokio::test]
async fn asking_for_what_can_only_be_set_is_wrong() {
    let (_fixture, client, _) = many(1).await;
    let list = readdir(args(4096, Bitmap4::of(&[Attr::TimeModifySet])));
    assert_eq!(
        client.status_at("/export/many", [list]).await,
        NfsStat4::Inval
    );
}
