//! A server at which many knock: hosts that make connections and say nothing, beside clients that work.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use fixture::site::block_on;
use fixture::{Place, Running};
use nfs4::NfsLockType4;
use nfs4_client::{Client, How, LockAnswer, OpenFile, Options, StableHow4};
use rustix::process::{Resource, Rlimit, prlimit};
use socket2::{Domain, Socket, Type};

/// Hosts that say nothing, and how many connections each makes.
const SILENT_HOSTS: u8 = 30;
const SILENT_EACH: usize = 12;

/// A connection from another address of this machine.
fn connect_from(host: u8, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)).into())?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

fn crowd(server: SocketAddr) -> Vec<TcpStream> {
    let hosts = (0..SILENT_EACH).flat_map(|_| 2..2 + SILENT_HOSTS);
    hosts
        .map(|host| connect_from(host, server).unwrap())
        .collect()
}

/// A client with a lock on all of a file.
async fn with_a_lock(server: &Running) -> (Client, OpenFile) {
    let client = Client::connect(Options::at(server.address)).await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client
        .open(&root, "ledger", &How::create(0o666))
        .await
        .unwrap();
    let locked = client
        .lock(&file, "owner", NfsLockType4::Write, 0, 100)
        .await;
    assert!(matches!(locked, Ok(LockAnswer::Granted(_))));
    (client, file)
}

async fn comes_back_with_its_lock(client: &Client, file: &OpenFile, other: &Client) {
    client.session().connection(0).await.unwrap().sever();
    let entry = b"an entry".to_vec().into();
    client
        .write(file, 0, entry, StableHow4::FileSync)
        .await
        .unwrap();
    let asked = other
        .test_lock(&file.handle, "another", NfsLockType4::Write, 0, 1)
        .await;
    assert!(asked.unwrap().is_some(), "the lock is still held");
}

/// Any host could shut everybody out with as many silent connections as there may be: a newcomer was refused, and a
/// client that lost its connection lost its locks with its lease.
#[test]
fn silent_connections_shut_nobody_out() {
    let place = Place::new("[limits]\nconnections = 64\n");
    let server = place.start();
    block_on(async {
        let (client, file) = with_a_lock(&server).await;
        let _silent = crowd(server.address);
        let address = server.address;
        let newcomer = Options::dialling(move || connect_from(99, address));
        let newcomer = Client::connect(newcomer).await.unwrap();
        for _ in 0..3 {
            comes_back_with_its_lock(&client, &file, &newcomer).await;
            let more = crowd(server.address);
            comes_back_with_its_lock(&client, &file, &newcomer).await;
            drop(more);
        }
    });
    let traffic = place.status().traffic;
    assert!(traffic.refused > 64, "{traffic:?}");
    assert!(place.read_log().contains("too many connections"));
}

/// The same where the process may have no more files open: the server neither ends nor takes it for a failed disk.
#[test]
fn a_server_without_descriptors_goes_on() {
    let place = Place::new("");
    let server = place.start();
    block_on(async {
        let (client, file) = with_a_lock(&server).await;
        let other = Client::connect(Options::at(server.address)).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let open = fs::read_dir(format!("/proc/{}/fd", server.id()))
            .unwrap()
            .count() as u64;
        let limit = Rlimit {
            current: Some(open + 40),
            maximum: Some(open + 40),
        };
        prlimit(Some(server.pid()), Resource::Nofile, limit).unwrap();
        let _silent = crowd(server.address);
        comes_back_with_its_lock(&client, &file, &other).await;
        for number in 0..20 {
            let name = format!("file {number}");
            let made = client
                .open(&root, name.as_str(), &How::create(0o644))
                .await
                .unwrap();
            let data = vec![7; 100_000].into();
            client
                .write(&made, 0, data, StableHow4::FileSync)
                .await
                .unwrap();
        }
        comes_back_with_its_lock(&client, &file, &other).await;
    });
    assert!(!place.status().exports[0].store.failed);
    assert!(place.read_log().contains("raise the limit of open files"));
    server.stop();
}
