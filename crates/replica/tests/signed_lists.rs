//! Only the set's authority says who is a member, whatever a member sends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use bytes::Bytes;
use fixture::{PATIENCE, Set, eventually};
use peer::set::{MemberList, SetDirectory};
use peer::{Lane, Message};
use tokio::time::Instant;

/// The kind of a message with a list of members, and one that nobody knows.
const MEMBERS: u32 = 8;
const UNKNOWN: u32 = 9999;

/// What a server says of its past that is in its first start and has met nobody: one start, of incarnation 1 and nonce 7.
const NO_PAST: &[u8] = &[1, 1, 7, 0, 0, 0, 0, 0, 0, 0];

fn list_of(files: &SetDirectory) -> MemberList {
    files.member_list().unwrap()
}

/// Counterexample 48: a member sent a list with the highest possible version. No later list was taken from then on, and
/// it could not be removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_48_a_member_that_sends_a_list_of_its_own_changes_nothing_and_is_removed() {
    let set = Set::of(2).await;
    let hostile = set.enlist().await.impersonate(1, NO_PAST.into()).await;
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
