//! Relayed messages that their maker never sent.

use super::*;

/// A message of the stream of the replica in `of`, relayed and signed by another replica.
fn forged(by: &Crashed, of: u16, records: &[u8]) -> Message {
    let signatures = by.signatures();
    let relayed = Relayed {
        of,
        records: Bytes::copy_from_slice(records),
        signature: signatures.sign(wire::UPDATES, records).into(),
        certificate: signatures.certificate(),
    };
    wire::payload(Kind::Relayed, &relayed)
}

/// A witness relayed updates of a present replica that no replica had made: they were applied. One with the largest position ended that
/// replica's stream, and senseless bytes made the receiver leave the view.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_invents_updates_of_another_replica() {
    let mut set = Set::failing(4).await;
    set.add_witness().await;
    set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let witness = set.crash(4).await;
    let impostor = impersonate(&witness, LATER).await;
    let site = &set.sites[0];
    let peer = impostor.call(1, site.address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let last = wire::encode(&nothing_through(u64::MAX));
    let plausible = wire::encode(&nothing_through(1 << 20));
    let refused = |site: &Site| site.replica.status().refused_relays;
    let inventions = [
        forged(&witness, 3, b"no records"),
        forged(&witness, 3, &last),
        forged(&witness, 3, &plausible),
    ];
    for message in inventions.clone() {
        session.send(Lane::Metadata, message).await.unwrap();
    }
    eventually("they are dropped", || refused(site) == 3).await;
    set.sites[2].file(ROOT, "later").await.unwrap();
    // The same when that replica is lost, and no replica can ask it.
    let third = set.crash(2).await;
    let site = &set.sites[0];
    eventually("it has left the view", || {
        let view = site.replica.view_status();
        view.takes_part && view.losses.iter().any(|loss| loss.slot == 3)
    })
    .await;
    for message in inventions {
        session.send(Lane::Metadata, message).await.unwrap();
    }
    eventually("they are dropped", || refused(site) == 6).await;
    drop((session, peer, impostor));
    set.revive(2, third).await;
    set.revive(4, witness.started_as(LATER)).await;
    set.sites[2].file(ROOT, "last").await.unwrap();
    set.assert_equal().await;
    assert_eq!(*set.sites[0].replica.has_left().borrow(), None);
}

/// A replica that was taking a copy was relayed what its old copy lacked of a silent replica's stream. The updates came between the pages of the copy, which
/// overwrote a part of what they changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_91_a_replica_without_a_tree_applies_no_updates() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let newcomer = set.enlist().await;
    let third = set.crash(2).await;
    let second = set.crash(1).await;
    // Nobody is left that has the tree.
    let _first = set.crash(0).await;
    set.revive(0, newcomer).await;
    let site = &set.sites[0];
    let impostor = impersonate(&second, LATER).await;
    let peer = impostor.call(4, site.address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let updates = wire::encode(&nothing_through(1 << 20));
    for records in [&updates[..], b"no records"] {
        let message = forged(&third, 3, records);
        session.send(Lane::Metadata, message).await.unwrap();
    }
    let refused = || site.replica.status().refused_relays == 1;
    eventually("what came behind them is dropped", refused).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop((session, peer, impostor));
    let newcomer = set.crash(0).await;
    assert_eq!(newcomer.store().applied(ReplicaSlot(3)).unwrap(), 0);
}
