//! A member of a set that follows another one loses its power: it still has what it reported to have, files that it considers complete are
//! the same as at the other member, and the rest is sent again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use store::{ForeignUpdate, NewStore, Store, StoreOptions};
use tokio::sync::Mutex;
use vfs::{FileSystem, ObjectId, ReplicaSlot};

use crate::fixture::Approver;
use crate::fixture::disk::SmallDisk;
use crate::fixture::pair::{LEADER, apply, file_of, ship, update};
use crate::fixture::random::Random;
use crate::fixture::resync::same_tree;
use crate::model::{Files, Hand, homes};
use crate::recorder::{Loss, Recorder};
use crate::{MEBIBYTES, mount_copy};

/// At most this many updates are applied before the follower reports its position.
const STEPS_AT_ONCE: u64 = 12;

/// The member that makes changes, and what the test knows of them.
struct Leader {
    store: Store,
    homes: [ObjectId; 2],
    files: Files,
    /// The updates that change data of files, by position.
    data: BTreeMap<u64, Vec<ObjectId>>,
}

impl Leader {
    async fn new(place: &Path) -> Leader {
        let options = StoreOptions::new(place.join("leader"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        let (store, _) = Approver::of(store);
        store.end_reclaim().await.unwrap();
        Leader {
            homes: homes(&store, 0).await,
            store,
            files: Files::default(),
            data: BTreeMap::new(),
        }
    }

    async fn step(&mut self, random: &mut Random) {
        let step = self.files.choose(random);
        let from = self.last() + 1;
        let hand = Hand {
            store: &self.store,
            homes: self.homes,
        };
        let done = hand.carry_out(&step).await;
        done.unwrap_or_else(|error| panic!("{step:?}: {error}"));
        self.files.apply(&step);
        for record in self.store.updates(from, 1000).unwrap() {
            let files = record.changes.iter().filter_map(file_of);
            let files = files.filter(|_| step.changes_data()).collect();
            self.data.insert(record.position, files);
        }
    }

    /// The position of the last update.
    fn last(&self) -> u64 {
        self.data.keys().next_back().copied().unwrap_or(0)
    }

    /// Makes a follower apply all new updates. Returns the position of the last update then.
    async fn be_followed_by(&self, follower: &Store) -> u64 {
        let mut last = follower.applied(LEADER).unwrap();
        for record in self.store.updates(last + 1, usize::MAX).unwrap() {
            last = record.position;
            let incomplete = self.data.get(&last).cloned().unwrap_or_default();
            let update = ForeignUpdate {
                incomplete,
                ..update(record)
            };
            apply(follower, update, &mut Vec::new()).await.unwrap();
        }
        last
    }

    /// Sends some of the missing contents to a follower that has applied everything.
    /// Returns which files are complete then, and up to which position.
    async fn ship_to(
        &self,
        follower: &Store,
        mut chosen: impl FnMut() -> bool,
    ) -> BTreeMap<ObjectId, u64> {
        let mut said = BTreeMap::new();
        for (id, _, position) in follower.incomplete_files(LEADER).unwrap() {
            if chosen() {
                ship(&self.store, follower, id).await;
                follower.note_complete(id, LEADER, position).await.unwrap();
                said.insert(id, position);
            }
        }
        // The leader counts these copies from now on.
        follower.wait_committed().await.unwrap();
        said
    }
}

/// Both members at work, and the position that the follower has reported.
struct Set {
    leader: Mutex<Leader>,
    follower: Store,
    told: AtomicU64,
    /// Up to which position files are complete, as the follower has reported.
    complete: StdMutex<BTreeMap<ObjectId, u64>>,
    stop: AtomicBool,
}

impl Set {
    async fn work(&self, mut random: Random) {
        while !self.stop.load(Ordering::Relaxed) {
            let mut leader = self.leader.lock().await;
            for _ in 0..=random.below(STEPS_AT_ONCE) {
                leader.step(&mut random).await;
            }
            let last = leader.be_followed_by(&self.follower).await;
            let said = match random.below(4) {
                0 => BTreeMap::new(),
                1 => leader.ship_to(&self.follower, || true).await,
                _ => leader.ship_to(&self.follower, || random.below(3) > 0).await,
            };
            self.complete.lock().unwrap().extend(said);
            if random.below(2) == 0 {
                let ticket = self.follower.reached(LEADER, last).await.unwrap();
                self.follower.wait_stable(ticket).await.unwrap();
                self.told.store(last, Ordering::SeqCst);
            }
        }
    }

    /// Asserts that files are complete after a power loss of which that was reported before. A mark of a later update may be there.
    fn is_complete(left: &Store, said: &BTreeMap<ObjectId, u64>) {
        for (id, position) in said {
            let missing = left.missing_of(*id, LEADER);
            assert!(
                missing.is_none_or(|(_, marked_at)| marked_at > *position),
                "{id} was complete up to {position}, and lacks {missing:?}"
            );
        }
    }

    /// Brings the state after a power loss to that of the other member.
    async fn catch_up(&self, left: &Store, told: u64) {
        let leader = self.leader.lock().await;
        let applied = left.applied(LEADER).unwrap();
        assert!(applied >= told, "{told} was told, {applied} is left");
        // Changes made elsewhere are sent again from there.
        assert_eq!(left.recovered().unwrap(), []);
        leader.be_followed_by(left).await;
        leader.ship_to(left, || true).await;
        same_tree(&leader.store, left).await;
    }
}

/// Repeated power losses of the disk of a follower.
pub async fn cut_power(outer: &Path, maker: &[&str], losses: u64, seed: u64) {
    let Some(recorder) = Recorder::begin(outer, MEBIBYTES << 20) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::made_of(place, recorder.path(), MEBIBYTES, maker) else {
        return;
    };
    let aside = tempfile::tempdir().unwrap();
    let leader = Leader::new(aside.path()).await;
    let new = NewStore {
        tree: Some(leader.store.tree()),
        slot: ReplicaSlot(2),
        ..NewStore::default()
    };
    let options = StoreOptions::new(disk.path().join("store"));
    let follower = Store::create(&options, &new).unwrap();
    follower.end_reclaim().await.unwrap();
    let set = Arc::new(Set {
        leader: Mutex::new(leader),
        follower,
        told: AtomicU64::new(0),
        complete: StdMutex::default(),
        stop: AtomicBool::new(false),
    });
    let working = Arc::clone(&set);
    let work = tokio::spawn(async move { working.work(Random(seed)).await });
    let (mut random, mut unflushed) = (Random(seed), 0);
    for loss in 0..losses {
        tokio::time::sleep(Duration::from_millis(300 + loss * 37 % 700)).await;
        let told = set.told.load(Ordering::SeqCst);
        let complete = set.complete.lock().unwrap().clone();
        let copy = outer.join("copy");
        let kind = Loss::ALL[(loss % 4) as usize];
        unflushed += recorder.lose_power(&copy, kind, &mut random);
        println!("{}, follower: loss {loss}, {kind:?}", maker[0]);
        let disk = mount_copy(&copy, maker);
        let options = StoreOptions::new(disk.path().join("store"));
        let left = Store::open(&options).unwrap();
        left.end_reclaim().await.unwrap();
        Set::is_complete(&left, &complete);
        set.catch_up(&left, told).await;
        drop(left);
        let report = Store::check(&options.directory, false).unwrap();
        assert!(report.sound, "{report}");
    }
    set.stop.store(true, Ordering::Relaxed);
    work.await.unwrap();
    let updates = set.leader.lock().await.data.len() as u64;
    println!(
        "{}, follower: {losses} losses of power during {updates} updates and {} flushes, with {unflushed} bytes not flushed",
        maker[0],
        recorder.flushes()
    );
    assert!(updates > 10 * losses, "hardly anything was done");
    drop(set);
    drop(disk);
}
