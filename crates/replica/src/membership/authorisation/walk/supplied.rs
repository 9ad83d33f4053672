//! The replica with the best copy of a lost replica's file supplies the survivors.

use store::ContentPiece;

use super::*;
use crate::driver::local_replica::LocalReplica;
use crate::membership::losses::completed;
use crate::replication::withheld;
use crate::state::arrivals::PUTTING_AT_ONCE;
use crate::state::settings::Durability;
use crate::state::wire::Completed;

/// Sends no contents from one replica to another for a while.
pub(super) fn hold_back(replica: &LocalReplica, to: u16, time: Duration) {
    replica.state.peers.with(ReplicaSlot(to), |peer| {
        peer.shipments.hold_back(Instant::now() + time);
    });
}

/// Of three replicas the first wrote a file, and the second is off before it has the contents. The third changes the file, and is lost before
/// any other has its contents. The first has the best copy. The second takes it, though it lacks data of a replica in contact: of the first
/// itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_64_who_lacks_data_of_the_supplier_takes_what_that_has() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let inbox_of = |set: &Set, at: usize, of: u16| {
        let inboxes = &set.sites[at].replica.local().state.inboxes;
        inboxes.get(ReplicaSlot(of)).unwrap()
    };
    let inbox = inbox_of(&set, 1, 1);
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    let file = set.sites[0].save(ROOT, "file", b"old").await.unwrap();
    let lacks = |set: &Set, at: usize, of: u16| {
        let missing = set.sites[at].store.lacks_data_of(file);
        missing == [ReplicaSlot(of)]
    };
    eventually("the second knows of it", || lacks(&set, 1, 1)).await;
    let second = set.crash(1).await;
    drop(nothing);
    drop(inbox);
    eventually("the others go on without the second", || {
        let mut sites = set.sites.iter();
        let is_quiet = |site: &Site| site.replica.status().controls_total == 0;
        sites.all(|site| site.replica.view_status().losses.len() == 1 && is_quiet(site))
    })
    .await;
    let inbox = inbox_of(&set, 0, 3);
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    set.sites[1].write(file, 0, b"new").await.unwrap();
    eventually("the first knows of it", || lacks(&set, 0, 3)).await;
    drop(set.crash(1).await);
    // What comes of the session that is over is not put in place.
    eventually("the first knows that the third is gone", || {
        set.sites[0].contacts() == 0
    })
    .await;
    drop(nothing);
    drop(inbox);
    // None of it goes to the second before the second takes part.
    hold_back(set.sites[0].replica.local(), 2, PATIENCE / 6);
    set.revive(1, second).await;
    set.revive_until_ready(1).await;
    for site in &set.sites {
        until_level(site).await;
    }
    set.sites[0].give_up(3).await;
    for site in &set.sites {
        assert_eq!(site.load(ROOT, "file").await.unwrap(), b"old");
    }
}

/// Of four replicas the fourth writes a file while the third is away, and is lost. The first has all of it and supplies the third, which is
/// back. Meanwhile the second changes another part of the file. What the first sends counts although the second is the primary by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_65_what_is_supplied_is_not_dropped_because_another_one_writes() {
    let mut set = Set::failing(4).await;
    set.rest().await;
    let third = set.crash(2).await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    let has_all = |site: &Site| {
        site.store.file_size(file) == Ok(3) && site.store.lacks_data_of(file).is_empty()
    };
    eventually("the others have it", || {
        let quiet = |site: &Site| site.replica.status().controls_total == 0;
        set.sites.iter().all(|site| has_all(site) && quiet(site))
    })
    .await;
    drop(set.crash(2).await);
    hold_back(set.sites[0].replica.local(), 3, PATIENCE / 6);
    set.revive(2, third).await;
    eventually("the third is in the view again", || {
        let members = set.sites[1].replica.view_status().members;
        members.iter().any(|one| one.slot == 3 && one.active)
    })
    .await;
    let missing = set.sites[2].store.lacks_data_of(file);
    assert_eq!(missing, [ReplicaSlot(4)], "it has got it another way");
    // The second stays primary as long as the first lacks what it wrote.
    hold_back(set.sites[1].replica.local(), 1, PATIENCE / 3);
    set.sites[1].write(file, 3, b" and new").await.unwrap();
    eventually("all have all", || {
        set.sites.iter().all(|site| {
            site.store.lacks_data_of(file).is_empty() && site.store.file_size(file) == Ok(11)
        })
    })
    .await;
    for site in &set.sites {
        assert_eq!(held(site, file), b"old and new");
    }
}

/// The size of what the first of two replicas writes, in several pieces, and the size of what both write.
const FIRST: u64 = 3 << 20;
const BOTH: u64 = 5 << 20;

fn first_part() -> Vec<u8> {
    both_parts()[..3 << 20].to_vec()
}

fn second_part() -> Vec<u8> {
    both_parts()[3 << 20..].to_vec()
}

fn both_parts() -> Vec<u8> {
    (0..5_u32 << 18).flat_map(u32::to_be_bytes).collect()
}

/// Whether a replica's copy of a file has this size, and lacks data of these replicas.
pub(super) fn has(site: &Site, file: ObjectId, size: u64, lacking: &[u16]) -> bool {
    let missing = site.store.lacks_data_of(file).into_iter();
    let lacks = missing.map(|slot| slot.0).eq(lacking.iter().copied());
    lacks && site.store.file_size(file) == Ok(size)
}

/// Of five replicas the fourth wrote a part of a file while the third was away. The third is back, and does not receive it for this time. What
/// the fifth writes goes only to the third and the fourth.
async fn half_written(set: &mut Set, time: Duration) -> ObjectId {
    let third = set.crash(2).await;
    let file = set.sites[2]
        .save(ROOT, "file", &first_part())
        .await
        .unwrap();
    eventually("the others have it", || {
        let quiet = |site: &Site| site.replica.status().controls_total == 0;
        let mut sites = set.sites.iter();
        sites.all(|site| has(site, file, FIRST, &[]) && quiet(site))
    })
    .await;
    hold_back(set.sites[2].replica.local(), 3, time);
    set.revive(2, third).await;
    eventually("the third is in the view again", || {
        let members = set.sites[0].replica.view_status().members;
        members.iter().any(|one| one.slot == 3 && one.active)
    })
    .await;
    assert!(
        has(&set.sites[2], file, FIRST, &[4]),
        "it has got it another way"
    );
    for to in [1, 2] {
        hold_back(set.sites[4].replica.local(), to, 2 * PATIENCE);
    }
    file
}

/// After that only the third has what the fifth wrote, and both the fourth and the fifth are lost. Returns the file, and the lost ones.
async fn crossing(set: &mut Set) -> (ObjectId, [Crashed; 2]) {
    set.rest().await;
    let file = half_written(set, 2 * PATIENCE).await;
    set.sites[4]
        .write(file, FIRST, &second_part())
        .await
        .unwrap();
    eventually("the third alone has what the fifth wrote", || {
        let lacking: [&[u16]; 3] = [&[5], &[5], &[4]];
        let mut sites = set.sites.iter().zip(lacking);
        sites.all(|(site, lacking)| has(site, file, BOTH, lacking))
    })
    .await;
    let fifth = set.crash(4).await;
    let fourth = set.crash(3).await;
    for lost in [4, 5] {
        let ready = |site: &Site| {
            let losses = site.replica.view_status().losses;
            let mut losses = losses.iter();
            losses.any(|loss| loss.slot == lost && loss.ready_to_settle)
        };
        eventually("all are level", || set.sites.iter().all(ready)).await;
    }
    (file, [fourth, fifth])
}

/// With durability `majority`, the third does not count as a holder of the fifth's write while it lacks what the fourth wrote before: if both
/// are lost, its copy is replaced by another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_66_who_lacks_data_of_others_counts_for_no_majority() {
    let mut set = Set::failing(5).await;
    let majority = Some(Durability::Majority);
    let site = &set.sites[0];
    site.replica.set_durability(ROOT, majority).await.unwrap();
    set.rest().await;
    let file = half_written(&mut set, PATIENCE / 4).await;
    let fifth = &set.sites[4];
    fifth.write(file, FIRST, &second_part()).await.unwrap();
    let files = fifth.files.clone();
    let answered = tokio::spawn(async move { files.commit(file, 0, 0).await });
    let third = &set.sites[2];
    eventually("the third has the second part", || {
        has(third, file, BOTH, &[4])
    })
    .await;
    loop {
        let answered = answered.is_finished();
        if !has(third, file, BOTH, &[4]) {
            break;
        }
        assert!(!answered, "the third alone has it of those who stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answered.await.unwrap().unwrap();
    assert!(held(third, file) == both_parts());
}

/// The copies of the first and the second are the version before the fifth's write. They replace the third's copy, which is kept aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_66_one_copy_takes_the_place_of_all_whichever_lost_ones_wrote() {
    let mut set = Set::failing(5).await;
    let (file, _lost) = crossing(&mut set).await;
    let third = &set.sites[2];
    assert!(has(third, file, BOTH, &[5]), "as in the best copy");
    // The fifth says this before it knows that its part is gone there, or because of an earlier request.
    for asked in [vec![], vec![(file, 0)]] {
        let files = vec![(file, u64::MAX)];
        let said = Completed {
            files,
            asked,
            ..Completed::default()
        };
        completed(third.replica.local().clone(), ReplicaSlot(5), said).await;
        assert!(has(third, file, BOTH, &[5]), "it was not sent again");
    }
    for lost in [5, 4] {
        set.sites[0].give_up(lost).await;
    }
    for site in &set.sites {
        site.load(ROOT, "file").await.unwrap();
        assert!(held(site, file) == first_part());
    }
    let kept = set.sites[2].recovered();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].label.starts_with("replaced-"), "{kept:?}");
}

/// The third gets it again from the fifth, which is back and believes that it is complete there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_66_who_is_back_sends_what_has_given_way_to_another_copy() {
    let mut set = Set::failing(5).await;
    let (file, [fourth, fifth]) = crossing(&mut set).await;
    set.revive(3, fourth).await;
    set.revive(4, fifth).await;
    set.revive_until_ready(3).await;
    set.revive_until_ready(4).await;
    eventually("all have all", || {
        set.sites.iter().all(|site| {
            site.store.lacks_data_of(file).is_empty() && site.store.file_size(file) == Ok(BOTH)
        })
    })
    .await;
    for site in &set.sites {
        assert!(held(site, file) == both_parts());
    }
}

/// The contents of a file in the local copy.
pub(super) fn held(site: &Site, file: ObjectId) -> Vec<u8> {
    let size = site.store.file_size(file).unwrap();
    let pieces = site.store.content(file, 0, size).unwrap();
    let bytes = pieces.into_iter().map(|piece| match piece {
        ContentPiece::Data { bytes, .. } => bytes.to_vec(),
        ContentPiece::Hole(hole) => vec![0; hole.length as usize],
    });
    bytes.collect::<Vec<_>>().concat()
}

/// The third of three replicas rewrites a whole file. The others know of it, and get none of that.
pub(super) async fn known_to_others(set: &Set, file: ObjectId, bytes: &[u8]) {
    for to in [1, 2] {
        hold_back(set.sites[2].replica.local(), to, 2 * PATIENCE);
    }
    set.sites[2].write(file, 0, bytes).await.unwrap();
    eventually("the others know of it", || {
        let mut others = set.sites[..2].iter();
        others.all(|site| has(site, file, bytes.len() as u64, &[3]))
    })
    .await;
}

/// Of three replicas the third is lost before any other has what it wrote, and is in contact again. The others wait for it, until they have
/// agreed to take in nothing more from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_69_one_of_whom_nothing_is_taken_in_is_not_waited_for() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    known_to_others(&set, file, b"new").await;
    let third = set.crash(2).await;
    let site = &set.sites[0];
    until_level(site).await;
    let impostor = impersonate(&third, LATER).await;
    let peer = impostor.call(1, site.address());
    let _session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let local = site.replica.local();
    let is_back = || withheld::is_back(local, file, ReplicaSlot(2), false);
    eventually("it is in contact", is_back).await;
    local.state.losses.closing.begin(ReplicaSlot(3));
    assert!(!is_back());
}

/// Of five replicas the fifth is lost when only the third has what it wrote. The third lacks what the fourth wrote before; the fourth is a
/// member.
async fn half_of_a_member_missing(set: &mut Set) -> (ObjectId, Crashed) {
    set.rest().await;
    let file = half_written(set, PATIENCE / 4).await;
    hold_back(set.sites[4].replica.local(), 4, 2 * PATIENCE);
    let fifth = &set.sites[4];
    fifth.write(file, FIRST, &second_part()).await.unwrap();
    eventually("the third alone has what the fifth wrote", || {
        let lacking: [&[u16]; 4] = [&[5], &[5], &[4], &[5]];
        let mut sites = set.sites.iter().zip(lacking);
        sites.all(|(site, lacking)| has(site, file, BOTH, lacking))
    })
    .await;
    let fifth = set.crash(4).await;
    let third = &set.sites[2];
    eventually("the third's copy gives way", || {
        has(third, file, BOTH, &[4, 5])
    })
    .await;
    (file, fifth)
}

/// The best copy is one without the fifth's part: the third's copy would take the fourth's part away from all, and each would wait for the
/// other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_79_a_copy_that_lacks_data_of_a_member_is_not_the_best() {
    let mut set = Set::failing(5).await;
    let (file, _fifth) = half_of_a_member_missing(&mut set).await;
    set.sites[0].give_up(5).await;
    for site in &set.sites {
        site.load(ROOT, "file").await.unwrap();
        assert!(held(site, file) == first_part());
    }
    let kept = set.sites[2].recovered();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].label.starts_with("replaced-"), "{kept:?}");
}

/// The fifth is back and sends what was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_79_who_is_back_sends_what_has_given_way_for_a_member() {
    let mut set = Set::failing(5).await;
    let (file, fifth) = half_of_a_member_missing(&mut set).await;
    set.revive(4, fifth).await;
    set.revive_until_ready(4).await;
    eventually("all have all", || {
        let mut sites = set.sites.iter();
        sites.all(|site| has(site, file, BOTH, &[]))
    })
    .await;
    for site in &set.sites {
        assert!(held(site, file) == both_parts());
    }
}

/// A new server takes its copy from the first or the second, and lacks a file. The third changes a part of it, sends that, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_80_a_part_of_a_file_does_not_stand_for_all_of_it_in_a_copy() {
    let mut set = Set::failing(3).await;
    let first = &set.sites[0];
    let file = first.save(ROOT, "file", &both_parts()).await.unwrap();
    set.rest().await;
    for site in &set.sites[..2] {
        hold_back(site.replica.local(), 4, PATIENCE / 4);
    }
    set.begin_to_add().await;
    let (third, new) = (&set.sites[2], &set.sites[3]);
    eventually("the new one knows of it", || new.store.is_to_fetch(file)).await;
    third.write(file, 0, b"changed").await.unwrap();
    let changed = [b"changed", &both_parts()[7..]].concat();
    eventually("the new one has what was changed", || {
        held(new, file)[..7] == changed[..7]
    })
    .await;
    // By now the third would have been believed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(new.store.is_to_fetch(file), "most of it has not come");
    eventually("all has come", || !new.store.is_to_fetch(file)).await;
    assert!(held(new, file) == changed);
}
