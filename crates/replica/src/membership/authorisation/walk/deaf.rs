//! A member that takes nothing.

use std::collections::BTreeMap;

use super::*;
use crate::state::wire::{LeaseGrant, LeaseRequest};

/// So many updates are kept for members outside the view in this test, and ten times as many for those in it.
const KEPT: u64 = 30;

/// More than are made until a member that takes none of them is left out.
const TOO_MANY: usize = 10_000;

/// Promises whatever it is asked to, and takes nothing else.
async fn promise_everything(impostor: Impostor, peers: BTreeMap<u16, Peer>) {
    let mut heard = impostor.deafen();
    while let Some((from, message)) = heard.recv().await {
        if Kind::of(message.kind) != Some(Kind::LeaseRequest) {
            continue;
        }
        let ask: LeaseRequest = wire::decode(&message.body).unwrap();
        let grant = LeaseGrant {
            incarnation: ask.incarnation,
            asked: ask.asked,
            given: true,
            time_of_day_us: 0,
        };
        let grant = wire::body(Kind::LeaseGrant, &grant);
        if let Some(Ok(session)) = peers.get(&from.0).map(Peer::session) {
            // The session ends with the test.
            let _ = session.send(Lane::Control, grant).await;
        }
    }
}

/// A member answered all who asked it for promises and took nothing else. It stayed in the view, and what it lacked was remembered for
/// ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_takes_nothing_leaves_the_view_and_costs_bounded_memory() {
    let mut set = Set::failing_with(3, |settings| {
        settings.kept_updates = KEPT;
        settings.suspicion = Duration::from_secs(4);
    })
    .await;
    set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let impostor = impersonate(&third, LATER).await;
    let sites = (1..).zip(&set.sites);
    let peers = sites.map(|(slot, site)| (slot, impostor.call(slot, site.address())));
    let peers: BTreeMap<u16, Peer> = peers.collect();
    let answering = tokio::spawn(promise_everything(impostor, peers));
    let site = &set.sites[0];
    let third_of = |site: &Site| {
        let members = site.replica.view_status().members;
        members.into_iter().find(|member| member.slot == 3).unwrap()
    };
    let mut made = 0;
    while third_of(site).active {
        assert!(made < TOO_MANY, "it stays for ever");
        site.file(ROOT, &format!("file-{made}")).await.unwrap();
        made += 1;
    }
    let reason = third_of(site).reason.unwrap();
    assert!(reason.contains("too slow"), "{reason}");
    for number in 0..20 * KEPT {
        site.file(ROOT, &format!("later-{number}")).await.unwrap();
    }
    eventually("nothing is remembered for it", || {
        site.replica.status().entries_kept == 0
    })
    .await;
    answering.abort();
}
