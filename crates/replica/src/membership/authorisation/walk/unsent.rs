//! Members that were lost at the same time as others, in a view that cannot do without them before another replica is back.

use std::sync::atomic::Ordering;

use super::different_ends::known_to_one;
use super::supplied::hold_back;
use super::*;
use crate::state::copies::Held;
use crate::state::settings::{Durability, Settings};

/// Long enough for the others to get something.
const FOR_A_WHILE: Duration = Duration::from_secs(10);

/// Long enough to crash three replicas before one of them is excluded.
fn slow_to_suspect(settings: &mut Settings) {
    settings.suspicion = Duration::from_secs(3);
}

/// Waits until these are the members of the view.
async fn until_members(set: &Set, slots: &[u16]) {
    let one = set.sites[1].replica.clone();
    eventually("the others have gone on", || {
        let members = one.view_status().members;
        let active = members.iter().filter(|member| member.active);
        active.map(|member| member.slot).eq(slots.iter().copied())
    })
    .await;
}

/// A replica that has just started finds that it needs a whole copy.
fn needs_copy(site: &Site) {
    let needs_copy = &site.replica.local().state.needs_copy;
    needs_copy.store(true, Ordering::Release);
    assert!(!site.replica.ready(), "it was too late");
}

/// This replica writes a file. Those before it hear of that, and get no contents.
async fn write_for_itself(set: &Set, slot: u16, file: ObjectId) {
    let writer = usize::from(slot) - 1;
    for other in 1..slot {
        hold_back(set.sites[writer].replica.local(), other, PATIENCE);
    }
    set.sites[writer].write(file, 0, b"new").await.unwrap();
    let lacking = |site: &Site| site.store.lacks_data_of(file);
    let others = set.sites[..writer].iter();
    let all_lack = || {
        others
            .clone()
            .all(|site| lacking(site) == [ReplicaSlot(slot)])
    };
    eventually("nobody else has it", all_lack).await;
}

/// Of five replicas the fourth and the fifth are off, and the third is lost before it has what the first wrote. Too few members would be left
/// without it, so that one of the others must take its place. The fourth needs a whole copy first, and gives up its own when the members have
/// all that the first wrote. It waited for the third, which nobody could exclude before the fourth was back.
async fn the_fourth_takes_the_place_of_the_third(first_starts_anew: bool) {
    let mut set = Set::failing(5).await;
    set.rest().await;
    let fifth = set.crash(4).await;
    let fourth = set.crash(3).await;
    until_members(&set, &[1, 2, 3]).await;
    hold_back(set.sites[0].replica.local(), 3, FOR_A_WHILE);
    let file = set.sites[0].save(ROOT, "file", b"text").await.unwrap();
    let lacking = |at: usize| set.sites[at].store.lacks_data_of(file);
    let has_it = |at: usize| set.sites[at].store.file_size(file) == Ok(4);
    eventually("only the third lacks it", || {
        has_it(1) && lacking(1).is_empty() && lacking(2) == [ReplicaSlot(1)]
    })
    .await;
    let third = set.crash(2).await;
    if first_starts_anew {
        let first = set.crash(0).await;
        set.revive(0, first).await;
    }

    set.revive(2, fourth).await;
    needs_copy(&set.sites[2]);
    set.all_take_part("it takes the place of the third").await;
    assert_eq!(set.sites[2].read(file).await.unwrap(), b"text");
    set.revive(2, third).await;
    set.revive(4, fifth).await;
    set.all_take_part("all are back").await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_94_a_lost_member_lacks_what_others_wait_for() {
    the_fourth_takes_the_place_of_the_third(false).await;
}

/// The first does not come up to date any more, as the third does not report: it did not say what the others have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_94_its_maker_was_started_anew() {
    the_fourth_takes_the_place_of_the_third(true).await;
}

/// The third wrote a file, and no other member has what it wrote. It is lost, and the fourth needs a whole copy to take its place: nobody could send it
/// that file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_101_nobody_has_all_of_a_file_of_a_lost_member() {
    let mut set = Set::failing(5).await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    let fifth = set.crash(4).await;
    let fourth = set.crash(3).await;
    until_members(&set, &[1, 2, 3]).await;
    write_for_itself(&set, 3, file).await;
    let third = set.crash(2).await;

    set.revive(2, fourth).await;
    needs_copy(&set.sites[2]);
    set.all_take_part("it takes the place of the third").await;
    set.revive(2, third).await;
    set.revive(4, fifth).await;
    set.all_take_part("all are back").await;
    for site in &set.sites {
        assert_eq!(site.read(file).await.unwrap(), b"new");
    }
    set.assert_equal().await;
}

/// The fourth wrote a file, and of the others only the first has it. The fourth has left the view. The fifth takes rows from the first, which is lost,
/// and the contents from the second, which lacks what the fourth wrote. That counted as whole there, although the rows told of the newer version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_104_a_second_supplier_lacks_what_the_rows_of_the_first_tell_of() {
    let mut set = Set::failing(5).await;
    let file = set.sites[3].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    let fifth = set.crash(4).await;
    until_members(&set, &[1, 2, 3, 4]).await;
    let first = set.sites[0].replica.local().clone();
    for other in [2, 3] {
        hold_back(set.sites[3].replica.local(), other, PATIENCE);
        hold_back(&first, other, PATIENCE);
    }
    set.sites[3].write(file, 0, b"new").await.unwrap();
    let lacking = |at: usize| set.sites[at].store.lacks_data_of(file);
    let place = |at: usize| set.sites[at].store.applied(ReplicaSlot(4)).unwrap();
    eventually("only the first has it", || {
        let lacks = |at: usize| lacking(at) == [ReplicaSlot(4)] && place(at) == place(0);
        lacking(0).is_empty() && lacks(1) && lacks(2)
    })
    .await;
    let fourth = set.crash(3).await;
    until_members(&set, &[1, 2, 3]).await;
    assert_eq!(set.sites[1].store.lacks_data_of(file), [ReplicaSlot(4)]);

    set.revive(3, fifth).await;
    needs_copy(&set.sites[3]);
    let has_left = set.sites[3].replica.has_left();
    eventually("it has given up its copy", || has_left.borrow().is_some()).await;
    drop(has_left);
    let fifth = set.crash(3).await;
    hold_back(&first, 5, PATIENCE);
    drop(first);
    set.revive(3, fifth).await;
    let taking = set.sites[3].replica.local().clone();
    eventually("it has the rows", || {
        *taking.state.held.borrow() == Held::Rows
    })
    .await;
    drop(taking);
    let first = set.crash(0).await;
    set.all_take_part("it takes the place of the first").await;
    for site in &set.sites {
        assert_eq!(site.store.lacks_data_of(file), [ReplicaSlot(4)]);
    }
    set.revive(0, first).await;
    set.revive(3, fourth).await;
    set.all_take_part("all are back").await;
    for site in &set.sites {
        assert_eq!(site.read(file).await.unwrap(), b"new");
    }
    set.assert_equal().await;
}

/// The fifth wrote a file, and a majority has it; the first has not, and both are lost. The others go on with what the fifth wrote. The first, which
/// is the first survivor again when it is back, took the file for one that nobody has whole, and its remains replaced all copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_95_what_one_that_was_away_lacks_replaces_no_whole_file() {
    let mut set = Set::failing_with(5, |settings| settings.durability = Durability::Majority).await;
    let file = set.sites[4].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    hold_back(set.sites[4].replica.local(), 1, FOR_A_WHILE);
    set.sites[4].write_stably(file, b"new").await.unwrap();
    let lacking = |at: usize| set.sites[at].store.lacks_data_of(file);
    let place = |at: usize| set.sites[at].store.applied(ReplicaSlot(5)).unwrap();
    eventually("all but the first have it", || {
        let whole = |at: usize| lacking(at).is_empty() && place(at) == place(0);
        lacking(0) == [ReplicaSlot(5)] && (1..4).all(whole)
    })
    .await;
    let fifth = set.crash(4).await;
    let first = set.crash(0).await;
    let second = set.sites[0].replica.local().clone();
    eventually("they go on without the fifth", || {
        let state = second.view_state();
        state.is_some_and(|state| state.is_settled(ReplicaSlot(5)))
    })
    .await;
    drop(second);
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"new");

    set.revive(0, first).await;
    set.all_take_part("the first is back").await;
    // It has time to give the file a new version.
    tokio::time::sleep(Duration::from_secs(2)).await;
    set.revive(4, fifth).await;
    set.all_take_part("all are back").await;
    for site in &set.sites {
        assert_eq!(site.read(file).await.unwrap(), b"new");
    }
    set.assert_equal().await;
}

/// The fifth takes a copy. After the copy was begun, the fourth is lost, and what it had not sent of a file is given up. The copy says that this is
/// missing, and nobody ever sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_98_a_copy_may_be_older_than_a_settlement() {
    let mut set = Set::failing(5).await;
    let file = set.sites[3].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    let fifth = set.crash(4).await;
    until_members(&set, &[1, 2, 3, 4]).await;
    set.revive(4, fifth).await;
    needs_copy(&set.sites[4]);
    let has_left = set.sites[4].replica.has_left();
    eventually("it has given up its copy", || has_left.borrow().is_some()).await;
    drop(has_left);
    let fifth = set.crash(4).await;

    write_for_itself(&set, 4, file).await;
    set.revive(4, fifth).await;
    let taking = set.sites[4].replica.local().clone();
    let nothing_yet = taking.state.copying.lock().await;
    let first = set.sites[0].replica.local().clone();
    let supplied = || first.state.conversations.supply(ReplicaSlot(5)).is_some();
    eventually("the copy is begun", supplied).await;
    let fourth = set.crash(3).await;
    until_members(&set, &[1, 2, 3]).await;
    set.sites[0].give_up(4).await;
    let is_settled = || {
        let state = taking.view_state();
        state.is_some_and(|state| state.is_settled(ReplicaSlot(4)))
    };
    eventually("the fifth knows it", is_settled).await;
    drop((nothing_yet, first));
    drop(taking);
    set.all_take_part("the fifth takes part").await;
    for site in &set.sites {
        assert_eq!(site.read(file).await.unwrap(), b"old");
    }
    set.revive(3, fourth).await;
    set.all_take_part("all are back").await;
    set.assert_equal().await;
}

/// The fifth is off. The first, the second and the fourth are lost together, and the second is started anew with the fifth, which must not take the place
/// of the fourth yet. Returns the directory of the first's last update, which only the third knows, and the lost ones.
async fn without_the_first_and_the_fourth() -> (Set, ObjectId, [Crashed; 2]) {
    let mut set = Set::failing_with(5, slow_to_suspect).await;
    let theirs = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    set.rest().await;
    let fifth = set.crash(4).await;
    until_members(&set, &[1, 2, 3, 4]).await;
    known_to_one(&set, (0, theirs), 2).await;
    // In this order the first is found silent first.
    let first = set.crash(0).await;
    let fourth = set.crash(2).await;
    let second = set.crash(0).await;
    set.revive(0, second).await;
    set.revive(2, fifth).await;
    let needs_time = "its disk is full".to_owned();
    *set.sites[2].replica.local().state.trouble.lock() = Some(needs_time);
    (set, theirs, [first, fourth])
}

/// When the fifth is back there is a majority again. It lets the first leave the view, while the fourth stays and never reports: nobody relayed the
/// update to the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_96_members_relay_although_a_lost_one_never_reports() {
    let (mut set, theirs, [first, fourth]) = without_the_first_and_the_fourth().await;
    let place = |at: usize| set.sites[at].store.applied(ReplicaSlot(1)).unwrap();
    // Who decides it may find the fourth silent first. Then the first stays, and the third relays for it when the fifth is back.
    let third = set.sites[1].replica.clone();
    let stays = || {
        let members = third.view_status().members;
        let mut active = members.iter().filter(|member| member.active);
        active.all(|member| member.slot != 4)
    };
    eventually("the second has it", || place(0) == place(1) || stays()).await;
    drop(third);
    *set.sites[2].replica.local().state.trouble.lock() = None;
    set.all_take_part("the fifth takes the place of the one that stays")
        .await;
    set.revive(0, first).await;
    set.revive(3, fourth).await;
    set.all_take_part("all are back").await;
    set.sites[1].find(theirs, "end").await.unwrap();
    set.assert_equal().await;
}

/// The fifth starts in the view in which it was lost, and greets the second for the time since which that took part in it. Both are admitted again,
/// and the second waits for a word of the fifth about its new time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_100_what_was_said_in_an_earlier_view_is_said_again() {
    let (mut set, theirs, [first, _fourth]) = without_the_first_and_the_fourth().await;
    let third = set.sites[1].replica.clone();
    eventually("the second was admitted as it is now", || {
        let state = third.local().view_state();
        let second = state.and_then(|state| state.members.get(&ReplicaSlot(2)).cloned());
        second.is_some_and(|second| second.incarnation == 2)
    })
    .await;
    drop(third);
    *set.sites[2].replica.local().state.trouble.lock() = None;
    set.all_take_part("the second has all that the fifth owes it")
        .await;
    set.revive(0, first).await;
    set.all_take_part("the first is back").await;
    set.sites[0].find(theirs, "end").await.unwrap();
}
