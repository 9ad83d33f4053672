//! Two replicas and a witness: who goes on when one of the three is lost, and that the witness keeps no contents.

use crate::fixture::{ROOT, Set, Site, eventually, name, root};
use replica::Durability;
use vfs::{Error, FileSystem, ReplicaSlot};

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

/// Waits until a site answers clients in a view of these.
async fn until_view(site: &Site, slots: &[u16]) {
    eventually("a view is in force", || {
        let view = site.replica.view_status();
        let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
        active(site) == slots && site.replica.ready() && view.epoch == agreed
    })
    .await;
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
        let loser = &set.sites[lost];
        loser.write_stably(file, before.as_bytes()).await.unwrap();
        let crashed = set.crash(lost).await;
        let left: &[u16] = if lost == 0 { &[2, 3] } else { &[1, 3] };
        until_view(&set.sites[0], left).await;
        let survivor = &set.sites[0];
        assert_eq!(survivor.read(file).await.unwrap(), before.as_bytes());
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
    until_view(&set.sites[0], &[1, 2]).await;
    set.sites[0]
        .write_stably(file, b"both have it")
        .await
        .unwrap();
    set.sites[1].file(ROOT, "made meanwhile").await.unwrap();
    set.revive(2, witness).await;
    set.revive_until_ready(2).await;
    until_view(&set.sites[0], &[1, 2, 3]).await;
    let lost = set.crash(0).await;
    until_view(&set.sites[0], &[2, 3]).await;
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"both have it");
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
    until_view(&set.sites[0], &[1, 3]).await;
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
    set.keeper(2).revoke(ReplicaSlot(3)).unwrap();
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
