//! A metadata server with striped files, as NFS clients without knowledge of data servers use it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use bytes::Bytes;
use fixture::nfs::{Listening, options};
use fixture::{Site, UNIT};
use nfs4_client::{Client, How, Options, StableHow4};
use nfs4_server::{AccessMode, AccessRule, Export, Namespace, Service, Squash};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_pnfs_reads_what_it_wrote_through_the_metadata_server() {
    let mut site = Site::new().await;
    let path = "/export".parse().unwrap();
    let export = Export::new(path, site.store.clone(), vec![rule()]);
    let namespace = Namespace::new(vec![export]).unwrap();
    let service = Service::new(namespace, options("a metadata server".into()));
    let listening = Listening::start(service).await;
    let client = Client::connect(Options::at(listening.address))
        .await
        .unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client
        .open(&root, "large", &How::create(0o644))
        .await
        .unwrap();
    let bytes: Vec<u8> = (0..40 * UNIT).map(|at| (at % 253) as u8).collect();
    let bytes = Bytes::from(bytes);
    client.write_all(&file, 0, &bytes).await.unwrap();
    client.commit(&file.handle, 0, 0).await.unwrap();
    client
        .write(&file, 5, "five".into(), StableHow4::FileSync)
        .await
        .unwrap();
    client.deallocate(&file, UNIT, 2 * UNIT).await.unwrap();
    for number in 1..=3 {
        site.stop(number).await;
        site.start(number).await;
    }
    let mut expected = bytes.to_vec();
    expected[5..9].copy_from_slice(b"five");
    expected[UNIT as usize..3 * UNIT as usize].fill(0);
    assert!(client.read_to_end(&file).await.unwrap()[..] == expected[..]);
    client.close(&file).await.unwrap();
    client.remove(&root, "large").await.unwrap();
    site.cleared().await;
    for number in 1..=3 {
        assert!(site.objects_at(number).await.is_empty());
    }
    client.leave().await.unwrap();
}

/// All clients may read and write.
fn rule() -> AccessRule {
    AccessRule {
        clients: "*".parse().unwrap(),
        mode: AccessMode::ReadWrite,
        squash: Squash::None,
        anonymous_user: 65534,
        anonymous_group: 65534,
        secure: false,
    }
}
