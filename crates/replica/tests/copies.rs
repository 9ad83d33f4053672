//! New replicas of a tree with many objects.

use std::time::Duration;

use crate::fixture::{Crashed, PATIENCE, ROOT, Set, Site, eventually, patiently};
use replica::Stage;
use vfs::{ObjectId, ReplicaSlot};

/// Several pages of rows.
const OBJECTS: u64 = 8000;

/// So slow that a page takes a while.
const SLOW: u64 = 256 << 10;

/// How long a slow copy may take until something is seen of it.
const LONG: Duration = Duration::from_secs(120);

/// A set of one, which sends slowly, with a tree.
async fn grown() -> Set {
    let mut settings = Set::noticing_soon();
    settings.return_bytes_per_second = Some(SLOW);
    let set = Set::alone_with(settings).await;
    let mut directory = ROOT;
    for number in 0..OBJECTS {
        match number % 100 {
            0 => {
                directory = set.sites[0]
                    .directory(ROOT, &format!("d{number}"))
                    .await
                    .unwrap()
            }
            _ => drop(
                set.sites[0]
                    .file(directory, &format!("file-{number}"))
                    .await
                    .unwrap(),
            ),
        }
    }
    set
}

/// How many objects have come to the second one, as its own status says; waits until there are at
/// least this many.
async fn taken(set: &Set, at_least: u64) -> u64 {
    let looking = async {
        loop {
            let view = set.sites[1].replica.status().rejoining;
            let view = view.filter(|view| view.stage == Stage::Comparing);
            match view.map(|view| view.objects_done) {
                Some(done) if done >= at_least => return done,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let looked = tokio::time::timeout(LONG, looking).await;
    looked.expect("rows of this many objects are sent")
}

/// Updates name the streams that they follow, that of the removed replica among them, and nobody meets it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_a_replica_was_removed_from_takes_in_another_one() {
    let mut set = Set::failing(3).await;
    set.sites[2]
        .save(ROOT, "its", b"of the third")
        .await
        .unwrap();
    set.rest().await;
    drop(set.crash(2).await);
    set.remove(3);
    let replica = set.sites[0].replica.clone();
    eventually("it is removed", || replica.view_status().members.len() == 2).await;
    drop(replica);
    for (site, name) in set.sites.iter().zip(["first", "second"]) {
        site.save(ROOT, name, b"after that").await.unwrap();
    }
    assert!(set.sites[0].store.applied(ReplicaSlot(3)).unwrap() > 0);
    set.begin_to_add().await;
    let (added, mut made) = (set.sites[2].replica.clone(), 0);
    let ready = async {
        while !added.ready() {
            assert!(added.has_left().borrow().is_none(), "it starts anew");
            let name = format!("meanwhile-{made}");
            set.sites[0]
                .save(ROOT, &name, b"as it joins")
                .await
                .unwrap();
            made += 1;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, ready).await;
    waited.expect("the new replica takes part");
    drop(added);
    set.assert_equal().await;
    // Who is started again meets it as little.
    set.restart(1).await;
    set.revive_until_ready(1).await;
    set.sites[0].save(ROOT, "later", b"more").await.unwrap();
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_a_tree_go_on_where_the_new_replica_was_killed() {
    let mut set = grown().await;
    set.begin_to_add().await;
    let before = taken(&set, OBJECTS / 2).await;
    let killed = set.crash(1).await;
    set.revive(1, killed).await;
    let after = taken(&set, 0).await;
    assert!(after >= before / 2, "{after} of {before} were kept");
    // A sender that was killed itself has to begin anew.
    let crashed = set.crash(0).await;
    let crashed = crashed.with(|settings| settings.return_bytes_per_second = None);
    set.revive(0, crashed).await;
    set.revive_until_ready(1).await;
    set.assert_equal().await;
}

/// Nothing of one that goes while its copy is on its way holds up the next one, though the keeper of the authority was started anew in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_that_is_removed_amid_its_copy_makes_way_for_another_one() {
    let mut set = grown().await;
    set.begin_to_add().await;
    taken(&set, OBJECTS / 4).await;
    set.remove(2);
    let keeper = set.crash(0).await;
    let keeper = keeper.with(|settings| settings.return_bytes_per_second = None);
    set.revive(0, keeper).await;
    let gone = set.sites[1].replica.clone();
    eventually("it is told", || gone.is_removed()).await;
    drop(gone);
    drop(set.crash(1).await);
    set.begin_to_add().await;
    set.revive_until_ready(1).await;
    set.assert_equal().await;
    let members = set.sites[0].replica.view_status().members;
    let members: Vec<u16> = members.iter().map(|member| member.slot).collect();
    assert_eq!(members, [1, 3]);
}

/// The moment between the last row and the word that all are here is a short one, but a crash can hit it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_killed_when_it_had_all_rows_but_did_not_know_it_takes_part() {
    let mut set = grown().await;
    set.begin_to_add().await;
    taken(&set, OBJECTS / 2).await;
    let killed = set.crash(1).await;
    let store = killed.store();
    store.finish_base(vec![(ReplicaSlot(1), 0)]).await.unwrap();
    drop(store);
    set.revive(1, killed).await;
    set.revive_until_ready(1).await;
    set.assert_equal().await;
}

/// Nothing of the tree is in this store any more, as far as it knows.
async fn without_copy(crashed: &Crashed) {
    let store = crashed.store();
    let rows = vec![(b"copy".to_vec(), Some(vec![0]))];
    let ticket = store.put_facts(rows).await.unwrap();
    store.wait_stable(ticket).await.unwrap();
}

/// Five, of which the last two are lost and the first two lose their copies, one by one.
struct Five {
    set: Set,
    directory: ObjectId,
    /// The last two.
    lost: Vec<Crashed>,
    /// The first two, in this order.
    without: Vec<Crashed>,
}

impl Five {
    async fn new() -> Five {
        let mut set = Set::failing(5).await;
        let directory = set.sites[0].directory(ROOT, "made").await.unwrap();
        set.sites[0]
            .save(directory, "kept", b"contents")
            .await
            .unwrap();
        set.rest().await;
        let lost = vec![set.crash(4).await, set.crash(3).await];
        is_out(&set, 4).await;
        is_out(&set, 5).await;
        set.sites[2]
            .save(directory, "later", b"contents")
            .await
            .unwrap();
        eventually("all three have it", || {
            let sites = &set.sites;
            let status = |site: &Site| site.replica.status();
            let lags = |site| {
                let peers = status(site).peers.into_iter();
                peers
                    .filter(|peer| peer.slot < 4)
                    .any(|peer| peer.lag_updates + peer.lag_files > 0)
            };
            !sites.iter().any(lags)
        })
        .await;
        let [second, first] = [set.crash(1).await, set.crash(0).await];
        without_copy(&first).await;
        without_copy(&second).await;
        Five {
            set,
            directory,
            lost,
            without: vec![first, second],
        }
    }

    /// Starts the next one without a copy.
    async fn revive(&mut self, at: usize) {
        let crashed = self.without.remove(0);
        self.set.revive(at, crashed).await;
    }

    /// Both have a copy again, and then the lost ones come back.
    async fn are_whole(self) {
        let Five {
            mut set,
            directory,
            lost,
            ..
        } = self;
        set.revive_until_ready(0).await;
        set.revive_until_ready(1).await;
        let loaded = patiently(|| set.sites[1].load(directory, "later")).await;
        assert_eq!(loaded.unwrap(), b"contents");
        for (crashed, at) in lost.into_iter().rev().zip([3, 4]) {
            set.revive(at, crashed).await;
            set.revive_until_ready(at).await;
        }
        set.assert_equal().await;
    }
}

/// Two members of five were without a copy while two others were lost: each was asked to supply the other, and both waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_members_without_a_copy_get_it_from_the_third() {
    let mut five = Five::new().await;
    five.revive(0).await;
    five.revive(1).await;
    five.are_whole().await;
}

/// The replica that got its copy first waited for the report of the one that had none, which waited
/// for a copy from it: it was the first that held the tree, and supplied nobody, since it was not
/// up to date. A third one was all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_to_get_its_copy_does_not_keep_the_next_one_waiting() {
    let mut five = Five::new().await;
    five.revive(0).await;
    eventually("the first one holds the tree", || {
        let rejoining = five.set.sites[0].replica.status().rejoining;
        rejoining.is_some_and(|view| view.stage == Stage::ByLog)
    })
    .await;
    five.revive(1).await;
    five.are_whole().await;
}

/// What a copy brings of a lost replica's updates counts as soon as it is here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_copy_is_enough_for_what_a_lost_replica_made_meanwhile() {
    let mut set = Set::failing_with(5, |settings| settings.kept_updates = 20).await;
    let directory = set.sites[4].directory(ROOT, "made").await.unwrap();
    set.rest().await;
    let away = set.crash(3).await;
    is_out(&set, 4).await;
    for number in 0..100 {
        let name = format!("file-{number}");
        set.sites[3].file(directory, &name).await.unwrap();
    }
    eventually("the others have it", || {
        let lags = |site: &Site| {
            let peers = site.replica.status().peers.into_iter();
            peers
                .filter(|peer| peer.slot != 4)
                .any(|peer| peer.lag_updates > 0)
        };
        !lags(&set.sites[3])
    })
    .await;
    drop(set.crash(3).await);
    is_out(&set, 5).await;
    set.revive(3, away).await;
    let mut copies = 0;
    let ready = async {
        while !set.sites[3].replica.ready() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if set.sites[3].replica.has_left().borrow().is_some() {
                copies += 1;
                let crashed = set.crash(3).await;
                set.revive(3, crashed).await;
            }
        }
    };
    let waited = tokio::time::timeout(2 * PATIENCE, ready).await;
    waited.expect("it takes part again");
    // None, if somebody still kept what it lacked.
    assert!(copies <= 1, "it took {copies} copies");
}

async fn is_out(set: &Set, slot: u16) {
    let replica = set.sites[0].replica.clone();
    eventually("the others go on without it", || {
        let members = replica.view_status().members;
        members
            .iter()
            .any(|member| member.slot == slot && !member.active)
    })
    .await;
}
