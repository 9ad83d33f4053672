//! A data server stands still for longer than a metadata server waits, while more is asked of it than its session has slots, and is then
//! started anew.

use nfs4::Bitmap4;
use nfs4_client::StableHow4;
use rustix::process::Signal;

use super::calls::{BLOCK, numbered_blocks, read_at_once};
use super::*;

/// With one request for each block they ask for more than a session of the metadata server has slots.
const CLIENTS: usize = 4;

#[test]
fn requests_to_a_data_server_that_stood_still_are_over_when_it_is_back() {
    let (_metadata, names, [machine], mut servers) = striping_over([2]);
    block_on(write(&names, "file", &numbered_blocks()));
    let server = servers.remove(0);
    server.signal(Signal::STOP);
    let address = names.address;
    let readers: Vec<_> = (0..CLIENTS)
        .map(|_| std::thread::spawn(move || block_on(read_at_once(address, "file"))))
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
