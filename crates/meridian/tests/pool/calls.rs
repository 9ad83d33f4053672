//! What clients do at a server of a pool.

use std::net::SocketAddr;

use nfs4::NfsFh4;
use nfs4_client::{Client, How, Options};
use tokio::task::JoinSet;

use super::*;

/// A client of a server, which may just start itself again, as one does that the others went on without; and its tree.
pub(super) async fn client_of(server: &Running) -> (Client, NfsFh4) {
    let begun = Instant::now();
    let client = loop {
        match Client::connect(Options::at(server.address)).await {
            Ok(client) => break client,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    client.reclaim_complete().await.unwrap();
    let root = client.mount("/export").await.unwrap();
    (client, root)
}

pub(super) async fn write(server: &Running, name: &str, bytes: &[u8]) {
    let (client, root) = client_of(server).await;
    let file = client.open(&root, name, &How::create(0o644)).await.unwrap();
    client
        .write_all(&file, 0, &bytes.to_vec().into())
        .await
        .unwrap();
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
}

pub(super) async fn read(server: &Running, name: &str) -> Vec<u8> {
    let (client, root) = client_of(server).await;
    let file = client.open(&root, name, &How::read()).await.unwrap();
    let bytes = client.read_to_end(&file).await.unwrap();
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
    bytes.to_vec()
}

pub(super) async fn remove(server: &Running, name: &str) {
    let (client, root) = client_of(server).await;
    client.remove(&root, name).await.unwrap();
    client.leave().await.unwrap();
}

/// What one request of [`read_at_once`] reads, and how many are under way at once; all of the file.
pub(super) const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 48;

/// A file of which each block consists of its number.
pub(super) fn numbered_blocks() -> Vec<u8> {
    let blocks = 0..BLOCKS;
    blocks.flat_map(|block| vec![block as u8; BLOCK]).collect()
}

/// Reads all blocks of a file at once. How often the server has told the client to ask again.
pub(super) async fn read_at_once(server: SocketAddr, name: &str) -> u64 {
    let options = Options {
        patience: PATIENCE,
        ..Options::at(server)
    };
    let client = Client::connect(options).await.unwrap();
    client.reclaim_complete().await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client.open(&root, name, &How::read()).await.unwrap();
    let mut reading = JoinSet::new();
    for block in 0..BLOCKS {
        let (client, file) = (client.clone(), file.clone());
        reading.spawn(async move {
            let offset = (block * BLOCK) as u64;
            let read = client.read(&file, offset, BLOCK as u32).await.unwrap();
            assert!(read.data.len() == BLOCK && read.data.iter().all(|byte| *byte == block as u8));
        });
    }
    while let Some(read) = reading.join_next().await {
        read.unwrap();
    }
    client.close(&file).await.unwrap();
    let put_off = client.session().times_put_off();
    client.leave().await.unwrap();
    put_off
}
