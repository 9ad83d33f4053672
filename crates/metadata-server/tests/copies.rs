//! A joined metadata server answers repeated questions from copies, and no change is seen late. Messages are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::{Pool, ROOT, called};
use bytes::Bytes;
use tokio::task::JoinHandle;
use vfs::{
    AccessCheck, Attributes, Cookie, Credentials, DirectoryChange, DirectoryPage, Error,
    FileSystem, NewObject, ObjectId, ObjectKind, ReplicaSlot, RequestId, SetAttributes,
};

async fn keeping() -> Pool {
    let pool = Pool::new().serving().await.keeping().await;
    pool.questions();
    pool
}

async fn list(tree: &dyn FileSystem, entries: usize) -> DirectoryPage {
    let who = Credentials::root();
    let page = tree.read_directory(&who, ROOT, Cookie::START, entries);
    page.await.unwrap()
}

/// Begins to change a file's mode at the home.
fn change(pool: &Pool, id: ObjectId, mode: u32) -> JoinHandle<Attributes> {
    let tree = pool.first();
    tokio::spawn(async move {
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let who = Credentials::root();
        let access = AccessCheck::Credentials(&who);
        tree.set_attributes(access, id, &set).await.unwrap()
    })
}

/// Gives all tasks time to continue.
async fn rest() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn an_access_to_a_file_of_the_other_server_costs_one_message_and_a_second_one_none() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await;
    assert_eq!(pool.lookup("file").await.unwrap(), file);
    assert_eq!(pool.questions(), 1);
    for _ in 0..3 {
        assert_eq!(pool.lookup("file").await.unwrap(), file);
        assert_eq!(pool.second.attributes(file.id).await.unwrap(), file);
    }
    assert_eq!(pool.questions(), 0);
    let metrics = pool.second.metrics();
    assert_eq!((metrics.answered, metrics.taken_back), (6, 0));
    // A change is visible at once, and costs one more message.
    let changed = pool.set_mode(file.id, 0o640).await;
    assert_eq!(pool.second.attributes(file.id).await.unwrap(), changed);
    assert_eq!(pool.questions(), 1);
    assert_eq!(pool.lookup("file").await.unwrap(), changed);
    assert_eq!(pool.questions(), 0);
    pool.remove("file").await;
    assert_eq!(pool.lookup("file").await, Err(Error::NotFound));
    assert_eq!(pool.second.attributes(file.id).await, Err(Error::Stale));
    // A missing name is asked for each time.
    assert_eq!(pool.lookup("file").await, Err(Error::NotFound));
    assert_eq!(pool.questions(), 3);
}

#[tokio::test]
async fn a_directory_is_listed_again_without_a_message_until_something_in_it_changes() {
    let pool = keeping().await;
    for name in 0..20 {
        pool.file(&format!("file {name}"), b"").await;
    }
    let (first, second) = (pool.first(), pool.second.clone());
    let shown = list(&*second, 7).await;
    assert_eq!(shown, list(&*first, 7).await);
    assert_eq!((shown.entries.len(), pool.questions()), (7, 1));
    assert_eq!(list(&*second, 7).await, shown);
    // Each entry came with its attributes.
    for entry in &shown.entries {
        let found = second.attributes(entry.attributes.id).await;
        assert_eq!(found.unwrap(), entry.attributes);
    }
    assert_eq!(pool.questions(), 0);
    let changed = pool.set_mode(shown.entries[3].attributes.id, 0o640).await;
    assert_eq!(list(&*second, 7).await.entries[3].attributes, changed);
    assert_eq!(pool.questions(), 1);
    for name in 20..60 {
        pool.file(&format!("file {name}"), b"").await;
    }
    assert_eq!(list(&*second, 7).await, list(&*first, 7).await);
    assert_eq!(pool.questions(), 1);
}

#[tokio::test]
async fn a_large_directory_costs_a_message_for_each_page_and_none_the_second_time() {
    const CHILDREN: usize = 1500;
    let pool = keeping().await;
    for child in 0..CHILDREN {
        let new = NewObject::Plain(ObjectKind::Fifo);
        pool.make(&format!("child {child}"), new).await;
    }
    for questions in [2, 0] {
        let (mut after, mut children) = (Cookie::START, 0);
        loop {
            let page = pool.second.read_directory(&pool.who, ROOT, after, 5000);
            let page = page.await.unwrap();
            for entry in &page.entries {
                let found = pool.second.lookup(&pool.who, ROOT, &entry.name).await;
                assert_eq!(found.unwrap(), entry.attributes);
            }
            children += page.entries.len();
            if page.end {
                break;
            }
            after = page.entries.last().unwrap().cookie;
        }
        assert_eq!((children, pool.questions()), (CHILDREN, questions));
    }
}

#[tokio::test]
async fn links_and_the_way_up_are_kept_and_opening_brings_what_is_so_now() {
    let pool = keeping().await;
    let (who, tree) = (pool.who.clone(), pool.second.clone());
    let target = Bytes::from_static(b"../target");
    let link = pool.make("link", NewObject::Symlink(target.clone())).await;
    let plain = NewObject::Plain(ObjectKind::Directory);
    let below = pool.make("below", plain).await;
    for questions in [1, 0] {
        assert_eq!(tree.read_link(&who, link.id).await, Ok(target.clone()));
        assert_eq!(pool.questions(), questions);
    }
    for questions in [1, 0] {
        let up = tree.parent(&who, below.id).await.unwrap();
        assert_eq!((up.id, pool.questions()), (ROOT, questions));
    }
    // After a move it has another parent.
    let other = NewObject::Plain(ObjectKind::Directory);
    let other = pool.make("other", other).await.id;
    let (from, to) = (called("below"), called("moved"));
    let moved = pool.first();
    let moved = moved.rename(&who, (ROOT, &from), (other, &to));
    moved.await.unwrap();
    assert_eq!(tree.parent(&who, below.id).await.unwrap().id, other);
    let file = pool.file("file", b"bytes").await;
    pool.questions();
    assert_eq!(pool.open(file.id, "one").await.unwrap(), file);
    assert_eq!(tree.attributes(file.id).await.unwrap(), file);
    assert_eq!(pool.questions(), 1);
}

#[tokio::test]
async fn rights_are_checked_at_a_copy_as_at_the_home() {
    let pool = keeping().await;
    let other = Credentials {
        user: 1000,
        group: 1000,
        ..Credentials::root()
    };
    let plain = NewObject::Plain(ObjectKind::Directory);
    let below = pool.make("below", plain).await.id;
    let (tree, name) = (&pool.second, called("name"));
    let new = NewObject::Plain(ObjectKind::Fifo);
    let set = SetAttributes::default();
    let first = pool.first();
    let made = first.create(&pool.who, below, &name, new, &set);
    let made = made.await.unwrap().attributes;
    tree.lookup(&pool.who, below, &name).await.unwrap();
    pool.questions();
    let refused = tree.lookup(&other, below, &name).await;
    assert_eq!(refused, Err(Error::AccessDenied));
    let refused = tree.read_directory(&other, below, Cookie::START, 9).await;
    assert_eq!(refused, Err(Error::AccessDenied));
    let no_directory = tree.lookup(&other, made.id, &name).await;
    assert_eq!(no_directory, Err(Error::NotDirectory));
    assert_eq!(pool.questions(), 0);
    pool.set_mode(below, 0o755).await;
    assert_eq!(tree.lookup(&other, below, &name).await.unwrap(), made);
    pool.set_mode(below, 0o700).await;
    let refused = tree.lookup(&other, below, &name).await;
    assert_eq!(refused, Err(Error::AccessDenied));
}

#[tokio::test]
async fn a_change_waits_for_a_server_that_is_cut_off_until_its_lease_has_run_out_once() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await;
    pool.lookup("file").await.unwrap();
    pool.wire.is_deaf.store(true, Ordering::SeqCst);
    let changed = change(&pool, file.id, 0o640);
    let (first, second) = (pool.first(), pool.second.clone());
    rest().await;
    // The change is not visible yet: neither to the client that made it, nor to a client at the home.
    let looks = tokio::spawn(async move { first.attributes(file.id).await.unwrap() });
    rest().await;
    assert!(!changed.is_finished() && !looks.is_finished());
    assert_eq!(second.attributes(file.id).await.unwrap(), file);
    assert_eq!(pool.questions(), 1, "the lookup");
    // Its copy becomes invalid long before the home relies on that.
    pool.wire.pass(2.8);
    let asks = tokio::spawn(async move { second.attributes(file.id).await.unwrap() });
    rest().await;
    assert!(!changed.is_finished() && !looks.is_finished() && !asks.is_finished());
    pool.wire.pass(0.6);
    let changed = changed.await.unwrap();
    assert_eq!(changed.mode, 0o640);
    assert_eq!(looks.await.unwrap(), changed);
    assert_eq!(asks.await.unwrap(), changed);
    // It has no lease, so no change waits for it, and nothing is kept there.
    let changed = pool.set_mode(file.id, 0o600).await;
    for _ in 0..2 {
        assert_eq!(pool.second.attributes(file.id).await.unwrap(), changed);
    }
    assert_eq!(pool.questions(), 3);
    pool.wire.is_deaf.store(false, Ordering::SeqCst);
    until(|| pool.second.metrics().taken_back > 0).await;
    rest().await;
    for questions in [1, 0] {
        assert_eq!(pool.second.attributes(file.id).await.unwrap(), changed);
        assert_eq!(pool.questions(), questions);
    }
}

/// Begins to remove a file at the home, or to repeat that.
fn remove(pool: &Pool, repeat_only: bool) -> JoinHandle<vfs::Result<DirectoryChange>> {
    let request = RequestId {
        series: [3; RequestId::SERIES_BYTES],
        number: 1,
        part: 0,
        digest: 9,
        repeat_only,
    };
    let (tree, who) = (pool.first(), pool.who.with_request(Some(request)));
    tokio::spawn(async move { tree.remove(&who, ROOT, &called("file")).await })
}

#[tokio::test]
async fn a_repeat_is_answered_no_sooner_than_the_change_itself() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await;
    // The directory is unknown there.
    pool.second.attributes(file.id).await.unwrap();
    pool.wire.is_deaf.store(true, Ordering::SeqCst);
    let removed = remove(&pool, false);
    rest().await;
    let again = remove(&pool, true);
    rest().await;
    assert!(!removed.is_finished() && !again.is_finished());
    assert_eq!(pool.second.attributes(file.id).await.unwrap(), file);
    pool.wire.pass(3.4);
    assert_eq!(removed.await.unwrap(), again.await.unwrap());
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_home_that_was_started_anew_answers_nobody_while_there_may_be_copies_it_does_not_know() {
    for hears in [true, false] {
        let mut pool = keeping().await;
        let file = pool.file("file", b"bytes").await;
        pool.lookup("file").await.unwrap();
        pool.restart_home().await;
        let changed = change(&pool, file.id, 0o640);
        rest().await;
        assert!(!changed.is_finished());
        assert_eq!(pool.second.attributes(file.id).await.unwrap(), file);
        match hears {
            true => {
                pool.second.meet(2);
                pool.second.ask_for_lease().await.unwrap();
            }
            false => pool.wire.pass(3.4),
        }
        let changed = changed.await.unwrap();
        assert_eq!(pool.second.attributes(file.id).await.unwrap(), changed);
    }
}

#[tokio::test]
async fn nobody_waits_for_copies_of_a_server_that_was_started_anew_or_removed() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await;
    pool.lookup("file").await.unwrap();
    pool.wire.is_deaf.store(true, Ordering::SeqCst);
    let changed = change(&pool, file.id, 0o640);
    rest().await;
    assert!(!changed.is_finished());
    pool.wire.run.store(2, Ordering::SeqCst);
    pool.home().meet(pool.wire.asker());
    changed.await.unwrap();
    // A late question of the previous run grants nothing.
    pool.second.ask_for_lease().await.unwrap();
    pool.wire.pass(3.4);
    pool.wire.run.store(1, Ordering::SeqCst);
    pool.second.attributes(file.id).await.unwrap();
    let changed = change(&pool, file.id, 0o600);
    changed.await.unwrap();
    // The home waits for a server that is about to be removed. That server gets nothing in a later run, either.
    pool.wire.run.store(3, Ordering::SeqCst);
    pool.second.ask_for_lease().await.unwrap();
    let home = pool.home();
    let parting = tokio::spawn(async move { home.expect_parting(ReplicaSlot(2)).await });
    rest().await;
    assert!(!parting.is_finished());
    pool.wire.run.store(4, Ordering::SeqCst);
    pool.second.ask_for_lease().await.unwrap();
    pool.wire.pass(3.4);
    parting.await.unwrap();
    pool.questions();
    for _ in 0..2 {
        pool.second.attributes(file.id).await.unwrap();
    }
    assert_eq!(pool.questions(), 2);
    pool.home().part(ReplicaSlot(2)).await;
    change(&pool, file.id, 0o644).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_was_overtaken_by_news_is_not_kept() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await;
    let held = pool.wire.answers.lock().await;
    let second = pool.second.clone();
    let asks = tokio::spawn(async move { second.attributes(file.id).await.unwrap() });
    rest().await;
    let changed = pool.set_mode(file.id, 0o640).await;
    assert_eq!(pool.wire.told.load(Ordering::SeqCst), 1);
    drop(held);
    // The question came before the change.
    assert_eq!(asks.await.unwrap(), file);
    assert_eq!(pool.second.attributes(file.id).await.unwrap(), changed);
    assert_eq!(pool.questions(), 2);
}

#[tokio::test]
async fn of_files_that_are_written_past_the_home_nothing_is_kept() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await.id;
    pool.lookup("file").await.unwrap();
    pool.wire.past_home.lock().unwrap().insert(file);
    pool.holders().take_back(file).await;
    assert_eq!(pool.wire.told.load(Ordering::SeqCst), 1);
    pool.questions();
    for _ in 0..2 {
        pool.second.attributes(file).await.unwrap();
    }
    assert_eq!(pool.questions(), 2);
    pool.wire.past_home.lock().unwrap().clear();
    for _ in 0..2 {
        pool.second.attributes(file).await.unwrap();
    }
    assert_eq!(pool.questions(), 1);
}

#[tokio::test]
async fn copies_count_as_long_as_leases_are_asked_for() {
    let pool = keeping().await;
    let file = pool.file("file", b"bytes").await.id;
    pool.second.attributes(file).await.unwrap();
    assert!(!pool.second.wants_lease(), "nothing is in use");
    for _ in 0..4 {
        pool.second.attributes(file).await.unwrap();
        pool.wire.pass(2.0);
        assert!(pool.second.wants_lease());
        pool.second.ask_for_lease().await.unwrap();
    }
    assert_eq!(pool.questions(), 5);
    pool.wire.pass(2.8);
    for questions in [1, 0] {
        pool.second.attributes(file).await.unwrap();
        assert_eq!(pool.questions(), questions);
    }
}

/// The largest version of a file that any reader has seen.
#[derive(Default)]
struct Seen(AtomicU64);

impl Seen {
    /// A reader that looks from now on must not see an older version.
    async fn look(&self, tree: &dyn FileSystem, file: ObjectId) {
        let floor = self.0.load(Ordering::SeqCst);
        let found = tree.attributes(file).await.unwrap();
        assert!(found.change.0 >= floor, "{} behind {floor}", found.change.0);
        self.0.fetch_max(found.change.0, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_was_seen_anywhere_is_seen_by_the_next_reader() {
    let pool = keeping().await;
    let mut files = Vec::new();
    for name in ["one", "other"] {
        files.push(pool.file(name, b"").await.id);
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut looking = Vec::new();
    for file in files.clone() {
        let seen = Arc::new(Seen::default());
        let trees: [Arc<dyn FileSystem>; 3] =
            [pool.first(), pool.second.clone(), pool.second.clone()];
        for tree in trees {
            let (seen, over) = (seen.clone(), over.clone());
            looking.push(tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    seen.look(&*tree, file).await;
                    tokio::task::yield_now().await;
                }
            }));
        }
    }
    for turn in 0..150 {
        let tree: Arc<dyn FileSystem> = match turn % 3 {
            0 => pool.second.clone(),
            _ => pool.first(),
        };
        let set = SetAttributes {
            mode: Some(0o600 + turn % 8),
            ..SetAttributes::default()
        };
        let access = AccessCheck::Credentials(&pool.who);
        let file = files[turn as usize % 2];
        tree.set_attributes(access, file, &set).await.unwrap();
        // Sometimes invalidations are lost, and a lease expires.
        if turn % 50 == 49 {
            pool.wire.is_deaf.store(true, Ordering::SeqCst);
            let waits = change(&pool, file, 0o777);
            rest().await;
            pool.wire.pass(3.4);
            waits.await.unwrap();
            pool.wire.is_deaf.store(false, Ordering::SeqCst);
        }
    }
    over.store(true, Ordering::SeqCst);
    for looks in looking {
        looks.await.unwrap();
    }
    assert!(pool.second.metrics().answered > 0);
}
