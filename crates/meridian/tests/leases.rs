//! Leases that run out of clients that hold much, or are many, and that come back while it is being given up: what they take anew is
//! theirs, and nobody else waits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs4::{NfsFh4, NfsLockType4, NfsStat4, Verifier4};
use nfs4_client::{Client, How, LockAnswer, OpenFile, Options};

use crate::fixture::site::{block_on, each};
use crate::fixture::{Place, Running};
use crate::replicas::two_configured;

/// Leases run out soon.
const SETTINGS: &str = "[time]\nlease_seconds = 2\n";

/// How often a client renews its lease that keeps it.
const RENEWAL: Option<Duration> = Some(Duration::from_millis(500));

/// Files that one client has open and locked; and clients that have one each.
const MANY: usize = 4000;

/// A client that says nothing by itself, and the same each time it comes with this name.
async fn silent(owner: &str, server: SocketAddr) -> Client {
    named(owner, server, None).await
}

/// The client of this name. While what it held is given up it is told to come again.
async fn named(owner: &str, server: SocketAddr, renewal: Option<Duration>) -> Client {
    loop {
        let options = Options {
            owner: Bytes::copy_from_slice(owner.as_bytes()),
            verifier: Verifier4([7; 8]),
            renewal,
            patience: Duration::from_secs(120),
            ..Options::at(server)
        };
        match Client::connect(options).await {
            Err(error) if error.status() == Some(NfsStat4::Delay) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            connected => return connected.unwrap(),
        }
    }
}

/// One that stays.
async fn steady(server: SocketAddr) -> Arc<Client> {
    let options = Options {
        renewal: RENEWAL,
        ..Options::at(server)
    };
    Arc::new(Client::connect(options).await.unwrap())
}

/// Opens a file, which it makes if need be, and locks all of it.
async fn take(client: &Client, root: &NfsFh4, number: usize) -> OpenFile {
    let name = format!("file {number}");
    let file = client.open(root, name.as_str(), &How::create(0o666)).await;
    let file = file.unwrap_or_else(|error| panic!("{name}: {error}"));
    let locked = client.lock(&file, "owner", NfsLockType4::Write, 0, u64::MAX);
    let locked = locked.await.unwrap();
    assert!(matches!(locked, LockAnswer::Granted(_)), "{name}");
    file
}

async fn take_all(client: &Arc<Client>, root: &NfsFh4, count: usize) -> Vec<OpenFile> {
    each(count, |number| {
        let (client, root) = (Arc::clone(client), root.clone());
        async move { take(&client, &root, number).await }
    })
    .await
}

/// Nobody else gets what is held.
async fn assert_held(other: &Client, files: &[OpenFile]) {
    for (number, file) in files.iter().enumerate() {
        let asked = other.test_lock(&file.handle, "other", NfsLockType4::Write, 0, 1);
        assert!(asked.await.unwrap().is_some(), "{number} is free");
    }
}

/// Works until it is told to stop, and is never refused.
fn go_on(other: Arc<Client>, root: NfsFh4) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for number in 0.. {
            let name = format!("of another {number}");
            let file = other.open(&root, name.as_str(), &How::create(0o666)).await;
            other.close(&file.unwrap()).await.unwrap();
            other.remove(&root, name.as_str()).await.unwrap();
        }
    })
}

/// Waits until the server gives up what clients held that it has heard of for too long.
async fn until_gone(place: &Place, left: u64) {
    while place.status().clients > left {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One client with much, which comes back as soon as its lease has run out.
async fn comes_back(place: &Place, server: &Running, count: usize) {
    let other = steady(server.address).await;
    let root = other.mount("/export").await.unwrap();
    let client = Arc::new(silent("the one client", server.address).await);
    take_all(&client, &root, count).await;
    drop(client);
    let others = go_on(Arc::clone(&other), root.clone());
    until_gone(place, 1).await;
    // While others look at what it holds it must not lose that again.
    let client = Arc::new(named("the one client", server.address, RENEWAL).await);
    let files = take_all(&client, &root, count).await;
    assert_held(&other, &files).await;
    let mine = Bytes::from_static(b"mine");
    client.write_all(&files[0], 0, &mine).await.unwrap();
    assert!(!others.is_finished(), "somebody else was refused something");
    others.abort();
}

/// It lost what it had just taken again: 82 of 100 locks were given to two.
#[test]
fn a_client_with_much_that_comes_back_while_it_is_given_up_keeps_what_it_takes_anew() {
    let place = Place::new(SETTINGS);
    let server = place.start();
    block_on(comes_back(&place, &server, MANY));
    server.stop();
}

/// Where other servers are told of each lock that is given up, that takes longer.
#[test]
fn the_same_holds_where_other_servers_have_to_hear_of_it() {
    let [(first, first_server), (_second, second_server)] = two_configured(SETTINGS);
    block_on(comes_back(&first.place, &first_server, MANY / 4));
    second_server.stop();
    first_server.stop();
}

/// Very many whose leases run out at once keep nobody waiting, and each gets its own again.
#[test]
fn many_clients_whose_leases_run_out_at_once_come_back() {
    let place = Place::new(SETTINGS);
    let server = place.start();
    block_on(async {
        let other = steady(server.address).await;
        let root = other.mount("/export").await.unwrap();
        let others = go_on(Arc::clone(&other), root.clone());
        for comes_again in [false, true] {
            if comes_again {
                until_gone(&place, 1).await;
            }
            let (root, address) = (&root, server.address);
            each(MANY, |number| {
                let root = root.clone();
                async move {
                    let client = silent(&format!("client {number}"), address).await;
                    take(&client, &root, number).await
                }
            })
            .await;
        }
        assert!(!others.is_finished(), "somebody else was refused something");
        others.abort();
        // In the end all go for good, and leave nothing behind.
        until_gone(&place, 1).await;
        let last = format!("file {}", MANY - 1);
        let file = other.open(&root, last.as_str(), &How::write()).await;
        let file = file.unwrap();
        loop {
            let locked = other.lock(&file, "other", NfsLockType4::Write, 0, 1).await;
            match locked {
                Ok(LockAnswer::Granted(_)) => return,
                Ok(LockAnswer::Denied(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => assert_eq!(error.status(), Some(NfsStat4::Delay)),
            }
        }
    });
    server.stop();
}
