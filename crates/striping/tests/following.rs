//! A copy of a replicated tree whose contents are striped over data servers. The contents equal those of the other copy, whatever happens
//! to either.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fixture::{PAIR, Site, UNIT, named, view};
use pool::{DataServerNumber, Placement, PlacementNumber, StripeUnit};
use store::{
    Change, CommitHook, ContentDigest, ContentPiece, ForeignUpdate, NewStore, Store, StoreOptions,
    Verified,
};
use striping::NewFiles;
use tempfile::TempDir;
use tokio::task::JoinSet;
use vfs::{
    AccessCheck, Creation, Credentials, Error, Extent, FileSystem, NewObject, ObjectId,
    ReplicaSlot, Result, SetAttributes, Stability,
};

const LEADER: ReplicaSlot = ReplicaSlot(1);
const FOLLOWER: ReplicaSlot = ReplicaSlot(2);
/// Some stripes, and a part of one.
const LENGTH: usize = 5 * UNIT as usize + 777;

/// Approves every change.
struct Approver;

impl CommitHook for Approver {
    fn before_commit(
        &self,
        _: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> Result<u64>,
    ) -> Result<()> {
        commit(Some(b"approved")).map(|_| ())
    }
}

/// A copy in data files that makes changes, and a striped copy that follows it.
struct Pair {
    leader: Arc<Store>,
    follower: Site,
    _directory: TempDir,
}

fn bytes(seed: u8, length: usize) -> Bytes {
    let byte = |at: usize| (at % 251) as u8 ^ seed | 1;
    (0..length).map(byte).collect()
}

/// Whether a file with these bytes is below a directory.
fn has_file(directory: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.any(|path| match path.is_dir() {
        true => has_file(&path, bytes),
        false => fs::read(&path).unwrap() == bytes,
    })
}

impl Pair {
    async fn new() -> Pair {
        let directory = TempDir::new().unwrap();
        let options = StoreOptions::new(directory.path().join("leader"));
        let leader = Store::create(&options, &NewStore::default()).unwrap();
        leader.end_reclaim().await.unwrap();
        leader.replicate(false);
        let follower = Site::of_a_set(leader.tree(), FOLLOWER).await;
        follower.store.replicate(false);
        Pair {
            leader: Arc::new(leader.with_hook(Arc::new(Approver))),
            follower,
            _directory: directory,
        }
    }

    fn own(&self) -> Store {
        self.follower.store.with_hook(Arc::new(Approver))
    }

    async fn make(&self, name: &str) -> ObjectId {
        let (new, set) = (NewObject::File(Creation::Guarded), SetAttributes::default());
        let (who, name) = (Credentials::root(), named(name));
        let made = self
            .leader
            .create(&who, ObjectId::ROOT, &name, new, &set)
            .await;
        made.unwrap().attributes.id
    }

    async fn write(&self, file: ObjectId, offset: u64, data: Bytes) {
        let who = Credentials::root();
        let access = AccessCheck::Open(&who);
        let written = self
            .leader
            .write(access, file, offset, data, Stability::File);
        written.await.unwrap();
    }

    async fn made(&self, name: &str, seed: u8) -> ObjectId {
        let file = self.make(name).await;
        self.write(file, 0, bytes(seed, LENGTH)).await;
        file
    }

    async fn resize(&self, file: ObjectId, size: u64) {
        let who = Credentials::root();
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let resized = self
            .leader
            .set_attributes(AccessCheck::Open(&who), file, &set);
        resized.await.unwrap();
    }

    async fn remove(store: &Store, name: &str) {
        let who = Credentials::root();
        let name = named(name);
        let removed = store.remove(&who, ObjectId::ROOT, &name);
        removed.await.unwrap();
    }

    /// Applies the leader's changes.
    async fn follow(&self) {
        let store = &self.follower.store;
        let mut last = None;
        let from = store.applied(LEADER).unwrap() + 1;
        for record in self.leader.updates(from, 10_000).unwrap() {
            let update = ForeignUpdate {
                from: LEADER,
                position: record.position,
                changes: record.changes,
                incomplete: Vec::new(),
            };
            let applied = store.apply(update, &mut |_, commit| commit()).await;
            last = Some(applied.unwrap());
        }
        if let Some(last) = last {
            store.wait_stable(last).await.unwrap();
        }
    }

    /// The leader's pieces of a file.
    fn pieces(&self, file: ObjectId) -> Vec<ContentPiece> {
        let size = self.leader.file_size(file).unwrap();
        let steps = (0..size).step_by(100_000);
        let pieces = steps.flat_map(|at| self.leader.content(file, at, 100_000).unwrap());
        pieces.collect()
    }

    async fn ship(&self, file: ObjectId) {
        for piece in self.pieces(file) {
            let put = async || self.follower.store.put_content(file, piece.clone()).await;
            self.follower.in_time(put).await.unwrap();
        }
    }

    async fn same(&self, file: ObjectId) {
        let who = Credentials::root();
        let size = self.leader.file_size(file).unwrap();
        assert_eq!(self.follower.store.file_size(file), Ok(size));
        let count = u32::try_from(size).unwrap();
        let access = AccessCheck::Open(&who);
        let theirs = self.leader.read(access, file, 0, count).await.unwrap();
        let ours = self
            .follower
            .in_time(async || self.follower.read(file, 0, count).await)
            .await
            .unwrap();
        assert!(theirs.bytes == ours, "{file} differs");
    }

    /// Replaces the follower's tree by the leader's.
    async fn resynchronise(&self) {
        let positions = self.begin_resync().await;
        let finished = self.follower.store.finish_base(positions);
        finished.await.unwrap();
    }

    /// The same up to the last step. Returns the leader's positions for it.
    async fn begin_resync(&self) -> Vec<(ReplicaSlot, u64)> {
        let store = &self.follower.store;
        store.begin_resync().await.unwrap();
        let mut scan = self.leader.base().await.unwrap();
        loop {
            let page = scan.next_page(1 << 20).unwrap();
            if page.is_empty() {
                return scan.positions.clone();
            }
            store.install_base(page).await.unwrap();
        }
    }

    /// Waits until no file is marked. A file that was just written is marked, so its remembered digest is uncertain.
    async fn rest(&self) {
        while self.follower.store.statistics().dirty_files > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn fetch(&self) {
        let store = &self.follower.store;
        for file in store.files_to_fetch().unwrap() {
            self.ship(file).await;
            store.note_fetched(&[file]).await.unwrap();
        }
    }

    fn placement(&self, file: ObjectId) -> Placement {
        let rows = self.follower.store.placed_rows();
        Placement::decode(&rows.placement(file).unwrap().unwrap()).unwrap()
    }

    async fn objects(&mut self) -> [BTreeSet<ObjectId>; 3] {
        let mut all: [BTreeSet<ObjectId>; 3] = Default::default();
        for (number, found) in (1..).zip(&mut all) {
            let objects = self.follower.objects_at(number).await;
            *found = objects.into_iter().map(ObjectId::from_u64).collect();
        }
        all
    }

    /// The correct digest of a file.
    async fn digest(&self, file: ObjectId) -> ContentDigest {
        let leader = self.leader.clone();
        let verified =
            tokio::task::spawn_blocking(move || leader.verify_content(file, &mut |_| true));
        match verified.await.unwrap().unwrap() {
            Verified::Same(found) | Verified::NotKnown(found) => found,
            other => panic!("{other:?}"),
        }
    }

    /// Replaces a damaged content by the leader's.
    async fn mend(&self, file: ObjectId) {
        let store = &self.follower.store;
        loop {
            let begun = self
                .follower
                .in_time(async || store.begin_mending(file).await)
                .await;
            let mending = begun.unwrap();
            for piece in self.pieces(file) {
                mending.put(piece).await.unwrap();
            }
            let digest = self.digest(file).await;
            match mending.finish(digest, Box::new(|_| true)).await {
                Ok(true) => return,
                // A file stays marked for a while after a write.
                Ok(false) | Err(Error::Delay) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_of_another_copy_lie_on_the_data_servers() {
    let mut pair = Pair::new().await;
    let file = pair.made("file", 3).await;
    let small = pair.make("small").await;
    pair.write(small, 0, bytes(9, 100)).await;
    pair.follow().await;
    for file in [file, small] {
        pair.ship(file).await;
        pair.same(file).await;
    }
    let everywhere = pair.objects().await;
    assert!(everywhere.iter().all(|found| found.contains(&file)));

    // It shrinks, grows over a hole, and gets a hole in the middle.
    pair.resize(file, 2 * UNIT + 5).await;
    pair.follow().await;
    pair.resize(file, 4 * UNIT).await;
    pair.write(file, 4 * UNIT, bytes(5, 1000)).await;
    let who = Credentials::root();
    let hole = Extent {
        offset: 10,
        length: UNIT,
    };
    let punched = pair.leader.deallocate(AccessCheck::Open(&who), file, hole);
    punched.await.unwrap();
    pair.follow().await;
    pair.ship(file).await;
    pair.same(file).await;

    pair.follower = pair.follower.restart_home().await;
    pair.follower.store.replicate(false);
    pair.same(file).await;
    pair.same(small).await;
    // Only another copy's data was written here, so no new version is needed.
    assert_eq!(pair.follower.store.recovered(), Ok(vec![]));

    for name in ["file", "small"] {
        Pair::remove(&pair.leader, name).await;
    }
    pair.follow().await;
    pair.follower.cleared().await;
    assert!(pair.objects().await.iter().all(BTreeSet::is_empty));
}

/// A file may be removed while another copy still sends its contents.
#[tokio::test(flavor = "multi_thread")]
async fn contents_of_a_file_that_is_removed_meanwhile_lie_nowhere() {
    let mut pair = Pair::new().await;
    let names: Vec<String> = (0..50).map(|number| format!("file {number}")).collect();
    let mut files = Vec::new();
    for name in &names {
        let file = pair.make(name).await;
        pair.write(file, 0, bytes(9, 544)).await;
        files.push((file, pair.pieces(file)));
    }
    pair.follow().await;
    pair.rest().await;
    for name in &names {
        Pair::remove(&pair.leader, name).await;
    }
    let mut arriving = JoinSet::new();
    for (file, pieces) in files {
        let store = pair.follower.store.clone();
        arriving.spawn(async move {
            for piece in pieces {
                // The piece is stored, or the file is gone.
                let put = store.put_content(file, piece).await;
                let is_late = matches!(put, Err(Error::Stale | Error::Delay));
                assert!(put.is_ok() || is_late, "{put:?}");
            }
        });
    }
    while pair.follower.store.statistics().dirty_files == 0 {
        tokio::task::yield_now().await;
    }
    pair.follow().await;
    arriving.join_all().await;
    pair.follower.cleared().await;
    assert!(pair.objects().await.iter().all(BTreeSet::is_empty));
    let (home, _directory) = pair.follower.close_home().await;
    let report = Store::check(&home, false).unwrap();
    assert!(report.sound && report.findings.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_replaces_another_keeps_what_is_the_same_and_leaves_nothing_behind() {
    let mut pair = Pair::new().await;
    let [same, changed, gone] = [
        pair.made("same", 1).await,
        pair.made("changed", 2).await,
        pair.made("gone", 3).await,
    ];
    pair.follow().await;
    for file in [same, changed, gone] {
        pair.ship(file).await;
    }
    let before = pair.placement(same);
    pair.write(changed, UNIT, bytes(7, 100)).await;
    Pair::remove(&pair.leader, "gone").await;
    let new = pair.made("new", 4).await;
    pair.rest().await;
    pair.resynchronise().await;
    let wanted = pair.follower.store.files_to_fetch().unwrap();
    assert_eq!(wanted, [changed, new]);
    assert_eq!(pair.placement(same).group, before.group);
    assert_eq!(pair.placement(same).number, before.number);
    pair.fetch().await;
    for file in [same, changed, new] {
        pair.same(file).await;
    }
    pair.follower.cleared().await;
    let kept = BTreeSet::from([same, changed, new]);
    assert!(pair.objects().await.iter().all(|found| *found == kept));

    // Files that were removed only here return under another number, because data servers remember the old one.
    Pair::remove(&pair.own(), "same").await;
    pair.follower.cleared().await;
    pair.resynchronise().await;
    assert!(
        pair.follower
            .store
            .files_to_fetch()
            .unwrap()
            .contains(&same)
    );
    assert_ne!(pair.placement(same).number, PlacementNumber(1));
    pair.fetch().await;
    for file in [same, changed, new] {
        pair.same(file).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_to_replace_a_copy_is_begun_again_after_its_contents_were_cut() {
    let mut pair = Pair::new().await;
    let file = pair.made("file", 1).await;
    pair.follow().await;
    pair.ship(file).await;
    let before = pair.placement(file).generation;
    pair.write(file, UNIT, bytes(7, 100)).await;
    pair.rest().await;
    let positions = pair.begin_resync().await;
    // The cut is decided, but its data servers are not told.
    let network = pair.follower.network.clone();
    network.loses_intents.store(true, Ordering::SeqCst);
    let cut = async {
        while pair.follower.intents() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = pair.follower.store.finish_base(positions) => panic!("{ended:?}"),
        () = cut => {}
    }
    pair.follower = pair.follower.restart_home().await;
    pair.follower.store.replicate(false);
    pair.resynchronise().await;
    assert!(pair.placement(file).generation > before);
    pair.fetch().await;
    pair.same(file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_content_is_had_from_another_copy() {
    let pair = Pair::new().await;
    let file = pair.made("file", 3).await;
    pair.follow().await;
    pair.ship(file).await;
    let before = pair.placement(file);
    let (store, version) = (&pair.follower.store, pair.digest(file).await.change);
    while !store.note_damaged(file, version, true).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    pair.mend(file).await;
    assert!(!store.is_damaged(file));
    assert_ne!(pair.placement(file).number, before.number);
    pair.same(file).await;
    while pair.follower.intents() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // A discarded version is saved aside with its bytes.
    let files = [file];
    let saved = store.save_aside("discarded", "a test says so", &files);
    assert_eq!(saved.await.unwrap().objects, 1);
    let (home, _directory) = pair.follower.close_home().await;
    assert!(has_file(&home.join("recovered"), &bytes(3, LENGTH)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lay_at_a_lost_data_server_comes_again_also_when_it_is_changed_meanwhile() {
    let mut pair = Pair::new().await;
    let file = pair.made("file", 3).await;
    pair.follow().await;
    pair.ship(file).await;
    pair.follower.stop(3).await;
    let mut book = view();
    book.servers.remove(&DataServerNumber(3));
    book.forgotten.insert(DataServerNumber(3));
    book.new_files = Some(NewFiles {
        group: PAIR,
        unit: StripeUnit::new(UNIT).unwrap(),
    });
    pair.follower.striped.update_view(book);
    pair.follower.striped.dismiss(DataServerNumber(3));

    for stripe in 0..3 {
        pair.write(file, stripe * UNIT, bytes(8, 100_000)).await;
    }
    pair.follow().await;
    pair.ship(file).await;
    assert!(pair.follower.store.is_damaged(file));
    assert_eq!(pair.placement(file).group, PAIR);
    pair.mend(file).await;
    pair.same(file).await;
}
