//! What clients do at a server of a pool.

use nfs4::NfsFh4;
use nfs4_client::{Client, How, Options};

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
