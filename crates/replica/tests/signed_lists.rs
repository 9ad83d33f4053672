//! Only the set's authority says who is a member, whatever a member sends.

use crate::fixture::{PATIENCE, Set, eventually};
use bytes::Bytes;
use peer::set::{MemberList, SetDirectory};
use peer::{Lane, Message};
use tokio::time::Instant;
use vfs::ReplicaSlot;

/// The kind of a message with a list of members, and one that nobody knows.
const MEMBERS: u32 = 8;
const UNKNOWN: u32 = 9999;

/// What a server says of its past that is in its first start and has met nobody: one start, of incarnation 1 and nonce 7;
/// everything else is nothing, the 32 bytes with which it would attest its mark included.
const NO_PAST: [u8; 43] = {
    let mut past = [0; 43];
    (past[0], past[1], past[2]) = (1, 1, 7);
    past
};

fn list_of(files: &SetDirectory) -> MemberList {
    files.member_list().unwrap()
}

/// Counterexample 48: a member sent a list with the highest possible version. No later list was taken from then on, and
/// it could not be removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_48_a_member_that_sends_a_list_of_its_own_changes_nothing_and_is_removed() {
    let set = Set::of(2).await;
    let hostile = set
        .enlist()
        .await
        .impersonate(1, Bytes::from_static(&NO_PAST))
        .await;
    eventually("all know the third member", || {
        set.sites
            .iter()
            .all(|site| site.set_files().members().unwrap().len() == 3)
    })
    .await;

    let honest = list_of(&set.founder());
    let mut forged = honest.clone();
    forged.version = u64::MAX;
    let mut usurped = forged.clone();
    (usurped.term, usurped.keeper) = (u64::MAX, 3);
    for slot in [1, 2] {
        let address = &honest.member(slot).unwrap().addresses[0];
        let called = hostile.call(slot, address);
        let session = tokio::time::timeout(PATIENCE, called.ready())
            .await
            .unwrap();
        for list in [&forged, &usurped, &honest] {
            let body = postcard::to_allocvec(list).unwrap();
            let message = Message::new(MEMBERS, Bytes::from(body));
            session.send(Lane::Control, message).await.unwrap();
        }
        // What comes later on the same lane is answered later.
        let barrier = Message::new(UNKNOWN, Bytes::new());
        let asked = session.request(Lane::Control, barrier, Instant::now() + PATIENCE);
        asked.await.expect_err("nobody knows such a request");
    }
    for site in &set.sites {
        assert_eq!(list_of(&site.set_files()), list_of(&set.founder()));
        assert!(list_of(&site.set_files()).version < u64::MAX);
    }
    set.remove(3);
    eventually("it is removed", || {
        let mut lists = set.sites.iter().map(|site| list_of(&site.set_files()));
        lists.all(|list| list.member(3).is_some_and(|member| member.revoked))
    })
    .await;
    eventually("and nobody speaks of it any more", || {
        let mut statuses = set.sites.iter().map(|site| site.replica.status());
        statuses.all(|status| status.peers.iter().all(|peer| peer.slot != 3))
    })
    .await;
}

/// Of two members the one with the larger slot calls. The founder, which has the smallest one, was removed while it was away, after
/// another member had taken the authority over: nobody called it, so it was never told, and waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_that_was_removed_while_it_was_away_is_told() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let moved = set.sites[0].replica.move_authority(2).await;
    assert_eq!(moved, Ok(true));
    let founder = set.crash(0).await;
    let keeper = set.sites[0].set_files();
    keeper.revoke(ReplicaSlot(1)).unwrap();
    eventually("it is removed", || {
        let mut views = set.sites.iter().map(|site| site.replica.view_status());
        views.all(|view| view.members.iter().all(|member| member.slot != 1))
    })
    .await;
    set.revive(0, founder).await;
    let returned = set.sites[0].replica.clone();
    eventually("it is told", || returned.is_removed()).await;
}

/// The keeper's process was killed while it moved the authority: before it had signed that another one keeps it, and right
/// after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_is_killed_in_mid_move_leaves_one_keeper() {
    let mut set = Set::failing(3).await;
    let next = ReplicaSlot(2);
    let keepers = |set: &Set| {
        let sites = set.sites.iter().map(|site| site.set_files());
        let keepers = sites.filter(SetDirectory::keeps_authority);
        keepers
            .map(|files| files.identity().unwrap().slot().0)
            .collect::<Vec<_>>()
    };
    let handover = set.founder().begin_handover(next).unwrap();
    let offered = set.sites[1].set_files().store_offer(&handover);
    offered.unwrap();
    let killed = set.crash(0).await;
    set.revive(0, killed).await;
    set.revive_until_ready(0).await;
    assert_eq!(keepers(&set), [1]);
    // The move may be made anew, and what was offered before is of no use then.
    let handover = set.founder().begin_handover(next).unwrap();
    let offered = set.sites[1].set_files().store_offer(&handover);
    offered.unwrap();
    let killed = set.crash(0).await;
    let signed = killed.set_files().complete_handover(next, &handover);
    signed.unwrap();
    assert!(keepers(&set).is_empty(), "nobody has heard of it");
    set.revive(0, killed).await;
    eventually("the next one keeps it, and it alone", || {
        let is_left = set.founder().holds_key();
        keepers(&set) == [2] && !is_left
    })
    .await;
    let files = set.sites[1].set_files();
    assert!(!files.path().join("authority.offer").exists());
}
