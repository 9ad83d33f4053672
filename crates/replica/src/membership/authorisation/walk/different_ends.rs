//! All replicas are lost at once, two of five for good. Of the survivors two alone have the ends of different lost streams.

use std::collections::BTreeSet;

use tokio::sync::oneshot;

use super::*;
use replica::recovering_set::go_on_with;

/// A replica makes updates in a directory of its own; only one other replica gets the last one.
pub(super) async fn known_to_one(set: &Set, (by, parent): (usize, ObjectId), to: usize) {
    let maker = ReplicaSlot(u16::try_from(by).unwrap() + 1);
    let inbox = |at: usize| {
        let inboxes = &set.sites[at].replica.local().state.inboxes;
        inboxes.get(maker).unwrap()
    };
    let others = (0..set.sites.len()).filter(|at| *at != by && *at != to);
    for other in others.map(inbox) {
        let (is_held, held) = oneshot::channel();
        tokio::spawn(async move {
            let _nothing_more = other.applying.lock().await;
            is_held.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        held.await.unwrap();
    }
    let store = &set.sites[to].store;
    let before = store.applied(maker).unwrap();
    let known = eventually("one has it", || store.applied(maker).unwrap() > before);
    let made = async {
        set.sites[by].directory(parent, "end").await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = known => {}
        () = made => {}
    }
}

/// The first three replicas run. Only the first has the end of the fourth's stream, and only the second the end of the fifth's. Returns the two
/// lost replicas, and the directories with those ends.
async fn three_that_wait() -> (Set, [Crashed; 2], Vec<ObjectId>) {
    for _ in 0..3 {
        let three = three_with_ends().await;
        let waiting = tokio::time::timeout(PATIENCE / 2, both_wait(&three.0)).await;
        if waiting.is_ok() {
            return three;
        }
        // On a busy machine the others may go on without a slow replica, and then no replica has both ends.
    }
    panic!("the first two never say what they lack");
}

async fn both_wait(set: &Set) {
    for (site, lacking, at) in [(0, 5, 2), (1, 4, 1)] {
        let says = format!("replica {lacking}, which is lost; replica {at} has them");
        let replica = &set.sites[site].replica;
        let waits = || {
            let obstacle = replica.view_status().obstacle;
            obstacle.is_some_and(|obstacle| obstacle.contains(&says))
        };
        while !waits() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn three_with_ends() -> (Set, [Crashed; 2], Vec<ObjectId>) {
    let mut set = Set::failing(5).await;
    let mut theirs = Vec::new();
    for by in [3, 4] {
        let name = format!("of-{by}");
        theirs.push(set.sites[by].directory(ROOT, &name).await.unwrap());
        set.rest().await;
    }
    known_to_one(&set, (3, theirs[0]), 0).await;
    known_to_one(&set, (4, theirs[1]), 1).await;
    let fifth = set.crash(4).await;
    let fourth = set.crash(3).await;
    let mut left = [set.crash(2).await, set.crash(1).await, set.crash(0).await];
    left.reverse();
    for (at, crashed) in left.into_iter().enumerate() {
        set.revive(at, crashed).await;
    }
    (set, [fourth, fifth], theirs)
}

/// One of the two lost replicas is back: nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_60_all_is_there_when_either_of_the_lost_is_back() {
    let (mut set, [fourth, fifth], theirs) = three_that_wait().await;
    set.revive(3, fourth).await;
    set.all_take_part("they go on").await;
    set.sites[2].find(theirs[0], "end").await.unwrap();
    set.revive(4, fifth).await;
    set.all_take_part("they go on").await;
    set.sites[2].find(theirs[1], "end").await.unwrap();
    set.assert_equal().await;
}

/// Both are gone for ever. An administrator says which survivors go on, and gives up what another one alone has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_60_an_administrator_says_whose_copy_counts() {
    let (mut set, _lost, theirs) = three_that_wait().await;
    let third = set.crash(2).await;
    drop(set.crash(1).await);
    let first = set.crash(0).await;
    let store = Arc::new(first.store());
    go_on_with(&store, &BTreeSet::from([1, 3])).await.unwrap();
    let closing = tokio::task::spawn_blocking(move || drop(store));
    closing.await.unwrap();
    set.revive(0, first).await;
    set.revive(1, third).await;
    set.all_take_part("they go on").await;
    set.sites[0].give_up(4).await;
    for site in &set.sites {
        site.find(theirs[0], "end").await.unwrap();
    }
}
