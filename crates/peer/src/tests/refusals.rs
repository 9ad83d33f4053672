//! Certificates and hellos that are refused, and what the refused server's administrator reads.

use std::time::{Duration, SystemTime};

use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use vfs::ReplicaSlot;

use super::replica::{Replica, TestSet, quick, until_error};
use crate::flow::locked;
use crate::set::SetDirectory;
use crate::wire::{HelloReply, read_short};
use crate::{Identity, PROTOCOL_VERSIONS, Settings};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

#[tokio::test]
async fn an_expired_certificate_of_the_dialled_replica_is_refused() {
    let root = TempDir::new().expect("a directory");
    let directory = SetDirectory::new(root.path().join("first"));
    let long_ago = SystemTime::now() - 20 * YEAR;
    directory
        .create_for(b"", Vec::new(), long_ago)
        .expect("creates");
    let first = Replica::start(&directory.identity().expect("one"), 1, quick()).await;
    let second = admitted_at(&directory, SystemTime::now());
    let second = Replica::start(&second, 1, quick()).await;
    let peer = second.connect(1, &first.address);
    until_error(&peer, "the other server's certificate has expired").await;
    assert!(peer.session().is_err());
}

#[tokio::test]
async fn an_expired_certificate_of_the_dialling_replica_is_refused_and_it_is_told() {
    let root = TempDir::new().expect("a directory");
    let directory = SetDirectory::new(root.path().join("first"));
    directory
        .create_for(b"", Vec::new(), SystemTime::now())
        .expect("creates");
    let first = Replica::start(&directory.identity().expect("one"), 1, quick()).await;
    let second = admitted_at(&directory, SystemTime::now() - 20 * YEAR);
    let second = Replica::start(&second, 1, quick()).await;
    let peer = second.connect(1, &first.address);
    until_error(&peer, "our certificate has expired").await;
    assert!(first.endpoint.peer(ReplicaSlot(2)).is_none());
}

/// The identity of a second replica whose certificate was made at this time.
fn admitted_at(first: &SetDirectory, then: SystemTime) -> Identity {
    let token = first.invite(YEAR, then).expect("invites");
    let (key, request) = crate::set::request_for_tests();
    let proof = crate::set::proof_for_tests(&token, &request);
    let admission = first
        .admit(token.slot, &proof, &request, Vec::new(), then)
        .expect("admits");
    Identity {
        set: token.set,
        slot: token.slot,
        certificate: admission.certificate,
        key: key.into(),
        authority: admission.authority,
    }
}

#[tokio::test]
async fn a_replica_of_another_set_is_refused_by_the_side_that_looks_first() {
    let ours = TestSet::of(1).await;
    let theirs = TestSet::of(2).await;
    let first = Replica::start(ours.identity(1), 1, quick()).await;
    let stranger = Replica::start(theirs.identity(2), 1, quick()).await;
    let peer = stranger.connect(1, &first.address);
    until_error(&peer, "belongs to another set").await;

    // One that knows our authority, but was not signed by it.
    let forged = Identity {
        set: ours.identity(1).set,
        slot: ReplicaSlot(2),
        certificate: theirs.identity(2).certificate.clone(),
        key: theirs.identity(2).key.clone_key(),
        authority: ours.identity(1).authority.clone(),
    };
    let forger = Replica::start(&forged, 1, quick()).await;
    let peer = forger.connect(1, &first.address);
    until_error(&peer, "belongs to another set").await;
    assert!(first.endpoint.status().is_empty());
}

#[tokio::test]
async fn the_wrong_replica_of_the_right_set_is_refused() {
    let set = TestSet::of(3).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let third = Replica::start(set.identity(3), 1, quick()).await;
    let peer = third.connect(1, &second.address);
    until_error(&peer, "another replica of the set answers at this address").await;
}

#[tokio::test]
async fn a_server_without_a_certificate_is_refused() {
    let set = TestSet::of(1).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let authority = crate::tls::fingerprint(&set.identity(1).authority);
    let mut config = (*crate::tls::join_config(authority).expect("a config")).clone();
    config.alpn_protocols = vec![crate::tls::ALPN_PEER.to_vec()];
    let socket = TcpStream::connect(&first.address).await.expect("connects");
    let name = ServerName::try_from("anything.example").expect("a name");
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let mut stream = connector
        .connect(name, socket)
        .await
        .expect("the client is done first");
    let error = read_short::<_, HelloReply>(&mut stream)
        .await
        .expect_err("refused");
    let crate::wire::WireError::Broken(error) = error else {
        panic!("{error}");
    };
    let text = crate::tls::explain(&error);
    assert!(text.contains("demands a certificate"), "{text}");
}

#[tokio::test]
async fn a_removed_replica_is_refused_and_told_so() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    let peer = second.connect(1, &first.address);
    let session = first.called_by(2).await.session().expect("connected");
    peer.ready().await;
    first
        .recorder
        .removed
        .lock()
        .expect("no panic")
        .push(ReplicaSlot(2));
    first.endpoint.revoke(ReplicaSlot(2));
    assert!(session.has_ended());
    until_error(&peer, "was removed from the set").await;
    let told_by = second.recorder.told_by.lock().expect("no panic").clone();
    assert_eq!(told_by[0], ReplicaSlot(1));
}

/// The smaller slot waits to be called. One that was removed waited for ever, and was never told.
#[tokio::test]
async fn a_removed_replica_that_nobody_calls_asks_why() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 1, quick()).await;
    first.connect(2, &second.address);
    // Until it is refused nothing comes of asking, and there is no connection.
    assert!(second.endpoint.peer(ReplicaSlot(1)).is_none());
    locked(&second.recorder.removed).push(ReplicaSlot(1));
    while locked(&first.recorder.told_by).is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(second.endpoint.peer(ReplicaSlot(1)).is_none());
}

#[tokio::test]
async fn versions_without_a_common_one_are_told_which_to_upgrade() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let (oldest, newest) = PROTOCOL_VERSIONS.into_inner();
    let (from, to) = (newest + 1, newest + 2);
    let newer = Settings {
        versions: from..=to,
        ..quick()
    };
    let second = Replica::start(set.identity(2), 1, newer).await;
    let peer = second.connect(1, &first.address);
    let words = format!(
        "versions {oldest} to {newest} of the protocol between replicas, the other {from} to {to}"
    );
    until_error(&peer, &words).await;
}

#[tokio::test]
async fn an_earlier_start_of_a_replica_is_refused() {
    let set = TestSet::of(2).await;
    let first = Replica::start(set.identity(1), 1, quick()).await;
    let second = Replica::start(set.identity(2), 5, quick()).await;
    second.connect(1, &first.address).ready().await;
    drop(second);
    let copy = Replica::start(set.identity(2), 4, quick()).await;
    let peer = copy.connect(1, &first.address);
    until_error(&peer, "two servers use copies of one identity").await;
}
