//! Files that are open at one server of a set and removed, or replaced, at another: they stay what they are for who has them
//! open, however many there are, and go everywhere with the last close.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, OpenFile, Options, StableHow4};

use crate::fixture::Running;
use crate::fixture::site::{Site, block_on, each};
use crate::replicas::two;

/// Directories, with an open file in each.
const MANY: usize = 700;

fn content(number: usize, version: &str) -> Bytes {
    format!("{version} content of {number}").into()
}

fn directory_of(number: usize) -> String {
    format!("directory {number}")
}

async fn client(server: &Running) -> Client {
    Client::connect(Options::at(server.address)).await.unwrap()
}

/// Makes a file in a directory of its own.
async fn make(client: &Client, root: &NfsFh4, number: usize) {
    let directory = directory_of(number);
    let made = client.create_directory(root, directory.as_str(), 0o755);
    let made = made.await.unwrap();
    for (name, version) in [("file", "old"), ("other", "new")] {
        let file = client.open(&made, name, &How::create(0o644)).await.unwrap();
        let bytes = content(number, version);
        let written = client.write(&file, 0, bytes, StableHow4::FileSync).await;
        written.unwrap();
        client.close(&file).await.unwrap();
    }
}

/// Opens it elsewhere, for reading and writing.
async fn open(client: &Client, root: &NfsFh4, number: usize) -> OpenFile {
    let directory = client.walk(root, &directory_of(number)).await.unwrap();
    client
        .open(&directory, "file", &How::write())
        .await
        .unwrap()
}

/// Takes its name away: every other one is removed, the rest replaced. Then the directory goes.
async fn take_away(client: &Client, root: &NfsFh4, number: usize) {
    let directory = client.walk(root, &directory_of(number)).await.unwrap();
    if number.is_multiple_of(2) {
        client.remove(&directory, "file").await.unwrap();
        client.remove(&directory, "other").await.unwrap();
    } else {
        let renamed = client.rename(&directory, "other", &directory, "file");
        renamed.await.unwrap();
        client.remove(&directory, "file").await.unwrap();
    }
    let removed = client.remove(root, directory_of(number).as_str()).await;
    removed.unwrap();
}

/// Who has it open reads, writes and flushes it.
async fn assert_is_open(client: &Client, file: &OpenFile, number: usize) {
    let read = client.read_to_end(file).await;
    let read = read.unwrap_or_else(|error| panic!("reading {number}: {error}"));
    assert_eq!(read, content(number, "old"));
    let more = content(number, "own");
    let written = client.write(file, 0, more.clone(), StableHow4::Unstable);
    written
        .await
        .unwrap_or_else(|error| panic!("writing {number}: {error}"));
    client.commit(&file.handle, 0, 0).await.unwrap();
    assert_eq!(client.read_to_end(file).await.unwrap(), more);
}

async fn until_orphans(site: &Site, fits: impl Fn(u64) -> bool) {
    while !fits(site.place.status().exports[0].store.orphans) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every one of 48 gave ESTALE at the other site, and what was left stayed until a restart.
#[test]
fn what_is_open_here_and_removed_there_stays_open_and_goes_with_the_last_close() {
    let [(first, first_server), (second, second_server)] = two();
    block_on(async {
        let here = Arc::new(client(&first_server).await);
        let there = Arc::new(client(&second_server).await);
        let root = here.mount("/export").await.unwrap();
        let by = |client: &Arc<Client>| (Arc::clone(client), root.clone());
        each(MANY, |number| {
            let (here, root) = by(&here);
            async move { make(&here, &root, number).await }
        })
        .await;
        let files = each(MANY, |number| {
            let (here, root) = by(&here);
            async move { open(&here, &root, number).await }
        });
        let files = files.await;
        each(MANY, |number| {
            let (there, root) = by(&there);
            async move { take_away(&there, &root, number).await }
        })
        .await;
        until_orphans(&first, |orphans| orphans == MANY as u64).await;
        each(MANY, |number| {
            let (here, file) = (Arc::clone(&here), files[number].clone());
            async move { assert_is_open(&here, &file, number).await }
        })
        .await;
        for file in &files {
            here.close(file).await.unwrap();
        }
        for site in [&first, &second] {
            until_orphans(site, |orphans| orphans == 0).await;
        }
    });
    second_server.stop();
    first_server.stop();
}
