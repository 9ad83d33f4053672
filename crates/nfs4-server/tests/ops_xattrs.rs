//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276).

use std::collections::BTreeSet;

use crate::fixture::operations::*;
use crate::fixture::{Client, Fixture, Successful, last, mode, text};
use nfs4::{Attr, CreateType4, ListxattrsResOk, NfsStat4, SetxattrOption4, Stateid4};
use xdr::Writer;

const FILE: &str = "/export/file";

async fn tree() -> (Fixture, Client) {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    client.make_file("/export", "file").await;
    client.make("/export", "fifo", CreateType4::Fifo).await;
    (fixture, client)
}

fn set_any(name: &str, value: &[u8]) -> nfs4::ArgOp4 {
    setxattr(SetxattrOption4::Either, name, value)
}

/// Reads all names, page by page.
async fn list_all(client: &Client, maxcount: u32) -> (Vec<String>, usize) {
    let (mut names, mut cookie, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page: ListxattrsResOk = last!(
            client.at(FILE, [listxattrs(cookie, maxcount)]).await,
            Listxattrs
        );
        let mut w = Writer::new();
        w.write(&page);
        assert!(w.position() <= maxcount as usize);
        names.extend(page.names.iter().map(text));
        (cookie, pages) = (page.cookie, pages + 1);
        if page.eof {
            return (names, pages);
        }
        assert!(!page.names.is_empty());
    }
}

#[tokio::test]
async fn what_was_set_is_found_again() {
    let (_fixture, client) = tree().await;
    for path in ["/export", FILE] {
        for value in [&b"value"[..], b"", &[7; 60_000]] {
            client.at(path, [set_any("user.attr1", value)]).await.ok();
            let got = last!(client.at(path, [getxattr("user.attr1")]).await, Getxattr);
            assert_eq!(&got.value[..], value);
        }
    }
}

#[tokio::test]
async fn setxattr_and_removexattr_tell_how_the_object_changed() {
    let (_fixture, client) = tree().await;
    let change = async || {
        client
            .attributes(FILE, &[Attr::Change])
            .await
            .change
            .unwrap()
    };
    let before = change().await;
    let info = last!(client.at(FILE, [set_any("a", b"1")]).await, Setxattr).info;
    assert_eq!(
        (info.atomic, info.before, info.after),
        (true, before, change().await)
    );
    assert!(info.after > info.before);
    let info = last!(client.at(FILE, [removexattr("a")]).await, Removexattr).info;
    assert!(info.after > info.before);
    assert_eq!(info.after, change().await);
}

#[tokio::test]
async fn options_of_setxattr_count() {
    let (_fixture, client) = tree().await;
    let set = |option| setxattr(option, "a", b"1");
    let replace = client
        .status_at(FILE, [set(SetxattrOption4::Replace)])
        .await;
    assert_eq!(replace, NfsStat4::NoXattr);
    assert_eq!(
        client.status_at(FILE, [set(SetxattrOption4::Create)]).await,
        NfsStat4::Ok
    );
    assert_eq!(
        client.status_at(FILE, [set(SetxattrOption4::Create)]).await,
        NfsStat4::Exist
    );
    assert_eq!(
        client
            .status_at(FILE, [set(SetxattrOption4::Replace)])
            .await,
        NfsStat4::Ok
    );
    assert_eq!(
        client.status_at(FILE, [set(SetxattrOption4::Either)]).await,
        NfsStat4::Ok
    );
}

#[tokio::test]
async fn what_is_not_there_is_neither_read_nor_removed() {
    let (_fixture, client) = tree().await;
    for operation in [getxattr("vapor"), removexattr("vapor")] {
        assert_eq!(client.status_at(FILE, [operation]).await, NfsStat4::NoXattr);
    }
    client
        .at(FILE, [set_any("a", b"1"), removexattr("a")])
        .await
        .ok();
    assert_eq!(
        client.status_at(FILE, [getxattr("a")]).await,
        NfsStat4::NoXattr
    );
}

#[tokio::test]
async fn names_are_listed_page_by_page() {
    let (_fixture, client) = tree().await;
    assert_eq!(list_all(&client, 8192).await, (Vec::new(), 1));
    let names: BTreeSet<String> = (0..40)
        .map(|number| format!("{}{number}", "x".repeat(number)))
        .collect();
    for name in &names {
        client.at(FILE, [set_any(name, b"value")]).await.ok();
    }
    for (maxcount, paged) in [(8192, false), (300, true), (90, true)] {
        let (listed, pages) = list_all(&client, maxcount).await;
        assert_eq!(listed.len(), names.len(), "with {maxcount} bytes");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
        assert_eq!(pages > 1, paged);
    }
}

#[tokio::test]
async fn one_name_must_fit() {
    let (_fixture, client) = tree().await;
    client
        .at(FILE, [set_any(&"x".repeat(255), b"value")])
        .await
        .ok();
    // Cookie, count, length, name with padding, end mark.
    let exact = 8 + 4 + 4 + 256 + 4;
    assert_eq!(list_all(&client, exact).await.0.len(), 1);
    for maxcount in [0, 15, 16, exact - 1] {
        let status = client.status_at(FILE, [listxattrs(0, maxcount)]).await;
        assert_eq!(status, NfsStat4::TooSmall, "with {maxcount} bytes");
    }
}

#[tokio::test]
async fn names_and_values_have_limits() {
    let (_fixture, client) = tree().await;
    let cases = [
        (set_any("", b"1"), NfsStat4::Inval),
        (set_any("a\0", b"1"), NfsStat4::BadChar),
        (set_any(&"x".repeat(256), b"1"), NfsStat4::NameTooLong),
        (set_any("a", &[0; (64 << 10) + 1]), NfsStat4::Xattr2Big),
    ];
    for (operation, status) in cases {
        assert_eq!(client.status_at(FILE, [operation]).await, status);
    }
}

#[tokio::test]
async fn permission_is_that_of_the_data() {
    let (_fixture, client) = tree().await;
    client
        .at(
            FILE,
            [
                set_any("a", b"1"),
                setattr(Stateid4::ANONYMOUS, mode(0o604)),
            ],
        )
        .await
        .ok();
    let user = client.as_user(1000, 1000, &[]);
    user.at(FILE, [getxattr("a"), listxattrs(0, 8192)])
        .await
        .ok();
    for operation in [set_any("a", b"2"), removexattr("a")] {
        assert_eq!(user.status_at(FILE, [operation]).await, NfsStat4::Access);
    }
    client
        .at(FILE, [setattr(Stateid4::ANONYMOUS, mode(0o600))])
        .await
        .ok();
    for operation in [getxattr("a"), listxattrs(0, 8192)] {
        assert_eq!(user.status_at(FILE, [operation]).await, NfsStat4::Access);
    }
}

#[tokio::test]
async fn only_files_and_directories_have_them() {
    let (_fixture, client) = tree().await;
    let all = [
        getxattr("a"),
        set_any("a", b"1"),
        listxattrs(0, 8192),
        removexattr("a"),
    ];
    for operation in all.clone() {
        let status = client.status_at("/export/fifo", [operation.clone()]).await;
        assert_eq!(status, NfsStat4::WrongType, "{operation:?}");
        assert_eq!(
            client.compound(vec![operation]).await.status,
            NfsStat4::NoFileHandle
        );
    }
}

#[tokio::test]
async fn minor_version_1_does_not_know_them() {
    let (_fixture, client) = tree().await;
    let older = client.with_minor_version(1);
    assert_eq!(
        older.status_at(FILE, [getxattr("a")]).await,
        NfsStat4::OpIllegal
    );
}
