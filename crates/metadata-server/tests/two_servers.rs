//! A joined metadata server shows the home's objects and has the home make changes. Questions and answers pass through their encodings,
//! between two stores. Only the network is missing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fixture::{Pool, READS, called, owned};
use bytes::Bytes;
use vfs::{
    AccessCheck, Cookie, Creation, Credentials, Error, Extent, FileSystem, NewObject, ObjectId,
    ObjectKind, ReplicaSlot, RequestId, SetAttributes, Stability, XattrMode, XattrName,
};

#[tokio::test]
async fn what_the_home_has_is_shown_as_it_is_there() {
    let pool = Pool::new();
    let bytes: Vec<u8> = (0..(3 << 19) + 77_u32).map(|at| (at / 999) as u8).collect();
    let file = pool.file("large", &bytes).await;
    let (who, root) = (&pool.who, ObjectId::ROOT);
    let found = pool.second.lookup(who, root, &called("large")).await;
    assert_eq!(found.unwrap(), file);
    let missing = pool.second.lookup(who, root, &called("none")).await;
    assert_eq!(missing, Err(Error::NotFound));
    // A change at the home is visible at the other server at once.
    let other = pool.file("other", b"").await;
    let found = pool.second.lookup(who, root, &called("other")).await;
    assert_eq!(found.unwrap(), other);
    let page = |tree: Arc<dyn FileSystem>| async move {
        let who = Credentials::root();
        let page = tree.read_directory(&who, ObjectId::ROOT, Cookie::START, usize::MAX);
        page.await.unwrap()
    };
    let (shown, there) = (page(pool.second.clone()), page(pool.first()));
    assert_eq!(shown.await, there.await);
    pool.open(file.id, "reader").await.unwrap();
    let before = pool.wire.asked.load(Ordering::SeqCst);
    assert_eq!(pool.read(file.id).await.unwrap(), bytes);
    let pieces = pool.wire.asked.load(Ordering::SeqCst) - before;
    assert_eq!(pieces, 4, "an answer has a bound");
    let access = AccessCheck::Open(who);
    let part = pool.second.read(access, file.id, 600_000, 600_000).await;
    assert_eq!(part.unwrap().bytes, bytes[600_000..1_200_000]);
    assert_eq!(
        pool.second.properties().fs_id,
        pool.first().properties().fs_id
    );
    let (space, known) = (pool.second.space().await, pool.first().space().await);
    assert_eq!(space.unwrap().total_bytes, known.unwrap().total_bytes);
}

#[tokio::test]
async fn rights_are_checked_at_the_home_for_every_caller() {
    let pool = Pool::new();
    let file = pool.file("secret", b"mine").await;
    let other = Credentials {
        user: 1000,
        group: 1000,
        ..Credentials::root()
    };
    let access = AccessCheck::Credentials(&other);
    let opened = pool
        .second
        .open(access, file.id, &owned("other"), READS)
        .await;
    assert_eq!(opened, Err(Error::AccessDenied));
    let read = pool.second.read(access, file.id, 0, 10).await;
    assert_eq!(read, Err(Error::AccessDenied));
}

#[tokio::test]
async fn changes_are_made_at_the_home() {
    let pool = Pool::new();
    let (who, root, name) = (&pool.who, ObjectId::ROOT, called("file"));
    let (tree, access) = (&pool.second, AccessCheck::Open(who));
    let set = SetAttributes {
        mode: Some(0o640),
        ..SetAttributes::default()
    };
    let new = NewObject::File(Creation::Guarded);
    let made = tree.create(who, root, &name, new.clone(), &set).await;
    let made = made.unwrap();
    assert!(made.made && made.attributes.mode == 0o640);
    let file = made.attributes.id;
    let again = tree.create(who, root, &name, new, &set).await;
    assert_eq!(again.err(), Some(Error::Exists));
    let bytes: Vec<u8> = (0..(3 << 19) + 7_u32).map(|at| (at / 999) as u8).collect();
    let data = Bytes::from(bytes.clone());
    let written = tree.write(access, file, 0, data, Stability::Unstable).await;
    let written = written.unwrap();
    assert_eq!(written.count as usize, bytes.len());
    let done = tree.commit(file, 0, 0).await.unwrap();
    assert_eq!(done.verifier, written.verifier);
    let there = pool.first().read(access, file, 0, 4 << 20).await.unwrap();
    assert_eq!(there.bytes, bytes);
    let extent = Extent {
        offset: 0,
        length: 4096,
    };
    tree.deallocate(access, file, extent).await.unwrap();
    tree.allocate(access, file, extent).await.unwrap();
    let there = pool.first().read(access, file, 0, 4096).await.unwrap();
    assert_eq!(there.bytes, vec![0; 4096]);
    let plain = NewObject::Plain(ObjectKind::Directory);
    let below = tree.create(who, root, &called("below"), plain, &set).await;
    let below = below.unwrap().attributes.id;
    tree.link(who, file, below, &called("link")).await.unwrap();
    let (from, to) = ((root, &name), (below, &called("moved")));
    tree.rename(who, from, to).await.unwrap();
    let removed = tree.remove(who, below, &called("link")).await.unwrap();
    let attribute = XattrName::new(b"name".to_vec()).unwrap();
    let value = Bytes::from(vec![7; 60_000]);
    let any = XattrMode::Any;
    let valued = tree.set_xattr(who, file, &attribute, value.clone(), any);
    valued.await.unwrap();
    assert_eq!(pool.first().xattr(who, file, &attribute).await, Ok(value));
    tree.remove_xattr(who, file, &attribute).await.unwrap();
    let cut = SetAttributes {
        size: Some(1),
        ..SetAttributes::default()
    };
    assert_eq!(
        tree.set_attributes(access, file, &cut).await.unwrap().size,
        1
    );
    let found = pool.first().lookup(who, below, &called("moved")).await;
    assert_eq!(found.unwrap().links, 1);
    let directory = pool.first().attributes(below).await.unwrap();
    assert_eq!(directory.change, removed.after);
    assert_eq!(pool.first().attributes(file).await.unwrap().size, 1);
}

#[tokio::test]
async fn what_a_request_has_done_is_not_done_twice() {
    let pool = Pool::new();
    let request = RequestId {
        series: [3; RequestId::SERIES_BYTES],
        number: 1,
        part: 2,
        digest: 9,
        repeat_only: false,
    };
    assert!(pool.second.keeps_requests());
    let who = pool.who.with_request(Some(request));
    let make = || async {
        let new = NewObject::File(Creation::Guarded);
        let (name, set) = (called("once"), SetAttributes::default());
        let made = pool.second.create(&who, ObjectId::ROOT, &name, new, &set);
        made.await
    };
    let made = make().await.unwrap();
    // Even by another run of the server.
    pool.wire.run.store(2, Ordering::SeqCst);
    assert_eq!(make().await.unwrap(), made);
    let ended = vec![[3; RequestId::GROUP_BYTES]];
    pool.second.end_requests(ended).await.unwrap();
    assert_eq!(make().await.err(), Some(Error::Exists));
}

#[tokio::test]
async fn what_requests_have_done_grows_old_when_their_session_is_used_at_no_server() {
    let pool = Pool::new().keeping().await;
    let group = [3; RequestId::GROUP_BYTES];
    let request = RequestId {
        series: [3; RequestId::SERIES_BYTES],
        number: 1,
        part: 2,
        digest: 9,
        repeat_only: false,
    };
    let who = pool.who.with_request(Some(request));
    let make = || async {
        let new = NewObject::File(Creation::Guarded);
        let (name, set) = (called("once"), SetAttributes::default());
        let made = pool.second.create(&who, ObjectId::ROOT, &name, new, &set);
        made.await
    };
    let ages = async || {
        let first = pool.first();
        first.age_requests(HashSet::new()).await.unwrap();
    };
    let made = make().await.unwrap();
    for _ in 0..5 {
        ages().await;
    }
    assert_eq!(
        make().await.unwrap(),
        made,
        "the other server has said nothing"
    );
    for _ in 0..6 {
        let alive = HashSet::from([group]);
        pool.second.age_requests(alive).await.unwrap();
        ages().await;
    }
    assert_eq!(make().await.unwrap(), made, "the session is used");
    for _ in 0..6 {
        pool.second.age_requests(HashSet::new()).await.unwrap();
        ages().await;
    }
    assert_eq!(make().await.err(), Some(Error::Exists));
}

#[tokio::test]
async fn what_is_open_there_stays_when_it_is_removed_until_it_is_closed() {
    let pool = Pool::new().serving().await;
    let file = pool.file("open", b"bytes").await.id;
    pool.open(file, "one").await.unwrap();
    // The same owner at the home itself counts as another one.
    let access = AccessCheck::Credentials(&pool.who);
    let at_home = pool.first().open(access, file, &owned("one"), READS).await;
    at_home.unwrap();
    pool.remove("open").await;
    pool.first().close(file, &owned("one")).await.unwrap();
    assert_eq!(pool.read(file).await.unwrap(), b"bytes");
    pool.second.close(file, &owned("one")).await.unwrap();
    assert_eq!(pool.read(file).await, Err(Error::Stale));
}

#[tokio::test]
async fn clients_open_again_what_they_had_when_their_server_was_started_anew_and_the_rest_is_closed()
 {
    let pool = Pool::new().serving().await;
    let file = pool.file("open", b"bytes").await.id;
    let other = pool.file("other", b"others").await.id;
    for object in [file, other] {
        pool.open(object, "one").await.unwrap();
    }
    for name in ["open", "other"] {
        pool.remove(name).await;
    }
    pool.wire.run.store(2, Ordering::SeqCst);
    pool.begin_telling().await;
    pool.open(file, "one").await.unwrap();
    // A late question of the previous run is refused.
    pool.wire.run.store(1, Ordering::SeqCst);
    assert_eq!(pool.open(file, "late").await, Err(Error::Delay));
    pool.wire.run.store(2, Ordering::SeqCst);
    assert_eq!(pool.read(other).await.unwrap(), b"others");
    pool.second.end_reclaim().await.unwrap();
    assert_eq!(pool.read(other).await, Err(Error::Stale));
    assert_eq!(pool.read(file).await.unwrap(), b"bytes");
    // A removed server has nothing open.
    pool.home().part(ReplicaSlot(2)).await;
    assert_eq!(pool.read(file).await, Err(Error::Stale));
}

#[tokio::test]
async fn a_home_that_is_away_is_waited_for_and_told_what_is_open_when_it_is_back() {
    let mut pool = Pool::new().serving().await;
    pool.begin_telling().await;
    pool.second.end_reclaim().await.unwrap();
    let file = pool.file("open", b"bytes").await.id;
    let closed = pool.file("closed", b"bytes").await.id;
    pool.open(file, "one").await.unwrap();
    pool.open(closed, "one").await.unwrap();
    pool.wire.home.lock().unwrap().take();
    let name = called("open");
    let away = pool.second.lookup(&pool.who, ObjectId::ROOT, &name);
    assert_eq!(away.await, Err(Error::Delay));
    assert_eq!(pool.open(file, "two").await, Err(Error::Delay));
    assert_eq!(
        pool.second.close(closed, &owned("one")).await,
        Err(Error::Delay)
    );
    assert_eq!(pool.second.hand_over().await, Err(Error::Delay));
    // The restarted home knows of no opens.
    pool.restart_home().await;
    pool.wire.pass(3.4);
    assert_eq!(
        pool.second.hand_over().await,
        Ok((1, 0)),
        "what is open, and no more"
    );
    pool.first().end_reclaim().await.unwrap();
    pool.remove("open").await;
    pool.remove("closed").await;
    assert_eq!(pool.read(file).await.unwrap(), b"bytes");
    assert_eq!(pool.read(closed).await, Err(Error::Stale));
}

#[tokio::test]
async fn another_tree_is_not_meant() {
    let (pool, other) = (Pool::new(), Pool::new());
    *pool.wire.home.lock().unwrap() = Some(other.home());
    let asked = pool.second.attributes(ObjectId::ROOT).await;
    assert!(matches!(asked, Err(Error::Io(_))), "{asked:?}");
}
