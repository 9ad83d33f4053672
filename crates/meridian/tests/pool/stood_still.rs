//! A data server stands still for longer than a metadata server waits, while more is asked of it than its session has slots, and is then
//! started anew.

use std::net::SocketAddr;

use nfs4::Bitmap4;
use nfs4_client::StableHow4;
use rustix::process::Signal;
use tokio::task::JoinSet;

use super::*;

const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 48;
/// With one request for each block they ask for more than a session of the metadata server has slots.
const CLIENTS: usize = 4;

/// Reads all blocks of the file at once.
async fn read_at_once(server: SocketAddr) {
    let client = Client::connect(Options::at(server)).await.unwrap();
    client.reclaim_complete().await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client.open(&root, "file", &How::read()).await.unwrap();
    let mut reading = JoinSet::new();
    for block in 0..BLOCKS {
        let (client, file) = (client.clone(), file.clone());
        reading.spawn(async move {
            let offset = (block * BLOCK) as u64;
            let read = client.read(&file, offset, BLOCK as u32).await.unwrap();
            assert!(read.data.iter().all(|byte| *byte == block as u8));
        });
    }
    while let Some(read) = reading.join_next().await {
        read.unwrap();
    }
    client.close(&file).await.unwrap();
    client.leave().await.unwrap();
}

#[test]
fn requests_to_a_data_server_that_stood_still_are_over_when_it_is_back() {
    let (_metadata, names, [machine], mut servers) = striping_over([2]);
    let bytes: Vec<u8> = (0..BLOCKS)
        .flat_map(|block| vec![block as u8; BLOCK])
        .collect();
    block_on(write(&names, "file", &bytes));
    let server = servers.remove(0);
    server.signal(Signal::STOP);
    let address = names.address;
    let readers: Vec<_> = (0..CLIENTS)
        .map(|_| std::thread::spawn(move || block_on(read_at_once(address))))
        .collect();
    // Longer than a request waits.
    std::thread::sleep(Duration::from_secs(8));
    server.kill();
    let _server = start(&machine);
    until("all is read", || {
        readers.iter().all(|one| one.is_finished())
    });
    for reader in readers {
        reader.join().unwrap();
    }
    block_on(write(&names, "more", b"text"));
    assert_eq!(block_on(read(&names, "more")), b"text");
}

/// Files whose bytes are not stable, and removed ones, are left for the next start.
#[test]
fn a_metadata_server_stops_while_a_data_server_stands_still() {
    let (metadata, names, _machines, servers) = striping_over([2]);
    block_on(async {
        let (client, root) = client_of(&names).await;
        for number in 0..40 {
            let name = format!("file-{number}");
            let file = client.open(&root, &*name, &How::create(0o644)).await;
            let (file, bytes) = (file.unwrap(), vec![7; BLOCK].into());
            let written = client.write(&file, 0, bytes, StableHow4::Unstable);
            written.await.unwrap();
        }
        servers[0].signal(Signal::STOP);
        for number in 0..10 {
            let name = format!("file-{number}");
            client.remove(&root, &*name).await.unwrap();
        }
    });
    names.stop();
    servers[0].signal(Signal::CONT);
    let names = metadata.place.start();
    until_there(&metadata, 2);
    block_on(async {
        let (client, root) = client_of(&names).await;
        assert_eq!(
            client.readdir(&root, Bitmap4::of(&[])).await.unwrap().len(),
            30
        );
        client.leave().await.unwrap();
    });
}
