//! Two replicas and a witness: who goes on when one of the three is lost, and that the witness keeps no contents.

use std::time::Duration;

use crate::fixture::{PATIENCE, ROOT, Set, Site, eventually, name, root};
use replica::Durability;
use vfs::{Error, FileSystem, ObjectId};

/// Two replicas in slots 1 and 2, and a witness in slot 3.
async fn two_and_a_witness() -> Set {
    let mut set = Set::failing(2).await;
    set.add_witness().await;
    set
}

fn active(site: &Site) -> Vec<u16> {
    let view = site.replica.view_status();
    let members = view.members.iter().filter(|member| member.active);
    members.map(|member| member.slot).collect()
}

/// Waits until the first site answers clients in a view of these. On a slow machine somebody else may have had to leave the view
/// meanwhile; it starts anew, and is needed where the others are too few without it.
async fn until_view(set: &mut Set, slots: &[u16]) {
    let waiting = async {
        loop {
            let site = &set.sites[0];
            let view = site.replica.view_status();
            let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
            if active(site) == slots && site.replica.ready() && view.epoch == agreed {
                return;
            }
            set.start_anew().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(2 * PATIENCE, waiting).await;
    assert!(waited.is_ok(), "no view of {slots:?} is in force");
}

/// Reads a file at the first site, which may have to take over from a lost replica before. The witness may have heard more of that one
/// than anybody, and not be able to pass it on: then it is started anew first, with a copy.
async fn read(set: &mut Set, file: ObjectId) -> Vec<u8> {
    let reading = async {
        loop {
            let read = set.sites[0].try_read(file, Duration::from_secs(1)).await;
            match read {
                Err(Error::Delay) => set.start_anew().await,
                read => return read.unwrap(),
            }
        }
    };
    let read = tokio::time::timeout(2 * PATIENCE, reading).await;
    read.expect("the first site goes on")
}

async fn ask_for_majority(set: &Set) {
    let durability = Some(Durability::Majority);
    let replica = &set.sites[0].replica;
    replica.set_durability(ROOT, durability).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_knows_the_tree_keeps_no_contents_and_answers_nobody() {
    let mut set = Set::failing(1).await;
    let saved = set.sites[0].save(ROOT, "old", b"before it joined").await;
    let old = saved.unwrap();
    set.add_witness().await;
    set.add().await;
    let [first, witness, second] = &set.sites[..] else {
        unreachable!("three were made");
    };
    let new = second.save(ROOT, "new", &[7; 100_000]).await.unwrap();
    second.truncate(new, 50_000).await.unwrap();
    set.assert_equal().await;

    for (site, kept) in [(first, 2), (witness, 0), (second, 2)] {
        assert_eq!(site.data_files(), kept);
    }
    for (id, path, size) in [(old, "/old", 16), (new, "/new", 50_000)] {
        assert_eq!(witness.store.path_of(id).unwrap(), path);
        assert_eq!(witness.store.attributes(id).await.unwrap().size, size);
    }
    let asked = witness.files.lookup(&root(), ROOT, &name("old")).await;
    assert!(matches!(&asked, Err(Error::Io(why)) if why.contains("witness")));
    let members = first.replica.view_status().members;
    let kinds: Vec<&str> = members.iter().map(|member| &*member.kind).collect();
    assert_eq!(kinds, ["data", "witness", "data"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_majority_either_replica_goes_on_without_the_other() {
    let mut set = two_and_a_witness().await;
    ask_for_majority(&set).await;
    let file = set.sites[0].file(ROOT, "file").await.unwrap();
    for (number, lost) in [(1, 0), (2, 1)] {
        let (before, after) = (format!("before {number}"), format!("after! {number}"));
        // Who is left has to hold what is answered now.
        until_view(&mut set, &[1, 2, 3]).await;
        let loser = &set.sites[lost];
        loser.write_stably(file, before.as_bytes()).await.unwrap();
        let crashed = set.crash(lost).await;
        let left: &[u16] = if lost == 0 { &[2, 3] } else { &[1, 3] };
        until_view(&mut set, left).await;
        assert_eq!(read(&mut set, file).await, before.as_bytes());
        let survivor = &set.sites[0];
        survivor.write_stably(file, after.as_bytes()).await.unwrap();
        survivor.file(ROOT, &after).await.unwrap();

        set.revive(lost, crashed).await;
        set.revive_until_ready(lost).await;
        // The witness may have heard more of the lost replica than anybody, and have to take a copy.
        set.revive_until_ready(2).await;
        let returned = &set.sites[lost];
        assert_eq!(returned.read(file).await.unwrap(), after.as_bytes());
        returned.find(ROOT, &after).await.unwrap();
    }
    set.assert_equal().await;
    assert_eq!(set.sites[2].data_files(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replicas_go_on_without_the_witness_until_it_is_back() {
    let mut set = two_and_a_witness().await;
    ask_for_majority(&set).await;
    let file = set.sites[0].file(ROOT, "file").await.unwrap();
    let witness = set.crash(2).await;
    until_view(&mut set, &[1, 2]).await;
    set.sites[0]
        .write_stably(file, b"both have it")
        .await
        .unwrap();
    set.sites[1].file(ROOT, "made meanwhile").await.unwrap();
    set.revive(2, witness).await;
    set.revive_until_ready(2).await;
    until_view(&mut set, &[1, 2, 3]).await;
    let lost = set.crash(0).await;
    until_view(&mut set, &[2, 3]).await;
    assert_eq!(read(&mut set, file).await, b"both have it");
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_on_from_what_only_the_witness_has_heard_of() {
    let mut set = two_and_a_witness().await;
    ask_for_majority(&set).await;
    let file = set.sites[0].file(ROOT, "file").await.unwrap();
    let stale = set.crash(1).await;
    until_view(&mut set, &[1, 3]).await;
    set.sites[0]
        .write_stably(file, b"at one alone")
        .await
        .unwrap();
    let newest = set.crash(0).await;
    set.revive(0, stale).await;
    let returned = set.sites[0].replica.clone();
    eventually("it knows that the others went on without it", || {
        let view = returned.view_status();
        let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
        active(&set.sites[0]) == [1, 3] && view.epoch == agreed && view.obstacle.is_some()
    })
    .await;
    assert!(!returned.ready());
    drop(returned);
    set.revive(0, newest).await;
    set.revive_until_ready(0).await;
    set.revive_until_ready(1).await;
    assert_eq!(set.sites[1].read(file).await.unwrap(), b"at one alone");
    set.assert_equal().await;
}

/// The authority was moved to the witness, and a member removed: that left the view and stayed a member for ever, since a witness
/// cannot tell what contents are at stake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_that_keeps_the_authority_can_remove_a_member() {
    let mut set = Set::failing(3).await;
    set.add_witness().await;
    set.sites[0].save(ROOT, "kept", b"contents").await.unwrap();
    set.rest().await;
    assert_eq!(set.sites[0].replica.move_authority(4).await, Ok(true));
    drop(set.crash(2).await);
    set.remove(3);
    eventually("it is no member any more", || {
        let mut sites = set.sites.iter();
        sites.all(|site| {
            let view = site.replica.view_status();
            view.members.len() == 3 && view.losses.is_empty()
        })
    })
    .await;
    set.sites[1].file(ROOT, "new").await.unwrap();
    set.assert_equal().await;
}

/// Waits until all who are there count these members and no others, and nothing is left of anybody else.
async fn until_members(set: &Set, slots: &[u16]) {
    eventually("these are the members", || {
        set.sites.iter().all(|site| {
            let view = site.replica.view_status();
            let members: Vec<u16> = view.members.iter().map(|member| member.slot).collect();
            members == slots && view.losses.is_empty() && active(site) == slots
        })
    })
    .await;
}

/// Two replicas and a witness, which have made something and are done with it.
async fn at_rest() -> Set {
    let set = two_and_a_witness().await;
    let second = &set.sites[1];
    second.save(ROOT, "kept", b"of the second").await.unwrap();
    set.rest().await;
    set
}

/// The second was removed, and is not there any more: the set goes on without it, and another one takes its place.
async fn another_takes_the_place_of_the_second(mut set: Set) {
    until_members(&set, &[1, 3]).await;
    set.add().await;
    until_members(&set, &[1, 3, 4]).await;
    let [first, _, fourth] = &set.sites[..] else {
        unreachable!("three are there");
    };
    assert_eq!(fourth.load(ROOT, "kept").await.unwrap(), b"of the second");
    fourth.save(ROOT, "new", b"of the fourth").await.unwrap();
    assert_eq!(first.load(ROOT, "new").await.unwrap(), b"of the fourth");
    set.assert_equal().await;
}

async fn removed_when_it_has_crashed(mut set: Set) {
    drop(set.crash(1).await);
    set.remove(2);
    another_takes_the_place_of_the_second(set).await;
}

async fn removed_while_it_runs(mut set: Set) {
    set.remove(2);
    let second = set.sites[1].replica.clone();
    eventually("it is told", || second.is_removed()).await;
    drop(second);
    drop(set.crash(1).await);
    another_takes_the_place_of_the_second(set).await;
}

/// Nobody listened to it, and its removal was to be decided once it had said something: the set stood still for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_crashed_is_removed_and_replaced() {
    removed_when_it_has_crashed(at_rest().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_runs_is_removed_and_replaced() {
    removed_while_it_runs(at_rest().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_that_keeps_the_authority_removes_and_replaces_a_replica_that_crashed() {
    let set = at_rest().await;
    assert_eq!(set.sites[0].replica.move_authority(3).await, Ok(true));
    removed_when_it_has_crashed(set).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_that_keeps_the_authority_removes_and_replaces_a_replica_that_runs() {
    let set = at_rest().await;
    assert_eq!(set.sites[0].replica.move_authority(3).await, Ok(true));
    removed_while_it_runs(set).await;
}
