//! Reading directories page by page while they change.

use std::collections::BTreeSet;

use crate::fixture::random::Random;
use crate::fixture::{Fixture, root, user, with_mode};
use vfs::{Cookie, DirectoryEntry, Error, FileSystem, ObjectId};

const ROOT: ObjectId = ObjectId::ROOT;

fn names(entries: &[DirectoryEntry]) -> BTreeSet<String> {
    entries.iter().map(|entry| entry.name.to_string()).collect()
}

async fn filled(count: u32) -> Fixture {
    let store = Fixture::new();
    for number in 0..count {
        store.file(ROOT, &format!("name{number}")).await;
    }
    store
}

#[tokio::test]
async fn pages_of_any_size_hold_every_name_once_in_cookie_order() {
    let store = filled(50).await;
    let expected: BTreeSet<String> = (0..50).map(|number| format!("name{number}")).collect();
    for page in [1, 3, 49, 50, 51, usize::MAX] {
        let entries = store.list(ROOT, page).await;
        assert_eq!(
            (entries.len(), names(&entries)),
            (50, expected.clone()),
            "pages of {page}"
        );
        assert!(entries.is_sorted_by(|a, b| a.cookie < b.cookie));
        let valid =
            |entry: &DirectoryEntry| entry.cookie >= Cookie::FIRST && entry.cookie.0 < 1 << 63;
        assert!(entries.iter().all(valid));
    }
}

#[tokio::test]
async fn an_empty_directory_is_one_empty_page() {
    let store = Fixture::new();
    let page = store
        .store()
        .read_directory(&root(), ROOT, Cookie::START, 10)
        .await
        .unwrap();
    assert!(page.end && page.entries.is_empty());
}

#[tokio::test]
async fn entries_carry_their_attributes() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let entries = store.list(ROOT, 10).await;
    assert_eq!(entries[0].attributes, store.attributes(id).await);
}

#[tokio::test]
async fn what_stays_is_listed_once_while_others_come_and_go() {
    let store = filled(40).await;
    let who = root();
    let mut seen: Vec<DirectoryEntry> = Vec::new();
    for round in 0.. {
        let after = seen.last().map_or(Cookie::START, |entry| entry.cookie);
        let page = store
            .store()
            .read_directory(&who, ROOT, after, 5)
            .await
            .unwrap();
        seen.extend(page.entries);
        if page.end {
            break;
        }
        // The even names stay; odd ones are removed, among them the one after which the listing continues.
        let last = seen.last().map(|entry| entry.name.to_string()).unwrap();
        let number: u32 = last
            .trim_start_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .unwrap();
        if last.starts_with("name") && number % 2 == 1 {
            store.remove(ROOT, &last).await.unwrap();
        }
        store.file(ROOT, &format!("new{round}")).await;
    }
    let listed: Vec<String> = seen.iter().map(|entry| entry.name.to_string()).collect();
    for number in (0..40).step_by(2) {
        let name = format!("name{number}");
        assert_eq!(
            listed.iter().filter(|listed| **listed == name).count(),
            1,
            "{name}"
        );
    }
    assert_eq!(names(&seen).len(), seen.len(), "a name came twice");
}

/// The names of a directory are cached in runs. The directory has more names than a run holds and is listed after each change;
/// with each page size the listing shows exactly the present names.
#[tokio::test]
async fn every_listing_shows_every_change_before_it() {
    let store = Fixture::new();
    let home = store.directory(ROOT, "home").await;
    let mut there: Vec<String> = (0..1000).map(|number| format!("name{number}")).collect();
    for text in &there {
        store.file(home, text).await;
    }
    let mut random = Random(7);
    for step in 0..150 {
        let at = random.place(there.len());
        let new = format!("new{step}");
        match random.below(4) {
            0 => {
                store.file(home, &new).await;
                there.push(new);
            }
            1 => {
                let gone = there.swap_remove(at);
                store.remove(home, &gone).await.unwrap();
            }
            2 => {
                store
                    .rename((home, &there[at]), (home, &new))
                    .await
                    .unwrap();
                there[at] = new;
            }
            _ => {
                let id = store.find(home, &there[at]).await.unwrap();
                store.write(id, 0, new.as_bytes()).await.unwrap();
            }
        }
        let page = [3000, 70, 300][random.place(3)];
        let entries = store.list(home, page).await;
        assert!(entries.is_sorted_by(|a, b| a.cookie < b.cookie));
        assert_eq!(
            names(&entries),
            there.iter().cloned().collect(),
            "after step {step}"
        );
        let shown = &entries[random.place(entries.len())];
        let id = store.find(home, &shown.name.to_string()).await.unwrap();
        assert_eq!(shown.attributes, store.attributes(id).await);
    }
}

#[tokio::test]
async fn a_cookie_outlives_a_restart_and_its_own_name() {
    let mut store = filled(10).await;
    let before = store.list(ROOT, 10).await;
    store
        .remove(ROOT, &before[4].name.to_string())
        .await
        .unwrap();
    store.reopen().await;
    let who = root();
    let rest = store
        .store()
        .read_directory(&who, ROOT, before[4].cookie, 10)
        .await
        .unwrap();
    let cookies: Vec<Cookie> = rest.entries.iter().map(|entry| entry.cookie).collect();
    let expected: Vec<Cookie> = before[5..].iter().map(|entry| entry.cookie).collect();
    assert_eq!(cookies, expected);
}

#[tokio::test]
async fn a_name_keeps_its_cookie_when_it_leads_elsewhere() {
    let store = filled(3).await;
    let before = store.list(ROOT, 10).await;
    store.file(ROOT, "other").await;
    store
        .rename((ROOT, "other"), (ROOT, "name1"))
        .await
        .unwrap();
    let after = store.list(ROOT, 10).await;
    let cookies = |entries: &[DirectoryEntry]| -> Vec<Cookie> {
        entries.iter().map(|entry| entry.cookie).collect()
    };
    assert_eq!(cookies(&before), cookies(&after));
}

#[tokio::test]
async fn impossible_cookies_are_refused() {
    let store = filled(3).await;
    for cookie in [1, 2, 1 << 63, u64::MAX] {
        let page = store
            .store()
            .read_directory(&root(), ROOT, Cookie(cookie), 10)
            .await;
        assert_eq!(page, Err(Error::BadCookie), "{cookie}");
    }
    let last = Cookie((1 << 63) - 1);
    assert!(
        store
            .store()
            .read_directory(&root(), ROOT, last, 10)
            .await
            .unwrap()
            .end
    );
}

#[tokio::test]
async fn listing_needs_read_permission_and_a_directory() {
    let store = filled(1).await;
    let home = store.owned_directory("home", 10, 20, 0o711).await;
    let stranger = user(11, 21, &[]);
    let refused = store
        .store()
        .read_directory(&stranger, home, Cookie::START, 10)
        .await;
    assert_eq!(refused, Err(Error::AccessDenied));
    store.set(home, &with_mode(0o744)).await.unwrap();
    store
        .store()
        .read_directory(&stranger, home, Cookie::START, 10)
        .await
        .unwrap();
    let file = store.find(ROOT, "name0").await.unwrap();
    let refused = store
        .store()
        .read_directory(&root(), file, Cookie::START, 10)
        .await;
    assert_eq!(refused, Err(Error::NotDirectory));
}
