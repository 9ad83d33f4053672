//! A member that sends nonsense loses its own place, and no other member loses its place.

use super::*;
use crate::state::wire::{Record, Row, Stretch};
use control::Incarnation;

/// An update of a replica, at a position that no replica has reached.
fn update(by: u16, incarnation: u64) -> Record {
    let name = ControlName {
        holder: ReplicaSlot(by),
        incarnation: Incarnation(incarnation),
        number: 1,
    };
    Record {
        position: 1 << 20,
        under: vec![name],
        ..Record::default()
    }
}

fn records(of: Vec<Record>) -> Message {
    let through = of.last().map_or(0, |record| record.position);
    let records = Records {
        records: of,
        ..nothing_through(through)
    };
    wire::payload(Kind::Records, &records)
}

/// An update behind a hole in its stream.
fn behind_a_hole(update: Record) -> Message {
    let through = update.position;
    let records = Records {
        behind: through - 1,
        records: vec![update],
        ..nothing_through(through)
    };
    wire::payload(Kind::Records, &records)
}

fn row(table: u8) -> Row {
    Row {
        table,
        key: Bytes::from_static(b"no key"),
        value: None,
    }
}

/// Four invalid pieces: too short, of a directory, with too many sums, and with sums of a directory.
fn pieces() -> [Message; 4] {
    let stretch = Stretch {
        offset: 0,
        length: 4096,
        hole: false,
    };
    let head = PieceHead {
        stretches: vec![stretch],
        ..nothing_of(ROOT)
    };
    let short = wire::body(Kind::Piece, &head).with_payload("short");
    let version = u64::MAX;
    let head = PieceHead { version, ..head };
    let misplaced = wire::body(Kind::Piece, &head).with_payload(vec![7; 4096]);
    let sums = |count| PieceHead {
        sums: vec![[7; 32]; count],
        ..head.clone()
    };
    let too_many = wire::body(Kind::Piece, &sums(2));
    let of_directory = wire::body(Kind::Piece, &sums(1));
    [short, misplaced, too_many, of_directory]
}

/// All the nonsense that a member might send, each with its lane.
fn senseless(by: u16, incarnation: u64) -> Vec<(Lane, Message)> {
    let mut homeless = update(by, incarnation);
    homeless.under.clear();
    let foreign = update(1, incarnation);
    let known = Records {
        through: u64::MAX,
        ..nothing_through(0)
    };
    let mut said = vec![
        (
            Lane::Metadata,
            Message::new(Kind::Records.number(), "").with_payload("no records"),
        ),
        (Lane::Metadata, wire::payload(Kind::Records, &known)),
        (Lane::Metadata, records(vec![homeless])),
        (Lane::Metadata, records(vec![foreign])),
        (Lane::Metadata, behind_a_hole(update(by, incarnation))),
        (
            Lane::Metadata,
            Message::new(Kind::Base.number(), "").with_payload("no page"),
        ),
        (
            Lane::Metadata,
            Message::new(Kind::Relayed.number(), "").with_payload("no message"),
        ),
    ];
    let on_control = Kind::ALL.into_iter();
    let on_control = on_control.filter(|kind| !is_request(*kind));
    let on_control = on_control.filter(|kind| {
        let empty = [Kind::TooFar, Kind::Records, Kind::Base, Kind::Relayed];
        !empty.contains(kind)
    });
    said.extend(on_control.map(|kind| (Lane::Control, Message::new(kind.number(), ""))));
    said.extend(pieces().map(|piece| (Lane::Data, piece)));
    said
}

/// What a replica knows about nonsense that another one sent.
fn nonsense_of(site: &Site, slot: u16) -> Option<String> {
    let peers = site.replica.status().peers;
    peers.into_iter().find(|peer| peer.slot == slot)?.nonsense
}

/// A member sent a record that could not be decoded, and every member that received it left the view.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senseless_bytes_cost_nobody_but_their_sender_its_part() {
    // No member is excluded for silence.
    let mut set = Set::failing_with(3, |settings| settings.suspicion = 10 * PATIENCE).await;
    set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let site = &set.sites[0];
    let takes_part = |slot: u16| {
        let members = site.replica.view_status().members;
        members
            .iter()
            .any(|member| member.slot == slot && member.active)
    };
    assert!(takes_part(3));
    let count = senseless(3, 0).len();
    for (incarnation, number) in (LATER..).zip(0..count) {
        let (lane, message) = senseless(3, incarnation).swap_remove(number);
        let kind = Kind::of(message.kind).unwrap();
        let impostor = impersonate(&third, incarnation).await;
        let peer = impostor.call(1, site.address());
        let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
        eventually("a later start is heard", || nonsense_of(site, 3).is_none()).await;
        session.send(lane, message).await.unwrap();
        eventually(&format!("it is found out: {kind:?}, {number}"), || {
            nonsense_of(site, 3).is_some()
        })
        .await;
        eventually("it gets no other session", || {
            let error = peer.status().last_error;
            error.is_some_and(|error| error.contains("sent what makes no sense"))
        })
        .await;
        eventually("it leaves the view", || !takes_part(3)).await;
        assert_eq!(*site.replica.has_left().borrow(), None, "{kind:?}");
    }
    eventually("the others go on", || site.replica.ready()).await;
    set.sites[0].file(ROOT, "later").await.unwrap();
    set.sites[1].find(ROOT, "later").await.unwrap();
    // Its next start, which is sound, is admitted again.
    set.revive(2, third.started_as(LATER + count as u64)).await;
    set.revive_until_ready(2).await;
    set.sites[2].file(ROOT, "last").await.unwrap();
    set.assert_equal().await;
}

/// Impossible rows are found only when an update is applied; before that, its maker must win the control that it names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_cannot_be_are_their_senders_fault() {
    let mut set = Set::failing_with(3, |settings| settings.suspicion = 10 * PATIENCE).await;
    let object = set.sites[0].file(ROOT, "kept").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let site = &set.sites[0];
    let impostor = impersonate(&third, LATER).await;
    let peer = impostor.call(1, site.address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let name = update(3, LATER).under[0];
    let claim = Claim {
        object,
        depth: Depth::Shallow,
        ancestors: Vec::new(),
    };
    let proposal = Proposal {
        name,
        claims: vec![claim],
        downgradable: false,
        behind: Vec::new(),
    };
    let proposal = control::Message::Propose {
        proposal,
        replaces: None,
        floor: 0,
    };
    let epoch = Epoch(site.replica.view_status().epoch);
    let proposal = wire::body(
        Kind::Control,
        &Envelope {
            epoch,
            message: proposal,
        },
    );
    session.send(Lane::Control, proposal).await.unwrap();
    let update = Record {
        rows: vec![row(200)],
        ..update(3, LATER)
    };
    session
        .send(Lane::Metadata, records(vec![update]))
        .await
        .unwrap();
    eventually("it is found out", || nonsense_of(site, 3).is_some()).await;
    assert_eq!(*site.replica.has_left().borrow(), None);
    set.sites[0].file(ROOT, "later").await.unwrap();
    set.sites[1].find(ROOT, "later").await.unwrap();
}

/// An update that names a control of its maker which no replica has granted waited, and no log line said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_under_what_nobody_granted_waits_and_is_told_of() {
    // No member is excluded for silence.
    let mut set = Set::failing_with(3, |settings| settings.suspicion = 10 * PATIENCE).await;
    set.rest().await;
    let third = set.crash(2).await;
    let (site, replica) = (&set.sites[0], set.sites[0].replica.clone());
    let waits = || {
        let peers = replica.status().peers;
        let third = peers.into_iter().find(|peer| peer.slot == 3);
        third.and_then(|peer| peer.update_waits_ms)
    };
    assert_eq!(waits(), None);
    let impostor = impersonate(&third, LATER).await;
    let peer = impostor.call(1, site.address());
    let session = tokio::time::timeout(PATIENCE, peer.ready()).await.unwrap();
    let sent = session.send(Lane::Metadata, records(vec![update(3, LATER)]));
    sent.await.unwrap();
    eventually("it is told of", || waits().is_some_and(|waits| waits > 500)).await;
    assert_eq!(nonsense_of(site, 3), None);
    drop((session, peer, impostor));
    // As its next start reports what it holds.
    set.revive(2, third.started_as(LATER + 1)).await;
    eventually("it waits no more", || waits().is_none()).await;
    set.revive_until_ready(2).await;
    set.sites[2].file(ROOT, "later").await.unwrap();
    set.assert_equal().await;
}
