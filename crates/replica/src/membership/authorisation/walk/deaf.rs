//! A member that takes nothing.

use std::collections::BTreeMap;

use super::*;
use crate::state::wire::{LeaseGrant, LeaseRequest};

/// In this test this many updates are kept for replicas outside the view, and ten times as many for members.
const KEPT: u64 = 30;

/// More updates than are made before a member that takes none of them is excluded.
const TOO_MANY: usize = 10_000;

/// At most this many files can be noted for a member in the test of files.
const NOTED: u64 = 100;

/// Grants every request, and takes nothing else.
async fn grant_everything(impostor: Impostor, peers: BTreeMap<u16, Peer>) {
    let mut heard = impostor.deafen();
    while let Some((from, message)) = heard.recv().await {
        if Kind::of(message.kind) != Some(Kind::LeaseRequest) {
            continue;
        }
        let request: LeaseRequest = wire::decode(&message.body).unwrap();
        let grant = LeaseGrant {
            incarnation: request.incarnation,
            asked: request.asked,
            given: true,
            time_of_day_us: 0,
            shipped: None,
        };
        let grant = wire::body(Kind::LeaseGrant, &grant);
        if let Some(Ok(session)) = peers.get(&from.0).map(Peer::session) {
            // The session ends with the test.
            let _ = session.send(Lane::Control, grant).await;
        }
    }
}

/// A member answered all requests for grants and took nothing else. It stayed in the view, and what it lacked was remembered for ever.
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
    let answering = tokio::spawn(grant_everything(impostor, peers));
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
        site.replica.status().kept_entries == 0
    })
    .await;
    answering.abort();
}

/// Of two members the second answers and takes nothing. It cannot be excluded, and what it lacked was remembered without limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_wait_for_a_slow_member_without_which_too_few_would_be_left() {
    let mut set = Set::failing_with(2, |settings| {
        settings.kept_memory = NOTED << 10;
        settings.suspicion = 2 * PATIENCE;
        // The first keeps what it controls: no replica acknowledges anything to it.
        settings.control.deep_control_idle = 10 * PATIENCE;
        settings.control.directory_control_idle = 10 * PATIENCE;
    })
    .await;
    let directory = set.sites[0].directory(ROOT, "d").await.unwrap();
    for number in 0..20 {
        let name = format!("first-{number}");
        set.sites[0].save(directory, &name, b"text").await.unwrap();
    }
    eventually("the first decides about all of it", || {
        let controls = set.sites[0].replica.status().controls;
        controls.iter().any(|one| one.holder == 1 && one.deep)
    })
    .await;
    let second = set.crash(1).await;
    let impostor = impersonate(&second, LATER).await;
    let peer = impostor.call(1, set.sites[0].address());
    let answering = tokio::spawn(grant_everything(impostor, BTreeMap::from([(1, peer)])));
    let site = &set.sites[0];
    eventually("clients are answered", || site.replica.ready()).await;
    let mut made = 0;
    while site.replica.status().too_slow.is_none() {
        assert!(made < TOO_MANY, "what it lacks is remembered without bound");
        let name = format!("file-{made}");
        let written = async {
            let file = site.file(directory, &name).await.unwrap();
            site.write(file, 0, b"text").await.unwrap();
        };
        // It waits as soon as the memory is full.
        let _ = tokio::time::timeout(Duration::from_secs(2), written).await;
        made += 1;
    }
    let waits = site.file(directory, "one more");
    let waited = tokio::time::timeout(Duration::from_secs(2), waits).await;
    assert!(waited.is_err(), "{waited:?}");
    let status = site.replica.status();
    assert!(status.kept_bytes > status.kept_bytes_max, "{status:?}");
    let view = site.replica.view_status();
    assert!(view.members.iter().all(|member| member.active), "{view:?}");

    answering.abort();
    set.revive(1, second.started_as(LATER)).await;
    set.revive_until_ready(1).await;
    set.sites[0].file(directory, "afterwards").await.unwrap();
    eventually("the second has everything", || {
        let status = set.sites[0].replica.status();
        let mut peers = status.peers.iter();
        status.too_slow.is_none() && peers.all(|peer| peer.lag_updates == 0 && peer.lag_files == 0)
    })
    .await;
    let copy = set.sites[1].load(directory, "file-0").await.unwrap();
    assert_eq!(copy, b"text");
}
