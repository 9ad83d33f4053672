//! A store whose tree is replaced by that of another: both are the same afterwards, and only missing content is
//! fetched.

use std::collections::BTreeSet;

use crate::fixture::pair::{LEADER, Pair, apply, update};
use crate::fixture::resync::{fetch, files, replace_rows, same_tree};
use crate::fixture::{Fixture, READ, root, with_mode, with_size};
use proptest::collection::vec;
use proptest::prelude::*;
use store::{BaseState, ForeignUpdate, Store};
use vfs::{
    ByteRange, Error, FileSystem, LockKind, LockOwner, ObjectId, ObjectKind, Stability, XattrMode,
    XattrName,
};

const ROOT: ObjectId = ObjectId::ROOT;

/// Operations at one store; small numbers choose among a few names, directories and places.
#[derive(Clone, Debug)]
enum Work {
    File(u8, u8),
    Directory(u8, u8),
    Write((u8, u8), u16, u16, bool),
    Resize((u8, u8), u16),
    Rename((u8, u8), (u8, u8)),
    Link((u8, u8), (u8, u8)),
    Remove(u8, u8),
    Mode((u8, u8), u8),
    Xattr((u8, u8), u8),
}

fn place() -> impl Strategy<Value = (u8, u8)> {
    (0..3_u8, 0..5_u8)
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => place().prop_map(|(d, n)| Work::File(d, n)),
        1 => place().prop_map(|(d, n)| Work::Directory(d, n)),
        6 => (place(), any::<u16>(), 1..20_000_u16, any::<bool>())
            .prop_map(|(at, offset, length, stable)| Work::Write(at, offset, length, stable)),
        2 => (place(), any::<u16>()).prop_map(|(at, size)| Work::Resize(at, size)),
        2 => (place(), place()).prop_map(|(from, to)| Work::Rename(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Work::Link(from, to)),
        2 => place().prop_map(|(d, n)| Work::Remove(d, n)),
        1 => (place(), any::<u8>()).prop_map(|(at, mode)| Work::Mode(at, mode)),
        1 => (place(), 0..3_u8).prop_map(|(at, which)| Work::Xattr(at, which)),
    ]
}

/// The stage of a resynchronisation before which the store crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    Begin,
    Rows,
    Fetch,
    Half,
    Never,
}

fn crash() -> impl Strategy<Value = Crash> {
    use Crash::*;
    prop_oneof![
        Just(Begin),
        Just(Rows),
        Just(Fetch),
        Just(Half),
        Just(Never)
    ]
}

fn text(name: u8) -> String {
    format!("n{name}")
}

async fn folder(store: &Fixture, number: u8) -> Option<ObjectId> {
    match number {
        0 => Some(ROOT),
        _ => store
            .find(ROOT, ["x", "y"][usize::from(number) - 1])
            .await
            .ok(),
    }
}

async fn find(store: &Fixture, (at, name): (u8, u8)) -> Option<(ObjectId, ObjectKind)> {
    let id = store
        .find(folder(store, at).await?, &text(name))
        .await
        .ok()?;
    Some((id, store.attributes(id).await.kind))
}

/// Carries out an operation. An impossible operation leaves everything unchanged.
async fn carry_out(store: &Fixture, work: &Work, stamp: u8) -> Option<()> {
    match work.clone() {
        Work::File(at, name) => {
            let at = folder(store, at).await?;
            store
                .make(at, &text(name), crate::fixture::file())
                .await
                .ok()?;
        }
        Work::Directory(at, name) => {
            let at = folder(store, at).await?;
            store
                .make(at, &text(name), crate::fixture::directory())
                .await
                .ok()?;
        }
        Work::Write(at, offset, length, stable) => {
            let (id, _) = find(store, at).await?;
            let stability = [Stability::Unstable, Stability::File][usize::from(stable)];
            let data = vec![stamp; usize::from(length)];
            let who = root();
            let written = store.write_as(&who, id, offset.into(), &data, stability);
            written.await.ok()?;
        }
        Work::Resize(at, size) => {
            let (id, _) = find(store, at).await?;
            store.set(id, &with_size(size.into())).await.ok()?;
        }
        Work::Rename(from, to) => {
            let (source, target) = (folder(store, from.0).await?, folder(store, to.0).await?);
            let (old, new) = (text(from.1), text(to.1));
            let moved = store.rename((source, &old), (target, &new));
            moved.await.ok()?;
        }
        Work::Link(from, to) => {
            let (id, _) = find(store, from).await?;
            store
                .link(id, folder(store, to.0).await?, &text(to.1))
                .await
                .ok()?;
        }
        Work::Remove(at, name) => {
            store
                .remove(folder(store, at).await?, &text(name))
                .await
                .ok()?;
        }
        Work::Mode(at, mode) => {
            let (id, _) = find(store, at).await?;
            store.set(id, &with_mode(mode.into())).await.ok()?;
        }
        Work::Xattr(at, which) => {
            let (id, _) = find(store, at).await?;
            let name = XattrName::new(format!("a{which}").into_bytes()).unwrap();
            let value = vec![stamp; 600].into();
            let who = root();
            let set = store
                .store()
                .set_xattr(&who, id, &name, value, XattrMode::Any);
            set.await.ok()?;
        }
    }
    Some(())
}

/// Two stores with the same tree, both of which make changes.
async fn twins(works: &[Work]) -> Pair {
    let mut pair = Pair::new().await;
    for name in ["x", "y"] {
        pair.leader.directory(ROOT, name).await;
    }
    for (stamp, work) in works.iter().enumerate() {
        carry_out(&pair.leader, work, stamp as u8).await;
    }
    pair.follow().await;
    for id in files(pair.leader.store()).await.into_keys() {
        pair.ship(id).await;
    }
    pair.follower.hook();
    pair
}

/// The files that a store has to fetch after a resynchronisation.
async fn lacking(pair: &Pair) -> BTreeSet<ObjectId> {
    let store = pair.follower.store();
    let here = files(store).await;
    let mut doubtful: BTreeSet<ObjectId> = store.unshipped().unwrap().into_iter().collect();
    doubtful.extend(store.recovered().unwrap());
    doubtful.extend(
        store
            .incomplete_files(LEADER)
            .unwrap()
            .iter()
            .map(|one| one.0),
    );
    let there = files(pair.leader.store()).await.into_iter();
    let lacking = there.filter(|(id, version)| {
        version.1 > 0 && (here.get(id) != Some(version) || doubtful.contains(id))
    });
    lacking.map(|(id, _)| id).collect()
}

/// Begins, installs some pages, and crashes.
async fn interrupt(pair: &mut Pair, pages: usize) {
    let store = pair.follower.store();
    store.begin_resync().await.unwrap();
    let mut scan = pair.leader.store().base().await.unwrap();
    for _ in 0..pages {
        store
            .install_base(scan.next_page(500).unwrap())
            .await
            .unwrap();
    }
    pair.follower.crash();
    let state = pair.follower.store().base_state();
    assert_eq!(state, Ok(BaseState::Resynchronising));
}

async fn sound(fixture: &mut Fixture) {
    let directory = fixture.options.directory.clone();
    // Everything that has to be cleared away is cleared away, or is listed.
    fixture.close();
    let report = Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}

async fn resynchronise(mut pair: Pair, crash: Crash) {
    let wanted = lacking(&pair).await;
    let own = pair.follower.store().base().await.unwrap().positions[0];
    if crash == Crash::Begin {
        interrupt(&mut pair, 0).await;
    } else if crash == Crash::Rows {
        interrupt(&mut pair, 4).await;
    }
    replace_rows(pair.leader.store(), pair.follower.store(), 3000).await;
    if crash == Crash::Fetch {
        pair.follower.crash();
    }
    assert_eq!(pair.follower.store().base_state(), Ok(BaseState::Whole));
    let fetched = pair.follower.store().files_to_fetch().unwrap();
    assert_eq!(fetched.iter().copied().collect::<BTreeSet<_>>(), wanted);
    if crash == Crash::Half {
        for id in &fetched[..fetched.len() / 2] {
            pair.ship(*id).await;
            pair.follower.store().note_fetched(&[*id]).await.unwrap();
        }
        pair.follower.crash();
    }
    fetch(pair.leader.store(), pair.follower.store()).await;
    same_tree(pair.leader.store(), pair.follower.store()).await;
    let positions = pair.follower.store().base().await.unwrap().positions;
    assert!(positions[0].1 >= own.1, "positions are never used twice");
    assert!(pair.follower.store().updates(0, 1).unwrap().is_empty());
    assert!(pair.follower.store().unshipped().unwrap().is_empty());
    // Both continue from there.
    pair.leader.file(ROOT, "afterwards").await;
    pair.follow().await;
    pair.follower.crash();
    same_tree(pair.leader.store(), pair.follower.store()).await;
    sound(&mut pair.follower).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_diverged_is_the_same_again(
        common in vec(work(), 0..30),
        there in vec(work(), 0..20),
        here in vec(work(), 0..20),
        crashed_before in any::<bool>(),
        crash in crash(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut pair = twins(&common).await;
            for (stamp, work) in there.iter().enumerate() {
                carry_out(&pair.leader, work, 100 + stamp as u8).await;
            }
            for (stamp, work) in here.iter().enumerate() {
                carry_out(&pair.follower, work, 200 + stamp as u8).await;
            }
            if crashed_before {
                pair.follower.crash();
            }
            resynchronise(pair, crash).await;
        });
    }
}

#[tokio::test]
async fn what_was_missing_before_is_fetched_although_the_version_is_the_same() {
    let pair = twins(&[Work::File(0, 0), Work::File(0, 1)]).await;
    let id = pair.leader.find(ROOT, "n0").await.unwrap();
    pair.leader.write(id, 0, &[9; 5000]).await.unwrap();
    let from = pair.follower.store().applied(LEADER).unwrap() + 1;
    for record in pair.leader.store().updates(from, 10).unwrap() {
        let update = ForeignUpdate {
            incomplete: vec![id],
            ..update(record)
        };
        apply(pair.follower.store(), update, &mut Vec::new())
            .await
            .unwrap();
    }
    assert_eq!(lacking(&pair).await, BTreeSet::from([id]));
    resynchronise(pair, Crash::Never).await;
}

#[tokio::test]
async fn two_changes_that_came_out_with_one_version_are_told_apart() {
    let pair = twins(&[Work::File(0, 0), Work::Write((0, 0), 0, 9000, true)]).await;
    let id = pair.leader.find(ROOT, "n0").await.unwrap();
    pair.leader.write(id, 0, b"there").await.unwrap();
    pair.follower.write(id, 0, b"here!").await.unwrap();
    let there = pair.leader.attributes(id).await;
    let here = pair.follower.attributes(id).await;
    assert_eq!((there.change, there.size), (here.change, here.size));
    assert_eq!(lacking(&pair).await, BTreeSet::from([id]));
    resynchronise(pair, Crash::Never).await;
}

#[tokio::test]
async fn what_was_removed_here_comes_back_with_its_content() {
    let written = Work::Write((0, 0), 0, 9000, true);
    let pair = twins(&[Work::File(0, 0), written]).await;
    let id = pair.leader.find(ROOT, "n0").await.unwrap();
    // From here on the data file may be cleared away at any time.
    pair.follower.remove(ROOT, "n0").await.unwrap();
    assert_eq!(lacking(&pair).await, BTreeSet::from([id]));
    resynchronise(pair, Crash::Never).await;
}

#[tokio::test]
async fn what_does_not_exist_there_leaves_nothing_behind() {
    let mut pair = twins(&[]).await;
    let id = pair.follower.file(ROOT, "mine").await;
    pair.follower.write(id, 0, &[1; 50_000]).await.unwrap();
    pair.follower.open(id, "owner", READ).await.unwrap();
    let owner = LockOwner {
        client: b"client"[..].into(),
        owner: b"owner"[..].into(),
    };
    let locked = pair.follower.find(ROOT, "x").await.unwrap();
    let locked = pair.follower.file(locked, "locked").await;
    let all = ByteRange::EVERYTHING;
    let lock = pair
        .follower
        .store()
        .lock(locked, &owner, all, LockKind::Write);
    lock.await.unwrap();
    replace_rows(pair.leader.store(), pair.follower.store(), 1000).await;
    let store = pair.follower.store();
    assert_eq!(store.attributes(id).await, Err(Error::Stale));
    assert!(!store.holds_lock(locked, &owner).await.unwrap());
    same_tree(pair.leader.store(), store).await;
    let statistics = (store.statistics().objects, store.statistics().orphans);
    assert_eq!(statistics, (pair.leader.store().statistics().objects, 0));
    sound(&mut pair.follower).await;
    pair.follower.reopen_unsynced();
    // Clearing happens in the background.
    pair.follower.store().begin_resync().await.unwrap();
    let data = pair.follower.options.directory.join("data");
    assert_eq!(data_files(&data), 0);
}

fn data_files(path: &std::path::Path) -> usize {
    let children = std::fs::read_dir(path)
        .unwrap()
        .map(|child| child.unwrap().path());
    children
        .map(|child| {
            if child.is_dir() {
                data_files(&child)
            } else {
                1
            }
        })
        .sum()
}

#[tokio::test]
async fn an_empty_store_can_begin_like_that_too() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.write(id, 0, &[4; 3000]).await.unwrap();
    assert_eq!(lacking(&pair).await, BTreeSet::from([id]));
    resynchronise(pair, Crash::Half).await;
}
