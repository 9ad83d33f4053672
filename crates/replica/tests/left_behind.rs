//! Who is left after a loss, and was itself started anew or had not finished its return: what the set goes on with, and what it waits for.

use std::time::Duration;

use crate::fixture::{Crashed, PATIENCE, ROOT, Set, Site, eventually, name, patiently, root};
use bytes::Bytes;
use replica::Settings;
use vfs::{NewObject, ObjectId, SetAttributes};

/// Waits until a replica goes on in a view without another one.
async fn until_left(site: &Site, lost: u16) {
    let replica = site.replica.clone();
    eventually("the others go on without the lost replica", || {
        let view = replica.view_status();
        let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
        let mut members = view.members.iter();
        members.any(|member| member.slot == lost && !member.active)
            && replica.ready()
            && view.epoch == agreed
    })
    .await;
}

fn is_active(site: &Site, slot: u16) -> bool {
    let members = site.replica.view_status().members;
    let mut members = members.iter();
    members.any(|member| member.slot == slot && member.active)
}

/// Starts those again that say that they have to start anew, until these take part.
async fn until_ready(set: &mut Set, at: &[usize]) {
    let ready = async {
        while !at.iter().all(|at| set.sites[*at].replica.ready()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            set.start_anew().await;
        }
    };
    if tokio::time::timeout(2 * PATIENCE, ready).await.is_err() {
        let say = |site: &Site| {
            let view = site.replica.view_status();
            (view.epoch, view.up_to_date, view.obstacle, view.members)
        };
        let views: Vec<_> = set.sites.iter().map(say).collect();
        panic!("they never take part: {views:#?}");
    }
}

/// Waits until those who are there lack nothing of each other, and control nothing.
async fn until_level(set: &Set) {
    let slots: Vec<u16> = set
        .sites
        .iter()
        .map(|site| site.replica.status().slot)
        .collect();
    eventually("all who are there have everything", || {
        set.sites.iter().all(|site| {
            let status = site.replica.status();
            let mut peers = status
                .peers
                .iter()
                .filter(|peer| slots.contains(&peer.slot));
            status.controls_total == 0 && peers.all(|peer| peer.lag_updates + peer.lag_files == 0)
        })
    })
    .await;
}

/// Three with a file, of which the third is away; the others have gone on.
async fn without_the_third(change: impl FnOnce(&mut Settings)) -> (Set, Crashed, ObjectId) {
    let mut set = Set::failing_with(3, change).await;
    let directory = set.sites[2].directory(ROOT, "shared").await.unwrap();
    set.sites[2].save(directory, "file", b"old").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    for site in &set.sites {
        until_left(site, 3).await;
    }
    for at in 0..2 {
        let made = format!("made-at-{at}");
        set.sites[at]
            .save(directory, &made, b"later")
            .await
            .unwrap();
    }
    set.sites[1].save(directory, "file", b"new").await.unwrap();
    until_level(&set).await;
    (set, third, directory)
}

/// The second is lost, and the first started anew: it has all that was answered, and the third takes the place of the second.
async fn goes_on_with_the_third(mut set: Set, third: Crashed, directory: ObjectId) {
    let second = set.crash(1).await;
    let first = set.crash(0).await;
    set.revive(0, first).await;
    set.revive(1, third).await;
    until_ready(&mut set, &[0, 1]).await;
    for site in &set.sites {
        assert_eq!(site.load(directory, "file").await.unwrap(), b"new");
        assert_eq!(site.load(directory, "made-at-0").await.unwrap(), b"later");
    }
    set.sites[0].save(directory, "more", b"more").await.unwrap();
    set.revive(2, second).await;
    until_ready(&mut set, &[0, 1, 2]).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_takes_the_place_of_one_that_is_lost_though_the_survivor_was_started_anew()
{
    let (set, third, directory) = without_the_third(|_| {}).await;
    goes_on_with_the_third(set, third, directory).await;
}

/// What the third lacks nobody keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_gets_a_copy_from_the_survivor_that_was_started_anew() {
    let (set, third, directory) = without_the_third(|settings| settings.kept_updates = 10).await;
    for number in 0..40 {
        let name = format!("file-{number}");
        set.sites[number % 2]
            .save(directory, &name, b"contents")
            .await
            .unwrap();
    }
    until_level(&set).await;
    goes_on_with_the_third(set, third, directory).await;
}

async fn link(site: &Site, at: &str, target: &[u8]) {
    let new = NewObject::Symlink(Bytes::copy_from_slice(target));
    let set = SetAttributes::default();
    let made = patiently(|| {
        let (new, set) = (new.clone(), set.clone());
        async move { site.files.create(&root(), ROOT, &name(at), new, &set).await }
    });
    made.await.unwrap();
}

/// How far the third is on its way back when all three are lost at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    Started,
    Admitted,
    Ready,
}

async fn until_back(set: &Set, how_far: Back) {
    let (first, third) = (&set.sites[0], &set.sites[2]);
    eventually("the third is on its way back", || match how_far {
        Back::Started => true,
        Back::Admitted => is_active(first, 3),
        Back::Ready => third.replica.ready(),
    })
    .await;
}

/// All three are lost at once, the third on its way back, and the first and the third are started alone, in either order.
async fn two_of_three_go_on(how_far: Back, third_first: bool) {
    let (mut set, third, directory) = without_the_third(|_| {}).await;
    set.revive(2, third).await;
    until_back(&set, how_far).await;
    let third = set.crash(2).await;
    let second = set.crash(1).await;
    let first = set.crash(0).await;
    let (mut first, mut third) = (Some(first), Some(third));
    for is_third in [third_first, !third_first] {
        let (at, crashed) = match is_third {
            true => (set.sites.len(), third.take()),
            false => (0, first.take()),
        };
        set.revive(at, crashed.unwrap()).await;
    }
    until_ready(&mut set, &[0, 1]).await;
    assert_eq!(set.sites[1].load(directory, "file").await.unwrap(), b"new");
    set.sites[1].save(directory, "more", b"more").await.unwrap();
    set.revive(1, second).await;
    until_ready(&mut set, &[0, 1, 2]).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_go_on_after_all_were_lost_though_one_of_them_was_outside() {
    for third_first in [false, true] {
        two_of_three_go_on(Back::Started, third_first).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_go_on_after_all_were_lost_though_one_of_them_had_just_been_admitted() {
    for third_first in [false, true] {
        two_of_three_go_on(Back::Admitted, third_first).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_go_on_after_all_were_lost_though_one_of_them_had_just_come_back() {
    for third_first in [false, true] {
        two_of_three_go_on(Back::Ready, third_first).await;
    }
}

/// Of two and a witness the first is lost when the second has just been admitted, and lacks what the first had made without it.
/// Nobody but the witness has heard of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_57_one_that_has_not_finished_its_return_does_not_go_on_with_the_witness_alone()
 {
    let mut set = Set::failing_with(2, |settings| {
        settings.return_bytes_per_second = Some(4 << 10);
    })
    .await;
    set.add_witness().await;
    set.rest().await;
    let second = set.crash(1).await;
    until_left(&set.sites[0], 2).await;
    for number in 0..300 {
        link(&set.sites[0], &format!("link-{number}"), &[b't'; 4000]).await;
    }
    let first = set.sites[0].replica.clone();
    eventually("the first controls nothing", || {
        first.status().controls_total == 0
    })
    .await;
    set.revive(1, second).await;
    eventually("the second is admitted", || is_active(&set.sites[0], 2)).await;
    drop(first);
    assert!(!set.sites[1].replica.ready());
    let first = set.crash(0).await;
    let second = set.sites[0].replica.clone();
    let early = async {
        while !second.ready() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let early = tokio::time::timeout(Duration::from_secs(20), early).await;
    assert!(early.is_err(), "it answers, and lacks what was answered");
    drop(second);
    set.revive(0, first).await;
    until_ready(&mut set, &[0, 1]).await;
    set.assert_equal().await;
}
